//! What ip-masq-agent decides and when: config, policy, verdict and schedule, as pure functions of values.
//!
//! The modules are listed in reading order. Nothing here looks at a clock, a file, an environment variable, a process or a
//! socket; the crate's `clippy.toml` turns a slip into a build error.

pub mod cidr;
pub mod config;
pub mod diagnostic;
pub mod duration;
mod json;
pub mod partition;
pub mod policy;
pub mod ports;
pub mod schedule;
mod value;
pub mod verdict;
mod yaml;
