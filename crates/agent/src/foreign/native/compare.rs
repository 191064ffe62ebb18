//! Comparisons of what rules load from packets with constants, as conditions; `None` for what is not taken apart.

use std::net::IpAddr;

use masq::cidr::Family;
use nfnetlink::expr::CmpOp;

use crate::foreign::condition::{AddressTypes, Field, LinkName, Question, Span, Test};

/// What rules load from packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    Address(Field, Family),
    Protocol,
    SourcePort,
    DestinationPort,
    Input,
    Output,
    InputIndex,
    OutputIndex,
    Type(Field),
    Mark,
    State,
    Status,
    Nfproto,
}

/// Whether a property, or those of its bits that the mask has, is a value.
pub(super) fn equals(property: Property, mask: Option<&[u8]>, value: &[u8], negated: bool) -> Option<Test> {
    let bits = || Some((host_endian(mask?)?, host_endian(value)?));
    let question = match (property, mask) {
        (Property::Address(field, family), _) => of_address(field, block(family, mask, value)?),
        (Property::Mark, _) => {
            Question::Mark { value: host_endian(value)?, mask: mask.map_or(Some(u32::MAX), host_endian)? }
        }
        // `ct state new` is: some of these bits, that is not none of them.
        (Property::State | Property::Status, Some(_)) => {
            let (mask, 0) = bits()? else { return None };
            let question = if property == Property::State { Question::State(mask) } else { Question::Status(mask) };
            return Some(Test { question, negated: !negated });
        }
        (Property::Protocol, None) => Question::Protocol(*value.first().filter(|_| value.len() == 1)?),
        (Property::SourcePort, None) => Question::SourcePort(port(value)?, port(value)?),
        (Property::DestinationPort, None) => Question::DestinationPort(port(value)?, port(value)?),
        (Property::Input, None) => Question::Input(link(value)?),
        (Property::Output, None) => Question::Output(link(value)?),
        (Property::InputIndex, None) => Question::Input(LinkName::Index(host_endian(value)?)),
        (Property::OutputIndex, None) => Question::Output(LinkName::Index(host_endian(value)?)),
        (Property::Type(field), None) => {
            let types = AddressTypes(1_u32.checked_shl(host_endian(value)?)?);
            match field {
                Field::Source => Question::SourceType(types),
                Field::Destination => Question::DestinationType(types),
            }
        }
        _ => return None,
    };
    Some(Test { question, negated })
}

/// Whether a property is on one side of a bound.
pub(super) fn half_range(property: Property, op: CmpOp, value: &[u8]) -> Option<Test> {
    let bound = big_endian(value)?;
    let negated = matches!(op, CmpOp::Gt | CmpOp::Lt);
    let upwards = matches!(op, CmpOp::Gte | CmpOp::Lt);
    let ports = |question: fn(u16, u16) -> Question| {
        let bound = port(value)?;
        Some(if upwards { question(bound, u16::MAX) } else { question(0, bound) })
    };
    let question = match property {
        Property::Address(field, family) if value.len() * 8 == usize::from(family.bits()) => {
            let (first, last) = if upwards { (bound, family.max()) } else { (0, bound) };
            of_address(field, Span { family, first, last })
        }
        Property::SourcePort => ports(Question::SourcePort)?,
        Property::DestinationPort => ports(Question::DestinationPort)?,
        _ => return None,
    };
    Some(Test { question, negated })
}

/// Whether a property is between two values, both included.
pub(super) fn within(property: Property, (from, to): (&[u8], &[u8]), negated: bool) -> Option<Test> {
    let question = match property {
        Property::Address(field, family) => {
            let whole = |bytes: &[u8]| bytes.len() * 8 == usize::from(family.bits());
            let span = Span { family, first: big_endian(from)?, last: big_endian(to)? };
            (whole(from) && whole(to)).then_some(of_address(field, span))?
        }
        Property::SourcePort => Question::SourcePort(port(from)?, port(to)?),
        Property::DestinationPort => Question::DestinationPort(port(from)?, port(to)?),
        _ => return None,
    };
    Some(Test { question, negated })
}

fn of_address(field: Field, span: Span) -> Question {
    match field {
        Field::Source => Question::Source(span),
        Field::Destination => Question::Destination(span),
    }
}

/// The block that an address is compared with: its first bytes, or the bits of a mask, if those are its first ones.
fn block(family: Family, mask: Option<&[u8]>, value: &[u8]) -> Option<Span> {
    let bits = u32::from(family.bits());
    let loaded = 8 * u32::try_from(value.len()).ok()?;
    let missing = bits.checked_sub(loaded)?;
    let address = big_endian(value)?.checked_shl(missing).unwrap_or(0);
    let Some(mask) = mask else { return Some(Span::block(family, address, loaded)) };
    let mask = big_endian(mask).filter(|_| mask.len() == value.len())?.checked_shl(missing).unwrap_or(0);
    let prefix_len = (mask << (128 - bits)).leading_ones();
    let is_prefix = mask.count_ones() == prefix_len;
    is_prefix.then(|| Span::block(family, address, prefix_len))
}

/// Without a NUL it is the beginning of a name.
fn link(value: &[u8]) -> Option<LinkName> {
    let end = value.iter().position(|&byte| byte == 0);
    let name = String::from_utf8(value[..end.unwrap_or(value.len())].to_vec()).ok()?;
    Some(if end.is_some() || value.len() == 16 { LinkName::Name(name) } else { LinkName::Prefix(name) })
}

/// The address of 4 or 16 bytes.
pub(in crate::foreign) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn port(bytes: &[u8]) -> Option<u16> {
    bytes.try_into().ok().map(u16::from_be_bytes)
}

fn host_endian(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

fn big_endian(bytes: &[u8]) -> Option<u128> {
    (bytes.len() <= 16).then(|| bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
}
