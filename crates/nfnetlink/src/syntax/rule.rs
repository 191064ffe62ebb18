//! Rules in the language of nft(8): expressions that load registers are folded into the
//! expressions that read them.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::value::{self, Kind};
use crate::expr::{
    ByteOrderOp, CmpOp, CtKey, Expr, FibFlags, FibResult, MetaKey, NatFlags, NatKind, NumgenKind, PayloadBase, RangeOp,
    Register,
};
use crate::object::{ProtocolFamily, Rule};
use crate::wire::Attributes;

/// The rule as nft reads it, without its chain. Expressions that nft's language cannot say, such
/// as those of iptables-nft, appear in a form that nft prints but does not read.
impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::default();
        self.expressions.iter().for_each(|expr| printer.expression(expr));
        f.write_str(&printer.statements.join(" "))?;
        match &self.comment {
            None => Ok(()),
            Some(comment) => write!(f, " comment \"{comment}\""),
        }
    }
}

#[derive(Default)]
struct Printer {
    statements: Vec<String>,
    registers: BTreeMap<Register, Loaded>,
}

/// What a register holds.
#[derive(Debug, Clone)]
enum Loaded {
    /// Something of the packet, and how its values are written.
    Property { text: String, kind: Kind },
    /// Some bits of something of the packet.
    Masked { text: String, kind: Kind, mask: Vec<u8>, xor: Vec<u8> },
    /// A constant.
    Constant(Vec<u8>),
}

impl Printer {
    fn expression(&mut self, expr: &Expr) {
        match expr {
            Expr::Meta { key, dreg } => self.property(*dreg, meta(*key)),
            Expr::Ct { key, dreg, direction } => self.property(*dreg, ct(*key, *direction)),
            Expr::Payload { dreg, base, offset, len } => {
                self.property(*dreg, payload(*base, *offset, *len));
            }
            Expr::Fib { dreg, result, flags } => self.property(*dreg, fib(*result, *flags)),
            Expr::Numgen { dreg, modulus, kind, offset } => {
                self.property(*dreg, numgen(*modulus, *kind, *offset));
            }
            Expr::Immediate { dreg, value } => {
                self.registers.insert(*dreg, Loaded::Constant(value.clone()));
            }
            Expr::Bitwise { sreg, dreg, mask, xor, .. } => self.bitwise(*sreg, *dreg, mask, xor),
            Expr::ByteOrder { sreg, dreg, op, .. } => self.byte_order(*sreg, *dreg, *op),
            Expr::Cmp { sreg, op, value } => self.compare(*sreg, *op, value),
            Expr::Range { sreg, op, from, to } => {
                let (text, kind) = self.source(*sreg);
                let not = if *op == RangeOp::Neq { "!= " } else { "" };
                let (from, to) = (value::text(kind, from), value::text(kind, to));
                self.statements.push(format!("{text} {not}{from}-{to}"));
            }
            Expr::Lookup { sreg, set, invert } => {
                let not = if *invert { "!= " } else { "" };
                let (text, _) = self.source(*sreg);
                self.statements.push(format!("{text} {not}@{set}"));
            }
            Expr::MetaSet { key, sreg } => {
                let (text, kind) = meta(*key);
                let value = self.value(*sreg, kind);
                self.statements.push(format!("{text} set {value}"));
            }
            Expr::Counter { packets: 0, bytes: 0 } => self.statements.push("counter".to_owned()),
            Expr::Counter { packets, bytes } => {
                self.statements.push(format!("counter packets {packets} bytes {bytes}"));
            }
            Expr::CounterRef(name) => self.statements.push(format!("counter name \"{name}\"")),
            Expr::Masquerade { flags, ports } => {
                let to = ports.map(|ports| format!(" to :{}", self.span(ports, Kind::BigEndian)));
                let to = to.unwrap_or_default();
                self.statements.push(format!("masquerade{to}{}", nat_flags(*flags)));
            }
            Expr::Nat { kind, family, addresses, ports, flags } => {
                let statement = self.nat(*kind, *family, (*addresses, *ports));
                self.statements.push(format!("{statement}{}", nat_flags(*flags)));
            }
            Expr::Verdict(verdict) => self.statements.push(verdict.to_string()),
            Expr::Unknown { name, attributes } => self.statements.push(unknown(name, attributes)),
        }
    }

