//! Rules of nf_tables taken apart: registers followed from where they are loaded to where they are compared.

mod compare;

use std::collections::BTreeMap;

use masq::cidr::Family;
use nfnetlink::expr::{
    CmpOp, CtKey, Expr, FibFlags, FibResult, MetaKey, NFPROTO_IPV4, NFPROTO_IPV6, NatKind, PayloadBase, RangeOp,
    Register, Verdict,
};
use nfnetlink::{ExtensionKind, ProtocolFamily};

use self::compare::Property;
pub(super) use self::compare::address;
use super::condition::{Field, Question, Test};
use super::extension;
use super::{Action, Rule, SnatTo};

/// Takes a rule of a table of this family apart. One of iptables-nft is shown as iptables writes it.
pub(super) fn rule(family: ProtocolFamily, is_of_iptables: bool, rule: &nfnetlink::Rule) -> Rule {
    let mut reader = Reader::new(family);
    rule.expressions.iter().for_each(|expr| reader.expression(expr));
    let comment = rule.comment.clone().or(reader.comment);
    let text = if is_of_iptables {
        iptables_text(&rule.chain, &reader.tests, comment.as_deref(), &reader.action, &reader.target)
    } else {
        rule.to_string()
    };
    Rule { tests: reader.tests, action: reader.action, text, comment, is_ours: false }
}

/// What a register holds.
#[derive(Debug, Clone)]
enum Loaded {
    /// Something of the packet, of which some bits count.
    Property { property: Property, mask: Option<Vec<u8>> },
    /// A constant.
    Constant(Vec<u8>),
    /// Something that is not taken apart.
    Other,
}

struct Reader {
    /// The only family whose packets get this far in the rule, where that is known.
    family: Option<Family>,
    registers: BTreeMap<Register, Loaded>,
    tests: Vec<Test>,
    action: Action,
    comment: Option<String>,
    /// How iptables writes the action.
    target: String,
}

impl Reader {
    fn new(family: ProtocolFamily) -> Reader {
        let family = match family {
            ProtocolFamily::Ipv4 => Some(Family::Ipv4),
            ProtocolFamily::Ipv6 => Some(Family::Ipv6),
            ProtocolFamily::Unspec
            | ProtocolFamily::Inet
            | ProtocolFamily::Arp
            | ProtocolFamily::Netdev
            | ProtocolFamily::Bridge
            | ProtocolFamily::Other(_) => None,
        };
        Reader {
            family,
            registers: BTreeMap::new(),
            tests: Vec::new(),
            action: Action::Continue,
            comment: None,
            target: String::new(),
        }
    }

    fn expression(&mut self, expr: &Expr) {
        match expr {
            Expr::Meta { key, dreg } => self.load(*dreg, meta(*key)),
            Expr::Ct { key, dreg, direction } => self.load(*dreg, ct(*key, *direction)),
            Expr::Payload { dreg, base, offset, len } => self.load(*dreg, self.payload(*base, *offset, *len)),
            Expr::Fib { dreg, result, flags } => self.load(*dreg, fib(*result, *flags)),
            Expr::Numgen { dreg, .. } | Expr::ByteOrder { dreg, .. } => self.load(*dreg, None),
            Expr::Bitwise { sreg, dreg, mask, xor, .. } => self.bitwise(*sreg, *dreg, mask, xor),
            Expr::Immediate { dreg, value } => {
                self.registers.insert(*dreg, Loaded::Constant(value.clone()));
            }
            Expr::Cmp { sreg, op, value } => {
                let test = self.compare(*sreg, *op, value);
                self.push(test, expr);
            }
            Expr::Range { sreg, op, from, to } => {
                let test = self.range(*sreg, *op, (from, to));
                self.push(test, expr);
            }
            Expr::Lookup { sreg, set, invert } => {
                let test = self.lookup(*sreg, set, *invert);
                self.push(test, expr);
            }
            Expr::MetaSet { key: MetaKey::MARK, .. } => self.action = Action::SetMark,
            Expr::MetaSet { .. } | Expr::Counter { .. } | Expr::CounterRef(_) => {}
            Expr::Masquerade { .. } => self.action = Action::Masquerade,
            Expr::Nat { kind: NatKind::Snat, addresses, .. } => self.action = Action::Snat(self.snat(*addresses)),
            Expr::Nat { kind: NatKind::Dnat, .. } => self.action = Action::Translate,
            Expr::Verdict(verdict) => self.verdict(verdict),
            Expr::Unknown { name, .. } => self.unknown(name, expr),
        }
    }

