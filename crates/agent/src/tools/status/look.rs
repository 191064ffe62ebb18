//! Everything that `status` asks of the node, each thing once.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use masq::cidr::Family;
use masq::config::Config;
use masq::diagnostic::Diagnostic;
use masq::partition::{List, Partition};
use masq::policy::Policy;
use masq::ports::{PortRange, PortRanges};
use serde_json::Value;

use crate::backend::difference::Comparison;
use crate::backend::iptables::version::Stack;
use crate::backend::search_path;
use crate::cli::NodeOptions;
use crate::config_file;
use crate::doctor::conntrack::{self, Conntrack};
use crate::doctor::networks::{self, Network};
use crate::doctor::{self, Facts, Finding, lock_file, tunnels};
use crate::foreign::condition::{AddressTypes, Packet, Question, Span};
use crate::foreign::sets::SetLookup;
use crate::foreign::{self, Kind, Ruleset};
use crate::route::{Flow, Routes};
use crate::snat::{self, PortUse};
use crate::tools::node;
use crate::tools::running::{self, Running};

/// More destinations, and more sources, than this of a family are not tried out: with thousands of rules each trial takes a while.
const MOST_TRIED: usize = 16;

/// So many of the busiest destinations are looked at for a finding.
const BUSIEST: usize = 32;

/// A look at all connections that takes longer than this is given up: a million of them take a second or two.
const CONNECTIONS_PATIENCE: Duration = Duration::from_secs(10);

/// What was seen.
pub(super) struct Seen {
    /// The files of the config, with the time since they were last written where that can be told.
    pub files: Vec<(String, Option<Duration>)>,
    /// Of what is in the files; the same on all nodes with the same config.
    pub hash: String,
    /// Errors and warnings about them.
    pub diagnostics: Vec<Diagnostic>,
    /// What they mean; `None` if they are refused.
    pub config: Option<Config>,
    /// The backend, for people and for programs; `None` if it cannot be opened.
    pub backend: Option<(String, Value)>,
    /// The kernel against the policy; `None` without either.
    pub comparison: Option<Comparison>,
    /// Everybody's rules.
    pub ruleset: Ruleset,
    /// The agents that run here.
    pub agents: Vec<Running>,
    /// The connection table.
    pub conntrack: Option<Conntrack>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What could not be seen.
    pub unseen: Vec<Error>,
}

/// How the source ports in use are found out, the busiest destinations first.
pub(super) type PortUses<'p> = &'p dyn Fn(&Policy) -> Result<Vec<PortUse>>;

/// Looks at the node of the calling thread, with what its config says.
pub(super) fn look(options: &NodeOptions, reading: node::Reading, port_uses: PortUses<'_>) -> Seen {
    let node::Reading { sources, findings: diagnostics, config } = reading;
    let policy = config.as_ref().map(Policy::new);
    let mut unseen = Vec::new();
    let OwnRules { backend, mut comparison, lock } = own_rules(options, policy.as_ref()).unwrap_or_else(|error| {
        unseen.push(error);
        OwnRules::default()
    });
    let mut legacy = Vec::new();
    if let Some(comparison) = &mut comparison {
        unseen.append(&mut comparison.failures);
        legacy.append(&mut comparison.legacy);
    }
    let foreign::Reading { ruleset, unseen: rules_unseen } = foreign::read(&search_path(), &options.masq_chain, legacy);
    unseen.extend(rules_unseen.into_iter().map(|unseen| unseen.error));
    let conntrack =
        conntrack::read().map_err(|error| unseen.push(Error::from(error).context("connection tracking"))).ok();
    let mut seen = Seen {
        files: sources.iter().map(|source| (source.name.clone(), age(&source.name))).collect(),
        hash: config_file::hash(&sources),
        diagnostics,
        config,
        backend,
        comparison,
        ruleset,
        agents: running::agents(),
        conntrack,
        findings: Vec::new(),
        unseen,
    };
    if let Some(policy) = &policy {
        seen.findings = seen.examine(policy, lock.as_ref(), port_uses);
    }
    seen
}

/// What the backend says of itself, of our rules, and of its lock file.
#[derive(Default)]
struct OwnRules {
    backend: Option<(String, Value)>,
    comparison: Option<Comparison>,
    lock: Option<lock_file::Trouble>,
}

fn own_rules(options: &NodeOptions, policy: Option<&Policy>) -> Result<OwnRules> {
    let mut backend = node::open(options)?;
    Ok(OwnRules {
        comparison: policy.map(|policy| backend.compare(policy)),
        // The other stack does without.
        lock: backend.stack().filter(|stack| stack.chosen == Stack::Legacy).and_then(|_| lock_file::read()),
        backend: Some((backend.description(), node::backend_json(&backend))),
    })
}

impl Seen {
    /// What is wrong, as far as it shows in what was seen and in a few things more that are asked for here.
    fn examine(&mut self, policy: &Policy, lock: Option<&lock_file::Trouble>, port_uses: PortUses<'_>) -> Vec<Finding> {
        let networks = networks::read();
        let packets = or_none(packets(policy, &self.ruleset, &networks).context("routes"), &mut self.unseen);
        let tunnels = or_none(tunnels::read(policy), &mut self.unseen);
        // Where the table cannot be looked at, that was told already.
        let port_uses = self.conntrack.map_or_else(Vec::new, |_| or_none(port_uses(policy), &mut self.unseen));
        let facts = Facts {
            policy,
            ruleset: &self.ruleset,
            packets: &packets,
            networks: &networks,
            tunnels: &tunnels,
            reserved_ports: &reserved_ports(),
            conntrack: self.conntrack,
            port_uses: &port_uses,
            too_old: self.comparison.as_ref().and_then(|comparison| comparison.too_old.as_deref()),
            lock,
        };
        let mut sets = SetLookup::open();
        doctor::examine(&facts, &mut |table, set, address| sets.has(table, set, address))
    }
}

