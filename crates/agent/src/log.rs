//! The log: klog's line format and flags, or JSON, behind the `log` crate.

mod options;

pub use options::{LogFormat, LogOptions, ModuleVerbosity, Severity};