    fn load(&mut self, dreg: Register, property: Option<Property>) {
        let loaded = property.map_or(Loaded::Other, |property| Loaded::Property { property, mask: None });
        self.registers.insert(dreg, loaded);
    }

    fn payload(&self, base: PayloadBase, offset: u32, len: u32) -> Option<Property> {
        match (base, self.family, offset, len) {
            (PayloadBase::Network, Some(Family::Ipv4), 12, 1..=4) => {
                Some(Property::Address(Field::Source, Family::Ipv4))
            }
            (PayloadBase::Network, Some(Family::Ipv4), 16, 1..=4) => {
                Some(Property::Address(Field::Destination, Family::Ipv4))
            }
            (PayloadBase::Network, Some(Family::Ipv6), 8, 1..=16) => {
                Some(Property::Address(Field::Source, Family::Ipv6))
            }
            (PayloadBase::Network, Some(Family::Ipv6), 24, 1..=16) => {
                Some(Property::Address(Field::Destination, Family::Ipv6))
            }
            (PayloadBase::Network, Some(Family::Ipv4), 9, 1) => Some(Property::Protocol),
            (PayloadBase::Transport, _, 0, 2) => Some(Property::SourcePort),
            (PayloadBase::Transport, _, 2, 2) => Some(Property::DestinationPort),
            _ => None,
        }
    }

    fn bitwise(&mut self, sreg: Register, dreg: Register, mask: &[u8], xor: &[u8]) {
        let loaded = match self.registers.get(&sreg) {
            Some(Loaded::Property { property, mask: None }) if xor.iter().all(|&byte| byte == 0) => {
                Loaded::Property { property: *property, mask: Some(mask.to_vec()) }
            }
            _ => Loaded::Other,
        };
        self.registers.insert(dreg, loaded);
    }

    fn compare(&mut self, sreg: Register, op: CmpOp, value: &[u8]) -> Option<Test> {
        let Some(Loaded::Property { property, mask }) = self.registers.get(&sreg) else { return None };
        let negated = match op {
            CmpOp::Eq => false,
            CmpOp::Neq => true,
            CmpOp::Lt | CmpOp::Lte | CmpOp::Gt | CmpOp::Gte => {
                return mask.is_none().then(|| compare::half_range(*property, op, value)).flatten();
            }
        };
        if *property == Property::Nfproto && !negated {
            self.family = match value {
                [NFPROTO_IPV4] => Some(Family::Ipv4),
                [NFPROTO_IPV6] => Some(Family::Ipv6),
                _ => None,
            };
            return self.family.map(|family| Test::new(Question::Family(family)));
        }
        compare::equals(*property, mask.as_deref(), value, negated)
    }

    fn range(&self, sreg: Register, op: RangeOp, ends: (&[u8], &[u8])) -> Option<Test> {
        let Some(Loaded::Property { property, mask: None }) = self.registers.get(&sreg) else { return None };
        compare::within(*property, ends, op == RangeOp::Neq)
    }

    fn lookup(&self, sreg: Register, set: &str, negated: bool) -> Option<Test> {
        match self.registers.get(&sreg) {
            Some(Loaded::Property { property: Property::Address(address, _), mask: None }) => {
                Some(Test { question: Question::InSet { address: *address, set: set.to_owned() }, negated })
            }
            _ => None,
        }
    }

    fn push(&mut self, test: Option<Test>, expr: &Expr) {
        self.tests.push(test.unwrap_or_else(|| {
            let rule = nfnetlink::Rule { expressions: vec![expr.clone()], ..nfnetlink::Rule::default() };
            Test::opaque(rule.to_string())
        }));
    }