    fn property(&mut self, dreg: Register, (text, kind): (String, Kind)) {
        self.registers.insert(dreg, Loaded::Property { text, kind });
    }

    /// What a register was loaded from and how its values are written.
    fn source(&self, sreg: Register) -> (String, Kind) {
        match self.registers.get(&sreg) {
            Some(Loaded::Property { text, kind }) => (text.clone(), *kind),
            Some(Loaded::Masked { text, kind, mask, xor }) => (masked(text, *kind, mask, xor), *kind),
            Some(Loaded::Constant(bytes)) => (value::text(Kind::BigEndian, bytes), Kind::BigEndian),
            None => (format!("[register {}]", sreg.0), Kind::BigEndian),
        }
    }

    /// What a register holds, where a value is wanted.
    fn value(&self, sreg: Register, kind: Kind) -> String {
        match self.registers.get(&sreg) {
            Some(Loaded::Constant(bytes)) => value::text(kind, bytes),
            Some(Loaded::Property { .. } | Loaded::Masked { .. }) | None => self.source(sreg).0,
        }
    }

    /// A value, or a range of values.
    fn span(&self, (first, last): (Register, Register), kind: Kind) -> String {
        let (from, to) = (self.value(first, kind), self.value(last, kind));
        if first == last { from } else { format!("{from}-{to}") }
    }

    fn bitwise(&mut self, sreg: Register, dreg: Register, mask: &[u8], xor: &[u8]) {
        let (text, kind) = self.source(sreg);
        let (mask, xor) = (mask.to_vec(), xor.to_vec());
        self.registers.insert(dreg, Loaded::Masked { text, kind, mask, xor });
    }

    fn byte_order(&mut self, sreg: Register, dreg: Register, op: ByteOrderOp) {
        let (text, kind) = self.source(sreg);
        let kind = match (op, kind) {
            (ByteOrderOp::Hton, Kind::HostEndian) => Kind::BigEndian,
            (ByteOrderOp::Ntoh, Kind::BigEndian) => Kind::HostEndian,
            (_, other) => other,
        };
        self.property(dreg, (text, kind));
    }

    fn compare(&mut self, sreg: Register, op: CmpOp, bytes: &[u8]) {
        let sign = match op {
            CmpOp::Eq => "",
            CmpOp::Neq => "!= ",
            CmpOp::Lt => "< ",
            CmpOp::Lte => "<= ",
            CmpOp::Gt => "> ",
            CmpOp::Gte => ">= ",
        };
        let statement = match self.registers.get(&sreg) {
            Some(Loaded::Masked { text, kind, mask, xor }) if xor.iter().all(|&byte| byte == 0) => {
                compare_masked(text, *kind, mask, (op, sign), bytes)
            }
            _ => None,
        };
        let statement = statement.unwrap_or_else(|| {
            let (text, kind) = self.source(sreg);
            format!("{text} {sign}{}", value::text(kind, bytes))
        });
        self.push_comparison(op, statement);
    }

    /// nft makes two comparisons of a range; they read better as one.
    fn push_comparison(&mut self, op: CmpOp, statement: String) {
        let merged = || {
            let (text, to) = statement.split_once(" <= ")?;
            let from = self.statements.last()?.strip_prefix(text)?.strip_prefix(" >= ")?;
            Some(format!("{text} {from}-{to}"))
        };
        match merged() {
            Some(range) if op == CmpOp::Lte => {
                self.statements.pop();
                self.statements.push(range);
            }
            _ => self.statements.push(statement),
        }
    }

