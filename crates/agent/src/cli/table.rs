//! The flag table: one row per flag, in the order of the usage text.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::flags::{Flag, Origin};
use super::go_values::{parse_bool, parse_i64_any_base};
use super::klog_table;
use super::options::{BackendChoice, Grouping, OutputFormat, SortKey, Topic};
use crate::log::LogFormat;

/// Every command that reads a config takes the flag: it shapes what all of them look at.
pub(super) const EVERYWHERE: &[Topic] = &[
    Topic::Daemon,
    Topic::Check,
    Topic::Render,
    Topic::Diff,
    Topic::Status,
    Topic::Explain,
    Topic::Top,
    Topic::Cleanup,
    Topic::Demo,
];
pub(super) const DAEMON: &[Topic] = &[Topic::Daemon];
/// The tools that print what they found.
const REPORTING: &[Topic] =
    &[Topic::Check, Topic::Render, Topic::Diff, Topic::Status, Topic::Explain, Topic::Top, Topic::Cleanup, Topic::Demo];

/// Every flag of every command.
pub fn flags() -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().chain(klog_table::FLAGS)
}

const FLAGS: &[Flag] = &[
    Flag {
        name: "config",
        value: Some("PATH"),
        help: "the config file, or a directory whose files named ip-masq* are merged",
        origin: Origin::Own,
        commands: EVERYWHERE,
        set: |f, v| {
            f.config = PathBuf::from(v);
            if v.is_empty() { Err("write the path of a file or directory".to_owned()) } else { Ok(()) }
        },
        show: |f| f.config.to_string_lossy().into_owned(),
    },
    Flag {
        name: "masq-chain",
        value: Some("NAME"),
        help: "the name of the chain that iptables shows: 1 to 28 bytes",
        origin: Origin::Reference,
        commands: EVERYWHERE,
        set: |f, v| utf8(v).map(|text| f.masq_chain = text.to_owned()),
        show: |f| f.masq_chain.clone(),
    },
    Flag {
        name: "nomasq-all-reserved-ranges",
        value: None,
        help: "without a list in the config, exempt all reserved IPv4 ranges, not only the private ones",
        origin: Origin::Reference,
        commands: EVERYWHERE,
        set: |f, v| boolean(v).map(|on| f.nomasq_all_reserved_ranges = on),
        show: |f| f.nomasq_all_reserved_ranges.to_string(),
    },
    Flag {
        name: "enable-ipv6",
        value: None,
        help: "masquerade IPv6 too",
        origin: Origin::Reference,
        commands: EVERYWHERE,
        set: |f, v| boolean(v).map(|on| f.enable_ipv6 = on),
        show: |f| f.enable_ipv6.to_string(),
    },
    Flag {
        name: "random-fully",
        value: None,
        help: "let the kernel choose source ports at random",
        origin: Origin::Reference,
        commands: EVERYWHERE,
        set: |f, v| boolean(v).map(|on| f.random_fully = on),
        show: |f| f.random_fully.to_string(),
    },
    Flag {
        name: "to-ports",
        value: Some("RANGES"),
        help: "source ports for masqueraded tcp, udp and sctp: like 1024-29999,32768-65535; empty is any",
        origin: Origin::Reference,
        commands: EVERYWHERE,
        set: |f, v| utf8(v).map(|text| f.to_ports = text.to_owned()),
        show: |f| f.to_ports.clone(),
    },
    Flag {
        name: "resync-interval",
        value: Some("SECONDS"),
        help: "read config and kernel anew at least this often; the config's resyncInterval wins",
        origin: Origin::AzureFork,
        commands: EVERYWHERE,
        set: |f, v| utf8(v).and_then(parse_i64_any_base).map(|seconds| f.resync_interval = seconds),
        show: |f| f.resync_interval.to_string(),
    },
    Flag {
        name: "strict",
        value: None,
        help: "take an unknown key in the config for an error",
        origin: Origin::Own,
        commands: &[Topic::Daemon, Topic::Check, Topic::Diff, Topic::Status],
        set: |f, v| boolean(v).map(|on| f.strict = on),
        show: |f| f.strict.to_string(),
    },
    Flag {
        name: "backend",
        value: Some("auto|nftables|iptables"),
        help: "what programs the kernel",
        origin: Origin::Own,
        commands: &[Topic::Daemon, Topic::Render, Topic::Diff, Topic::Status, Topic::Explain],
        set: |f, v| one_of(v, &BACKENDS).map(|backend| f.backend = backend),
        show: |f| word_of(f.backend, &BACKENDS),
    },
    Flag {
        name: "once",
        value: None,
        help: "exit as soon as the kernel holds the policy; for top: after one table",
        origin: Origin::Own,
        commands: &[Topic::Daemon, Topic::Top],
        set: |f, v| boolean(v).map(|on| f.once = on),
        show: |f| f.once.to_string(),
    },
    Flag {
        name: "http-bind-address",
        value: Some("ADDRESS:PORT"),
        help: "where /metrics, /livez, /readyz and /statusz are served over HTTP; empty for nowhere",
        origin: Origin::Own,
        commands: DAEMON,
        set: |f, v| utf8(v).and_then(bind_address).map(|address| f.http_bind_address = address),
        show: |f| f.http_bind_address.map(|address| address.to_string()).unwrap_or_default(),
    },
    Flag {
        name: "cleanup-on-exit",
        value: None,
        help: "remove our rules at exit instead of leaving them in force",
        origin: Origin::Own,
        commands: DAEMON,
        set: |f, v| boolean(v).map(|on| f.cleanup_on_exit = on),
        show: |f| f.cleanup_on_exit.to_string(),
    },
    Flag {
        name: "protect-table",
        value: None,
        help: "let the kernel refuse other programs' changes to our nftables table (Linux 6.9)",
        origin: Origin::Own,
        commands: DAEMON,
        set: |f, v| boolean(v).map(|on| f.protect_table = on),
        show: |f| f.protect_table.to_string(),
    },
    Flag {
        name: "cidr-metrics",
        value: None,
        help: "count connections for each CIDR, too: one more metric, and with nftables one more set (Linux 5.12)",
        origin: Origin::Own,
        commands: DAEMON,
        set: |f, v| boolean(v).map(|on| f.cidr_metrics = on),
        show: |f| f.cidr_metrics.to_string(),
    },
    Flag {
        name: "conntrack-interval",
        value: Some("SECONDS"),
        help: "look at all connections at most this often, for source ports in use and stale connections; 0 is never",
        origin: Origin::Own,
        commands: DAEMON,
        set: |f, v| utf8(v).and_then(|text| seconds(text, 0)).map(|seconds| f.conntrack_interval = seconds),
        show: |f| f.conntrack_interval.to_string(),
    },
    Flag {
        name: "log-format",
        value: Some("text|json"),
        help: "log lines as klog writes them, or one JSON object per line",
        origin: Origin::Own,
        commands: DAEMON,
        set: |f, v| one_of(v, &LOG_FORMATS).map(|format| f.log.format = format),
        show: |f| word_of(f.log.format, &LOG_FORMATS),
    },
    Flag {
        name: "version",
        value: None,
        help: "print the version and exit",
        origin: Origin::Own,
        commands: DAEMON,
        set: |f, v| boolean(v).map(|on| f.version = on),
        show: |f| f.version.to_string(),
    },
    Flag {
        name: "host",
        value: None,
        help: "the packet is the node's own, not a pod's",
        origin: Origin::Own,
        commands: &[Topic::Explain],
        set: |f, v| boolean(v).map(|on| f.host = on),
        show: |f| f.host.to_string(),
    },
    Flag {
        name: "by",
        value: Some("destination|source"),
        help: "show where connections go to, or where they come from",
        origin: Origin::Own,
        commands: &[Topic::Top],
        set: |f, v| one_of(v, &GROUPINGS).map(|by| f.by = by),
        show: |f| word_of(f.by, &GROUPINGS),
    },
    Flag {
        name: "sort",
        value: Some("used|new|name"),
        help: "what comes first: what uses most ports, what grows fastest, or the lowest address",
        origin: Origin::Own,
        commands: &[Topic::Top],
        set: |f, v| one_of(v, &SORT_KEYS).map(|sort| f.sort = sort),
        show: |f| word_of(f.sort, &SORT_KEYS),
    },
    Flag {
        name: "interval",
        value: Some("SECONDS"),
        help: "the time between two looks",
        origin: Origin::Own,
        commands: &[Topic::Top],
        set: |f, v| utf8(v).and_then(|text| seconds(text, 1)).map(|seconds| f.interval = seconds),
        show: |f| f.interval.to_string(),
    },
    Flag {
        name: "all-generations",
        value: None,
        help: "remove what other versions and other chain names left, too",
        origin: Origin::Own,
        commands: &[Topic::Cleanup],
        set: |f, v| boolean(v).map(|on| f.all_generations = on),
        show: |f| f.all_generations.to_string(),
    },
    Flag {
        name: "dry-run",
        value: None,
        help: "only say what would be removed",
        origin: Origin::Own,
        commands: &[Topic::Cleanup],
        set: |f, v| boolean(v).map(|on| f.dry_run = on),
        show: |f| f.dry_run.to_string(),
    },
    Flag {
        name: "o",
        value: Some("text|json"),
        help: "print text for people, or JSON for programs",
        origin: Origin::Own,
        commands: REPORTING,
        set: |f, v| one_of(v, &OUTPUT_FORMATS).map(|output| f.output = output),
        show: |f| word_of(f.output, &OUTPUT_FORMATS),
    },
];

