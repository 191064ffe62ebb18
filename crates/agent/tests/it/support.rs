//! What the integration tests share: the agent as a child in a lab's node, floods, random policies, vanishing directories.

pub mod agent;
pub mod applied;
pub mod directory;
pub mod engine;
pub mod flood;
pub mod http;
pub mod iptables;
pub mod monitoring;
pub mod program;
pub mod prometheus;
pub mod random;
pub mod ruleset;
pub mod scrape;
pub mod terminal;
