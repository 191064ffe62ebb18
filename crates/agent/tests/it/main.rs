//! The integration tests: the built program against real kernels, namespaces and packets.
