//! The conditions of rules, of whichever stack, and whether a packet meets them: yes, no, or that cannot be told.

mod packet;
mod protocol;
mod text;

use std::net::IpAddr;

use masq::cidr::{Family, number};

pub use self::packet::{AddressTypes, Link, Packet};
pub use self::protocol::{protocol_name, protocol_number};

/// Whether a packet meets a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Answer {
    /// It does not.
    #[default]
    No,
    /// It depends on what is not known.
    Maybe,
    /// It does.
    Yes,
}

impl Answer {
    fn of(known: bool) -> Answer {
        if known { Answer::Yes } else { Answer::No }
    }

    fn of_option(known: Option<bool>) -> Answer {
        known.map_or(Answer::Maybe, Answer::of)
    }

    fn negated(self) -> Answer {
        match self {
            Answer::No => Answer::Yes,
            Answer::Maybe => Answer::Maybe,
            Answer::Yes => Answer::No,
        }
    }
}

/// One condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// What is asked.
    pub question: Question,
    /// Whether packets for which the answer is no are meant.
    pub negated: bool,
}

/// What a condition asks of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Is its source in this block?
    Source(Span),
    /// Is its destination in this block?
    Destination(Span),
    /// Did it come in by such a link?
    Input(LinkName),
    /// Does it leave by such a link?
    Output(LinkName),
    /// Is this its transport protocol?
    Protocol(u8),
    /// Is its source port between these, both included?
    SourcePort(u16, u16),
    /// Is its destination port between these, both included?
    DestinationPort(u16, u16),
    /// Is its source address of one of these types?
    SourceType(AddressTypes),
    /// Is its destination address of one of these types?
    DestinationType(AddressTypes),
    /// Is this its mark, under this mask?
    Mark {
        /// The mark's bits.
        value: u32,
        /// The bits that count.
        mask: u32,
    },
    /// Has its connection one of these states (nf_tables' bits)?
    State(u32),
    /// Has its connection one of these status bits (`IPS_`)?
    Status(u32),
    /// Is it of this family?
    Family(Family),
    /// Is one of its addresses in this set of the rule's table?
    InSet {
        /// Which address.
        address: Field,
        /// The set's name.
        set: String,
    },
    /// Something that is not taken apart; the text says what, as far as that is known.
    Opaque(String),
}

/// An address of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// Addresses of one family from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Their family.
    pub family: Family,
    /// The lowest, as a number.
    pub first: u128,
    /// The highest, as a number.
    pub last: u128,
}

impl Span {
    /// The block of addresses that share the first `prefix_len` bits with `address`.
    pub fn block(family: Family, address: u128, prefix_len: u32) -> Span {
        let hosts = family.max().checked_shr(prefix_len).unwrap_or(0);
        Span { family, first: address & family.max() & !hosts, last: address & family.max() | hosts }
    }

    fn holds(self, address: IpAddr) -> bool {
        self.family == Family::of(address) && (self.first..=self.last).contains(&number(address))
    }

    /// The prefix length, if these addresses are a block.
    fn prefix_len(self) -> Option<u32> {
        let hosts = self.last.checked_sub(self.first)?;
        let is_block = hosts & hosts.wrapping_add(1) == 0 && self.first & hosts == 0;
        is_block.then(|| u32::from(self.family.bits()) - hosts.count_ones())
    }
}

/// How a rule names a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkName {
    /// By its whole name.
    Name(String),
    /// By the beginning of its name.
    Prefix(String),
    /// By its number.
    Index(u32),
}

impl LinkName {
    fn matches(&self, link: &Link) -> bool {
        match self {
            LinkName::Name(name) => link.name == *name,
            LinkName::Prefix(prefix) => link.name.starts_with(prefix.as_str()),
            LinkName::Index(index) => link.index == *index,
        }
    }
}

/// What is taken to be true of a packet on its way, beyond what it was at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assumed {
    /// The packet's mark; `None` once a rule has set one that is not known.
    pub mark: Option<u32>,
}

/// State bits of nf_tables that a first packet has: `new`.
const NEW: u32 = 8;

impl Test {
    /// A test that asks and does not negate.
    pub fn new(question: Question) -> Test {
        Test { question, negated: false }
    }

    /// A condition that is not taken apart.
    pub fn opaque(text: impl Into<String>) -> Test {
        Test::new(Question::Opaque(text.into()))
    }

