//! The terminal while `top` has it: a screen of its own and every key at once, given back as it was however the program ends.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic;
use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, window_size,
};
use crossterm::{execute, queue};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::unistd::read;

/// What a terminal is taken to be that does not know its own size.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// No more signals or keys than this are taken in at once; the rest waits.
const AT_ONCE: usize = 64;

/// Signals that would end or stop the program with the terminal as it is, and the one that tells of a new size.
const SIGNALS: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGTSTP,
    Signal::SIGWINCH,
];

/// The terminal of this process, which is given back when this value is dropped.
#[derive(Debug)]
pub(super) struct Screen {
    signals: SignalFd,
}

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// A byte from the keyboard.
    Key(u8),
    /// The window has another size.
    Resized,
    /// A signal asks to end, or the terminal has gone.
    Leave,
}

impl Screen {
    /// Takes the terminal. From then on the signals that would end the program are told as [`Input::Leave`], and a panic gives the terminal
    /// back before it is told.
    ///
    /// # Errors
    /// Standard input and output are no terminal.
    pub(super) fn open() -> Result<Screen> {
        let wanted: SigSet = SIGNALS.into_iter().collect();
        wanted.thread_block().context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&wanted, flags).context("cannot open a signal descriptor")?;
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            usual(panic);
        }));
        enable_raw_mode().context("cannot take the terminal")?;
        let screen = Screen { signals };
        execute!(io::stdout(), EnterAlternateScreen, Hide).context("cannot write to the terminal")?;
        Ok(screen)
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (u16, u16) {
        let size = window_size().map(|size| (size.columns, size.rows));
        size.ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL_SIZE)
    }

    /// Shows these lines, and nothing else. They must fit.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(super) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        // In one piece, so that the terminal never shows half of it.
        let mut bytes = Vec::new();
        for (row, line) in (0..).zip(lines) {
            queue!(bytes, MoveTo(0, row))?;
            bytes.extend_from_slice(line.as_bytes());
            queue!(bytes, Clear(ClearType::UntilNewLine))?;
        }
        // Of a line that is full the cursor stays on its last column, which must not be cleared.
        let below = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        if below < self.size().1 {
            queue!(bytes, MoveTo(0, below), Clear(ClearType::FromCursorDown))?;
        }
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Waits for something to happen, but no longer than `timeout`.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<Vec<Input>> {
        let stdin = io::stdin();
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut sources = [readable(stdin.as_fd()), readable(self.signals.as_fd())];
        match ppoll(&mut sources, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for the terminal"),
        }
        let [has_keys, has_signals] = sources.map(|source| source.any() == Some(true));
        let mut inputs = Vec::new();
        if has_signals {
            inputs.extend(self.signals());
        }
        if has_keys {
            inputs.extend(keys());
        }
        Ok(inputs)
    }

    fn signals(&mut self) -> Vec<Input> {
        let read = (0..AT_ONCE).map_while(|_| self.signals.read_signal().ok().flatten());
        let kinds = read.map(|signal| Signal::try_from(signal.ssi_signo as i32));
        kinds.map(|signal| if signal == Ok(Signal::SIGWINCH) { Input::Resized } else { Input::Leave }).collect()
    }
}

/// The keys that were pressed. Where nothing can be read although something is there, the terminal has gone.
fn keys() -> Vec<Input> {
    let mut bytes = [0; AT_ONCE];
    match read(io::stdin(), &mut bytes) {
        Ok(0) => vec![Input::Leave],
        Ok(count) => bytes[..count].iter().map(|&byte| Input::Key(byte)).collect(),
        Err(Errno::EINTR | Errno::EAGAIN) => Vec::new(),
        Err(_) => vec![Input::Leave],
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Nothing can be done about a failure: most likely the terminal has gone.
fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
