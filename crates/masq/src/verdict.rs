//! The decision about one connection: the executable specification that both backends and every test are held against.

use std::fmt;
use std::net::IpAddr;

use crate::cidr::Family;
use crate::partition::{Entry, List};
use crate::policy::{Masquerade, Policy};
use crate::ports::PortRanges;

/// What is known of the first packet of a connection when it leaves the node (nat postrouting).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketFacts {
    /// The destination, after any destination NAT: an endpoint's address, not a ClusterIP.
    pub destination: IpAddr,
    /// Whether the destination is an address of this node (`LOCAL` in the routing table).
    pub destination_is_local: bool,
    /// The transport protocol.
    pub protocol: Protocol,
}

/// A transport protocol, as far as the policy tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// Any other one, ICMP included; it has no ports that a policy could choose.
    Other,
}

/// What happens to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'p> {
    /// The policy says nothing about it: the packet goes on as it is.
    Untouched,
    /// It keeps the pod's address.
    Exempt,
    /// Its source becomes an address of the output interface.
    Masquerade(SourcePort<'p>),
}

/// Where the source port of a masqueraded connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePort<'p> {
    /// The pod's own port, if no other connection to this destination holds it; else one that the kernel finds.
    KeptIfFree,
    /// Any port, picked at random by the kernel.
    Random,
    /// A port of one of these ranges, each range used in proportion to its size.
    Within(&'p PortRanges),
}

/// Why the verdict is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason<'p> {
    /// The packet is IPv6 and IPv6 is off.
    Ipv6Off,
    /// The destination is an address of this node.
    LocalDestination,
    /// The most specific CIDR that holds the destination.
    InCidr(&'p Entry),
    /// No CIDR holds the destination.
    InNoCidr,
}

/// A verdict and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'p> {
    /// What happens.
    pub verdict: Verdict<'p>,
    /// Why.
    pub reason: Reason<'p>,
}

/// Decides about a connection. The order of the questions is the contract: each answer ends the search.
pub fn decide<'p>(policy: &'p Policy, packet: &PacketFacts) -> Decision<'p> {
    let Some(destinations) = policy.family(Family::of(packet.destination)) else {
        return Decision { verdict: Verdict::Untouched, reason: Reason::Ipv6Off };
    };
    if packet.destination_is_local {
        return Decision { verdict: Verdict::Untouched, reason: Reason::LocalDestination };
    }
    match destinations.lookup(packet.destination) {
        Some(entry) if entry.list.is_exempt() => Decision { verdict: Verdict::Exempt, reason: Reason::InCidr(entry) },
        Some(entry) => Decision { verdict: masquerade(policy, packet), reason: Reason::InCidr(entry) },
        None => Decision { verdict: masquerade(policy, packet), reason: Reason::InNoCidr },
    }
}

fn masquerade<'p>(policy: &'p Policy, packet: &PacketFacts) -> Verdict<'p> {
    Verdict::Masquerade(source_port(&policy.masquerade, packet.protocol))
}

fn source_port(masquerade: &Masquerade, protocol: Protocol) -> SourcePort<'_> {
    match protocol {
        Protocol::Tcp | Protocol::Udp | Protocol::Sctp if !masquerade.to_ports.is_empty() => {
            SourcePort::Within(&masquerade.to_ports)
        }
        Protocol::Tcp | Protocol::Udp | Protocol::Sctp | Protocol::Other if masquerade.random_fully => {
            SourcePort::Random
        }
        Protocol::Tcp | Protocol::Udp | Protocol::Sctp | Protocol::Other => SourcePort::KeptIfFree,
    }
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Untouched => "untouched",
            Verdict::Exempt => "exempt",
            Verdict::Masquerade(_) => "masquerade",
        })
    }
}

