//! All waiting of the daemon: one poll over signals, the config's directories and the kernel's notices.

mod config_watch;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nfnetlink::{Event, Monitor};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

use self::config_watch::ConfigWatch;

/// Why the daemon woke up. It says where to look, never what changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wakeup {
    /// A signal asks the daemon to end.
    Terminate(Signal),
    /// A signal asks for a new look at everything.
    Reload,
    /// The config may have changed.
    Config(ConfigChange),
    /// Somebody, perhaps we ourselves, committed a transaction.
    Kernel(Change),
    /// The kernel had more to tell than it could hold.
    KernelNoticesLost,
}

/// How finished a change of the config looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigChange {
    /// A file is being written to.
    Writing,
    /// A file went away, perhaps for a moment: editors replace files this way.
    Gone,
    /// A file was closed after writing, moved into place, or linked.
    Finished,
}

/// One transaction on the node's ruleset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The generation it made.
    pub generation: u32,
    /// The process that made it, and its pid as the initial PID namespace numbers it.
    pub author: Author,
}

/// Who committed a transaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Author {
    /// The thread's name, at most 15 bytes, as that thread chose it: not to be trusted.
    pub process: String,
    /// The thread's number.
    pub pid: u32,
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{}]", self.process.escape_debug(), self.pid)
    }
}

/// The daemon's event sources.
#[derive(Debug)]
pub struct Events {
    signals: SignalFd,
    /// Opened by [`Events::watch_kernel`]: the kernel may have no nf_tables yet.
    monitor: Option<Monitor>,
    config_path: PathBuf,
    /// Opened by [`Events::watch_config`]: inotify may be used up by others.
    config: Option<ConfigWatch>,
}

/// Signals the daemon answers or ignores. Left alone, those ignored would end it. SIGPIPE is not among them, for Rust's runtime ignores it
/// already: blocked, it would pass for a signal that came in whenever a program ends without reading its input.
const SIGNALS: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH];

/// Those that end it.
const ENDING: [Signal; 2] = [Signal::SIGTERM, Signal::SIGINT];

/// A source that never runs dry is left after this many events, so that the loop turns; poll reports the rest at once.
const EVENTS_PER_WAKEUP: usize = 1024;

impl Events {
    /// Opens all sources. To be called before the first look at config and kernel, and before any other thread starts.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn open(config_path: &Path) -> Result<Events> {
        let signals: SigSet = SIGNALS.into_iter().collect();
        signals.thread_block().context("cannot block signals")?;
        Ok(Events {
            signals: signal_descriptor(&signals)?,
            monitor: None,
            config_path: config_path.to_owned(),
            config: None,
        })
    }

    /// A descriptor that becomes readable when a signal asks the daemon to end: the only ones for which a pass is broken off. To begin
    /// with something else, like a new config, it waits until the kernel is in order.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn interrupt(&self) -> Result<OwnedFd> {
        signal_descriptor(&ENDING.into_iter().collect()).map(OwnedFd::from)
    }

    /// Starts to listen to the kernel's notices, unless that is done. To be called before the kernel is first read.
    ///
    /// # Errors
    /// The kernel has no nf_tables.
    pub fn watch_kernel(&mut self) -> Result<()> {
        if self.monitor.is_none() {
            self.monitor = Some(Monitor::open().context("cannot listen to the kernel's ruleset notices")?);
        }
        Ok(())
    }

    /// Stops listening to the kernel's notices, until [`Events::watch_kernel`].
    pub fn ignore_kernel(&mut self) {
        self.monitor = None;
    }

    /// Looks up anew which directories the config path leads through. To be called right before each reading of the config, so
    /// that what changes after the reading is noticed.
    ///
    /// # Errors
    /// inotify has no more instances or watches to give.
    pub fn watch_config(&mut self) -> Result<()> {
        match &mut self.config {
            Some(watch) => watch.rearm(),
            None => {
                self.config = Some(ConfigWatch::open(&self.config_path)?);
                Ok(())
            }
        }
    }

    /// Waits until something happens or the time is over, and says what; each kind of event once, however often it came.
    ///
    /// # Errors
    /// A source fails, which no retry would mend.
    pub fn wait(&mut self, timeout: Duration) -> Result<Vec<Wakeup>> {
        let ready = self.poll(timeout)?;
        let mut wakeups = Vec::new();
        // Every system call counts between a stranger's transaction and its healing: a program that ends right after its transaction
        // then holds the kernel's transaction lock for an RCU grace period.
        if ready.signals {
            self.signals(&mut wakeups)?;
        }
        if let Some(watch) = self.config.as_mut().filter(|_| ready.config) {
            wakeups.extend(watch.changes().into_iter().map(Wakeup::Config));
        }
        let Some(monitor) = &mut self.monitor else { return Ok(wakeups) };
        for _ in 0..EVENTS_PER_WAKEUP {
            match monitor.next_event() {
                Ok(Some(Event::Generation { id, pid, process })) => {
                    wakeups.push(Wakeup::Kernel(Change { generation: id, author: Author { process, pid } }));
                }
                Ok(Some(Event::Lost)) => wakeups.push(Wakeup::KernelNoticesLost),
                Ok(None) => break,
                Err(error) => {
                    log::warn!("Listening anew to the kernel's ruleset notices: {error}");
                    self.monitor = None;
                    wakeups.push(Wakeup::KernelNoticesLost);
                    break;
                }
            }
        }
        Ok(wakeups)
    }

    fn signals(&mut self, wakeups: &mut Vec<Wakeup>) -> Result<()> {
        for _ in 0..EVENTS_PER_WAKEUP {
            let Some(signal) = self.signals.read_signal().context("cannot read the signal descriptor")? else { break };
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(signal @ (Signal::SIGTERM | Signal::SIGINT)) => wakeups.push(Wakeup::Terminate(signal)),
                Ok(Signal::SIGHUP) => wakeups.push(Wakeup::Reload),
                _ => {}
            }
        }
        Ok(())
    }

    fn poll(&self, timeout: Duration) -> Result<Ready> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut sources = vec![readable(self.signals.as_fd())];
        sources.extend(self.config.as_ref().map(|watch| readable(watch.as_fd())));
        sources.extend(self.monitor.as_ref().map(|monitor| readable(monitor.as_fd())));
        match ppoll(&mut sources, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) => {
                let is_ready = |index: usize| sources.get(index).is_some_and(|source| source.any() == Some(true));
                Ok(Ready { signals: is_ready(0), config: self.config.is_some() && is_ready(1) })
            }
            Err(nix::errno::Errno::EINTR) => Ok(Ready { signals: true, config: true }),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }
}

fn signal_descriptor(signals: &SigSet) -> Result<SignalFd> {
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    SignalFd::with_flags(signals, flags).context("cannot open a signal descriptor")
}

/// Which sources have something to tell. The kernel's notices are asked for in any case.
struct Ready {
    signals: bool,
    config: bool,
}
