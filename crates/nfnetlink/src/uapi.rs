//! Numbers of the kernel's interface.
