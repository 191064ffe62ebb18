//! Expressions to netlink attributes.

use crate::expr::{Expr, NatFlags, PayloadBase, Register, Verdict};
use crate::uapi;
use crate::wire::Writer;

/// The expressions as list elements.
pub(crate) fn put_expressions(writer: &mut Writer, expressions: &[Expr]) {
    for expr in expressions {
        writer.nest(uapi::NFTA_LIST_ELEM, |writer| {
            writer.put_text(uapi::NFTA_EXPR_NAME, name(expr));
            writer.nest(uapi::NFTA_EXPR_DATA, |writer| put_attributes(writer, expr));
        });
    }
}

fn name(expr: &Expr) -> &str {
    match expr {
        Expr::Meta { .. } | Expr::MetaSet { .. } => "meta",
        Expr::Ct { .. } => "ct",
        Expr::Payload { .. } => "payload",
        Expr::Fib { .. } => "fib",
        Expr::Cmp { .. } => "cmp",
        Expr::Range { .. } => "range",
        Expr::Lookup { .. } => "lookup",
        Expr::Bitwise { .. } => "bitwise",
        Expr::ByteOrder { .. } => "byteorder",
        Expr::Numgen { .. } => "numgen",
        Expr::Immediate { .. } | Expr::Verdict(_) => "immediate",
        Expr::Counter { .. } => "counter",
        Expr::CounterRef(_) => "objref",
        Expr::Masquerade { .. } => "masq",
        Expr::Nat { .. } => "nat",
        Expr::Unknown { name, .. } => name,
    }
}

fn put_attributes(writer: &mut Writer, expr: &Expr) {
    match expr {
        Expr::Meta { key, dreg } => {
            put_numbers(writer, &[(uapi::NFTA_META_KEY, key.0), (uapi::NFTA_META_DREG, dreg.0)]);
        }
        Expr::MetaSet { key, sreg } => {
            put_numbers(writer, &[(uapi::NFTA_META_KEY, key.0), (uapi::NFTA_META_SREG, sreg.0)]);
        }
        Expr::Ct { key, dreg, direction } => {
            put_numbers(writer, &[(uapi::NFTA_CT_KEY, key.0), (uapi::NFTA_CT_DREG, dreg.0)]);
            if let Some(direction) = direction {
                writer.put_u8(uapi::NFTA_CT_DIRECTION, *direction);
            }
        }
        Expr::Payload { dreg, base, offset, len } => {
            put_numbers(writer, &payload(*dreg, *base, *offset, *len));
        }
        Expr::Fib { dreg, result, flags } => {
            let result = (uapi::NFTA_FIB_RESULT, result.number());
            put_numbers(writer, &[(uapi::NFTA_FIB_FLAGS, flags.0), result, (uapi::NFTA_FIB_DREG, dreg.0)]);
        }
        Expr::Cmp { sreg, op, value } => {
            put_numbers(writer, &[(uapi::NFTA_CMP_SREG, sreg.0), (uapi::NFTA_CMP_OP, op.number())]);
            writer.put_value(uapi::NFTA_CMP_DATA, value);
        }
        Expr::Range { sreg, op, from, to } => {
            put_numbers(writer, &[(uapi::NFTA_RANGE_SREG, sreg.0), (uapi::NFTA_RANGE_OP, op.number())]);
            writer.put_value(uapi::NFTA_RANGE_FROM_DATA, from);
            writer.put_value(uapi::NFTA_RANGE_TO_DATA, to);
        }
        Expr::Lookup { sreg, set, invert } => {
            writer.put_u32(uapi::NFTA_LOOKUP_SREG, sreg.0);
            writer.put_text(uapi::NFTA_LOOKUP_SET, set);
            if *invert {
                writer.put_u32(uapi::NFTA_LOOKUP_FLAGS, uapi::NFT_LOOKUP_F_INV);
            }
        }
        Expr::Bitwise { sreg, dreg, len, mask, xor } => {
            let registers = [(uapi::NFTA_BITWISE_SREG, sreg.0), (uapi::NFTA_BITWISE_DREG, dreg.0)];
            put_numbers(writer, &registers);
            writer.put_u32(uapi::NFTA_BITWISE_LEN, *len);
            writer.put_value(uapi::NFTA_BITWISE_MASK, mask);
            writer.put_value(uapi::NFTA_BITWISE_XOR, xor);
        }
        Expr::ByteOrder { sreg, dreg, op, len, size } => {
            let registers = [(uapi::NFTA_BYTEORDER_SREG, sreg.0), (uapi::NFTA_BYTEORDER_DREG, dreg.0)];
            put_numbers(writer, &registers);
            let lens = [(uapi::NFTA_BYTEORDER_LEN, *len), (uapi::NFTA_BYTEORDER_SIZE, *size)];
            writer.put_u32(uapi::NFTA_BYTEORDER_OP, op.number());
            put_numbers(writer, &lens);
        }
        Expr::Numgen { dreg, modulus, kind, offset } => {
            put_numbers(writer, &[(uapi::NFTA_NG_DREG, dreg.0), (uapi::NFTA_NG_MODULUS, *modulus)]);
            put_numbers(writer, &[(uapi::NFTA_NG_TYPE, kind.number()), (uapi::NFTA_NG_OFFSET, *offset)]);
        }
        Expr::Immediate { dreg, value } => {
            writer.put_u32(uapi::NFTA_IMMEDIATE_DREG, dreg.0);
            writer.put_value(uapi::NFTA_IMMEDIATE_DATA, value);
        }
        Expr::Counter { packets: 0, bytes: 0 } => {}
        Expr::Counter { packets, bytes } => {
            writer.put_u64(uapi::NFTA_COUNTER_BYTES, *bytes);
            writer.put_u64(uapi::NFTA_COUNTER_PACKETS, *packets);
        }
        Expr::CounterRef(counter) => {
            writer.put_u32(uapi::NFTA_OBJREF_IMM_TYPE, uapi::NFT_OBJECT_COUNTER);
            writer.put_bare_text(uapi::NFTA_OBJREF_IMM_NAME, counter);
        }
        Expr::Masquerade { flags, ports } => {
            put_nat_flags(writer, uapi::NFTA_MASQ_FLAGS, *flags, ports.is_some());
            if let Some((min, max)) = ports {
                put_pair(writer, uapi::NFTA_MASQ_REG_PROTO_MIN, uapi::NFTA_MASQ_REG_PROTO_MAX, *min, *max);
            }
        }
        Expr::Nat { kind, family, addresses, ports, flags } => {
            let family = (uapi::NFTA_NAT_FAMILY, u32::from(family.number()));
            put_numbers(writer, &[(uapi::NFTA_NAT_TYPE, kind.number()), family]);
            if let Some((min, max)) = addresses {
                put_pair(writer, uapi::NFTA_NAT_REG_ADDR_MIN, uapi::NFTA_NAT_REG_ADDR_MAX, *min, *max);
            }
            if let Some((min, max)) = ports {
                put_pair(writer, uapi::NFTA_NAT_REG_PROTO_MIN, uapi::NFTA_NAT_REG_PROTO_MAX, *min, *max);
            }
            put_nat_flags(writer, uapi::NFTA_NAT_FLAGS, *flags, ports.is_some());
        }
        Expr::Verdict(verdict) => put_verdict(writer, verdict),
        Expr::Unknown { attributes, .. } => writer.put_raw(attributes),
    }
}

