//! Log files: one of a given name, or one per severity with klog's names and symbolic links.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::fcntl::OFlag;

use super::clock::Utc;
use super::options::{LogFormat, LogOptions, Severity};
use super::stream::Stream;

const MIB: u64 = 1 << 20;
/// klog's size limit of the files that it names itself.
const NAMED_FILE_LIMIT: u64 = 1800 * MIB;
const PROGRAM: &str = "ip-masq-agent";

/// Where lines go with `--logtostderr=false`.
#[derive(Debug)]
pub(super) enum Files {
    /// `--log_file=/dev/stdout` or `/dev/stderr`: our own, which may be a socket that nobody can open by name.
    Stdout(Stream<io::Stdout>),
    /// As above.
    Stderr(Stream<io::Stderr>),
    /// `--log_file`.
    Single(LogFile),
    /// One file per severity, made when its first line comes; the index is the severity.
    PerSeverity([Option<LogFile>; 4]),
}

/// One open file.
#[derive(Debug)]
pub(super) struct LogFile {
    stream: Stream<File>,
    written: u64,
}

impl Files {
    /// Opens what the flags name; a file per severity has to be possible for INFO at least.
    pub(super) fn open(options: &LogOptions, now: SystemTime) -> io::Result<Files> {
        let Some(path) = &options.file else {
            let lowest = LogFile::open_named(options, Severity::INFO, now)?;
            return Ok(Files::PerSeverity([Some(lowest), None, None, None]));
        };
        Ok(match path.to_str() {
            Some("/dev/stdout") => Files::Stdout(begin(io::stdout(), options, now)),
            Some("/dev/stderr") => Files::Stderr(begin(io::stderr(), options, now)),
            _ => Files::Single(LogFile::open(path, options, OFlag::O_APPEND, now)?),
        })
    }

    /// Writes a line where it belongs; false where a file could not be made for it.
    pub(super) fn write(&mut self, line: &Line<'_>, options: &LogOptions, now: SystemTime) -> bool {
        match self {
            Files::Stdout(stream) => stream.write(line.text.as_bytes(), line.notice),
            Files::Stderr(stream) => stream.write(line.text.as_bytes(), line.notice),
            Files::Single(file) => {
                let limit =
                    if options.file_max_size == 0 { u64::MAX } else { options.file_max_size.saturating_mul(MIB) };
                let path = options.file.as_deref().unwrap_or(Path::new(""));
                file.write(line, limit, || LogFile::open(path, options, OFlag::O_TRUNC, now));
            }
            Files::PerSeverity(files) => return write_per_severity(files, line, options, now),
        }
        true
    }
}

/// A rendered event on its way into files.
pub(super) struct Line<'a> {
    pub(super) severity: Severity,
    pub(super) text: &'a str,
    /// Makes the line that tells how many lines were dropped.
    pub(super) notice: &'a dyn Fn(u64) -> String,
}

/// A line goes into the file of its severity and of all below, so that the INFO file tells the whole story.
fn write_per_severity(
    files: &mut [Option<LogFile>; 4],
    line: &Line<'_>,
    options: &LogOptions,
    now: SystemTime,
) -> bool {
    let own = line.severity.0.clamp(0, 3);
    let lowest = if options.one_output { own } else { 0 };
    let mut written = true;
    for (slot, level) in files.iter_mut().zip(0..=own).filter(|(_, level)| *level >= lowest) {
        let open = || LogFile::open_named(options, Severity(level), now);
        match slot {
            Some(file) => file.write(line, NAMED_FILE_LIMIT, open),
            None => match open() {
                Ok(file) => slot.insert(file).write(line, u64::MAX, open),
                Err(_) => written = false,
            },
        }
    }
    written
}

