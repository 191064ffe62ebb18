//! Batches and rules in the language of nft(8).

use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::batch::{Batch, Change, Operation};
use crate::expr::Expr;
use crate::object::{
    BaseChain, Chain, Counter, Interval, ObjectKind, ProtocolFamily, Set, SetFlags, Table, TableFlags,
};

mod rule;
mod value;

/// The alternate form shows this many elements of a list and counts the rest.
const SHORT_LIST: usize = 8;

impl Display for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for operation in self.operations() {
            operation.fmt(f)?;
            f.write_str("\n")?;
        }
        Ok(())
    }
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let at = format_args!("{} {}", self.table.family, self.table.name);
        match &self.change {
            Change::AddTable(table) => write!(f, "add table {at}{}", TableBody(table)),
            Change::DeleteTable => write!(f, "delete table {at}"),
            Change::AddChain(chain) => {
                let body = ChainBody { chain, family: self.table.family };
                write!(f, "add chain {at} {}{body}", chain.name)
            }
            Change::DeleteChain { chain } => write!(f, "delete chain {at} {chain}"),
            Change::FlushChain { chain } => write!(f, "flush chain {at} {chain}"),
            Change::AddRule(rule) => write!(f, "add rule {at} {} {rule}", rule.chain),
            Change::InsertRule { rule, before: None } => {
                write!(f, "insert rule {at} {} {rule}", rule.chain)
            }
            Change::InsertRule { rule, before: Some(handle) } => {
                write!(f, "insert rule {at} {} handle {handle} {rule}", rule.chain)
            }
            Change::DeleteRule { chain, handle } => {
                write!(f, "delete rule {at} {chain} handle {handle}")
            }
            Change::AddSet(set) => {
                write!(f, "add {} {at} {}{}", set_or_map(set), set.name, SetBody(set))
            }
            Change::DeleteSet { set } => write!(f, "delete set {at} {set}"),
            Change::FlushSet { set } => write!(f, "flush set {at} {set}"),
            Change::AddElements { set, intervals } => {
                write!(f, "add element {at} {} ", set.name)?;
                elements(f, set, intervals)
            }
            Change::DeleteElements { set, intervals } => {
                write!(f, "delete element {at} {} ", set.name)?;
                elements(f, set, intervals)
            }
            Change::AddCounter(counter) => {
                write!(f, "add counter {at} {}{}", counter.name, CounterBody(counter))
            }
            Change::DeleteObject { kind, name } => write!(f, "delete {kind} {at} {name}"),
            Change::DeleteFlowtable { name } => write!(f, "delete flowtable {at} {name}"),
        }
    }
}

impl Display for ProtocolFamily {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspec => f.write_str("unspec"),
            Self::Inet => f.write_str("inet"),
            Self::Ipv4 => f.write_str("ip"),
            Self::Arp => f.write_str("arp"),
            Self::Netdev => f.write_str("netdev"),
            Self::Bridge => f.write_str("bridge"),
            Self::Ipv6 => f.write_str("ip6"),
            Self::Other(number) => write!(f, "family-{number}"),
        }
    }
}

impl Display for ObjectKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::COUNTER => "counter",
            Self::QUOTA => "quota",
            Self::CT_HELPER => "ct helper",
            Self::LIMIT => "limit",
            Self::CONNLIMIT => "ct count",
            Self::TUNNEL => "tunnel",
            Self::CT_TIMEOUT => "ct timeout",
            Self::SECMARK => "secmark",
            Self::CT_EXPECT => "ct expectation",
            Self::SYNPROXY => "synproxy",
            Self(number) => return write!(f, "object-{number}"),
        })
    }
}

struct TableBody<'a>(&'a Table);

impl Display for TableBody<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named = [(TableFlags::DORMANT, "dormant"), (TableFlags::OWNER, "owner"), (TableFlags::PERSIST, "persist")];
        let names = named.iter().filter(|&&(flag, _)| self.0.flags.contains(flag));
        let names: Vec<_> = names.map(|&(_, name)| name).collect();
        if names.is_empty() {
            return Ok(());
        }
        write!(f, " {{ flags {}; }}", names.join(", "))
    }
}

struct ChainBody<'a> {
    chain: &'a Chain,
    family: ProtocolFamily,
}

impl Display for ChainBody<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(base) = &self.chain.base else { return Ok(()) };
        let hook = hook_name(self.family, base.hook);
        write!(f, " {{ type {} hook {hook} priority {};", base.kind, base.priority)?;
        match base.policy {
            Some(BaseChain::DROP) => f.write_str(" policy drop;")?,
            Some(_) => f.write_str(" policy accept;")?,
            None => {}
        }
        f.write_str(" }")
    }
}

