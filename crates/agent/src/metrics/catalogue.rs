//! Every metric there is: its name, type, labels and meaning. The names are an interface: they stay as they are.

/// One family of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The full name, as queries have it.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, as one sentence without a full stop.
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Always 1: what it says is in the labels.
    Info,
    /// Counts of observations by size, in seconds.
    Histogram,
}

impl Kind {
    /// The word of the Prometheus text format, which has no type for what is always 1.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Info => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

const fn info(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Info, labels, help }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, labels: &[], help }
}

/// All of them in the order in which they are written, which is also that of `docs/metrics.md`.
pub const ALL: [&Metric; 29] = [
    &BUILD_INFO,
    &BACKEND_INFO,
    &CONFIG_VALID,
    &CONFIG_INFO,
    &CONFIG_WARNINGS,
    &CONFIG_LAST_CHANGE,
    &CIDRS,
    &SYNCS,
    &SYNC_DURATION,
    &LAST_SYNC,
    &IN_SYNC,
    &DRIFTS,
    &HEAL_DURATION,
    &LOCK_REFUSALS,
    &CONNECTIONS,
    &CIDR_CONNECTIONS,
    &FOREIGN_NAT_RULES,
    &CONNTRACK_ENTRIES,
    &CONNTRACK_LIMIT,
    &CONNTRACK_INSERT_FAILED,
    &CONNTRACK_DROP,
    &CONNTRACK_EARLY_DROP,
    &SNAT_PORT_UTILIZATION,
    &STALE_CONNECTIONS,
    &PROCESS_CPU,
    &PROCESS_RESIDENT_MEMORY,
    &PROCESS_START_TIME,
    &PROCESS_OPEN_FDS,
    &PROCESS_THREADS,
];

/// Which program this is.
pub const BUILD_INFO: Metric = info("ip_masq_agent_build_info", &["version"], "Version of ip-masq-agent");

/// How the policy gets into the kernel.
pub const BACKEND_INFO: Metric = info(
    "ip_masq_agent_backend_info",
    &["backend"],
    "Backend that carries the policy out: nftables, iptables-nft or iptables-legacy",
);

/// Whether the config is good.
pub const CONFIG_VALID: Metric = gauge(
    "ip_masq_agent_config_valid",
    &[],
    "1 if the config as it was last read is good (no file is good: it means the defaults), 0 if it is refused and something else stays in force",
);

/// Which config it is.
pub const CONFIG_INFO: Metric = info(
    "ip_masq_agent_config_info",
    &["hash"],
    "Hash of the content of the config files as they were last read; the same on all nodes with the same files",
);

/// Remarks on the config.
pub const CONFIG_WARNINGS: Metric =
    gauge("ip_masq_agent_config_warnings", &[], "Warnings about the config as it was last read");

/// When the config changed.
pub const CONFIG_LAST_CHANGE: Metric = gauge(
    "ip_masq_agent_config_last_change_timestamp_seconds",
    &[],
    "When the config files were last read with another content than before, good or bad, in seconds since 1970",
);

/// How many CIDRs are in force.
pub const CIDRS: Metric = gauge(
    "ip_masq_agent_cidrs",
    &["family", "list"],
    "Exempt CIDRs of the policy in force, by family (ipv4, ipv6) and by the list they come from (nonMasqueradeCIDRs, linkLocal)",
);

/// How often the kernel was compared with the policy.
pub const SYNCS: Metric = counter(
    "ip_masq_agent_syncs_total",
    &["result"],
    "Comparisons of the kernel with the policy: in_sync (nothing to do), changed (put right) or failed",
);

/// How long that took.
pub const SYNC_DURATION: Metric = histogram(
    "ip_masq_agent_sync_duration_seconds",
    "Time to read the config if it may have changed, compare the kernel with the policy, and put it right",
);

/// When the kernel was last known to hold the policy.
pub const LAST_SYNC: Metric = gauge(
    "ip_masq_agent_last_sync_timestamp_seconds",
    &[],
    "When the kernel was last seen to hold the policy, in seconds since 1970",
);

/// Whether it does now.
pub const IN_SYNC: Metric =
    gauge("ip_masq_agent_in_sync", &[], "1 if the kernel holds the policy as far as the agent knows, else 0");

/// What others did to our rules.
pub const DRIFTS: Metric = counter(
    "ip_masq_agent_drifts_total",
    &["kind"],
    "Differences that others made in rules of the agent and that were healed, by the kind of object",
);

