//! Runs one program to its end, within a time limit and bounded memory, and says how it failed.

use std::ffi::{CString, NulError};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// The longest output taken: some four times what a chain of 100,000 rules is printed as.
const MOST_OUTPUT: usize = 64 << 20;

/// As much of what a program complains about is kept.
const MOST_COMPLAINT: usize = 16 << 10;

/// A killed program is waited for this long; only one that the kernel cannot interrupt takes longer.
const DEATH: Duration = Duration::from_secs(1);

/// How a program ended that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its exit status.
    pub status: i32,
    /// All it printed.
    pub stdout: Vec<u8>,
    /// What it complained about, without blank ends; cut where it is endless.
    pub stderr: String,
}

/// Why a program did not end as programs do. Each names the command.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It is no program, or may not be run.
    #[error("cannot run {}: {source}", .program.display())]
    CannotRun {
        /// The program.
        program: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It took too long and was killed.
    #[error("{command} did not end within {limit:?} and was killed")]
    TimedOut {
        /// The command line.
        command: String,
        /// The time it was given.
        limit: Duration,
    },
    /// A signal ended it.
    #[error("{command} was killed by {signal}")]
    Crashed {
        /// The command line.
        command: String,
        /// The signal.
        signal: Signal,
    },
    /// It printed without end and was killed.
    #[error("{command} printed more than {} MiB and was killed", MOST_OUTPUT >> 20)]
    TooMuchOutput {
        /// The command line.
        command: String,
    },
    /// The daemon has something more urgent to do, so it was killed.
    #[error("{command} was given up, because a signal came in")]
    Interrupted {
        /// The command line.
        command: String,
    },
    /// Pipes or process ids ran out.
    #[error("cannot talk to {command}: {source}")]
    Io {
        /// The command line.
        command: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// How programs are run.
#[derive(Debug)]
pub struct Runner {
    /// How long one program may take.
    pub limit: Duration,
    /// When this becomes readable, a running program is given up: the daemon's signals wait for nobody.
    pub interrupt: Option<OwnedFd>,
}

impl Runner {
    /// Runs a program with `args`, feeds it `input`, and waits for its end.
    ///
    /// # Errors
    /// It cannot be run, does not end in time, crashes, or prints without end. Whatever happens, no process is left behind.
    pub fn run(&self, program: &Path, args: &[&str], input: &[u8]) -> Result<Finished, ExecError> {
        let command = || [&[&*program.to_string_lossy()], args].concat().join(" ");
        let talk_error = |source| ExecError::Io { command: command(), source };
        let deadline = Instant::now() + self.limit;
        let (child, pipes) = spawn(program, args).map_err(|error| match error {
            SpawnError::Program(source) => ExecError::CannotRun { program: program.to_owned(), source },
            SpawnError::Pipes(source) => talk_error(source),
        })?;
        let exchanged = pipes.exchange(input, deadline, self.interrupt.as_ref());
        let ended = match exchanged {
            Ok(_) => child.wait_until(deadline),
            Err(_) => None,
        };
        let output = match (exchanged, ended) {
            (Ok(output), Some(WaitStatus::Exited(_, status))) => Finished { status, ..output },
            (Ok(_), Some(WaitStatus::Signaled(_, signal, _))) => {
                return Err(ExecError::Crashed { command: command(), signal });
            }
            (Ok(_) | Err(Halt::Deadline), _) => {
                return Err(ExecError::TimedOut { command: command(), limit: self.limit });
            }
            (Err(Halt::TooMuch), _) => return Err(ExecError::TooMuchOutput { command: command() }),
            (Err(Halt::Interrupt), _) => return Err(ExecError::Interrupted { command: command() }),
            (Err(Halt::Io(source)), _) => return Err(talk_error(source)),
        };
        Ok(output)
    }
}

enum SpawnError {
    Program(io::Error),
    Pipes(io::Error),
}

/// Starts the program in a process group of its own, so that it can be killed with whatever it starts, and with no signal
/// blocked: the daemon blocks those that it reads from a descriptor, and its children would inherit that.
fn spawn(program: &Path, args: &[&str]) -> Result<(Child, Pipes), SpawnError> {
    let pipes = |error: io::Error| SpawnError::Pipes(error);
    let (child_in, stdin) = io::pipe().map_err(pipes)?;
    let (stdout, child_out) = io::pipe().map_err(pipes)?;
    let (stderr, child_err) = io::pipe().map_err(pipes)?;
    for ours in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
        fcntl(ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|errno| pipes(errno.into()))?;
    }
    let start = || -> Result<Pid, Errno> {
        let mut actions = PosixSpawnFileActions::init()?;
        actions.add_dup2(child_in.as_raw_fd(), 0)?;
        actions.add_dup2(child_out.as_raw_fd(), 1)?;
        actions.add_dup2(child_err.as_raw_fd(), 2)?;
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_pgroup(Pid::from_raw(0))?;
        attributes.set_sigmask(&SigSet::empty())?;
        // Rust programs ignore it, and that too is inherited.
        attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        )?;
        let argv =
            c_strings(std::iter::once(program.as_os_str().as_bytes()).chain(args.iter().map(|arg| arg.as_bytes())));
        let variables = std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        let (argv, environment) = (argv.map_err(|_| Errno::EINVAL)?, c_strings(variables).map_err(|_| Errno::EINVAL)?);
        posix_spawn(program, &actions, &attributes, &argv, &environment)
    };
    let pid = start().map_err(|errno| SpawnError::Program(errno.into()))?;
    Ok((Child { pid }, Pipes { stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr) }))
}