    fn snat(&self, addresses: Option<(Register, Register)>) -> SnatTo {
        let Some((first, last)) = addresses else { return SnatTo::Ports };
        let constant = |register| match self.registers.get(&register) {
            Some(Loaded::Constant(bytes)) => address(bytes),
            _ => None,
        };
        match (self.registers.get(&first), constant(first), constant(last)) {
            (_, Some(first), Some(last)) => SnatTo::Addresses(first, last),
            (Some(Loaded::Property { property: Property::Address(Field::Source, _), mask: None }), ..)
                if first == last =>
            {
                SnatTo::OwnSource
            }
            _ => SnatTo::Unknown,
        }
    }

    fn verdict(&mut self, verdict: &Verdict) {
        let (action, target) = match verdict {
            Verdict::Accept => (Action::Accept, "-j ACCEPT".to_owned()),
            Verdict::Drop => (Action::Drop, "-j DROP".to_owned()),
            Verdict::Return => (Action::Return, "-j RETURN".to_owned()),
            Verdict::Jump(chain) => (Action::Jump(chain.clone()), format!("-j {chain}")),
            Verdict::Goto(chain) => (Action::Goto(chain.clone()), format!("-g {chain}")),
            Verdict::Continue => return,
        };
        self.action = action;
        self.target = target;
    }

    /// Statements that change nothing about the way of a packet pass; whatever else is not known might be a condition, and may have
    /// loaded any register anew, as a map does.
    fn unknown(&mut self, name: &str, expr: &Expr) {
        if let Some(extension) = expr.extension() {
            match extension.kind {
                ExtensionKind::Match => match extension::condition(&extension) {
                    extension::Condition::Comment(text) => self.comment = Some(text),
                    extension::Condition::Tests(tests) => self.tests.extend(tests),
                },
                ExtensionKind::Target => {
                    (self.action, self.target) = extension::target(&extension, self.family);
                }
            }
            return;
        }
        self.registers.clear();
        match name {
            "notrack" => self.action = Action::Notrack,
            "log" | "last" | "objref" => {}
            "redir" | "tproxy" => self.action = Action::Translate,
            // A map of verdicts is a lookup too.
            "lookup" | "queue" | "nat" | "masq" | "immediate" | "dup" | "fwd" => self.action = Action::Opaque,
            _ => self.push(None, expr),
        }
    }
}

fn meta(key: MetaKey) -> Option<Property> {
    match key {
        MetaKey::MARK => Some(Property::Mark),
        MetaKey::IIFNAME => Some(Property::Input),
        MetaKey::OIFNAME => Some(Property::Output),
        MetaKey::IIF => Some(Property::InputIndex),
        MetaKey::OIF => Some(Property::OutputIndex),
        MetaKey::NFPROTO => Some(Property::Nfproto),
        MetaKey::L4PROTO => Some(Property::Protocol),
        MetaKey(_) => None,
    }
}

fn ct(key: CtKey, direction: Option<u8>) -> Option<Property> {
    match (key, direction) {
        (CtKey::STATE, None) => Some(Property::State),
        (CtKey::STATUS, None) => Some(Property::Status),
        _ => None,
    }
}

fn fib(result: FibResult, flags: FibFlags) -> Option<Property> {
    match (result, flags) {
        (FibResult::AddressType, FibFlags::SADDR) => Some(Property::Type(Field::Source)),
        (FibResult::AddressType, FibFlags::DADDR) => Some(Property::Type(Field::Destination)),
        _ => None,
    }
}

/// A rule of iptables-nft as its own program would show it, but for extensions that are not taken apart.
fn iptables_text(chain: &str, tests: &[Test], comment: Option<&str>, action: &Action, target: &str) -> String {
    let mut words = vec![format!("-A {chain}")];
    words.extend(tests.iter().map(Test::to_string));
    words.extend(comment.map(|text| format!("-m comment --comment {text:?}")));
    let target = match (target, action) {
        ("", Action::Masquerade) => "-j MASQUERADE",
        ("", Action::SetMark) => "-j MARK",
        (target, _) => target,
    };
    words.extend((!target.is_empty()).then(|| target.to_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests;
