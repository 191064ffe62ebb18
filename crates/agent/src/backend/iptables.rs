//! The iptables backend: reads the nat table with the save programs, plans, and restores what differs.

pub mod comment;
pub mod desired;
pub mod leftovers;
pub mod meaning;
pub mod placement;
pub mod plan;
pub mod render;
pub mod save;
