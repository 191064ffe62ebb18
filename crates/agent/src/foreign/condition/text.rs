//! Conditions as iptables writes them, which is short and widely known.

use std::fmt;

use super::{Field, LinkName, Question, Span, Test, protocol_name};

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.negated { "! " } else { "" };
        match &self.question {
            Question::Source(span) => write!(f, "{not}-s {span}"),
            Question::Destination(span) => write!(f, "{not}-d {span}"),
            Question::Input(link) => write!(f, "{not}-i {link}"),
            Question::Output(link) => write!(f, "{not}-o {link}"),
            Question::Protocol(number) => write!(f, "{not}-p {}", protocol_name(*number)),
            Question::SourcePort(first, last) => write!(f, "{not}--sport {}", Ports(*first, *last)),
            Question::DestinationPort(first, last) => write!(f, "{not}--dport {}", Ports(*first, *last)),
            Question::SourceType(types) => write!(f, "-m addrtype {not}--src-type {types}"),
            Question::DestinationType(types) => write!(f, "-m addrtype {not}--dst-type {types}"),
            Question::Mark { value, mask } => write!(f, "-m mark {not}--mark {value:#x}/{mask:#x}"),
            Question::State(bits) => write!(f, "{not}ct state {bits:#x}"),
            Question::Status(bits) => write!(f, "{not}ct status {bits:#x}"),
            Question::Family(family) => write!(f, "{not}{family}"),
            Question::InSet { address: Field::Source, set } => write!(f, "{not}-s @{set}"),
            Question::InSet { address: Field::Destination, set } => write!(f, "{not}-d @{set}"),
            Question::Opaque(text) => write!(f, "{not}{text}"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.family.address(self.first);
        match self.prefix_len() {
            Some(prefix_len) if prefix_len == u32::from(self.family.bits()) => first.fmt(f),
            Some(prefix_len) => write!(f, "{first}/{prefix_len}"),
            None => write!(f, "{first}-{}", self.family.address(self.last)),
        }
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkName::Name(name) => f.write_str(name),
            LinkName::Prefix(prefix) => write!(f, "{prefix}+"),
            LinkName::Index(index) => write!(f, "link {index}"),
        }
    }
}

/// Ports as iptables writes them.
struct Ports(u16, u16);

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 { self.0.fmt(f) } else { write!(f, "{}:{}", self.0, self.1) }
    }
}
