//! The log: klog's flags and line format, or JSON, behind the `log` crate.
//!
//! `error!`, `warn!` and `info!` are klog's E, W and I lines; `debug!` is `V(2)` (configs, changes), `trace!` is `V(4)` (every
//! step). Times are in UTC.

mod clock;
mod event;
mod files;
mod json;
mod klog;
mod options;
mod repeats;
mod stream;
mod verbosity;

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use ::log::{Level, Log, Metadata, Record};

use self::event::{Event, Place};
use self::files::{Files, Line};
pub use self::options::{LogFormat, LogOptions, ModuleVerbosity, Severity};
use self::repeats::Repeats;
use self::stream::Stream;

/// The `target` of the `error!` that tells why the process ends: it becomes klog's F line.
pub const FATAL: &str = "fatal";

/// The key under which macros pass what caused a failure: text lines end with it, JSON lines have a key for it.
const ERROR: &str = "err";

/// Makes the log the process's, once and for all.
///
/// # Errors
/// The log file that the flags ask for cannot be opened.
pub fn init(options: LogOptions) -> Result<(), InitError> {
    let files = if options.to_stderr {
        None
    } else {
        Some(Files::open(&options, SystemTime::now()).map_err(|source| InitError::new(&options, source))?)
    };
    let max_level = verbosity::max_level(&options);
    let writer = Writer { stderr: Stream::new(io::stderr()), files, repeats: Repeats::default() };
    let logger = Logger { options, pid: std::process::id(), writer: Mutex::new(writer) };
    // A second call changes nothing: the first one's flags stay in force.
    if ::log::set_boxed_logger(Box::new(logger)).is_ok() {
        ::log::set_max_level(max_level);
    }
    Ok(())
}

/// The log file cannot be opened.
#[derive(Debug)]
pub struct InitError {
    path: PathBuf,
    source: io::Error,
}

impl InitError {
    fn new(options: &LogOptions, source: io::Error) -> InitError {
        let path = options.file.clone().or_else(|| options.dir.clone()).unwrap_or_else(std::env::temp_dir);
        InitError { path, source }
    }
}

impl std::fmt::Display for InitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let InitError { path, source } = self;
        write!(
            f,
            "cannot log to {path:?}: {source}; name another place with --log_file or --log_dir, or log to standard error"
        )
    }
}

/// The message tells the system's error too, so that there is no source behind it.
impl std::error::Error for InitError {}

struct Logger {
    options: LogOptions,
    pid: u32,
    writer: Mutex<Writer>,
}

struct Writer {
    stderr: Stream<io::Stderr>,
    files: Option<Files>,
    repeats: Repeats,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= verbosity::max_level(&self.options)
    }

    fn log(&self, record: &Record<'_>) {
        let place = Place { file: record.file_static().unwrap_or("unknown"), line: record.line().unwrap_or(0) };
        let verbosity = verbosity::of(record.level());
        if verbosity > verbosity::at(&self.options, place) {
            return;
        }
        let severity = severity(record);
        let message = record.args().to_string();
        let error = record.key_values().get(ERROR.into()).map(|error| error.to_string());
        let told = error.as_ref().map_or_else(|| message.clone(), |error| format!("{message}: {error}"));
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever raises the verbosity wants to see every step.
        if verbosity == 0 && severity < Severity::FATAL {
            let admission = writer.repeats.admit(severity, place, &told, Instant::now());
            for summary in admission.summaries {
                self.write(&mut writer, &Event::summary(&summary));
            }
            if !admission.say {
                return;
            }
        }
        let at = SystemTime::now();
        let error = error.as_deref();
        self.write(&mut writer, &Event { at, severity, verbosity, place, message: &message, error });
    }

    fn flush(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        for summary in writer.repeats.drain(Instant::now()) {
            self.write(&mut writer, &Event::summary(&summary));
        }
    }
}

impl Logger {
    fn write(&self, writer: &mut Writer, event: &Event<'_>) {
        let severity = event.severity;
        let text = self.line(event);
        let notice = |lost| self.loss(event.at, lost);
        let filed = match &mut writer.files {
            Some(files) => files.write(&Line { severity, text: &text, notice: &notice }, &self.options, event.at),
            None => true,
        };
        if !filed || reaches_stderr(&self.options, severity) {
            writer.stderr.write(text.as_bytes(), &notice);
        }
    }

    fn loss(&self, at: SystemTime, lost: u64) -> String {
        let message =
            format!("{lost} log lines were lost here: they could not be written, or nobody read them in time");
        let place = Place { file: file!(), line: line!() };
        self.line(&Event { at, severity: Severity::WARNING, verbosity: 0, place, message: &message, error: None })
    }

    fn line(&self, event: &Event<'_>) -> String {
        match self.options.format {
            LogFormat::Text => klog::line(event, self.pid, &self.options),
            LogFormat::Json => json::line(event, &self.options),
        }
    }
}

fn severity(record: &Record<'_>) -> Severity {
    match record.level() {
        Level::Error if record.target() == FATAL => Severity::FATAL,
        Level::Error => Severity::ERROR,
        Level::Warn => Severity::WARNING,
        Level::Info | Level::Debug | Level::Trace => Severity::INFO,
    }
}

fn reaches_stderr(options: &LogOptions, severity: Severity) -> bool {
    let above_threshold = severity >= options.stderr_threshold;
    if options.to_stderr {
        return options.legacy_stderr_threshold || above_threshold;
    }
    above_threshold || (options.also_to_stderr && severity >= options.also_to_stderr_threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(options: &LogOptions) -> Vec<i32> {
        (0..4).filter(|&severity| reaches_stderr(options, Severity(severity))).collect()
    }

    #[test]
    fn standard_error_gets_what_klog_would_send_there() {
        let stderr_only = LogOptions::default();
        assert_eq!(reached(&stderr_only), [0, 1, 2, 3]);
        let modern = LogOptions { legacy_stderr_threshold: false, ..LogOptions::default() };
        assert_eq!(reached(&modern), [2, 3]);
        let files = LogOptions { to_stderr: false, ..LogOptions::default() };
        assert_eq!(reached(&files), [2, 3]);
        let both = LogOptions { also_to_stderr: true, ..files.clone() };
        assert_eq!(reached(&both), [0, 1, 2, 3]);
        let copied = LogOptions { also_to_stderr_threshold: Severity::WARNING, ..both };
        assert_eq!(reached(&copied), [1, 2, 3]);
        let quiet = LogOptions { stderr_threshold: Severity(7), ..files };
        assert_eq!(reached(&quiet), [0; 0]);
    }
}
