//! A policy as nf_tables objects: the agent's one table, written down as a value.

use masq::cidr::Family;
use masq::partition::Partition;
use masq::policy::{Masquerade, Policy};
use masq::ports::Share;
use nfnetlink::expr::{
    ByteOrderOp, CmpOp, Expr, FibFlags, FibResult, MetaKey, NFPROTO_IPV4, NFPROTO_IPV6, NatFlags, NumgenKind,
    PayloadBase, RTN_LOCAL, Register, Verdict,
};
use nfnetlink::object::{BaseChain, Chain, Interval, ProtocolFamily, Rule, Set, Table, TableFlags};

/// The agent's table: `table inet ip-masq-agent`.
pub const TABLE: &str = "ip-masq-agent";

/// Its base chain.
pub const CHAIN: &str = "postrouting";

/// IANA's numbers of tcp, udp and sctp, the protocols whose ports can be chosen.
///
/// Each has rules of its own. A set `{ tcp, udp, sctp }` in a rule would come into being together with the rule, and for a moment
/// packets would find it empty; a set with a name is not enough for `nft -f` to take ports behind it.
const PORT_PROTOCOLS: [u8; 3] = [6, 17, 132];

/// Behind srcnat (100), where kube-proxy, Docker and iptables sit, and systemd-networkd (101), before Calico and firewalld
/// (110): who wants a connection of its own translated has done so by then.
const PRIORITY: i32 = 105;

/// Before srcnat (100): of two chains that translate a connection the first decides, and another's masquerade rule would pick
/// ports outside of ours.
const PRIORITY_WITH_PORTS: i32 = 95;

/// Everything the table is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The table itself.
    pub table: Table,
    /// The sets, which have to be in the kernel before a chain that reads them.
    pub sets: Vec<FilledSet>,
    /// Names of the counters that the rules count connections with. They outlive the rules, so no change resets them.
    pub counters: Vec<String>,
    /// The base chain.
    pub chain: Chain,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
}

/// A set and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledSet {
    /// Name, type and flags.
    pub set: Set,
    /// Disjoint, not adjacent, in ascending order.
    pub elements: Vec<Interval>,
}

impl Desired {
    /// The table that carries a policy out; `protect` sets the flags that keep other programs' hands off it.
    pub fn new(policy: &Policy, protect: bool) -> Desired {
        let flags = if protect { PROTECTED } else { TableFlags::default() };
        let has_ports = !policy.masquerade.to_ports.is_empty();
        let families = || policy.families().map(Partition::family);
        Desired {
            table: Table { flags, ..Table::new(ProtocolFamily::Inet, TABLE) },
            sets: policy.families().map(exempt_set).collect(),
            counters: families().flat_map(|family| [exempt_name(family), masquerade_name(family)]).collect(),
            chain: base_chain(if has_ports { PRIORITY_WITH_PORTS } else { PRIORITY }),
            rules: rules(families(), &policy.masquerade),
        }
    }
}

impl Desired {
    /// The same with a counter for each CIDR: a set of its own, with an element for each run of addresses that the CIDR decides about,
    /// and a rule that does nothing but look into it. The sets that decide stay as they are.
    pub fn with_cidr_counters(mut self, policy: &Policy) -> Desired {
        for partition in policy.families() {
            let family = partition.family();
            let elements = partition.intervals().iter().map(|run| Interval { first: run.first, last: run.last });
            self.sets.push(FilledSet { set: empty_cidr_set(family), elements: elements.collect() });
            let decides = exempt(family);
            let place = self.rules.iter().position(|rule| rule.expressions == decides).unwrap_or_default();
            self.rules.insert(place, rule("count by CIDR", in_set(family, &cidrs_name(family))));
        }
        self
    }

