//! The packet that conditions are asked about.

use std::fmt;
use std::net::IpAddr;

/// The first packet of a connection at one hook, as far as rules ask about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Source address, before any translation.
    pub source: IpAddr,
    /// Destination address, after any destination NAT.
    pub destination: IpAddr,
    /// What the routing table says of the source.
    pub source_type: AddressTypes,
    /// What the routing table says of the destination.
    pub destination_type: AddressTypes,
    /// Number of the transport protocol, where it is known.
    pub protocol: Option<u8>,
    /// Source port, where it is known.
    pub source_port: Option<u16>,
    /// Destination port, where it is known.
    pub destination_port: Option<u16>,
    /// The link it came in by; `None` for a packet of the node's own.
    pub input: Option<Link>,
    /// The link it leaves by; `None` before that is decided.
    pub output: Option<Link>,
    /// Its mark when it gets to the hook; `None` if it has one that is not known.
    pub mark: Option<u32>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
}

/// Types of addresses as bits: bit N stands for the kernel's `RTN_` number N.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AddressTypes(pub u32);

impl AddressTypes {
    /// A gateway's or a neighbour's.
    pub const UNICAST: AddressTypes = AddressTypes(1 << 1);
    /// The node's own.
    pub const LOCAL: AddressTypes = AddressTypes(1 << 2);
    /// Everybody's on a link.
    pub const BROADCAST: AddressTypes = AddressTypes(1 << 3);
    /// The nearest of several hosts'.
    pub const ANYCAST: AddressTypes = AddressTypes(1 << 4);
    /// A group's.
    pub const MULTICAST: AddressTypes = AddressTypes(1 << 5);

    /// Reads names separated by commas, as iptables writes them.
    pub fn parse(text: &str) -> Option<AddressTypes> {
        let bit = |name: &str| AddressTypes::NAMES.iter().position(|known| *known == name).map(|bit| 1 << bit);
        text.split(',').map(bit).try_fold(0, |all, bit: Option<u32>| Some(all | bit?)).map(AddressTypes)
    }

    const NAMES: [&'static str; 12] = [
        "UNSPEC",
        "UNICAST",
        "LOCAL",
        "BROADCAST",
        "ANYCAST",
        "MULTICAST",
        "BLACKHOLE",
        "UNREACHABLE",
        "PROHIBIT",
        "THROW",
        "NAT",
        "XRESOLVE",
    ];
}

impl fmt::Display for AddressTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = AddressTypes::NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        f.write_str(&names.map(|(_, name)| *name).collect::<Vec<_>>().join(","))
    }
}
