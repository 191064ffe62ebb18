//! Tunnels that end on the node itself, and what becomes of the source that their sockets chose.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use masq::cidr::Family;
use masq::policy::Policy;
use masq::verdict::{Protocol, Verdict};
use nfnetlink::{Connection, Direction, TupleFilter};

use super::{Facts, Finding, Severity, decision, listed};
use crate::backend::iptables::node::protocol_family;
use crate::route::Routes;

/// IANA's number of udp.
const UDP: u8 = 17;

/// Connections of a tunnel that are looked at; they are one per peer, or a few.
const MOST_CONNECTIONS: usize = 1_000;

/// Ports on which tunnels listen, with the protocol, and whether a peer minds which port packets come from: others' peers are known by
/// their address alone.
const TUNNELS: [(u16, &str, bool); 8] = [
    (500, "IKE", true),
    (4500, "IKE", true),
    (4789, "VXLAN", false),
    (6081, "Geneve", false),
    (8472, "VXLAN", false),
    (51820, "WireGuard", true),
    (51821, "WireGuard", true),
    (51871, "WireGuard", true),
];

/// A UDP socket of the node, most often the kernel's own, on a port that tunnels are known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The protocol that the port is known for.
    pub name: &'static str,
    /// The port.
    pub port: u16,
    /// Whether a change of the source port alone does harm.
    pub port_matters: bool,
    /// The live connections that were opened by its packets.
    pub connections: Vec<Connection>,
}

/// Looks for tunnels of the calling thread's network namespace.
///
/// # Errors
/// There are some, and their connections cannot be read.
pub fn read(policy: &Policy) -> Result<Vec<Tunnel>> {
    let table = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let ports = ports(&(table("udp") + &table("udp6")));
    let known = TUNNELS.into_iter().filter(|(port, ..)| ports.contains(port));
    let mut tunnels: Vec<Tunnel> =
        known.map(|(port, name, port_matters)| Tunnel { name, port, port_matters, connections: Vec::new() }).collect();
    if !tunnels.is_empty() {
        find_connections(policy, &mut tunnels).context("the connections of the node's tunnels")?;
    }
    Ok(tunnels)
}

/// The local ports of sockets that are connected to nobody, as servers' are, from `12: 00000000:2118 00000000:0000 07 ...`.
fn ports(table: &str) -> BTreeSet<u16> {
    let port = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, remote) = (words.next()?, words.next()?);
        let port = |word: &str| u16::from_str_radix(word.rsplit_once(':')?.1, 16).ok();
        port(local).filter(|_| port(remote) == Some(0))
    };
    table.lines().filter_map(port).collect()
}

fn find_connections(policy: &Policy, tunnels: &mut [Tunnel]) -> Result<()> {
    let (mut conntrack, mut routes) = (nfnetlink::Conntrack::open()?, Routes::open()?);
    for family in policy.families().map(|partition| partition.family()) {
        let addresses = routes.addresses(family)?;
        // Pods may have tunnels of their own, on the same ports.
        let is_the_nodes =
            |connection: &Connection| addresses.iter().any(|address| address.local == connection.original.source);
        for tunnel in &mut *tunnels {
            let found = conntrack.find(&tunnel.filter(family), MOST_CONNECTIONS, is_the_nodes)?;
            tunnel.connections.extend(found.connections);
        }
    }
    Ok(())
}

/// At most one finding for each tunnel: a warning where packets are seen to leave from a source that does harm, else a note where they
/// may.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    facts.tunnels.iter().filter_map(|tunnel| tunnel.finding(facts)).collect()
}

impl Tunnel {
    /// What its packets look like. VXLAN and Geneve send each flow from another port to the one they listen on.
    fn filter(&self, family: Family) -> TupleFilter {
        let any = TupleFilter::new(Direction::Original, protocol_family(family));
        let mut filter = TupleFilter { protocol: Some(UDP), ..any };
        if self.port_matters {
            filter.source_port = Some(self.port);
        } else {
            filter.destination_port = Some(self.port);
        }
        filter
    }

    fn finding(&self, facts: &Facts<'_>) -> Option<Finding> {
        let is_masqueraded = |connection: &&Connection| {
            let verdict = decision(facts.policy, connection.original.destination, Protocol::Udp).verdict;
            matches!(verdict, Verdict::Masquerade(_))
        };
        let minded = self.connections.iter().filter(|connection| self.minds(connection));
        let translated: Vec<&Connection> = minded.filter(is_masqueraded).collect();
        let Tunnel { name, port, .. } = self;
        let (severity, sentence) = if !translated.is_empty() {
            let ways: Vec<String> = translated.iter().map(|connection| way(connection)).collect();
            let sentence = format!(
                "packets of this node's own tunnel ({name}, UDP port {port}) leave from another source than the one that its peer \
                 knows: {}",
                listed(&ways)
            );
            (Severity::Warning, sentence)
        } else if self.port_matters && self.connections.is_empty() && picks_ports(facts) {
            let sentence = format!(
                "this node listens on UDP port {port} ({name}); what it sends from there to peers in no exempt CIDR leaves from \
                 another port"
            );
            (Severity::Note, sentence)
        } else {
            return None;
        };
        let remedy =
            "add the addresses of the peers to nonMasqueradeCIDRs; where the port alone matters, --random-fully=false \
                      without --to-ports keeps it too"
                .to_owned();
        Some(Finding { id: "tunnel-translated", severity, sentence, remedy })
    }

    /// Whether the peer minds what became of the source.
    fn minds(&self, Connection { original, reply, .. }: &Connection) -> bool {
        reply.destination != original.source || self.port_matters && reply.destination_port != original.source_port
    }
}

/// Whether the policy has the port of every masqueraded connection changed.
fn picks_ports(facts: &Facts<'_>) -> bool {
    let masquerade = &facts.policy.masquerade;
    masquerade.random_fully && facts.too_old.is_none() || !masquerade.to_ports.0.is_empty()
}

/// `192.0.2.1:500 to 203.0.113.1:500 as 192.0.2.1:61234`.
fn way(Connection { original, reply, .. }: &Connection) -> String {
    let end = |address: IpAddr, port: Option<u16>| SocketAddr::new(address, port.unwrap_or_default());
    format!(
        "{} to {} as {}",
        end(original.source, original.source_port),
        end(original.destination, original.destination_port),
        end(reply.destination, reply.destination_port)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_servers_are_told_and_those_of_clients_are_not() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
                     15982: 00000000:2118 00000000:0000 07 00000000:00000000\n\
                     12299: 00000000000000000000000000000000:CA6C 00000000000000000000000000000000:0000 07\n\
                     1: 0100007F:01F4 0200007F:0035 01\n\
                     nonsense\n";
        assert_eq!(ports(table), BTreeSet::from([8472, 51820]));
    }
}