fn put_numbers(writer: &mut Writer, numbers: &[(u16, u32)]) {
    for &(attribute, number) in numbers {
        writer.put_u32(attribute, number);
    }
}

fn payload(dreg: Register, base: PayloadBase, offset: u32, len: u32) -> [(u16, u32); 4] {
    [
        (uapi::NFTA_PAYLOAD_DREG, dreg.0),
        (uapi::NFTA_PAYLOAD_BASE, base.number()),
        (uapi::NFTA_PAYLOAD_OFFSET, offset),
        (uapi::NFTA_PAYLOAD_LEN, len),
    ]
}

/// Two registers; a single value is said once, as nft does.
fn put_pair(writer: &mut Writer, first: u16, second: u16, min: Register, max: Register) {
    writer.put_u32(first, min.0);
    if min != max {
        writer.put_u32(second, max.0);
    }
}

/// Flags, together with the bit that says that ports are given; left out when there are none.
fn put_nat_flags(writer: &mut Writer, attribute: u16, flags: NatFlags, ports: bool) {
    let implied = if ports { uapi::NF_NAT_RANGE_PROTO_SPECIFIED } else { 0 };
    if flags.0 | implied != 0 {
        writer.put_u32(attribute, flags.0 | implied);
    }
}

fn put_verdict(writer: &mut Writer, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Accept => (uapi::NF_ACCEPT, None),
        Verdict::Drop => (uapi::NF_DROP, None),
        Verdict::Continue => (uapi::NFT_CONTINUE, None),
        Verdict::Return => (uapi::NFT_RETURN, None),
        Verdict::Jump(chain) => (uapi::NFT_JUMP, Some(chain)),
        Verdict::Goto(chain) => (uapi::NFT_GOTO, Some(chain)),
    };
    writer.put_u32(uapi::NFTA_IMMEDIATE_DREG, Register::VERDICT.0);
    writer.nest(uapi::NFTA_IMMEDIATE_DATA, |writer| {
        writer.nest(uapi::NFTA_DATA_VERDICT, |writer| {
            writer.put(uapi::NFTA_VERDICT_CODE, &code.to_be_bytes());
            if let Some(chain) = chain {
                writer.put_text(uapi::NFTA_VERDICT_CHAIN, chain);
            }
        });
    });
}