    /// Whether the packet meets the condition. `set` answers whether an address is in a set, where that can be found out.
    pub fn answer(
        &self,
        packet: &Packet,
        assumed: Assumed,
        set: &mut dyn FnMut(&str, IpAddr) -> Option<bool>,
    ) -> Answer {
        let answer = self.question.answer(packet, assumed, set);
        if self.negated { answer.negated() } else { answer }
    }
}

impl Question {
    fn answer(&self, packet: &Packet, assumed: Assumed, set: &mut dyn FnMut(&str, IpAddr) -> Option<bool>) -> Answer {
        let port = |port: Option<u16>, first, last| Answer::of_option(port.map(|port| (first..=last).contains(&port)));
        match self {
            Question::Source(span) => Answer::of(span.holds(packet.source)),
            Question::Destination(span) => Answer::of(span.holds(packet.destination)),
            Question::Input(name) => Answer::of(packet.input.as_ref().is_some_and(|link| name.matches(link))),
            Question::Output(name) => Answer::of_option(packet.output.as_ref().map(|link| name.matches(link))),
            Question::Protocol(number) => Answer::of_option(packet.protocol.map(|known| known == *number)),
            Question::SourcePort(first, last) => port(packet.source_port, *first, *last),
            Question::DestinationPort(first, last) => port(packet.destination_port, *first, *last),
            Question::SourceType(types) => Answer::of(packet.source_type.0 & types.0 != 0),
            Question::DestinationType(types) => Answer::of(packet.destination_type.0 & types.0 != 0),
            Question::Mark { value, mask } => Answer::of_option(assumed.mark.map(|mark| mark & mask == *value)),
            Question::State(bits) => Answer::of(bits & NEW != 0),
            Question::Status(_) => Answer::No,
            Question::Family(family) => Answer::of(Family::of(packet.destination) == *family),
            Question::InSet { address: Field::Source, set: name } => Answer::of_option(set(name, packet.source)),
            Question::InSet { address: Field::Destination, set: name } => {
                Answer::of_option(set(name, packet.destination))
            }
            Question::Opaque(_) => Answer::Maybe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;

    fn answer(question: Question) -> Answer {
        Test::new(question).answer(&packet(), Assumed { mark: Some(0) }, &mut |_, _| None)
    }

    #[test]
    fn what_is_known_of_a_packet_is_answered_and_the_rest_is_left_open() {
        let source = Question::Source(Span::block(Family::Ipv4, 0x0af4_0000, 24));
        assert_eq!(answer(source.clone()), Answer::Yes);
        assert_eq!(answer(Question::Destination(Span::block(Family::Ipv4, 0x0af4_0000, 24))), Answer::No);
        assert_eq!(answer(Question::Output(LinkName::Prefix("e".to_owned()))), Answer::Yes);
        assert_eq!(answer(Question::Input(LinkName::Index(3))), Answer::No);
        assert_eq!(answer(Question::DestinationPort(1, 53)), Answer::Yes);
        assert_eq!(answer(Question::SourcePort(1, 53)), Answer::Maybe);
        assert_eq!(answer(Question::Mark { value: 0x4000, mask: 0x4000 }), Answer::No);
        assert_eq!(answer(Question::Opaque("-m recent".to_owned())), Answer::Maybe);
        let not = |question| Test { question, negated: true };
        let mut none = |_: &str, _| None;
        let assumed = Assumed { mark: None };
        assert_eq!(not(source).answer(&packet(), assumed, &mut none), Answer::No);
        assert_eq!(not(Question::Mark { value: 1, mask: 1 }).answer(&packet(), assumed, &mut none), Answer::Maybe);
    }

    #[test]
    fn nothing_is_outside_the_block_of_all_addresses() {
        let never = Test { question: Question::Destination(Span::block(Family::Ipv4, 0, 0)), negated: true };
        assert_eq!(never.answer(&packet(), Assumed { mark: Some(0) }, &mut |_, _| None), Answer::No);
        assert_eq!(never.to_string(), "! -d 0.0.0.0/0");
    }

    #[test]
    fn blocks_hosts_and_ranges_are_written_as_such() {
        assert_eq!(Span::block(Family::Ipv4, 0x0a00_0001, 32).to_string(), "10.0.0.1");
        assert_eq!(Span::block(Family::Ipv6, 0xfd << 120, 8).to_string(), "fd00::/8");
        let range = Span { family: Family::Ipv4, first: 0x0a00_0001, last: 0x0a00_0003 };
        assert_eq!(range.to_string(), "10.0.0.1-10.0.0.3");
        assert_eq!(
            Test::new(Question::DestinationType(AddressTypes(4 | 32))).to_string(),
            "-m addrtype --dst-type LOCAL,MULTICAST"
        );
    }
}
