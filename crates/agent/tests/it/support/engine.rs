//! The ways to program the kernel that a test holds against the verdict function, and the policies it does so with.

use std::fmt;
use std::net::IpAddr;

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::judge::{compare, facts};
use ip_masq_agent::lab::probe::Transport;
use ip_masq_agent::lab::{Host, Lab, addresses, can_probe};
use masq::cidr::Family;
use masq::config::{Config, Flags, Source};
use masq::policy::Policy;
use masq::verdict::decide;

use super::agent::{Agent, PATIENCE};
use super::iptables::agent_with_programs;

/// A backend, and what it works with. Every traffic test runs once with each.
#[derive(Debug, Clone, Copy)]
pub enum Engine {
    Nftables,
    Iptables(Stack),
}

pub const ENGINES: [Engine; 3] = [Engine::Nftables, Engine::Iptables(Stack::Nft), Engine::Iptables(Stack::Legacy)];

impl Engine {
    /// Starts the agent with this backend in the lab's node. Does not wait for anything.
    pub fn launch(self, lab: &Lab, flags: &Flags, config: Option<&str>) -> Agent {
        self.launch_with(lab, flags, config, &[])
    }

    fn launch_with(self, lab: &Lab, flags: &Flags, config: Option<&str>, more: &[&str]) -> Agent {
        let words = words(flags);
        let words = words.iter().map(String::as_str).chain(more.iter().copied());
        match self {
            Engine::Nftables => {
                let args: Vec<&str> = ["--backend=nftables"].into_iter().chain(words).collect();
                Agent::start(&lab.node, &args, config)
            }
            Engine::Iptables(stack) => {
                let args: Vec<&str> = ["--backend=iptables"].into_iter().chain(words).collect();
                Agent::start_as(&lab.node, |directory| agent_with_programs(directory, stack), &args, config)
            }
        }
    }

    /// As [`Engine::launch`], and waits until the agent is ready.
    pub fn start(self, lab: &Lab, flags: &Flags, config: Option<&str>) -> Agent {
        self.start_with(lab, flags, config, &[])
    }

    /// As [`Engine::start`], with further words on the command line.
    pub fn start_with(self, lab: &Lab, flags: &Flags, config: Option<&str>, more: &[&str]) -> Agent {
        let mut agent = self.launch_with(lab, flags, config, more);
        agent.wait_until_ready(PATIENCE).unwrap();
        agent
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Engine::Nftables => f.write_str("nftables"),
            Engine::Iptables(stack) => write!(f, "iptables ({stack})"),
        }
    }
}

/// The policy that a config means, by the library that the agent itself is built on.
pub fn policy(flags: &Flags, config: Option<&str>) -> Policy {
    let sources: Vec<Source> =
        config.map(|text| Source { name: "config".to_owned(), bytes: text.as_bytes().to_vec() }).into_iter().collect();
    let parsed = Config::parse(&sources, flags).unwrap_or_else(|rejected| panic!("{:?}", rejected.errors));
    Policy::new(&parsed.config)
}

/// The policy flags as words of a command line.
fn words(flags: &Flags) -> Vec<String> {
    let mut words = vec![
        format!("--enable-ipv6={}", flags.enable_ipv6),
        format!("--random-fully={}", flags.random_fully),
        format!("--nomasq-all-reserved-ranges={}", flags.nomasq_all_reserved_ranges),
    ];
    if !flags.to_ports.is_empty() {
        words.push(format!("--to-ports={}", flags.to_ports));
    }
    words
}

/// Destinations where a mistake would show: both ends of every block and their neighbours, special ranges, the node itself.
pub fn destinations(policy: &Policy, family: Family) -> Vec<IpAddr> {
    let entries = policy.family(family).map_or(&[][..], |partition| partition.entries());
    let ends = entries.iter().flat_map(|entry| {
        let (first, last) = (entry.listed.cidr.first(), entry.listed.cidr.last());
        [first.checked_sub(1), Some(first), Some(last), last.checked_add(1)]
    });
    let mut destinations: Vec<IpAddr> =
        ends.flatten().filter(|&number| number <= family.max()).map(|number| family.address(number)).collect();
    destinations.extend(special(family));
    destinations.extend([addresses(family).node_inside, addresses(family).node_outside]);
    destinations.retain(|&destination| can_probe(destination));
    destinations.sort();
    destinations.dedup();
    destinations
}

fn special(family: Family) -> Vec<IpAddr> {
    let texts: &[&str] = match family {
        Family::Ipv4 => &[
            "8.8.8.8",
            "10.1.2.3",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.2",
            "203.0.113.1",
            "240.0.0.1",
        ],
        Family::Ipv6 => &["2001:db8:1::2", "2606:4700::1111", "fd00::1", "fdff::1", "fec0::1", "64:ff9b::808:808"],
    };
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Sends the first packets of connections to all interesting destinations, from the pod and from the node, over UDP and TCP, and
/// collects every one that was not treated as the verdict function says.
pub fn mismatches(lab: &Lab, policy: &Policy) -> Vec<String> {
    let mut wrong = Vec::new();
    for &family in lab.families() {
        for destination in destinations(policy, family) {
            for from in [Host::Pod, Host::Node] {
                for transport in [Transport::Udp, Transport::Tcp] {
                    let decision = decide(policy, &facts(destination, transport));
                    let seen = lab.probe(from, transport, destination).unwrap();
                    if let Err(disagreement) = compare(&decision, destination, seen) {
                        let (verdict, reason) = (decision.verdict, decision.reason);
                        wrong.push(format!(
                            "{transport:?} from {from:?} to {destination}: {verdict}, for it is {reason}, but {disagreement}"
                        ));
                    }
                }
            }
        }
    }
    wrong
}
