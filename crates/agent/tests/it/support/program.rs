//! The built program run to its end, where it can do no harm.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ip_masq_agent::lab::namespace::Namespace;

use super::agent::{PATIENCE, program};

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program in a network namespace of its own: a daemon that starts against expectation meets nobody there.
pub fn run(args: &[impl AsRef<OsStr>]) -> Run {
    run_with(args, "", |_| {})
}

/// As [`run`], with this standard input and whatever `prepare` does to the command.
pub fn run_with(args: &[impl AsRef<OsStr>], stdin: &str, prepare: impl FnOnce(&mut Command)) -> Run {
    run_in(&Namespace::open("program").unwrap(), args, stdin, prepare)
}

/// As [`run_with`], in a given network namespace.
pub fn run_in(
    namespace: &Namespace,
    args: &[impl AsRef<OsStr>],
    stdin: &str,
    prepare: impl FnOnce(&mut Command),
) -> Run {
    let mut command = Command::new(program());
    command.args(args);
    prepare(&mut command);
    finish(namespace, command, stdin)
}

/// As [`run_in`], by another program, which takes these words, then the path of this one, and then its arguments.
pub fn run_by(runner: &[&str], namespace: &Namespace, args: &[impl AsRef<OsStr>], stdin: &str) -> Run {
    let (first, words) = runner.split_first().unwrap();
    let mut command = Command::new(first);
    command.args(words).arg(program()).args(args);
    finish(namespace, command, stdin)
}

/// As [`run_in`], with root's powers over nothing: in a user namespace of its own, but not a network namespace.
pub fn run_powerless(namespace: &Namespace, args: &[impl AsRef<OsStr>]) -> Run {
    run_by(&["unshare", "--user", "--"], namespace, args, "")
}

/// Runs any program to its end in a network namespace, with this standard input, but never longer than patience lasts.
pub fn finish(namespace: &Namespace, mut command: Command, stdin: &str) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    let mut child = namespace.run(move || command.spawn()).unwrap();
    // A program that does not read its input is no failure of the test.
    let _ = child.stdin.take().map(|mut pipe| pipe.write_all(stdin.as_bytes()));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let out = thread::spawn(move || text(stdout));
    let err = thread::spawn(move || text(stderr));
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("still running after {PATIENCE:?}; it said: {}{}", out.join().unwrap(), err.join().unwrap());
            }
        }
    };
    Run { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

fn text(pipe: Option<impl Read>) -> String {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_string(&mut text).unwrap();
    }
    text
}
