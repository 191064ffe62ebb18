//! The rows of the flag table that come from klog, the reference's log library.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::flags::{Flag, Flags, Origin};
use super::go_values::{parse_i32, parse_u64_any_base};
use super::table::{DAEMON, boolean, utf8};
use crate::log::{ModuleVerbosity, Severity};

pub(super) const FLAGS: &[Flag] = &[
    klog(
        "v",
        Some("N"),
        "log more: 2 tells configs and changes, 4 every step",
        |f, v| utf8(v).and_then(parse_i32).map(|level| f.log.verbosity = level),
        |f| f.log.verbosity.to_string(),
    ),
    klog(
        "vmodule",
        Some("FILE=N,..."),
        "--v for single source files (named without .rs; * and ? are wildcards)",
        |f, v| utf8(v).and_then(modules).map(|modules| f.log.modules = modules),
        |f| show_modules(&f.log.modules),
    ),
    klog(
        "logtostderr",
        None,
        "log to standard error instead of files",
        |f, v| boolean(v).map(|on| f.log.to_stderr = on),
        |f| f.log.to_stderr.to_string(),
    ),
    klog(
        "alsologtostderr",
        None,
        "with --logtostderr=false: log to standard error as well as to files",
        |f, v| boolean(v).map(|on| f.log.also_to_stderr = on),
        |f| f.log.also_to_stderr.to_string(),
    ),
    klog(
        "alsologtostderrthreshold",
        Some("INFO|WARNING|ERROR|FATAL"),
        "the lowest severity that --alsologtostderr copies",
        |f, v| utf8(v).and_then(severity).map(|s| f.log.also_to_stderr_threshold = s),
        |f| f.log.also_to_stderr_threshold.0.to_string(),
    ),
    klog(
        "stderrthreshold",
        Some("INFO|WARNING|ERROR|FATAL"),
        "with --logtostderr=false: this severity and above go to standard error too",
        |f, v| utf8(v).and_then(severity).map(|s| f.log.stderr_threshold = s),
        |f| f.log.stderr_threshold.0.to_string(),
    ),
    klog(
        "legacy_stderr_threshold_behavior",
        None,
        "false: --stderrthreshold counts with --logtostderr too",
        |f, v| boolean(v).map(|on| f.log.legacy_stderr_threshold = on),
        |f| f.log.legacy_stderr_threshold.to_string(),
    ),
    klog(
        "log_dir",
        Some("DIRECTORY"),
        "with --logtostderr=false: log files, one per severity, go here",
        |f, v| {
            f.log.dir = (!v.is_empty()).then(|| PathBuf::from(v));
            Ok(())
        },
        |f| show_path(f.log.dir.as_ref()),
    ),
    klog(
        "log_file",
        Some("PATH"),
        "with --logtostderr=false: log to this one file",
        |f, v| {
            f.log.file = (!v.is_empty()).then(|| PathBuf::from(v));
            Ok(())
        },
        |f| show_path(f.log.file.as_ref()),
    ),
    klog(
        "log_file_max_size",
        Some("MIB"),
        "--log_file starts anew at this size; 0 is no limit",
        |f, v| utf8(v).and_then(parse_u64_any_base).map(|size| f.log.file_max_size = size),
        |f| f.log.file_max_size.to_string(),
    ),
    klog(
        "log_backtrace_at",
        Some("FILE:LINE"),
        "accepted, without effect",
        |f, v| utf8(v).and_then(backtrace_at).map(|place| f.log_backtrace_at = place),
        |f| f.log_backtrace_at.clone(),
    ),
    klog(
        "add_dir_header",
        None,
        "name the source file's directory in the header of a line",
        |f, v| boolean(v).map(|on| f.log.dir_in_header = on),
        |f| f.log.dir_in_header.to_string(),
    ),
    klog(
        "skip_headers",
        None,
        "no headers: messages only",
        |f, v| boolean(v).map(|on| f.log.skip_headers = on),
        |f| f.log.skip_headers.to_string(),
    ),
    klog(
        "skip_log_headers",
        None,
        "no preamble at the top of a log file",
        |f, v| boolean(v).map(|on| f.log.skip_file_preamble = on),
        |f| f.log.skip_file_preamble.to_string(),
    ),
    klog(
        "one_output",
        None,
        "with files: a line goes only into the file of its own severity",
        |f, v| boolean(v).map(|on| f.log.one_output = on),
        |f| f.log.one_output.to_string(),
    ),
];

const fn klog(
    name: &'static str,
    value: Option<&'static str>,
    help: &'static str,
    set: fn(&mut Flags, &OsStr) -> Result<(), String>,
    show: fn(&Flags) -> String,
) -> Flag {
    Flag { name, value, help, origin: Origin::Klog, commands: DAEMON, set, show }
}

fn severity(text: &str) -> Result<Severity, String> {
    let named = ["INFO", "WARNING", "ERROR", "FATAL"].iter().zip(0..).find(|(name, _)| text.eq_ignore_ascii_case(name));
    let number = named.map_or_else(|| parse_i32(text), |(_, number)| Ok(number));
    number.map(Severity).map_err(|_| "write INFO, WARNING, ERROR, FATAL or a number".to_owned())
}

fn modules(text: &str) -> Result<Vec<ModuleVerbosity>, String> {
    let mut modules = Vec::new();
    for entry in text.split(',').filter(|entry| !entry.is_empty()) {
        let syntax = || format!("{entry:?} is not of the form FILE=N, like agent=2");
        let (pattern, verbosity) = entry.split_once('=').ok_or_else(syntax)?;
        let verbosity = parse_i32(verbosity).map_err(|_| syntax())?;
        if pattern.is_empty() || verbosity < 0 {
            return Err(syntax());
        }
        // As klog has it: 0 is what a file has anyway, not an entry that would hide a later one.
        if verbosity > 0 {
            modules.push(ModuleVerbosity { pattern: pattern.to_owned(), verbosity });
        }
    }
    Ok(modules)
}

fn show_modules(modules: &[ModuleVerbosity]) -> String {
    let entries: Vec<String> = modules.iter().map(|m| format!("{}={}", m.pattern, m.verbosity)).collect();
    entries.join(",")
}

fn show_path(path: Option<&PathBuf>) -> String {
    path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

fn backtrace_at(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(":0".to_owned());
    }
    let place = text.split_once(':').filter(|(file, _)| file.contains('.'));
    match place.map(|(file, line)| (file, line.parse::<u32>())) {
        Some((file, Ok(line))) if line > 0 => Ok(format!("{file}:{line}")),
        _ => Err("write FILE:LINE, like agent.rs:128".to_owned()),
    }
}
