//! What keeps masquerading on this node from being what the config says, or soon may: facts in, findings out.

mod beside;
mod generations;
mod overriding;
mod port_choice;
mod source_ports;
mod stacks;

pub mod conntrack;
pub mod lock_file;
pub mod networks;
pub mod tunnels;

use std::fmt;
use std::net::IpAddr;

use masq::cidr::Family;
use masq::policy::Policy;
use masq::ports::PortRange;
use masq::verdict::{Decision, PacketFacts, Protocol, Verdict, decide};

use self::conntrack::Conntrack;
use self::lock_file::Trouble;
use self::networks::Network;
use self::overriding::Overriding;
use self::tunnels::Tunnel;
use crate::foreign::condition::Packet;
use crate::foreign::walk::Sets;
use crate::foreign::{Action, Ruleset};
use crate::snat::PortUse;

/// What is known of the node.
#[derive(Debug)]
pub struct Facts<'f> {
    /// What the config asks for.
    pub policy: &'f Policy,
    /// Everybody's NAT rules.
    pub ruleset: &'f Ruleset,
    /// Packets to exempt destinations, and to others, by which other programs' rules are tried.
    pub packets: &'f [Packet],
    /// The networks of pods that the routing table knows.
    pub networks: &'f [Network],
    /// The tunnels that end on the node.
    pub tunnels: &'f [Tunnel],
    /// `ip_local_reserved_ports`.
    pub reserved_ports: &'f [PortRange],
    /// The connection table; `None` where there is none.
    pub conntrack: Option<Conntrack>,
    /// The source ports in use, the destinations first that are nearest to running out.
    pub port_uses: &'f [PortUse],
    /// The iptables that is too old for `--random-fully`, where that is asked for.
    pub too_old: Option<&'f str>,
    /// What is wrong with the lock file, where the agent needs it.
    pub lock: Option<&'f Trouble>,
}

/// Something that the node's administrator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A word for programs, which stays the same from version to version.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is the case, as a sentence without an end.
    pub sentence: String,
    /// What to do about it.
    pub remedy: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing, and perhaps meant to be so.
    Note,
    /// Some packets are, or soon will be, treated otherwise than the config says or its writer expects.
    Warning,
    /// The policy is not in force.
    Broken,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Broken => "broken",
        })
    }
}

/// Everything there is to find, the worst first. `sets` answers whether an address is in a set of a table, where that can be found out.
pub fn examine(facts: &Facts<'_>, sets: &mut Sets<'_>) -> Vec<Finding> {
    let overriding = overriding::rules(facts, sets);
    let mut findings: Vec<Finding> = overriding.iter().map(Overriding::finding).collect();
    findings.extend(beside::findings(facts, sets, &overriding));
    findings.extend(generations::finding(facts.ruleset));
    findings.extend(Family::ALL.into_iter().filter_map(|family| stacks::finding(facts.ruleset, family)));
    findings.extend(networks_outside(facts));
    findings.extend(tunnels::findings(facts));
    findings.extend(port_choice::findings(facts));
    findings.extend(facts.conntrack.and_then(nearly_full));
    findings.extend(source_ports::finding(facts));
    findings.extend(facts.too_old.map(too_old));
    findings.extend(facts.lock.map(lock_file::finding));
    findings.extend(untracked(facts.ruleset));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// What the policy says of a packet to another host.
fn decision<'p>(policy: &'p Policy, destination: IpAddr, protocol: Protocol) -> Decision<'p> {
    decide(policy, &PacketFacts { destination, destination_is_local: false, protocol })
}

/// Clients of pods in these networks are masqueraded like everybody who goes to a destination in no CIDR.
fn networks_outside(facts: &Facts<'_>) -> Option<Finding> {
    let is_masqueraded = |network: &&Network| {
        let Decision { verdict, .. } = decision(facts.policy, network.cidr.network(), Protocol::Tcp);
        matches!(verdict, Verdict::Masquerade(_))
    };
    let outside: Vec<String> = facts
        .networks
        .iter()
        .filter(is_masqueraded)
        .map(|network| format!("{} on {}", network.cidr, network.link))
        .collect();
    (!outside.is_empty()).then(|| Finding {
        id: "pods-not-exempt",
        severity: Severity::Warning,
        sentence: format!(
            "connections to pods are masqueraded, so that pods see this node instead of their clients: no exempt CIDR holds {}",
            listed(&outside)
        ),
        remedy: "add the pods' CIDR to nonMasqueradeCIDRs".to_owned(),
    })
}

