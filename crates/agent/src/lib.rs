//! How ip-masq-agent reads its config, watches the node and programs the kernel. All IO lives in this crate.

pub mod accept;
pub mod agent;
pub mod backend;
pub mod board;
pub mod cli;
pub mod config_file;
pub mod doctor;
pub mod endpoints;
pub mod events;
pub mod foreign;
pub mod health;
pub mod http;
pub mod lab;
pub mod log;
pub mod metrics;
pub mod route;
pub mod rtnetlink;
pub mod snat;
pub mod survey;
pub mod tools;
