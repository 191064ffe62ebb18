//! Whether what a receiver saw is what the verdict function said.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use masq::cidr::Family;
use masq::ports::PortRanges;
use masq::verdict::{Decision, PacketFacts, Protocol, SourcePort, Verdict};

use super::probe::{Seen, Transport};
use super::{Host, addresses};

/// How a packet differs from what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disagreement {
    /// It arrived nowhere.
    Lost,
    /// It arrived at another host than its destination's.
    WrongHost(Host),
    /// Its source was to be exactly this.
    Source {
        /// The source that the decision asks for.
        expected: SocketAddr,
        /// The source that the receiver saw.
        seen: SocketAddr,
    },
    /// Its source was to have this address, with whatever port.
    Address {
        /// The address that the decision asks for.
        expected: IpAddr,
        /// The source that the receiver saw.
        seen: SocketAddr,
    },
    /// It was masqueraded as decided, but to a port outside these ranges.
    Port {
        /// The port that the receiver saw.
        seen: u16,
        /// The ranges to choose from.
        within: PortRanges,
    },
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Lost => f.write_str("the packet was lost"),
            Disagreement::WrongHost(host) => write!(f, "the packet arrived at the wrong host ({host:?})"),
            Disagreement::Source { expected, seen } => write!(f, "the source should be {expected} but is {seen}"),
            Disagreement::Address { expected, seen } => write!(f, "the source should be at {expected} but is {seen}"),
            Disagreement::Port { seen, within } => write!(f, "the source port {seen} is not within {within}"),
        }
    }
}

/// What the verdict function is to be told about a probe to `destination`.
pub fn facts(destination: IpAddr, transport: Transport) -> PacketFacts {
    let protocol = match transport {
        Transport::Udp => Protocol::Udp,
        Transport::Tcp => Protocol::Tcp,
    };
    PacketFacts { destination, destination_is_local: is_node_local(destination), protocol }
}

/// Whether an address is one of the node's.
pub fn is_node_local(address: IpAddr) -> bool {
    let own = addresses(Family::of(address));
    [own.node_inside, own.node_outside, super::NODE_SECOND_ADDRESS.into()].contains(&address)
}

/// Holds what a receiver saw of a probe to `destination` against the decision about it.
///
/// # Errors
/// The two differ.
pub fn compare(decision: &Decision<'_>, destination: IpAddr, seen: Option<Seen>) -> Result<(), Disagreement> {
    let Some(seen) = seen else { return Err(Disagreement::Lost) };
    let right_host = if is_node_local(destination) { Host::Node } else { Host::Outside };
    if seen.host != right_host {
        return Err(Disagreement::WrongHost(seen.host));
    }
    let masqueraded = SocketAddr::new(addresses(Family::of(destination)).node_outside, seen.sent_from.port());
    match decision.verdict {
        Verdict::Untouched | Verdict::Exempt => same_source(seen.sent_from, seen.source),
        Verdict::Masquerade(SourcePort::KeptIfFree) => same_source(masqueraded, seen.source),
        Verdict::Masquerade(SourcePort::Random) => same_address(masqueraded.ip(), seen.source),
        Verdict::Masquerade(SourcePort::Within(ranges)) => {
            same_address(masqueraded.ip(), seen.source)?;
            let port = seen.source.port();
            if ranges.0.iter().any(|range| (range.first..=range.last).contains(&port)) {
                Ok(())
            } else {
                Err(Disagreement::Port { seen: port, within: ranges.clone() })
            }
        }
    }
}

fn same_source(expected: SocketAddr, seen: SocketAddr) -> Result<(), Disagreement> {
    if expected == seen { Ok(()) } else { Err(Disagreement::Source { expected, seen }) }
}

fn same_address(expected: IpAddr, seen: SocketAddr) -> Result<(), Disagreement> {
    if expected == seen.ip() { Ok(()) } else { Err(Disagreement::Address { expected, seen }) }
}
