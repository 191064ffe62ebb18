//! How a policy gets into the kernel.

pub mod iptables;
pub mod nftables;