    /// The same without counters for CIDRs; `None` if it has none.
    pub fn without_cidr_counters(&self) -> Option<Desired> {
        let mut without = self.clone();
        for family in Family::ALL {
            let counts = in_set(family, &cidrs_name(family));
            without.sets.retain(|filled| filled.set.name != cidrs_name(family));
            without.rules.retain(|rule| rule.expressions != counts);
        }
        (without != *self).then_some(without)
    }

    /// The same without IPv6; `None` if it has none.
    pub fn without_ipv6(&self) -> Option<Desired> {
        let ours = [exempt_name(Family::Ipv6), masquerade_name(Family::Ipv6), cidrs_name(Family::Ipv6)];
        let mut without = self.clone();
        without.sets.retain(|filled| !ours.contains(&filled.set.name));
        without.counters.retain(|name| !ours.contains(name));
        without.rules.retain(|rule| !rule.expressions.starts_with(&is_family(Family::Ipv6)));
        (without != *self).then_some(without)
    }
}

/// The flags of a table that only its owner may change and that outlives the owner.
pub const PROTECTED: TableFlags = TableFlags::OWNER.with(TableFlags::PERSIST);

/// The name of a family's set of exempt destinations, and of the counter of connections to them.
pub fn exempt_name(family: Family) -> String {
    format!("exempt-{}", suffix(family))
}

/// The name of a family's counter of masqueraded connections.
pub fn masquerade_name(family: Family) -> String {
    format!("masquerade-{}", suffix(family))
}

/// The name of a family's set that counts connections by CIDR.
pub fn cidrs_name(family: Family) -> String {
    format!("cidrs-{}", suffix(family))
}