/// From this share of the limit on, in percent, a burst may fill the connection table.
const NEARLY_FULL: u64 = 90;

fn nearly_full(conntrack: Conntrack) -> Option<Finding> {
    let (entries, limit) = (conntrack.size.entries, conntrack.size.limit?);
    (limit > 0 && u64::from(entries) * 100 >= u64::from(limit) * NEARLY_FULL).then(|| Finding {
        id: "conntrack-nearly-full",
        severity: Severity::Warning,
        sentence: format!("the connection table holds {entries} of at most {limit} entries; once it is full, new connections are dropped"),
        remedy: "raise net.netfilter.nf_conntrack_max, or find out with `conntrack -L` who opens so many connections".to_owned(),
    })
}

fn too_old(version: &str) -> Finding {
    Finding {
        id: "random-fully-unavailable",
        severity: Severity::Warning,
        sentence: format!("--random-fully is on and has no effect: it takes iptables 1.6.2, and this is {version}"),
        remedy: "install a newer iptables, or choose --backend=nftables".to_owned(),
    }
}

/// Untracked packets pass by all NAT, ours too. Programs do that on purpose, for name servers on the node among others.
fn untracked(ruleset: &Ruleset) -> Option<Finding> {
    let rules: Vec<String> = ruleset
        .tables
        .iter()
        .flat_map(|table| &table.chains)
        .flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)))
        .filter(|(_, rule)| rule.action == Action::Notrack)
        .map(|(chain, rule)| format!("\"{}\"", rule_with_chain(&chain.name, &rule.text)))
        .collect();
    (!rules.is_empty()).then(|| Finding {
        id: "untracked",
        severity: Severity::Note,
        sentence: format!("packets that other programs keep untracked are never masqueraded: {}", listed(&rules)),
        remedy: "none, if these programs are meant to; else see who adds the rules".to_owned(),
    })
}

/// A rule with the name of its chain, which the text of an iptables rule has in it already.
pub fn rule_with_chain(chain: &str, text: &str) -> String {
    if text.starts_with("-A ") { text.to_owned() } else { format!("{chain} {text}") }
}

/// More than this many things are not listed in one sentence.
const LISTED: usize = 3;

fn listed(things: &[String]) -> String {
    let shown = things[..things.len().min(LISTED)].join(", ");
    if things.len() > LISTED { format!("{shown} and {} more", things.len() - LISTED) } else { shown }
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags};
    use nfnetlink::TableSize;

    use super::*;

    /// The findings on a node without rules and networks.
    fn ids(conntrack: Option<Conntrack>, too_old: Option<&str>, reserved_ports: &[PortRange]) -> Vec<&'static str> {
        let policy = Policy::new(&Config::default_for(&Flags::default()));
        let ruleset = &Ruleset::default();
        let facts = Facts {
            policy: &policy,
            ruleset,
            packets: &[],
            networks: &[],
            tunnels: &[],
            reserved_ports,
            conntrack,
            port_uses: &[],
            too_old,
            lock: None,
        };
        examine(&facts, &mut |_, _, _| None).iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn a_connection_table_is_told_when_it_is_nearly_full_and_not_before() {
        let of = |entries, limit| {
            let size = TableSize { entries, limit: Some(limit) };
            ids(Some(Conntrack { size, ..Conntrack::default() }), None, &[])
        };
        assert_eq!(of(899, 1_000), [""; 0]);
        assert_eq!(of(900, 1_000), ["conntrack-nearly-full"]);
        assert_eq!(of(u32::MAX, u32::MAX), ["conntrack-nearly-full"]);
        assert_eq!(of(5, 0), [""; 0], "no limit");
        assert_eq!(ids(None, None, &[]), [""; 0]);
    }

    #[test]
    fn the_worst_comes_first() {
        let reserved = [PortRange { first: 1, last: 1 }];
        assert_eq!(ids(None, Some("1.6.1"), &reserved), ["random-fully-unavailable", "reserved-ports"]);
    }

    #[test]
    fn of_many_things_the_rest_is_counted() {
        let things: Vec<String> = (0..5).map(|n| n.to_string()).collect();
        assert_eq!(listed(&things), "0, 1, 2 and 2 more");
        assert_eq!(listed(&things[..3]), "0, 1, 2");
    }
}
