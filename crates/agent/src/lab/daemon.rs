//! The real program as a child in a namespace: it dies with its parent, says when it is ready, and its log is kept.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, ErrorKind, PipeReader};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use super::namespace::Namespace;

/// The hidden first word that makes the program bind its life to its parent's before it becomes what the other words say.
pub const DIE_WITH_PARENT: &str = "__die-with-parent";

/// Lines of the log that are kept; the oldest go first.
const KEPT_LINES: usize = 10_000;

/// How often an exit is looked for while something else is waited for.
const EXIT_POLL: Duration = Duration::from_millis(20);

/// Carries out [`DIE_WITH_PARENT`]: `words` are the parent's process id and then the command line proper, which replaces this
/// process. Returns only on failure.
///
/// # Errors
/// The words are not as [`Daemon::start`] gives them, or the parent is gone already.
pub fn die_with_parent(mut words: impl Iterator<Item = OsString>) -> Result<Infallible> {
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok()).map(Pid::from_raw);
    let parent = parent.with_context(|| format!("{DIE_WITH_PARENT} is for this program's own use"))?;
    prctl::set_pdeathsig(Signal::SIGKILL).context("cannot ask for a signal at the parent's death")?;
    // A parent that died before the line above would never be noticed.
    ensure!(getppid() == parent, "the parent, process {parent}, is gone");
    let error = Command::new("/proc/self/exe").arg0(env!("CARGO_PKG_NAME")).args(words).exec();
    Err(error).context("cannot run /proc/self/exe again")
}

/// A running daemon. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    readiness: UnixDatagram,
    notify_path: PathBuf,
    log: Arc<Log>,
    log_reader: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Starts `program` with `args` in `namespace`. Its readiness socket is made in `directory`, which must be writable and
    /// have a path of less than 90 bytes.
    ///
    /// # Errors
    /// The socket cannot be made or the program cannot be started.
    pub fn start(namespace: &Namespace, program: &Path, args: &[OsString], directory: &Path) -> Result<Daemon> {
        let notify_path = directory.join("notify");
        let readiness = UnixDatagram::bind(&notify_path)
            .with_context(|| format!("cannot make the socket {}", notify_path.display()))?;
        let (reader, writer) = io::pipe().context("cannot make a pipe for the daemon's log")?;
        let mut command = Command::new(program);
        command.arg(DIE_WITH_PARENT).arg(std::process::id().to_string()).args(args);
        // A watchdog of ours is none of the daemon's business.
        command.env("NOTIFY_SOCKET", &notify_path).env_remove("WATCHDOG_USEC").stdin(Stdio::null());
        command.stdout(writer.try_clone().context("cannot duplicate a pipe")?).stderr(writer);
        // The command goes with the closure: it holds the pipe's writing ends, and the log ends when all of those are closed.
        let child = namespace
            .run(move || command.spawn())
            .with_context(|| format!("cannot start {} in \"{}\"", program.display(), namespace.name()))?;
        let log = Arc::new(Log::default());
        let filled = Arc::clone(&log);
        let log_reader = thread::Builder::new()
            .name("daemon log".to_owned())
            .spawn(move || filled.fill(reader))
            .context("cannot start a thread for the daemon's log")?;
        Ok(Daemon { child, readiness, notify_path, log, log_reader: Some(log_reader) })
    }

    /// The daemon's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the daemon says that the kernel holds the policy.
    ///
    /// # Errors
    /// It ended, or did not say so in time; the error quotes the end of its log.
    pub fn wait_until_ready(&mut self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut message = [0; 4096];
        self.readiness.set_read_timeout(Some(EXIT_POLL)).context("cannot set a timeout on the readiness socket")?;
        while Instant::now() < deadline {
            match self.readiness.recv(&mut message) {
                Ok(length) if message[..length].split(|&byte| byte == b'\n').any(|line| line == b"READY=1") => {
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error).context("cannot read from the readiness socket"),
            }
            if let Some(status) = self.exited()? {
                bail!("the daemon ended ({status}) instead of getting ready{}", self.log.tail());
            }
        }
        bail!("the daemon was not ready after {patience:?}{}", self.log.tail())
    }

    /// How the daemon ended, if it did.
    ///
    /// # Errors
    /// The kernel does not know the process any more.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot look after the daemon's process")
    }

    /// Waits for the daemon to end by itself.
    ///
    /// # Errors
    /// It goes on after `patience`; the error quotes the end of its log.
    pub fn wait_for_exit(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.exited()? {
                return Ok(status);
            }
            thread::sleep(EXIT_POLL);
        }
        bail!("the daemon did not end within {patience:?}{}", self.log.tail())
    }

    /// Sends the daemon a signal.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // While it is not waited for, its process id cannot become somebody else's.
        if let Some(status) = self.exited()? {
            bail!("the daemon has ended ({status}){}", self.log.tail());
        }
        let pid = i32::try_from(self.pid()).context("a process id is a positive i32")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("cannot send {signal} to the daemon"))
    }

    /// The log so far, by lines.
    pub fn log(&self) -> Vec<String> {
        self.log.lines().lines.iter().cloned().collect()
    }

    /// The end of the log as a paragraph for an error message; empty where there is no log.
    pub fn log_tail(&self) -> String {
        self.log.tail()
    }

    /// Waits for a line of the log, old or new, that `wanted` accepts, and returns it.
    ///
    /// # Errors
    /// There is none after `patience`, or the daemon ended; the error quotes the end of its log.
    pub fn wait_for_log(&self, wanted: impl Fn(&str) -> bool, patience: Duration) -> Result<String> {
        self.log
            .wait_for(wanted, patience)
            .ok_or_else(|| anyhow!("the line waited for is not in the log{}", self.log.tail()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Either fails only if the daemon has ended already, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.log_reader.take() {
            let _ = reader.join();
        }
        let _ = std::fs::remove_file(&self.notify_path);
    }
}

/// What the daemon has written, shared with the thread that reads it.
#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<String>,
    ended: bool,
}

impl Log {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Every change is one push, so a panic elsewhere cannot leave half of one.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, reader: PipeReader) {
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { break };
            let mut kept = self.lines();
            if kept.lines.len() == KEPT_LINES {
                kept.lines.pop_front();
            }
            kept.lines.push_back(String::from_utf8_lossy(&line).into_owned());
            self.changed.notify_all();
        }
        self.lines().ended = true;
        self.changed.notify_all();
    }

    fn wait_for(&self, wanted: impl Fn(&str) -> bool, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        let mut kept = self.lines();
        loop {
            if let Some(line) = kept.lines.iter().find(|line| wanted(line)) {
                return Some(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if kept.ended || left.is_zero() {
                return None;
            }
            (kept, _) = self.changed.wait_timeout(kept, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tail(&self) -> String {
        const SHOWN: usize = 15;
        let kept = self.lines();
        if kept.lines.is_empty() {
            return "; its log is empty".to_owned();
        }
        let skipped = kept.lines.len().saturating_sub(SHOWN);
        let tail: Vec<&str> = kept.lines.iter().skip(skipped).map(String::as_str).collect();
        format!("; the end of its log:\n  {}", tail.join("\n  "))
    }
}

/// The command line of a daemon that reads `config`, programs nftables and serves no HTTP, before the flags in `more`, which win.
pub fn arguments<S: AsRef<OsStr>>(config: &Path, more: impl IntoIterator<Item = S>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["--backend=nftables", "--http-bind-address=", "--config"].map(OsString::from).to_vec();
    arguments.push(config.into());
    arguments.extend(more.into_iter().map(|flag| flag.as_ref().to_owned()));
    arguments
}