    fn nat(&self, kind: NatKind, family: ProtocolFamily, (addresses, ports): Spans) -> String {
        let name = match kind {
            NatKind::Snat => "snat",
            NatKind::Dnat => "dnat",
        };
        let len = if family == ProtocolFamily::Ipv6 { 16 } else { 4 };
        let addresses = addresses.map(|span| self.span(span, Kind::Address(len)));
        let ports = ports.map(|span| self.span(span, Kind::BigEndian));
        match (addresses, ports) {
            (None, None) => format!("{name} {family}"),
            (Some(addresses), None) => format!("{name} {family} to {addresses}"),
            (None, Some(ports)) => format!("{name} {family} to :{ports}"),
            (Some(addresses), Some(ports)) if len == 16 => {
                // Brackets keep the colon before the ports apart from those of the address.
                let addresses: Vec<_> = addresses.split('-').map(|address| format!("[{address}]")).collect();
                format!("{name} {family} to {}:{ports}", addresses.join("-"))
            }
            (Some(addresses), Some(ports)) => format!("{name} {family} to {addresses}:{ports}"),
        }
    }
}

/// Registers with the addresses and with the ports of a translation.
type Spans = (Option<(Register, Register)>, Option<(Register, Register)>);

fn meta(key: MetaKey) -> (String, Kind) {
    let (text, kind) = match key {
        MetaKey::MARK => ("meta mark", Kind::Mark),
        MetaKey::IIF => ("iif", Kind::HostEndian),
        MetaKey::OIF => ("oif", Kind::HostEndian),
        MetaKey::IIFNAME => ("iifname", Kind::Interface),
        MetaKey::OIFNAME => ("oifname", Kind::Interface),
        MetaKey::NFPROTO => ("meta nfproto", Kind::Nfproto),
        MetaKey::L4PROTO => ("meta l4proto", Kind::L4proto),
        MetaKey(number) => return (format!("[meta {number}]"), Kind::HostEndian),
    };
    (text.to_owned(), kind)
}

fn ct(key: CtKey, direction: Option<u8>) -> (String, Kind) {
    let (text, kind) = match (key, direction) {
        (CtKey::STATE, None) => ("ct state", Kind::Bits(value::CT_STATE)),
        (CtKey::STATUS, None) => ("ct status", Kind::Bits(value::CT_STATUS)),
        (CtKey::MARK, None) => ("ct mark", Kind::Mark),
        (CtKey(number), _) => return (format!("[ct {number}]"), Kind::HostEndian),
    };
    (text.to_owned(), kind)
}

fn payload(base: PayloadBase, offset: u32, len: u32) -> (String, Kind) {
    let (text, kind) = match (base, offset, len) {
        (PayloadBase::Network, 12, 1..=4) => ("ip saddr", Kind::Address(4)),
        (PayloadBase::Network, 16, 1..=4) => ("ip daddr", Kind::Address(4)),
        (PayloadBase::Network, 8, 5..=16) => ("ip6 saddr", Kind::Address(16)),
        (PayloadBase::Network, 24, 1..=16) => ("ip6 daddr", Kind::Address(16)),
        (PayloadBase::Transport, 0, 2) => ("th sport", Kind::BigEndian),
        (PayloadBase::Transport, 2, 2) => ("th dport", Kind::BigEndian),
        (PayloadBase::Link | PayloadBase::Network | PayloadBase::Transport, _, _) => {
            let header = match base {
                PayloadBase::Link => "ll",
                PayloadBase::Network => "nh",
                PayloadBase::Transport => "th",
            };
            let (offset, len) = (u64::from(offset) * 8, u64::from(len) * 8);
            return (format!("@{header},{offset},{len}"), Kind::BigEndian);
        }
    };
    (text.to_owned(), kind)
}

