//! The iptables backend on both stacks, with the real programs in namespaces.

mod cases;
mod daemon;
mod drift;
mod failures;
mod generations;
