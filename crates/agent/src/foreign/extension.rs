//! Matches and targets of iptables that nf_tables carries for iptables-nft, by the C structures of the kernel's headers.

use std::net::IpAddr;

use masq::cidr::Family;
use nfnetlink::Extension;

use super::condition::{AddressTypes, Question, Test};
use super::native::address;
use super::{Action, SnatTo};

/// What a match comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// It matches everything and says something to people.
    Comment(String),
    /// Conditions.
    Tests(Vec<Test>),
}

/// What a match asks; a layout that is not known stays an opaque condition.
pub(super) fn condition(extension: &Extension<'_>) -> Condition {
    let bytes = extension.parameters;
    let known = match (extension.name.as_str(), extension.revision) {
        ("comment", 0) => return Condition::Comment(extension.text()),
        ("addrtype", revision) => address_types(bytes, revision),
        ("mark", 1) => mark(bytes),
        ("tcp", 0) => tcp(bytes),
        ("udp", 0) => udp(bytes),
        _ => None,
    };
    Condition::Tests(known.unwrap_or_else(|| vec![Test::opaque(format!("-m {}", extension.name))]))
}

/// What a target does, and how iptables writes that.
pub(super) fn target(extension: &Extension<'_>, family: Option<Family>) -> (Action, String) {
    let bytes = extension.parameters;
    let named = format!("-j {}", extension.name);
    match extension.name.as_str() {
        "SNAT" => match snat(bytes, extension.revision, family) {
            Some(to @ SnatTo::Addresses(first, last)) if first == last => {
                (Action::Snat(to), format!("{named} --to-source {first}"))
            }
            Some(to @ SnatTo::Addresses(first, last)) => {
                (Action::Snat(to), format!("{named} --to-source {first}-{last}"))
            }
            Some(to) => (Action::Snat(to), named),
            None => (Action::Snat(SnatTo::Unknown), named),
        },
        "CT" => match number(bytes, 0).is_some_and(|flags| flags & CT_NOTRACK != 0) {
            true => (Action::Notrack, format!("{named} --notrack")),
            false => (Action::Continue, named),
        },
        name => (plain_target(name), named),
    }
}

/// What a target does whose parameters make no difference here.
pub(super) fn plain_target(name: &str) -> Action {
    match name {
        "MASQUERADE" => Action::Masquerade,
        "DNAT" | "REDIRECT" | "NETMAP" | "TPROXY" => Action::Translate,
        "NOTRACK" => Action::Notrack,
        "MARK" | "CONNMARK" => Action::SetMark,
        "AUDIT" | "CHECKSUM" | "CLASSIFY" | "DSCP" | "HL" | "LOG" | "NFLOG" | "SET" | "TCPMSS" | "TOS" | "TRACE"
        | "TTL" => Action::Continue,
        _ => Action::Opaque,
    }
}

/// `XT_CT_NOTRACK` of `struct xt_ct_target_info`.
const CT_NOTRACK: u16 = 1;

/// `struct xt_addrtype_info_v1`: source, destination, flags. Of revision 0 the two inversions are numbers behind them.
fn address_types(bytes: &[u8], revision: u32) -> Option<Vec<Test>> {
    const INVERT_SOURCE: u32 = 1;
    const INVERT_DESTINATION: u32 = 2;
    let (source, destination) = (number(bytes, 0)?, number(bytes, 2)?);
    let (invert_source, invert_destination) = match revision {
        0 => (word(bytes, 4)? != 0, word(bytes, 8)? != 0),
        1 => match word(bytes, 4)? {
            flags if flags & !(INVERT_SOURCE | INVERT_DESTINATION) == 0 => {
                (flags & INVERT_SOURCE != 0, flags & INVERT_DESTINATION != 0)
            }
            // Restricted to a link.
            _ => return None,
        },
        _ => return None,
    };
    let types = |types: u16| AddressTypes(u32::from(types));
    let source = (source != 0).then(|| Test { question: Question::SourceType(types(source)), negated: invert_source });
    let destination = (destination != 0)
        .then(|| Test { question: Question::DestinationType(types(destination)), negated: invert_destination });
    Some(source.into_iter().chain(destination).collect())
}

/// `struct xt_mark_mtinfo1`: mark, mask, invert.
fn mark(bytes: &[u8]) -> Option<Vec<Test>> {
    let question = Question::Mark { value: word(bytes, 0)?, mask: word(bytes, 4)? };
    Some(vec![Test { question, negated: *bytes.get(8)? != 0 }])
}

/// `struct xt_tcp`: two source ports, two destination ports, option, two bytes of flags, inversions.
fn tcp(bytes: &[u8]) -> Option<Vec<Test>> {
    const FLAGS_OR_OPTION: u8 = 0x0c;
    let inversions = *bytes.get(11)?;
    let plain = bytes[8] == 0 && bytes[9] == 0 && inversions & FLAGS_OR_OPTION == 0;
    plain.then(|| ports(bytes, inversions))?
}

/// `struct xt_udp`: two source ports, two destination ports, inversions.
fn udp(bytes: &[u8]) -> Option<Vec<Test>> {
    ports(bytes, *bytes.get(8)?)
}

fn ports(bytes: &[u8], inversions: u8) -> Option<Vec<Test>> {
    let test = |offset, bit: u8, question: fn(u16, u16) -> Question| {
        let (first, last) = (number(bytes, offset)?, number(bytes, offset + 2)?);
        let negated = inversions & bit != 0;
        let all = (first, last) == (0, u16::MAX) && !negated;
        Some((!all).then(|| Test { question: question(first, last), negated }))
    };
    Some(test(0, 1, Question::SourcePort)?.into_iter().chain(test(4, 2, Question::DestinationPort)?).collect())
}

