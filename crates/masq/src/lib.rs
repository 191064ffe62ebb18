//! What ip-masq-agent decides and when: config, policy, verdict and schedule, as pure functions of values.
//!
//! The modules are listed in reading order. Nothing here looks at a clock, a file, an environment variable, a process or a
//! socket; the crate's `clippy.toml` turns a slip into a build error.

// The values that a config and a policy are made of.
pub mod cidr;
pub mod duration;
pub mod ports;

// From the text of a file to values with places, and what is said about them.
pub mod diagnostic;
mod value;

mod json;
mod yaml;

mod nearest;
pub use nearest::nearest;

pub mod config;

// From the config to what the kernel should do, and to one packet.
pub mod partition;
pub mod policy;
pub mod verdict;

// What is remembered of a policy, and when the next one is looked for.
pub mod outline;
pub mod schedule;
