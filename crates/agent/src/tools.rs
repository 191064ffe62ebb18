//! The tools: each looks, or shows, and ends.

pub mod check;
pub mod cleanup;
pub mod demo;
pub mod diff;
pub mod explain;
mod input;
mod node;
pub mod output;
pub mod render;
pub mod running;
pub mod status;
pub mod top;

/// Exit status of a tool that found nothing to report.
const STATUS_FINE: u8 = 0;
/// Exit status of a tool that found something to report.
const STATUS_TO_REPORT: u8 = 1;
/// Exit status of a tool that was asked for something impossible.
const STATUS_WRONG_USAGE: u8 = 2;
/// Exit status of a tool that could not look.
const STATUS_CANNOT_LOOK: u8 = 3;
