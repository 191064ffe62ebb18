//! Constants of rules and sets as nft(8) writes them.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::object::Set;

/// How the bytes of a constant are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An IPv4 or IPv6 address, by length; fewer bytes are a prefix of one of that many bytes.
    Address(usize),
    /// A number, most significant byte first.
    BigEndian,
    /// A number in the byte order of this machine.
    HostEndian,
    /// A number in the byte order of this machine, as nft writes marks.
    Mark,
    /// An interface name; without a NUL it is the beginning of one.
    Interface,
    /// A network protocol family.
    Nfproto,
    /// A transport protocol.
    L4proto,
    /// A type of address, in the byte order of this machine.
    AddressType,
    /// Bits with names, in the byte order of this machine.
    Bits(&'static [(u32, &'static str)]),
}

/// Names of the bits of `ct state`.
pub(super) const CT_STATE: &[(u32, &str)] =
    &[(1, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];

/// Names of the bits of `ct status`.
pub(super) const CT_STATUS: &[(u32, &str)] = &[
    (0x1, "expected"),
    (0x2, "seen-reply"),
    (0x4, "assured"),
    (0x8, "confirmed"),
    (0x10, "snat"),
    (0x20, "dnat"),
    (0x200, "dying"),
];

const ADDRESS_TYPES: [&str; 12] = [
    "unspec",
    "unicast",
    "local",
    "broadcast",
    "anycast",
    "multicast",
    "blackhole",
    "unreachable",
    "prohibit",
    "throw",
    "nat",
    "xresolve",
];

const PROTOCOLS: [(u8, &str); 9] = [
    (1, "icmp"),
    (6, "tcp"),
    (17, "udp"),
    (33, "dccp"),
    (50, "esp"),
    (51, "ah"),
    (58, "ipv6-icmp"),
    (132, "sctp"),
    (136, "udplite"),
];

/// The constant as text.
pub(super) fn text(kind: Kind, bytes: &[u8]) -> String {
    match kind {
        Kind::Address(len) => address(bytes, len).unwrap_or_else(|| hex(bytes)),
        Kind::BigEndian => big_endian(bytes).map_or_else(|| hex(bytes), |n| n.to_string()),
        Kind::HostEndian => host_endian(bytes).map_or_else(|| hex(bytes), |n| n.to_string()),
        Kind::Mark => host_endian(bytes).map_or_else(|| hex(bytes), |n| format!("{n:#010x}")),
        Kind::Interface => interface(bytes),
        Kind::Nfproto => match *bytes {
            [crate::expr::NFPROTO_IPV4] => "ipv4".to_owned(),
            [crate::expr::NFPROTO_IPV6] => "ipv6".to_owned(),
            _ => hex(bytes),
        },
        Kind::L4proto => protocol(bytes),
        Kind::AddressType => host_endian(bytes)
            .and_then(|number| ADDRESS_TYPES.get(usize::try_from(number).ok()?))
            .map_or_else(|| hex(bytes), |&name| name.to_owned()),
        Kind::Bits(names) => host_endian(bytes).map_or_else(|| hex(bytes), |number| bits(number, names)),
    }
}

/// The bits as names with commas, or as a number if one of them has no name.
pub(super) fn bits(number: u32, names: &[(u32, &str)]) -> String {
    let set = names.iter().filter(|&&(bit, _)| number & bit != 0);
    let known = set.clone().fold(0, |known, &(bit, _)| known | bit);
    if known != number || number == 0 {
        return format!("{number:#x}");
    }
    set.map(|&(_, name)| name).collect::<Vec<_>>().join(",")
}

fn address(bytes: &[u8], len: usize) -> Option<String> {
    let mut whole = [0; 16];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let text = match len {
        4 => Ipv4Addr::from(*whole.first_chunk::<4>()?).to_string(),
        16 => Ipv6Addr::from(whole).to_string(),
        _ => return None,
    };
    match bytes.len() {
        full if full == len => Some(text),
        part if part < len => Some(format!("{text}/{}", 8 * part)),
        _ => None,
    }
}

/// An interface name in quotes, with a star if the bytes are the beginning of a name.
pub(super) fn interface(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    let name = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
    let star = if end.is_none() && bytes.len() < 16 { "*" } else { "" };
    format!("\"{name}{star}\"")
}

fn protocol(bytes: &[u8]) -> String {
    let &[number] = bytes else { return hex(bytes) };
    let known = PROTOCOLS.iter().find(|&&(known, _)| known == number);
    known.map_or_else(|| number.to_string(), |&(_, name)| name.to_owned())
}

/// The number of at most 16 bytes, most significant first.
pub(super) fn big_endian(bytes: &[u8]) -> Option<u128> {
    let fits = (1..=16).contains(&bytes.len());
    fits.then(|| bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
}

/// The 4-byte number in the byte order of this machine.
pub(super) fn host_endian(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// nft's name of a type of keys or values.
pub(super) fn type_name(number: u32) -> String {
    /// The type of verdicts, the one type of values that the kernel knows.
    const VERDICT: u32 = 0xffff_ff00;
    let name = match number {
        Set::IPV4_ADDR => "ipv4_addr",
        Set::IPV6_ADDR => "ipv6_addr",
        9 => "ether_addr",
        Set::INET_PROTO => "inet_proto",
        Set::INET_SERVICE => "inet_service",
        19 => "mark",
        Set::IFNAME => "ifname",
        VERDICT => "verdict",
        _ => return format!("type-{number}"),
    };
    name.to_owned()
}