/// IPv4, revision 0: `struct nf_nat_ipv4_multi_range_compat`, whose one range has flags and two addresses of 4 bytes. Otherwise
/// `struct nf_nat_range` or `nf_nat_range2`, which begin with flags and two addresses of 16 bytes.
fn snat(bytes: &[u8], revision: u32, family: Option<Family>) -> Option<SnatTo> {
    const MAP_IPS: u32 = 1;
    let (flags, first, last) = match (revision, family?) {
        (0, Family::Ipv4) => (word(bytes, 4)?, bytes.get(8..12)?, bytes.get(12..16)?),
        (1 | 2, Family::Ipv4) => (word(bytes, 0)?, bytes.get(4..8)?, bytes.get(20..24)?),
        (1 | 2, Family::Ipv6) => (word(bytes, 0)?, bytes.get(4..20)?, bytes.get(20..36)?),
        _ => return None,
    };
    let (first, last): (IpAddr, IpAddr) = (address(first)?, address(last)?);
    Some(if flags & MAP_IPS != 0 { SnatTo::Addresses(first, last) } else { SnatTo::Ports })
}

/// A number of 16 bits in the byte order of this machine, as all these structures hold them.
fn number(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..offset + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use nfnetlink::ExtensionKind;

    use super::*;

    fn tests_of(name: &str, revision: u32, parameters: &[u8]) -> Vec<String> {
        let kind = ExtensionKind::Match;
        match condition(&Extension { kind, name: name.to_owned(), revision, parameters }) {
            Condition::Comment(text) => vec![text],
            Condition::Tests(tests) => tests.iter().map(Test::to_string).collect(),
        }
    }

    fn bytes(halves: &[u16], words: &[u32], tail: &[u8]) -> Vec<u8> {
        let halves = halves.iter().flat_map(|half| half.to_ne_bytes());
        halves.chain(words.iter().flat_map(|word| word.to_ne_bytes())).chain(tail.iter().copied()).collect()
    }

    #[test]
    fn address_types_are_read_with_their_inversions() {
        let not_local = ["-m addrtype ! --dst-type LOCAL"];
        assert_eq!(tests_of("addrtype", 1, &bytes(&[0, 4], &[2], &[])), not_local);
        assert_eq!(tests_of("addrtype", 0, &bytes(&[0, 4], &[0, 1], &[])), not_local);
        let both = ["-m addrtype --src-type LOCAL", "-m addrtype --dst-type MULTICAST"];
        assert_eq!(tests_of("addrtype", 1, &bytes(&[4, 32], &[0], &[])), both);
        assert_eq!(tests_of("addrtype", 1, &bytes(&[0, 4], &[4], &[])), ["-m addrtype"], "restricted to a link");
    }

    #[test]
    fn marks_ports_and_comments_are_read() {
        assert_eq!(tests_of("mark", 1, &bytes(&[], &[1, 3], &[1])), ["-m mark ! --mark 0x1/0x3"]);
        assert_eq!(tests_of("udp", 0, &bytes(&[0, 65535, 53, 60], &[], &[2, 0])), ["! --dport 53:60"]);
        assert_eq!(tests_of("tcp", 0, &bytes(&[7, 7, 0, 65535], &[], &[0, 0, 0, 0])), ["--sport 7"]);
        assert_eq!(tests_of("tcp", 0, &bytes(&[7, 7, 0, 65535], &[], &[0, 2, 2, 0])), ["-m tcp"], "it asks for flags");
        assert_eq!(tests_of("comment", 0, b"hello\0\0"), ["hello"]);
    }

    #[test]
    fn what_is_too_short_or_not_known_stays_opaque() {
        for (name, revision) in [("addrtype", 7), ("mark", 9), ("tcp", 0), ("udp", 0), ("mark", 1), ("recent", 0)] {
            assert_eq!(tests_of(name, revision, &[1, 2, 3]), [format!("-m {name}")]);
        }
    }

    #[test]
    fn addresses_are_read_from_every_layout() {
        let action = |revision, family, parameters: &[u8]| {
            let extension = Extension { kind: ExtensionKind::Target, name: "SNAT".to_owned(), revision, parameters };
            target(&extension, Some(family))
        };
        let address = u32::from_ne_bytes([1, 2, 3, 4]);
        let old = action(0, Family::Ipv4, &bytes(&[], &[1, 1, address, address, 0], &[]));
        assert_eq!(old.1, "-j SNAT --to-source 1.2.3.4");
        let wide = action(2, Family::Ipv4, &bytes(&[], &[1, address, 0, 0, 0, address, 0, 0, 0, 0], &[]));
        assert_eq!(wide, old);
        let ports = action(0, Family::Ipv4, &bytes(&[], &[1, 2, 0, 0, 0], &[]));
        assert_eq!(ports.0, Action::Snat(SnatTo::Ports));
        assert_eq!(action(9, Family::Ipv4, &[]).0, Action::Snat(SnatTo::Unknown));
        let ipv6 = action(1, Family::Ipv6, &[&1_u32.to_ne_bytes()[..], &[0xfd; 16], &[0xfd; 16]].concat());
        assert!(matches!(ipv6.0, Action::Snat(SnatTo::Addresses(first, last)) if first == last));
    }

    #[test]
    fn only_a_ct_target_that_asks_for_it_keeps_packets_untracked() {
        let action = |flags: u16| {
            let parameters = &bytes(&[flags, 0], &[], &[]);
            let kind = ExtensionKind::Target;
            target(&Extension { kind, name: "CT".to_owned(), revision: 2, parameters }, None).0
        };
        assert_eq!((action(1), action(0)), (Action::Notrack, Action::Continue));
    }
}
