//! The integration tests: the built program against real kernels, namespaces and packets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is how a test ends")]

mod check;
mod cleanup;
mod completion;
mod daemon;
mod demo;
mod diff;
mod doctor;
mod documents;
mod explain;
mod flags;
mod flood;
mod heal;
mod health;
mod http;
mod inherited;
mod iptables;
mod lab;
mod log;
mod manual;
mod metrics;
mod migration;
mod monitoring;
mod reload;
mod snat;
mod status;
mod support;
mod tidy;
mod tools;
mod top;
mod traffic;
