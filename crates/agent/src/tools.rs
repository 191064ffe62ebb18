//! The tools: each looks, or shows, and ends.

pub mod demo;
