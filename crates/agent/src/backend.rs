//! How a policy gets into the kernel.

pub mod nftables;
