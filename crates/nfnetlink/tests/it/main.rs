//! The crate against the running kernel, each test in a network namespace of its own.
//!
//! They need root, or `unshare -rn` for an ordinary user, and the nft program as an oracle.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]

mod commit;
mod conntrack;
mod dumps;
mod monitor;
mod nft;
mod support;
