//! The iptables backend: reads the nat table with the save programs, plans, and restores what differs.

pub mod comment;
pub mod desired;
pub mod exec;
pub mod leftovers;
pub mod lock;
pub mod meaning;
pub mod placement;
pub mod plan;
pub mod programs;
pub mod remedy;
pub mod render;
pub mod save;
pub mod version;
