//! The values of all flags as given, and the shape of one row of the flag table.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;

use super::options::{BackendChoice, DEFAULT_CONFIG_PATH, Grouping, OutputFormat, SortKey, Topic};
use crate::log::LogOptions;

/// The value of every flag, typed but not yet checked against each other or the kernel. The default is "no flag given".
#[derive(Debug, Clone)]
pub(super) struct Flags {
    pub(super) masq_chain: String,
    pub(super) nomasq_all_reserved_ranges: bool,
    pub(super) enable_ipv6: bool,
    pub(super) random_fully: bool,
    pub(super) to_ports: String,
    pub(super) resync_interval: i64,
    pub(super) config: PathBuf,
    pub(super) backend: BackendChoice,
    pub(super) strict: bool,
    pub(super) once: bool,
    pub(super) http_bind_address: Option<SocketAddr>,
    pub(super) cleanup_on_exit: bool,
    pub(super) protect_table: bool,
    pub(super) cidr_metrics: bool,
    /// Seconds.
    pub(super) conntrack_interval: u64,
    pub(super) version: bool,
    pub(super) all_generations: bool,
    pub(super) dry_run: bool,
    pub(super) host: bool,
    pub(super) by: Grouping,
    pub(super) sort: SortKey,
    /// Seconds.
    pub(super) interval: u64,
    pub(super) output: OutputFormat,
    pub(super) log: LogOptions,
    /// `--log_backtrace_at`: read like klog does, then without effect, since a stripped program has no frames to print.
    pub(super) log_backtrace_at: String,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            masq_chain: "IP-MASQ-AGENT".to_owned(),
            nomasq_all_reserved_ranges: false,
            enable_ipv6: false,
            random_fully: true,
            to_ports: String::new(),
            resync_interval: 60,
            config: PathBuf::from(DEFAULT_CONFIG_PATH),
            backend: BackendChoice::Auto,
            strict: false,
            once: false,
            http_bind_address: Some(SocketAddr::from(([127, 0, 0, 1], 10268))),
            cleanup_on_exit: false,
            protect_table: false,
            cidr_metrics: false,
            conntrack_interval: 10,
            version: false,
            all_generations: false,
            dry_run: false,
            host: false,
            by: Grouping::Destination,
            sort: SortKey::Used,
            interval: 2,
            output: OutputFormat::Text,
            log: LogOptions::default(),
            log_backtrace_at: ":0".to_owned(),
        }
    }
}

/// One row of the flag table: all that parsing, usage texts, the log's dump and manual pages need to know.
#[derive(Debug)]
pub struct Flag {
    /// The name without dashes.
    pub name: &'static str,
    /// What stands for the value in usage texts, and tells shells what to offer: words with `|` between them, `PATH`, `DIRECTORY`, or
    /// anything else for what cannot be offered. `None` for a boolean, which needs no value.
    pub value: Option<&'static str>,
    /// What the flag does, as one line.
    pub help: &'static str,
    /// Whose flag it is.
    pub origin: Origin,
    /// The commands that take it.
    pub commands: &'static [Topic],
    /// Takes the value in; the error is the part of a sentence that tells what to write instead.
    pub(super) set: fn(&mut Flags, &OsStr) -> Result<(), String>,
    /// Prints the value in force as the flag would take it.
    pub(super) show: fn(&Flags) -> String,
}

impl Flag {
    /// The value in force when the flag is not given.
    pub fn default(&self) -> String {
        (self.show)(&Flags::default())
    }

    /// The name as it is best written: Go's syntax takes one dash or two.
    pub fn dashed(&self) -> String {
        let dashes = if self.name.len() == 1 { "-" } else { "--" };
        format!("{dashes}{}", self.name)
    }

    /// What the flag does for a command that takes it, and what is in force without it, unless that is nothing or off.
    pub fn help_for(&self, topic: Topic) -> String {
        match self.default().as_str() {
            "" | "false" => self.help.to_owned(),
            // It shows a config of its own.
            _ if topic == Topic::Demo && self.name == "config" => self.help.to_owned(),
            default => format!("{} (default {default})", self.help),
        }
    }

    /// Whether the flag tells what is to be in force, so that every tool that reads a config takes it too.
    pub fn is_for_all_tools(&self) -> bool {
        self.commands == super::table::EVERYWHERE
    }

    /// Whether the flag shapes the policy together with the config.
    pub(super) fn shapes_policy(&self) -> bool {
        self.is_for_all_tools() && self.name != "config"
    }

    /// The one word that gives this flag its value in `flags`.
    pub(super) fn word(&self, flags: &Flags) -> OsString {
        OsString::from(format!("--{}={}", self.name, (self.show)(flags)))
    }
}

/// Whose flag it is, and so who may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The Go agent's own.
    Reference,
    /// The Go agent's log library's.
    Klog,
    /// Azure's fork of the Go agent.
    AzureFork,
    /// Ours.
    Own,
}
