//! What the integration tests share: the agent as a child in a lab's node, and directories that vanish.

pub mod agent;
pub mod directory;
pub mod ruleset;