fn suffix(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

fn exempt_set(destinations: &Partition) -> FilledSet {
    let ranges = destinations.exempt_ranges().into_iter();
    FilledSet {
        set: empty_set(destinations.family()),
        elements: ranges.map(|(first, last)| Interval { first, last }).collect(),
    }
}

/// The set of a family's exempt destinations, without them.
pub(super) fn empty_set(family: Family) -> Set {
    match family {
        Family::Ipv4 => Set::ipv4_intervals(exempt_name(family)),
        Family::Ipv6 => Set::ipv6_intervals(exempt_name(family)),
    }
}

/// The set that counts connections by CIDR, without elements.
pub(in crate::backend) fn empty_cidr_set(family: Family) -> Set {
    match family {
        Family::Ipv4 => Set::ipv4_intervals(cidrs_name(family)).counting(),
        Family::Ipv6 => Set::ipv6_intervals(cidrs_name(family)).counting(),
    }
}

fn base_chain(priority: i32) -> Chain {
    let base =
        BaseChain { kind: "nat".to_owned(), hook: BaseChain::POSTROUTING, priority, policy: Some(BaseChain::ACCEPT) };
    Chain { name: CHAIN.to_owned(), base: Some(base), ..Chain::default() }
}

/// The questions of `masq::verdict::decide`, in its order. IPv6 while it is off is in no rule and leaves by the end of the chain.
fn rules(families: impl Iterator<Item = Family>, masquerade: &Masquerade) -> Vec<Rule> {
    let mut rules = vec![rule("an address of this node", to_local())];
    for family in families {
        rules.push(rule("exempt", exempt(family)));
        for protocol in PORT_PROTOCOLS {
            rules.extend(masquerade.to_ports.shares().map(|share| {
                let within =
                    [port_match(family, protocol, share), masquerade_within(family, share, masquerade.random_fully)];
                rule("masquerade, port of --to-ports", within.concat())
            }));
        }
        rules.push(rule("masquerade", [is_family(family), masquerade_any(family, masquerade.random_fully)].concat()));
    }
    rules
}

fn rule(comment: &str, expressions: Vec<Expr>) -> Rule {
    Rule { chain: CHAIN.to_owned(), expressions, comment: Some(comment.to_owned()), ..Rule::default() }
}

/// `fib daddr type local return`: iptables' `! --dst-type LOCAL` the other way round.
fn to_local() -> Vec<Expr> {
    vec![
        Expr::Fib { dreg: Register::R1, result: FibResult::AddressType, flags: FibFlags::DADDR },
        is_equal(RTN_LOCAL.to_ne_bytes().to_vec()),
        Expr::Verdict(Verdict::Return),
    ]
}

/// `ip daddr @exempt-ipv4 counter name "exempt-ipv4" return`.
fn exempt(family: Family) -> Vec<Expr> {
    let mut expressions = in_set(family, &exempt_name(family));
    expressions.extend([Expr::CounterRef(exempt_name(family)), Expr::Verdict(Verdict::Return)]);
    expressions
}

/// `ip daddr @SET`.
fn in_set(family: Family, set: &str) -> Vec<Expr> {
    let (offset, len) = match family {
        Family::Ipv4 => (16, 4),
        Family::Ipv6 => (24, 16),
    };
    let mut expressions = is_family(family);
    expressions.extend([Expr::Payload { dreg: Register::R1, base: PayloadBase::Network, offset, len }, is_in(set)]);
    expressions
}

/// `meta l4proto tcp`, and `numgen random mod REMAINING < SIZE` where further ranges follow.
fn port_match(family: Family, protocol: u8, share: Share) -> Vec<Expr> {
    let mut expressions = is_family(family);
    expressions.extend([Expr::Meta { key: MetaKey::L4PROTO, dreg: Register::R1 }, is_equal(vec![protocol])]);
    if u64::from(share.size) < share.remaining {
        // Ranges that together hold more than 2^32 ports cannot be drawn from exactly; the first of them get a little less.
        let modulus = u32::try_from(share.remaining).unwrap_or(u32::MAX);
        let numgen = Expr::Numgen { dreg: Register::R1, modulus, kind: NumgenKind::Random, offset: 0 };
        let to_network =
            Expr::ByteOrder { sreg: Register::R1, dreg: Register::R1, op: ByteOrderOp::Hton, len: 4, size: 4 };
        let less = Expr::Cmp { sreg: Register::R1, op: CmpOp::Lt, value: share.size.to_be_bytes().to_vec() };
        expressions.extend([numgen, to_network, less]);
    }
    expressions
}

/// `counter name "masquerade-ipv4" masquerade to :FIRST-LAST`.
fn masquerade_within(family: Family, share: Share, random_fully: bool) -> Vec<Expr> {
    let first = share.range.first.to_be_bytes().to_vec();
    let last = share.range.last.to_be_bytes().to_vec();
    vec![
        Expr::CounterRef(masquerade_name(family)),
        Expr::Immediate { dreg: Register::R1, value: first },
        Expr::Immediate { dreg: Register::R2, value: last },
        Expr::Masquerade { flags: nat_flags(random_fully), ports: Some((Register::R1, Register::R2)) },
    ]
}

/// `counter name "masquerade-ipv4" masquerade`.
fn masquerade_any(family: Family, random_fully: bool) -> Vec<Expr> {
    vec![Expr::CounterRef(masquerade_name(family)), Expr::Masquerade { flags: nat_flags(random_fully), ports: None }]
}

fn nat_flags(random_fully: bool) -> NatFlags {
    if random_fully { NatFlags::FULLY_RANDOM } else { NatFlags::default() }
}

fn is_family(family: Family) -> Vec<Expr> {
    let number = match family {
        Family::Ipv4 => NFPROTO_IPV4,
        Family::Ipv6 => NFPROTO_IPV6,
    };
    vec![Expr::Meta { key: MetaKey::NFPROTO, dreg: Register::R1 }, is_equal(vec![number])]
}

fn is_equal(value: Vec<u8>) -> Expr {
    Expr::Cmp { sreg: Register::R1, op: CmpOp::Eq, value }
}

fn is_in(set: &str) -> Expr {
    Expr::Lookup { sreg: Register::R1, set: set.to_owned(), invert: false }
}