/// What could be read; nothing, and a remark about that, if it could not be.
fn or_none<T>(read: Result<Vec<T>>, unseen: &mut Vec<Error>) -> Vec<T> {
    read.unwrap_or_else(|error| {
        unseen.push(error);
        Vec::new()
    })
}

/// Looks at all connections.
pub(super) fn port_uses(policy: &Policy) -> Result<Vec<PortUse>> {
    let mut conntrack = nfnetlink::Conntrack::open()?;
    snat::look(&mut conntrack, &policy.masquerade.to_ports, BUSIEST, CONNECTIONS_PATIENCE)
        .context("source ports in use")
}

fn age(file: &str) -> Option<Duration> {
    fs::metadata(file).ok()?.modified().ok()?.elapsed().ok()
}

fn reserved_ports() -> Vec<PortRange> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    text.trim().parse().unwrap_or(PortRanges(Vec::new())).0
}

/// First packets of connections to exempt destinations and to one that is masqueraded, from pods and from whatever sources rules ask for.
fn packets(policy: &Policy, ruleset: &Ruleset, networks: &[Network]) -> Result<Vec<Packet>> {
    let mut routes = Routes::open()?;
    let mut packets = Vec::new();
    for partition in policy.families() {
        let sources = sources(partition.family(), ruleset, networks);
        for destination in destinations(partition).into_iter().chain(masqueraded(partition)) {
            let route = routes.lookup(Flow::to(destination))?.ok();
            let destination_type = route.as_ref().map_or(AddressTypes::UNICAST, |route| route.destination_type);
            if destination_type == AddressTypes::LOCAL {
                continue;
            }
            let output = route.map(|route| route.output);
            packets.extend(sources.iter().map(|source| Packet {
                source: *source,
                destination,
                source_type: AddressTypes::UNICAST,
                destination_type,
                protocol: Some(TCP),
                source_port: None,
                destination_port: None,
                input: None,
                output: output.clone(),
                mark: Some(0),
            }));
        }
    }
    Ok(packets)
}

/// IANA's number of tcp.
const TCP: u8 = 6;

/// One address of each exempt block that was listed.
fn destinations(partition: &Partition) -> Vec<IpAddr> {
    let family = partition.family();
    let listed = partition.entries().iter().filter(|entry| entry.list == List::NonMasquerade);
    let blocks = listed.map(|entry| (entry.listed.cidr.first(), entry.listed.cidr.last()));
    blocks.take(MOST_TRIED).map(|(first, last)| family.address(inner(first, last))).collect()
}

/// An address that is far away by any network plugin's reckoning and in no exempt block, if one of a few well-known ones is.
fn masqueraded(partition: &Partition) -> Option<IpAddr> {
    let candidates: [IpAddr; 3] = match partition.family() {
        Family::Ipv4 => [[8, 8, 8, 8], [1, 1, 1, 1], [203, 0, 113, 1]].map(IpAddr::from),
        Family::Ipv6 => [0x2001_4860_4860 << 80 | 0x8888, 0x2606_4700_4700 << 80 | 0x1111, 0x2001_0db8_ffff << 80 | 1]
            .map(|number: u128| Family::Ipv6.address(number)),
    };
    candidates.into_iter().find(|address| partition.lookup(*address).is_none())
}

/// An address in the network of pods, if one is known, and one in every block of sources that a rule asks for.
fn sources(family: Family, ruleset: &Ruleset, networks: &[Network]) -> Vec<IpAddr> {
    let pods = networks.iter().map(|network| network.cidr).filter(|cidr| cidr.family() == family);
    let pods = pods.map(|cidr| (cidr.first(), cidr.last())).take(1);
    let tables = ruleset.tables.iter().filter(|table| table.sees(family) && has_nat(table));
    let tests = tables.flat_map(|table| &table.chains).flat_map(|chain| &chain.rules).flat_map(|rule| &rule.tests);
    let asked = tests.filter_map(|test| match &test.question {
        Question::Source(Span { family: asked, first, last }) if *asked == family => Some((*first, *last)),
        _ => None,
    });
    let mut sources: Vec<IpAddr> = Vec::new();
    for (first, last) in pods.chain([anybody(family)]).chain(asked) {
        let source = family.address(inner(first, last));
        if !sources.contains(&source) {
            sources.push(source);
        }
        if sources.len() == MOST_TRIED {
            break;
        }
    }
    sources
}

fn has_nat(table: &foreign::Table) -> bool {
    table.chains.iter().any(|chain| chain.base.is_some_and(|base| base.kind == Kind::Nat))
}

/// A source that no program has rules of its own for: blocks kept for benchmarks and for documentation.
fn anybody(family: Family) -> (u128, u128) {
    match family {
        Family::Ipv4 => (0xc612_0000, 0xc612_ffff),
        Family::Ipv6 => (0x2001_0db8 << 96, (0x2001_0db8 << 96) | 0xffff),
    }
}

/// The second address of a block, for the first is often a special one.
fn inner(first: u128, last: u128) -> u128 {
    if last - first > 1 { first + 1 } else { first }
}
