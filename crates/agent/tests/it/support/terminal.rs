//! The built program in a pseudoterminal of its own, as a person would see it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus};

use ip_masq_agent::lab::namespace::Namespace;
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;

use super::agent::{program, wait_until};

/// A terminal in which the program runs, in a session of its own as after a login.
pub struct Terminal {
    child: Child,
    /// What the person sees and types; `None` once the terminal has been taken away.
    screen: Option<PtyMaster>,
    /// The program's end, held open so that the terminal's modes can be looked at after the program's end.
    line: File,
    path: String,
    before: Termios,
    shown: String,
}

impl Terminal {
    /// Starts the program in a window of this size.
    pub fn start(namespace: &Namespace, args: &[&str], (columns, rows): (u16, u16)) -> Terminal {
        // No program that is started meanwhile may inherit the screen: it would keep the terminal from going away.
        let screen = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let path = ptsname_r(&screen).unwrap();
        let no_login = OFlag::O_NOCTTY.bits();
        let line = OpenOptions::new().read(true).write(true).custom_flags(no_login).open(&path).unwrap();
        set_size(&path, columns, rows);
        let before = tcgetattr(&line).unwrap();
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program()).args(args).env("TERM", "xterm");
        let end = || line.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        // The command goes with the closure: it holds the line open.
        let child = namespace.run(move || command.spawn()).expect("the setsid program: install the package util-linux");
        Terminal { child, screen: Some(screen), line, path, before, shown: String::new() }
    }

    /// Waits until a text has been shown since the last key or change of size, and answers all that was shown since, with all control
    /// sequences.
    pub fn wait_for(&mut self, text: &str) -> String {
        wait_until(text, || {
            self.look();
            self.shown.contains(text)
        });
        self.shown.clone()
    }

    fn look(&mut self) {
        let Some(screen) = &mut self.screen else { return };
        let mut bytes = [0; 4_096];
        // The screen is full before the program has shown so much.
        for _ in 0..1_000 {
            match screen.read(&mut bytes) {
                Ok(count) => self.shown.push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Presses a key.
    pub fn press(&mut self, key: u8) {
        self.shown.clear();
        self.screen.as_mut().unwrap().write_all(&[key]).unwrap();
    }

    /// Gives the window another size.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.shown.clear();
        set_size(&self.path, columns, rows);
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Takes the terminal away from under the program.
    pub fn hang_up(&mut self) {
        self.screen = None;
    }

    /// Waits for the program's end, and answers how it ended and what it has shown last.
    pub fn wait_for_exit(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait_until("the program to end", || {
            self.look();
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.look();
        (status.unwrap(), self.shown.clone())
    }

    /// Whether the terminal takes lines and shows what is typed, as it did before.
    pub fn is_as_before(&self) -> bool {
        tcgetattr(&self.line).unwrap() == self.before
    }
}

fn set_size(path: &str, columns: u16, rows: u16) {
    let (columns, rows) = (columns.to_string(), rows.to_string());
    let status = Command::new("stty").args(["-F", path, "cols", &columns, "rows", &rows]).status().unwrap();
    assert!(status.success(), "stty: {status}");
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Either fails only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
