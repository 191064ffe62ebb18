//! The tools: each looks, or shows, and ends.

pub mod check;
pub mod demo;
pub mod diff;
mod input;
mod node;
pub mod output;
pub mod render;

/// Exit status of a tool that found nothing to report.
const STATUS_FINE: u8 = 0;
/// Exit status of a tool that found something to report.
const STATUS_TO_REPORT: u8 = 1;
/// Exit status of a tool that could not look.
const STATUS_CANNOT_LOOK: u8 = 3;