const BACKENDS: [(&str, BackendChoice); 3] =
    [("auto", BackendChoice::Auto), ("nftables", BackendChoice::Nftables), ("iptables", BackendChoice::Iptables)];
const GROUPINGS: [(&str, Grouping); 2] = [("destination", Grouping::Destination), ("source", Grouping::Source)];
const SORT_KEYS: [(&str, SortKey); 3] = [("used", SortKey::Used), ("new", SortKey::New), ("name", SortKey::Name)];
const LOG_FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];
const OUTPUT_FORMATS: [(&str, OutputFormat); 2] = [("text", OutputFormat::Text), ("json", OutputFormat::Json)];

pub(super) fn utf8(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "the value is not UTF-8".to_owned())
}

pub(super) fn boolean(value: &OsStr) -> Result<bool, String> {
    utf8(value).and_then(|text| parse_bool(text).ok_or_else(|| "write true or false".to_owned()))
}

/// A day is more than anybody wants, and keeps sums of times in range.
fn seconds(text: &str, least: u64) -> Result<u64, String> {
    let seconds = text.parse().ok().filter(|seconds| (least..=86_400).contains(seconds));
    seconds.ok_or_else(|| format!("write whole seconds from {least} to 86400, like 10"))
}

fn one_of<T: Copy>(value: &OsStr, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| value == *word);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("write {}", words.join(" or "))
    })
}

fn word_of<T: PartialEq>(value: T, words: &[(&str, T)]) -> String {
    words.iter().find(|(_, meaning)| *meaning == value).map_or_else(String::new, |(word, _)| (*word).to_owned())
}

/// `:PORT` is any address, as Go's listeners take it. A name is refused: resolving it could hang the start.
fn bind_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let any = text.strip_prefix(':').map(|port| format!("[::]:{port}"));
    let address = any.as_deref().unwrap_or(text).parse();
    address.map(Some).map_err(|_| "write an IP address and a port, like 127.0.0.1:10268 or [::1]:10268".to_owned())
}