fn fib(result: FibResult, flags: FibFlags) -> (String, Kind) {
    let named = [
        (FibFlags::SADDR, "saddr"),
        (FibFlags::DADDR, "daddr"),
        (FibFlags::MARK, "mark"),
        (FibFlags::IIF, "iif"),
        (FibFlags::OIF, "oif"),
    ];
    let fields = named.iter().filter(|&&(flag, _)| flags.0 & flag.0 != 0);
    let fields = fields.map(|&(_, name)| name).collect::<Vec<_>>().join(" . ");
    let (result, kind) = match result {
        FibResult::Oif => ("oif", Kind::HostEndian),
        FibResult::OifName => ("oifname", Kind::Interface),
        FibResult::AddressType => ("type", Kind::AddressType),
    };
    (format!("fib {fields} {result}"), kind)
}

fn numgen(modulus: u32, kind: NumgenKind, offset: u32) -> (String, Kind) {
    let kind = match kind {
        NumgenKind::Incremental => "inc",
        NumgenKind::Random => "random",
    };
    let offset = if offset == 0 { String::new() } else { format!(" offset {offset}") };
    (format!("numgen {kind} mod {modulus}{offset}"), Kind::HostEndian)
}

/// A test of some bits, in the short forms that nft has for names of bits and for prefixes.
fn compare_masked(text: &str, kind: Kind, mask: &[u8], (op, sign): (CmpOp, &str), bytes: &[u8]) -> Option<String> {
    match kind {
        Kind::Bits(names) if op == CmpOp::Neq && bytes.iter().all(|&byte| byte == 0) => {
            Some(format!("{text} {}", value::bits(value::host_endian(mask)?, names)))
        }
        Kind::Address(len) if matches!(op, CmpOp::Eq | CmpOp::Neq) && bytes.len() == len => {
            let number = value::big_endian(mask)?;
            let width = 8 * u32::try_from(len).ok()?;
            let prefix = (number << (128 - width)).leading_ones();
            let address = value::text(kind, bytes);
            (number.count_ones() == prefix).then(|| format!("{text} {sign}{address}/{prefix}"))
        }
        _ => {
            let masked = format!("{text} & {}", value::text(kind, mask));
            let sign = if op == CmpOp::Eq { "== " } else { sign };
            Some(format!("{masked} {sign}{}", value::text(kind, bytes)))
        }
    }
}

/// `(text & mask) ^ xor` in its shortest form.
fn masked(text: &str, kind: Kind, mask: &[u8], xor: &[u8]) -> String {
    let all_ones = mask.iter().all(|&byte| byte == 0xff);
    let no_xor = xor.iter().all(|&byte| byte == 0);
    // "or" comes as clearing the bits and flipping them to one.
    let or = mask.iter().zip(xor).all(|(&mask, &xor)| mask == !xor);
    let (mask, xor) = (value::text(kind, mask), value::text(kind, xor));
    match (all_ones, no_xor) {
        (true, true) => text.to_owned(),
        (true, false) => format!("{text} ^ {xor}"),
        (false, true) => format!("{text} & {mask}"),
        (false, false) if or => format!("{text} | {xor}"),
        (false, false) => format!("{text} & {mask} ^ {xor}"),
    }
}

fn nat_flags(flags: NatFlags) -> String {
    let named =
        [(NatFlags::RANDOM, "random"), (NatFlags::FULLY_RANDOM, "fully-random"), (NatFlags::PERSISTENT, "persistent")];
    let names = named.iter().filter(|&&(flag, _)| flags.0 & flag.0 != 0);
    let names: Vec<_> = names.map(|&(_, name)| name).collect();
    if names.is_empty() { String::new() } else { format!(" {}", names.join(",")) }
}

/// An expression without a form in nft's language; those of iptables-nft show their extension.
fn unknown(name: &str, attributes: &[u8]) -> String {
    /// `NFTA_MATCH_NAME` and `NFTA_TARGET_NAME`.
    const EXTENSION: u16 = 1;
    match (name, Attributes(attributes).text(EXTENSION)) {
        ("match" | "target", Some(extension)) => format!("xt {name} \"{extension}\""),
        _ => format!("[{name}]"),
    }
}
