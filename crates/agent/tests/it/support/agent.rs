//! The built agent as a daemon in a lab's node, with a config file of its own.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ip_masq_agent::lab::daemon::{Daemon, arguments};
use ip_masq_agent::lab::namespace::Namespace;

use super::directory::Directory;

/// Far above what anything takes: it bounds a test that fails, and costs one that passes nothing.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The built program.
pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ip-masq-agent"))
}

/// A daemon that ends with this value, and its config file.
#[derive(Debug)]
pub struct Agent {
    // Before the directory, which is to be removed after the daemon's end.
    daemon: Daemon,
    directory: Directory,
}

impl Agent {
    /// Starts the agent with `args`, its config file holding `config`, or missing. Does not wait for anything.
    pub fn start(namespace: &Namespace, args: &[&str], config: Option<&str>) -> Agent {
        Agent::start_as(namespace, |_| program().to_owned(), args, config)
    }

    /// As [`Agent::start`], by a program that `prepare` may put into the agent's directory.
    pub fn start_as(
        namespace: &Namespace,
        prepare: impl FnOnce(&Directory) -> PathBuf,
        args: &[&str],
        config: Option<&str>,
    ) -> Agent {
        let directory = Directory::new();
        let program = prepare(&directory);
        fs::create_dir(directory.join("config")).unwrap();
        let path = config_path(&directory);
        if let Some(text) = config {
            fs::write(&path, text).unwrap();
        }
        let daemon = Daemon::start(namespace, &program, &arguments(&path, args), directory.path()).unwrap();
        Agent { daemon, directory }
    }

    /// As [`Agent::start`], and waits until the agent says that the kernel holds the policy.
    pub fn start_ready(namespace: &Namespace, args: &[&str], config: Option<&str>) -> Agent {
        let mut agent = Agent::start(namespace, args, config);
        agent.wait_until_ready(PATIENCE).unwrap();
        agent
    }

    /// The path that the agent was given as --config.
    pub fn config_path(&self) -> PathBuf {
        config_path(&self.directory)
    }

    /// Replaces the config file as editors do it, by renaming a new one over it: the agent never sees half of it.
    pub fn write_config(&self, text: &str) {
        let fresh = self.directory.join("fresh");
        fs::write(&fresh, text).unwrap();
        fs::rename(fresh, self.config_path()).unwrap();
    }

    pub fn remove_config(&self) {
        fs::remove_file(self.config_path()).unwrap();
    }

    /// Waits for a line of the log that contains `text`, and returns it.
    pub fn wait_for_line(&self, text: &str) -> String {
        self.wait_for_log(|line| line.contains(text), PATIENCE).unwrap_or_else(|error| panic!("{text:?}: {error:#}"))
    }

    /// As [`wait_until`], and quotes the agent's log when it never does.
    pub fn wait_until(&self, what: &str, condition: impl FnMut() -> bool) {
        assert!(holds_in_time(condition), "waited {PATIENCE:?} for: {what}{}", self.log_tail());
    }
}

impl Deref for Agent {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}

fn config_path(directory: &Directory) -> PathBuf {
    directory.join("config").join("ip-masq-agent")
}

/// Waits until `condition` holds, looking again every few milliseconds; panics with `what` when it never does.
pub fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_in_time(condition), "waited {PATIENCE:?} for: {what}");
}

pub fn holds_in_time(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