impl LogFile {
    /// Not waiting for a FIFO's reader and not becoming a terminal's owner, whatever the path turns out to be.
    fn open(path: &Path, options: &LogOptions, mode: OFlag, now: SystemTime) -> io::Result<LogFile> {
        let flags = mode | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o664)
            .custom_flags(flags.bits())
            .open(path)?;
        let stream = begin(file, options, now);
        let written = stream.size()?;
        Ok(LogFile { stream, written })
    }

    /// In `--log_dir` or, failing that, the directory for temporary files.
    fn open_named(options: &LogOptions, severity: Severity, now: SystemTime) -> io::Result<LogFile> {
        let name = file_name(severity, now);
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for dir in options.dir.iter().cloned().chain([std::env::temp_dir()]) {
            match LogFile::open_in(&dir, &name, options, now) {
                Ok(file) => {
                    link(&dir, severity, &name);
                    return Ok(file);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// The name can be foreseen and the directory may be everybody's: a symbolic link that waits there is not followed.
    fn open_in(dir: &Path, name: &str, options: &LogOptions, now: SystemTime) -> io::Result<LogFile> {
        LogFile::open(&dir.join(name), options, OFlag::O_APPEND | OFlag::O_NOFOLLOW, now)
    }

    /// A file beyond its limit is replaced by what `reopen` makes; where that fails, the old one has to do.
    fn write(&mut self, line: &Line<'_>, limit: u64, reopen: impl FnOnce() -> io::Result<LogFile>) {
        let length = line.text.len() as u64;
        if self.written.saturating_add(length) >= limit
            && let Ok(file) = reopen()
        {
            *self = file;
        }
        self.stream.write(line.text.as_bytes(), line.notice);
        self.written = self.written.saturating_add(length);
    }
}

/// Opens the stream with klog's preamble.
fn begin<F: AsFd>(out: F, options: &LogOptions, now: SystemTime) -> Stream<F> {
    let mut stream = Stream::new(out);
    if let Some(text) = preamble(options, now) {
        stream.write(text.as_bytes(), &|_| String::new());
    }
    stream
}

/// A link is a convenience: where it cannot be made, the file is there all the same.
fn link(dir: &Path, severity: Severity, name: &str) {
    let link: PathBuf = dir.join(format!("{PROGRAM}.{}", label(severity)));
    let _ = fs::remove_file(&link);
    let _ = symlink(name, &link);
}

fn file_name(severity: Severity, now: SystemTime) -> String {
    let t = Utc::of(now);
    let user = user().unwrap_or_else(|| "unknownuser".to_owned());
    format!(
        "{PROGRAM}.{}.{}.log.{}.{}{:02}{:02}-{:02}{:02}{:02}.{}",
        host(),
        user.replace('/', "_"),
        label(severity),
        t.year,
        t.month,
        t.day,
        t.hour,
        t.minute,
        t.second,
        std::process::id(),
    )
}

fn label(severity: Severity) -> &'static str {
    match severity {
        Severity::WARNING => "WARNING",
        Severity::ERROR => "ERROR",
        Severity::FATAL => "FATAL",
        Severity(_) => "INFO",
    }
}

/// The user's name. Read from the file, since libc's way to it loads libraries, which a static program must do without.
fn user() -> Option<String> {
    let uid = nix::unistd::getuid().to_string();
    let lines = fs::read_to_string("/etc/passwd").ok()?;
    let line = lines.lines().find(|line| line.split(':').nth(2) == Some(&uid))?;
    line.split(':').next().map(str::to_owned)
}

/// The host's name up to its first dot.
fn host() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_string_lossy();
    name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("unknownhost").to_owned()
}

/// klog's four lines at the top of a file; JSON readers would stumble over them.
fn preamble(options: &LogOptions, now: SystemTime) -> Option<String> {
    if options.skip_file_preamble || options.format == LogFormat::Json {
        return None;
    }
    let t = Utc::of(now);
    Some(format!(
        "Log file created at: {}/{:02}/{:02} {:02}:{:02}:{:02}\nRunning on machine: {}\nBinary: {PROGRAM} {} for {}/{}\n\
         Log line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n",
        t.year,
        t.month,
        t.day,
        t.hour,
        t.minute,
        t.second,
        host(),
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    ))
}

#[cfg(test)]
mod tests;
