//! What the log flags ask for: klog's names and meanings, and the format.

use std::path::PathBuf;

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// klog's line: `I1130 12:03:31.528511   26917 agent.rs:128] message`.
    #[default]
    Text,
    /// One JSON object per line, with the keys Kubernetes components use.
    Json,
}

/// A severity as klog numbers it: 0 INFO, 1 WARNING, 2 ERROR, 3 FATAL. A threshold may be any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Severity(pub i32);

impl Severity {
    /// Events worth a line, at every verbosity.
    pub const INFO: Severity = Severity(0);
    /// Something to look at; the agent works as intended meanwhile.
    pub const WARNING: Severity = Severity(1);
    /// Something failed and is retried.
    pub const ERROR: Severity = Severity(2);
    /// The reason for which the process ends.
    pub const FATAL: Severity = Severity(3);
}

/// One entry of `--vmodule`: a verbosity for the source files that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleVerbosity {
    /// A file name without `.rs` in which `*` and `?` are wildcards; the program's own name stands for all its files.
    pub pattern: String,
    /// The verbosity there, above 0.
    pub verbosity: i32,
}

/// The log flags, checked. [`LogOptions::default`] is what no flag at all means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// `--log-format`.
    pub format: LogFormat,
    /// `--v`: messages of `V(n)` are written where n is at most this.
    pub verbosity: i32,
    /// `--vmodule`; the first matching entry decides for a file.
    pub modules: Vec<ModuleVerbosity>,
    /// `--logtostderr`: everything to standard error, nothing to files.
    pub to_stderr: bool,
    /// `--alsologtostderr`: with files, standard error too.
    pub also_to_stderr: bool,
    /// `--alsologtostderrthreshold`: the lowest severity that `--alsologtostderr` copies.
    pub also_to_stderr_threshold: Severity,
    /// `--stderrthreshold`: with files, this severity and above go to standard error too.
    pub stderr_threshold: Severity,
    /// `--legacy_stderr_threshold_behavior`: false makes `--stderrthreshold` count with `--logtostderr` as well.
    pub legacy_stderr_threshold: bool,
    /// `--log_dir`: where the files, one per severity, go; `None` is the directory for temporary files.
    pub dir: Option<PathBuf>,
    /// `--log_file`: this one file instead of one per severity.
    pub file: Option<PathBuf>,
    /// `--log_file_max_size` in MiB: `--log_file` starts anew beyond it; 0 is no limit.
    pub file_max_size: u64,
    /// `--skip_headers`: the message only.
    pub skip_headers: bool,
    /// `--skip_log_headers`: no preamble at the top of a file.
    pub skip_file_preamble: bool,
    /// `--add_dir_header`: the source file's directory in the header.
    pub dir_in_header: bool,
    /// `--one_output`: with files, a line goes only into the file of its own severity.
    pub one_output: bool,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            format: LogFormat::Text,
            verbosity: 0,
            modules: Vec::new(),
            to_stderr: true,
            also_to_stderr: false,
            also_to_stderr_threshold: Severity::INFO,
            stderr_threshold: Severity::ERROR,
            legacy_stderr_threshold: true,
            dir: None,
            file: None,
            file_max_size: 1800,
            skip_headers: false,
            skip_file_preamble: false,
            dir_in_header: false,
            one_output: false,
        }
    }
}