impl fmt::Display for SourcePort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourcePort::KeptIfFree => f.write_str("kept while free"),
            SourcePort::Random => f.write_str("random"),
            SourcePort::Within(ranges) => write!(f, "within {ranges}"),
        }
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Ipv6Off => f.write_str("IPv6 is off"),
            Reason::LocalDestination => f.write_str("an address of this node"),
            Reason::InCidr(entry) => {
                write!(f, "in {} ({})", entry.listed.text, entry.listed.origin)?;
                match entry.list {
                    List::LinkLocal | List::NonMasquerade => Ok(()),
                    List::Masquerade => f.write_str(", to be masqueraded"),
                }
            }
            Reason::InNoCidr => f.write_str("in no CIDR"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Flags};

    fn facts(destination: &str) -> PacketFacts {
        let destination = destination.parse().unwrap();
        PacketFacts { destination, destination_is_local: false, protocol: Protocol::Tcp }
    }

    fn policy(flags: &Flags) -> Policy {
        Policy::new(&Config::default_for(flags))
    }

    #[test]
    fn ipv6_is_untouched_while_it_is_off_even_to_an_address_of_the_node() {
        let policy = policy(&Flags::default());
        for destination_is_local in [false, true] {
            let decision = decide(&policy, &PacketFacts { destination_is_local, ..facts("2001:db8::1") });
            assert_eq!((decision.verdict, decision.reason), (Verdict::Untouched, Reason::Ipv6Off));
        }
    }

    #[test]
    fn a_destination_on_this_node_is_untouched_inside_and_outside_the_list() {
        let policy = policy(&Flags::default());
        for destination in ["10.0.0.1", "8.8.8.8"] {
            let decision = decide(&policy, &PacketFacts { destination_is_local: true, ..facts(destination) });
            assert_eq!((decision.verdict, decision.reason), (Verdict::Untouched, Reason::LocalDestination));
        }
    }

    #[test]
    fn the_default_list_and_link_local_are_exempt_and_the_rest_is_masqueraded() {
        let policy = policy(&Flags::default());
        for destination in ["10.255.255.255", "172.31.0.1", "192.168.0.0", "169.254.169.254"] {
            assert_eq!(decide(&policy, &facts(destination)).verdict, Verdict::Exempt, "{destination}");
        }
        for destination in ["9.255.255.255", "11.0.0.0", "172.32.0.0", "100.64.0.1", "224.0.0.251"] {
            let decision = decide(&policy, &facts(destination));
            assert_eq!(decision.verdict, Verdict::Masquerade(SourcePort::Random), "{destination}");
            assert_eq!(decision.reason, Reason::InNoCidr);
        }
    }

    #[test]
    fn with_ipv6_on_and_no_ipv6_cidr_only_link_local_is_exempt() {
        let policy = policy(&Flags { enable_ipv6: true, ..Flags::default() });
        assert_eq!(decide(&policy, &facts("fe80::1")).verdict, Verdict::Exempt);
        assert_eq!(decide(&policy, &facts("fd00::1")).verdict, Verdict::Masquerade(SourcePort::Random));
    }

    #[test]
    fn only_protocols_with_ports_take_a_port_of_the_ranges() {
        let to_ports: PortRanges = "1024-29999,32768-65535".parse().unwrap();
        let policy = policy(&Flags { to_ports: to_ports.clone(), random_fully: false, ..Flags::default() });
        for (protocol, port) in [
            (Protocol::Tcp, SourcePort::Within(&to_ports)),
            (Protocol::Udp, SourcePort::Within(&to_ports)),
            (Protocol::Sctp, SourcePort::Within(&to_ports)),
            (Protocol::Other, SourcePort::KeptIfFree),
        ] {
            let decision = decide(&policy, &PacketFacts { protocol, ..facts("8.8.8.8") });
            assert_eq!(decision.verdict, Verdict::Masquerade(port));
        }
    }

    #[test]
    fn an_exempt_decision_names_the_deciding_cidr() {
        let policy = policy(&Flags::default());
        let decision = decide(&policy, &facts("172.16.0.1"));
        assert!(matches!(decision.reason, Reason::InCidr(entry) if entry.listed.text == "172.16.0.0/12"));
        assert!(decision.reason.to_string().starts_with("in 172.16.0.0/12 ("));
    }
}