fn c_strings(words: impl Iterator<Item = impl Into<Vec<u8>>>) -> Result<Vec<CString>, NulError> {
    words.map(CString::new).collect()
}

/// A started program. Dropping it ends it, if it has not ended, and everything in its process group.
struct Child {
    pid: Pid,
}

impl Child {
    /// Waits for its end; `None` if it does not come in time.
    ///
    /// The process stays a zombie until the value is dropped: its number, which is its group's too, cannot become another's.
    fn wait_until(&self, deadline: Instant) -> Option<WaitStatus> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        wait(deadline, || waitid(Id::Pid(self.pid), flags))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It fails only if the group is gone, and then there is nothing to wait for either.
        let _ = killpg(self.pid, Signal::SIGKILL);
        let group = Pid::from_raw(-self.pid.as_raw());
        // As the first process of a container we inherit what the program started, and have to wait for that too.
        while wait(Instant::now() + DEATH, || waitpid(group, Some(WaitPidFlag::WNOHANG))).is_some() {}
    }
}

/// Asks until there is a status; a program's output ends right before it does, so this hardly ever pauses.
fn wait(deadline: Instant, ask: impl Fn() -> Result<WaitStatus, Errno>) -> Option<WaitStatus> {
    let mut pause = Duration::from_micros(50);
    loop {
        match ask() {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            Ok(status) => return Some(status),
            Err(_) => return None,
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Our ends of the program's three streams; each is closed when it has nothing more to carry.
struct Pipes {
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
}

/// Why an exchange was broken off.
enum Halt {
    Deadline,
    TooMuch,
    Interrupt,
    Io(io::Error),
}

impl Pipes {
    /// Writes and reads at once, for a program may answer before it has read everything.
    fn exchange(mut self, input: &[u8], deadline: Instant, interrupt: Option<&OwnedFd>) -> Result<Finished, Halt> {
        let (mut unsent, mut stdout, mut stderr) = (input, Vec::new(), Vec::new());
        while self.stdin.is_some() || self.stdout.is_some() || self.stderr.is_some() {
            self.poll(deadline, interrupt)?;
            if let Some(pipe) = &mut self.stdin
                && write_some(pipe, &mut unsent).map_err(Halt::Io)?
            {
                self.stdin = None;
            }
            read_some(&mut self.stdout, &mut stdout)?;
            read_some(&mut self.stderr, &mut stderr)?;
            if stdout.len() > MOST_OUTPUT {
                return Err(Halt::TooMuch);
            }
            stderr.truncate(MOST_COMPLAINT);
        }
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        Ok(Finished { status: 0, stdout, stderr })
    }

    fn poll(&self, deadline: Instant, interrupt: Option<&OwnedFd>) -> Result<(), Halt> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Halt::Deadline);
        }
        let mut polled = Vec::with_capacity(4);
        polled.extend(interrupt.map(|descriptor| PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)));
        polled.extend(self.stdin.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)));
        polled.extend(self.stdout.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        polled.extend(self.stderr.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        match ppoll(&mut polled, Some(TimeSpec::from_duration(left)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Halt::Io(errno.into())),
        }
        let interrupted = interrupt.is_some() && polled[0].any() == Some(true);
        if interrupted { Err(Halt::Interrupt) } else { Ok(()) }
    }
}

/// Whether all is written, or nobody reads any more.
fn write_some(pipe: &mut PipeWriter, unsent: &mut &[u8]) -> io::Result<bool> {
    while !unsent.is_empty() {
        match pipe.write(unsent) {
            Ok(written) => *unsent = &unsent[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The program's exit status and complaint say more than this.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Reads what is there, and closes the pipe at its end.
fn read_some(pipe: &mut Option<PipeReader>, read: &mut Vec<u8>) -> Result<(), Halt> {
    let Some(reader) = pipe else { return Ok(()) };
    let mut chunk = [0; 64 << 10];
    match reader.read(&mut chunk) {
        Ok(0) => *pipe = None,
        Ok(length) => read.extend_from_slice(&chunk[..length]),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        Err(error) => return Err(Halt::Io(error)),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