/// Hooks are numbered per family.
fn hook_name(family: ProtocolFamily, hook: u32) -> &'static str {
    match (family, hook) {
        (ProtocolFamily::Netdev, 0) => "ingress",
        (ProtocolFamily::Netdev, _) => "egress",
        (ProtocolFamily::Arp, 0) => "input",
        (ProtocolFamily::Arp, _) => "output",
        (_, BaseChain::PREROUTING) => "prerouting",
        (_, BaseChain::INPUT) => "input",
        (_, BaseChain::FORWARD) => "forward",
        (_, BaseChain::OUTPUT) => "output",
        (_, BaseChain::POSTROUTING) => "postrouting",
        (_, _) => "ingress",
    }
}

fn set_or_map(set: &Set) -> &'static str {
    let map = set.flags.contains(SetFlags::MAP) || set.flags.contains(SetFlags::OBJECT);
    if map { "map" } else { "set" }
}

struct SetBody<'a>(&'a Set);

impl Display for SetBody<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let set = self.0;
        write!(f, " {{ type {}", value::type_name(set.key_type))?;
        match (set.object_kind, set.data_type) {
            (Some(kind), _) => write!(f, " : {kind}")?,
            (None, Some(data_type)) => write!(f, " : {}", value::type_name(data_type))?,
            (None, None) => {}
        }
        f.write_str(";")?;
        let named = [
            (SetFlags::CONSTANT, "constant"),
            (SetFlags::EVAL, "dynamic"),
            (SetFlags::INTERVAL, "interval"),
            (SetFlags::TIMEOUT, "timeout"),
        ];
        let names = named.iter().filter(|&&(flag, _)| set.flags.contains(flag));
        let names: Vec<_> = names.map(|&(_, name)| name).collect();
        if !names.is_empty() {
            write!(f, " flags {};", names.join(", "))?;
        }
        if set.expressions.iter().any(|expression| matches!(expression, Expr::Counter { .. })) {
            f.write_str(" counter;")?;
        }
        if let Some(timeout) = set.timeout {
            write!(f, " timeout {timeout}ms;")?;
        }
        if let Some(size) = set.size {
            write!(f, " size {size};")?;
        }
        f.write_str(" }")
    }
}

struct CounterBody<'a>(&'a Counter);

impl Display for CounterBody<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Counter { packets, bytes, .. } = self.0;
        match (packets, bytes) {
            (0, 0) => Ok(()),
            (packets, bytes) => write!(f, " {{ packets {packets} bytes {bytes} }}"),
        }
    }
}

/// A list of elements in braces; the alternate form is for people and shows the first few.
fn elements(f: &mut Formatter<'_>, set: &Set, intervals: &[Interval]) -> fmt::Result {
    let shown = if f.alternate() { SHORT_LIST } else { usize::MAX }.min(intervals.len());
    f.write_str("{ ")?;
    for (index, &interval) in intervals[..shown].iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{}", Element { interval, key_type: set.key_type, key_len: set.key_len })?;
    }
    match intervals.len() - shown {
        0 => f.write_str(" }"),
        hidden => write!(f, ", ... {hidden} more }}"),
    }
}

/// An element as nft writes it: a prefix where it is one, else a range.
struct Element {
    interval: Interval,
    key_type: u32,
    key_len: u32,
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Interval { first, last } = self.interval;
        let key = |number| Key { number, key_type: self.key_type, key_len: self.key_len };
        let address = matches!(self.key_type, Set::IPV4_ADDR | Set::IPV6_ADDR);
        match prefix_len(self.interval, 8 * self.key_len) {
            _ if first == last => write!(f, "{}", key(first)),
            Some(len) if address => write!(f, "{}/{len}", key(first)),
            _ => write!(f, "{}-{}", key(first), key(last)),
        }
    }
}

/// The prefix length, if the interval is one prefix of numbers of so many bits.
fn prefix_len(interval: Interval, bits: u32) -> Option<u32> {
    let host = interval.first ^ interval.last;
    let host_bits = 128 - host.leading_zeros();
    let aligned = host & interval.first == 0 && host.count_ones() == host_bits;
    aligned.then(|| bits.saturating_sub(host_bits))
}

struct Key {
    number: u128,
    key_type: u32,
    key_len: u32,
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.number.to_be_bytes();
        match (self.key_type, self.key_len, u32::try_from(self.number)) {
            (Set::IPV4_ADDR, 4, Ok(number)) => write!(f, "{}", Ipv4Addr::from(number)),
            (Set::IPV6_ADDR, 16, _) => write!(f, "{}", Ipv6Addr::from(bytes)),
            (Set::IFNAME, 16, _) => write!(f, "{}", value::interface(&bytes)),
            _ => write!(f, "{}", self.number),
        }
    }
}