/// How long that was so.
pub const HEAL_DURATION: Metric = histogram(
    "ip_masq_agent_heal_duration_seconds",
    "Time from the notice that somebody changed the ruleset until the kernel held the policy again, for changes that had to be healed",
);

/// How often somebody was in the way.
pub const LOCK_REFUSALS: Metric = counter(
    "ip_masq_agent_lock_refusals_total",
    &[],
    "Syncs that failed because another program held the xtables lock (backend iptables-legacy)",
);

/// What the rules did.
pub const CONNECTIONS: Metric = counter(
    "ip_masq_agent_connections_total",
    &["family", "verdict"],
    "Connections that left the node since the agent started, by family (ipv4, ipv6) and verdict of the rules (masquerade, exempt)",
);

/// What each CIDR did.
pub const CIDR_CONNECTIONS: Metric = counter(
    "ip_masq_agent_cidr_connections_total",
    &["cidr"],
    "Connections since the agent started that were exempt because of this CIDR; only with --cidr-metrics",
);

/// Who else translates.
pub const FOREIGN_NAT_RULES: Metric = gauge(
    "ip_masq_agent_foreign_nat_rules",
    &["position"],
    "Rules of other programs that can translate the source of a leaving packet, before or after the agent's own",
);

/// How full the connection table is.
pub const CONNTRACK_ENTRIES: Metric = gauge("ip_masq_agent_conntrack_entries", &[], "Entries of the connection table");

/// How full it can get.
pub const CONNTRACK_LIMIT: Metric =
    gauge("ip_masq_agent_conntrack_limit", &[], "Entries that the connection table takes at most");

/// Connections that could not be entered.
pub const CONNTRACK_INSERT_FAILED: Metric = counter(
    "ip_masq_agent_conntrack_insert_failed_total",
    &[],
    "Connections that could not be entered into the connection table, such as for want of a free source port",
);

/// Packets that were lost.
pub const CONNTRACK_DROP: Metric = counter(
    "ip_masq_agent_conntrack_drop_total",
    &[],
    "Packets dropped because their connection could not be tracked: the table was full, or no source port was free",
);

/// Connections that had to make room.
pub const CONNTRACK_EARLY_DROP: Metric = counter(
    "ip_masq_agent_conntrack_early_drop_total",
    &[],
    "Connections thrown out of the full connection table to make room for new ones",
);

/// How near the node is to running out of ports.
pub const SNAT_PORT_UTILIZATION: Metric = gauge(
    "ip_masq_agent_snat_port_utilization_ratio",
    &[],
    "Share of the source ports in use (0 to 1) towards the destination with the most translated connections, as last sampled",
);

/// Connections that a change left behind.
pub const STALE_CONNECTIONS: Metric = gauge(
    "ip_masq_agent_stale_connections",
    &[],
    "Live connections whose verdict a change of the config reversed, as last sampled",
);

/// CPU time.
pub const PROCESS_CPU: Metric =
    counter("process_cpu_seconds_total", &[], "CPU time that the agent has used, in seconds");

/// Memory.
pub const PROCESS_RESIDENT_MEMORY: Metric =
    gauge("process_resident_memory_bytes", &[], "Memory of the agent that is in RAM, in bytes");

/// Start.
pub const PROCESS_START_TIME: Metric =
    gauge("process_start_time_seconds", &[], "When the agent was started, in seconds since 1970");

/// File descriptors.
pub const PROCESS_OPEN_FDS: Metric = gauge("process_open_fds", &[], "File descriptors that the agent has open");

/// Threads.
pub const PROCESS_THREADS: Metric = gauge("process_threads", &[], "Threads of the agent");

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the page, as the catalogue has it.
    fn documented() -> String {
        let row = |metric: &&Metric| {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            format!("| `{}` | {} | {} | {} |\n", metric.name, metric.kind.word(), labels.join(", "), metric.help)
        };
        let rows: String = ALL.iter().map(row).collect();
        format!("| metric | type | labels | says |\n|---|---|---|---|\n{rows}")
    }

    #[test]
    fn the_page_about_metrics_says_what_the_catalogue_says() {
        let page = include_str!("../../../../docs/metrics.md");
        assert!(page.contains(&documented()), "docs/metrics.md has to hold this table:\n{}", documented());
    }

    #[test]
    fn names_end_as_their_types_ask_for() {
        for Metric { name, kind, help, .. } in ALL {
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert_eq!(name.ends_with("_info"), *kind == Kind::Info, "{name}");
            assert!(!help.ends_with('.') && !help.contains(['\n', '\\', '"']), "{name}");
        }
    }
}
