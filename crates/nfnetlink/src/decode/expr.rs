//! Netlink attributes to expressions; what loses something on the way stays as attributes.

use crate::expr::{
    ByteOrderOp, CmpOp, CtKey, Expr, FibFlags, FibResult, MetaKey, NatFlags, NatKind, NumgenKind, PayloadBase, RangeOp,
    Register, Verdict,
};
use crate::object::ProtocolFamily;
use crate::uapi;
use crate::wire::Attributes;

/// The expressions of a list.
pub(crate) fn expressions(list: Attributes<'_>) -> Vec<Expr> {
    list.iter().map(|(_, element)| expression(Attributes(element))).collect()
}

/// One expression: known when each of its attributes has a place in the typed form.
pub(crate) fn expression(element: Attributes<'_>) -> Expr {
    let name = element.text(uapi::NFTA_EXPR_NAME).unwrap_or_default();
    let attributes = element.nested(uapi::NFTA_EXPR_DATA).unwrap_or_default();
    known(&name, attributes).unwrap_or_else(|| Expr::Unknown { name, attributes: attributes.0.to_vec() })
}

fn known(name: &str, attributes: Attributes<'_>) -> Option<Expr> {
    match name {
        "meta" => meta(attributes),
        "ct" => ct(attributes),
        "payload" => payload(attributes),
        "fib" => fib(attributes),
        "cmp" => cmp(attributes),
        "range" => range(attributes),
        "lookup" => lookup(attributes),
        "bitwise" => bitwise(attributes),
        "byteorder" => byteorder(attributes),
        "numgen" => numgen(attributes),
        "immediate" => immediate(attributes),
        "counter" => counter(attributes),
        "objref" => counter_ref(attributes),
        "masq" => masquerade(attributes),
        "nat" => nat(attributes),
        _ => None,
    }
}

fn meta(attributes: Attributes<'_>) -> Option<Expr> {
    let key = MetaKey(attributes.u32(uapi::NFTA_META_KEY)?);
    if attributes.only(&[uapi::NFTA_META_KEY, uapi::NFTA_META_DREG]) {
        return Some(Expr::Meta { key, dreg: register(attributes, uapi::NFTA_META_DREG)? });
    }
    if attributes.only(&[uapi::NFTA_META_KEY, uapi::NFTA_META_SREG]) {
        return Some(Expr::MetaSet { key, sreg: register(attributes, uapi::NFTA_META_SREG)? });
    }
    None
}

fn ct(attributes: Attributes<'_>) -> Option<Expr> {
    if !attributes.only(&[uapi::NFTA_CT_KEY, uapi::NFTA_CT_DREG, uapi::NFTA_CT_DIRECTION]) {
        return None;
    }
    let direction = match attributes.get(uapi::NFTA_CT_DIRECTION) {
        None => None,
        Some(_) => Some(attributes.u8(uapi::NFTA_CT_DIRECTION)?),
    };
    let key = CtKey(attributes.u32(uapi::NFTA_CT_KEY)?);
    Some(Expr::Ct { key, dreg: register(attributes, uapi::NFTA_CT_DREG)?, direction })
}

fn payload(attributes: Attributes<'_>) -> Option<Expr> {
    let kinds = [uapi::NFTA_PAYLOAD_DREG, uapi::NFTA_PAYLOAD_BASE, uapi::NFTA_PAYLOAD_OFFSET, uapi::NFTA_PAYLOAD_LEN];
    if !attributes.only(&kinds) {
        return None;
    }
    Some(Expr::Payload {
        dreg: register(attributes, uapi::NFTA_PAYLOAD_DREG)?,
        base: PayloadBase::from_number(attributes.u32(uapi::NFTA_PAYLOAD_BASE)?)?,
        offset: attributes.u32(uapi::NFTA_PAYLOAD_OFFSET)?,
        len: attributes.u32(uapi::NFTA_PAYLOAD_LEN)?,
    })
}

fn fib(attributes: Attributes<'_>) -> Option<Expr> {
    if !attributes.only(&[uapi::NFTA_FIB_DREG, uapi::NFTA_FIB_RESULT, uapi::NFTA_FIB_FLAGS]) {
        return None;
    }
    Some(Expr::Fib {
        dreg: register(attributes, uapi::NFTA_FIB_DREG)?,
        result: FibResult::from_number(attributes.u32(uapi::NFTA_FIB_RESULT)?)?,
        flags: FibFlags(attributes.u32(uapi::NFTA_FIB_FLAGS)?),
    })
}

fn cmp(attributes: Attributes<'_>) -> Option<Expr> {
    if !attributes.only(&[uapi::NFTA_CMP_SREG, uapi::NFTA_CMP_OP, uapi::NFTA_CMP_DATA]) {
        return None;
    }
    Some(Expr::Cmp {
        sreg: register(attributes, uapi::NFTA_CMP_SREG)?,
        op: CmpOp::from_number(attributes.u32(uapi::NFTA_CMP_OP)?)?,
        value: attributes.value(uapi::NFTA_CMP_DATA)?.to_vec(),
    })
}

fn range(attributes: Attributes<'_>) -> Option<Expr> {
    let kinds = [uapi::NFTA_RANGE_SREG, uapi::NFTA_RANGE_OP, uapi::NFTA_RANGE_FROM_DATA, uapi::NFTA_RANGE_TO_DATA];
    if !attributes.only(&kinds) {
        return None;
    }
    Some(Expr::Range {
        sreg: register(attributes, uapi::NFTA_RANGE_SREG)?,
        op: RangeOp::from_number(attributes.u32(uapi::NFTA_RANGE_OP)?)?,
        from: attributes.value(uapi::NFTA_RANGE_FROM_DATA)?.to_vec(),
        to: attributes.value(uapi::NFTA_RANGE_TO_DATA)?.to_vec(),
    })
}

fn lookup(attributes: Attributes<'_>) -> Option<Expr> {
    // The set id is how a request names a set of the same batch; dumps do not have it.
    let kinds = [uapi::NFTA_LOOKUP_SET, uapi::NFTA_LOOKUP_SREG, uapi::NFTA_LOOKUP_FLAGS, uapi::NFTA_LOOKUP_SET_ID];
    if !attributes.only(&kinds) {
        return None;
    }
    let invert = match attributes.u32(uapi::NFTA_LOOKUP_FLAGS) {
        None | Some(0) => false,
        Some(uapi::NFT_LOOKUP_F_INV) => true,
        Some(_) => return None,
    };
    let sreg = register(attributes, uapi::NFTA_LOOKUP_SREG)?;
    Some(Expr::Lookup { sreg, set: attributes.text(uapi::NFTA_LOOKUP_SET)?, invert })
}

fn bitwise(attributes: Attributes<'_>) -> Option<Expr> {
    let kinds = [
        uapi::NFTA_BITWISE_SREG,
        uapi::NFTA_BITWISE_DREG,
        uapi::NFTA_BITWISE_LEN,
        uapi::NFTA_BITWISE_MASK,
        uapi::NFTA_BITWISE_XOR,
        uapi::NFTA_BITWISE_OP,
    ];
    // Kernels since 5.6 name the operation in dumps; older ones know only this one.
    let op = attributes.u32(uapi::NFTA_BITWISE_OP).unwrap_or(uapi::NFT_BITWISE_MASK_XOR);
    if !attributes.only(&kinds) || op != uapi::NFT_BITWISE_MASK_XOR {
        return None;
    }
    Some(Expr::Bitwise {
        sreg: register(attributes, uapi::NFTA_BITWISE_SREG)?,
        dreg: register(attributes, uapi::NFTA_BITWISE_DREG)?,
        len: attributes.u32(uapi::NFTA_BITWISE_LEN)?,
        mask: attributes.value(uapi::NFTA_BITWISE_MASK)?.to_vec(),
        xor: attributes.value(uapi::NFTA_BITWISE_XOR)?.to_vec(),
    })
}

fn byteorder(attributes: Attributes<'_>) -> Option<Expr> {
    let kinds = [
        uapi::NFTA_BYTEORDER_SREG,
        uapi::NFTA_BYTEORDER_DREG,
        uapi::NFTA_BYTEORDER_OP,
        uapi::NFTA_BYTEORDER_LEN,
        uapi::NFTA_BYTEORDER_SIZE,
    ];
    if !attributes.only(&kinds) {
        return None;
    }
    Some(Expr::ByteOrder {
        sreg: register(attributes, uapi::NFTA_BYTEORDER_SREG)?,
        dreg: register(attributes, uapi::NFTA_BYTEORDER_DREG)?,
        op: ByteOrderOp::from_number(attributes.u32(uapi::NFTA_BYTEORDER_OP)?)?,
        len: attributes.u32(uapi::NFTA_BYTEORDER_LEN)?,
        size: attributes.u32(uapi::NFTA_BYTEORDER_SIZE)?,
    })
}

fn numgen(attributes: Attributes<'_>) -> Option<Expr> {
    if !attributes.only(&[uapi::NFTA_NG_DREG, uapi::NFTA_NG_MODULUS, uapi::NFTA_NG_TYPE, uapi::NFTA_NG_OFFSET]) {
        return None;
    }
    Some(Expr::Numgen {
        dreg: register(attributes, uapi::NFTA_NG_DREG)?,
        modulus: attributes.u32(uapi::NFTA_NG_MODULUS)?,
        kind: NumgenKind::from_number(attributes.u32(uapi::NFTA_NG_TYPE)?)?,
        offset: attributes.u32(uapi::NFTA_NG_OFFSET).unwrap_or_default(),
    })
}

fn immediate(attributes: Attributes<'_>) -> Option<Expr> {
    if !attributes.only(&[uapi::NFTA_IMMEDIATE_DREG, uapi::NFTA_IMMEDIATE_DATA]) {
        return None;
    }
    let dreg = register(attributes, uapi::NFTA_IMMEDIATE_DREG)?;
    if dreg == Register::VERDICT {
        return verdict(attributes.nested(uapi::NFTA_IMMEDIATE_DATA)?).map(Expr::Verdict);
    }
    Some(Expr::Immediate { dreg, value: attributes.value(uapi::NFTA_IMMEDIATE_DATA)?.to_vec() })
}

fn verdict(value: Attributes<'_>) -> Option<Verdict> {
    let verdict = value.nested(uapi::NFTA_DATA_VERDICT)?;
    if !value.only(&[uapi::NFTA_DATA_VERDICT]) || !verdict.only(&[uapi::NFTA_VERDICT_CODE, uapi::NFTA_VERDICT_CHAIN]) {
        return None;
    }
    let chain = verdict.text(uapi::NFTA_VERDICT_CHAIN);
    match (verdict.u32(uapi::NFTA_VERDICT_CODE)?.cast_signed(), chain) {
        (uapi::NF_ACCEPT, None) => Some(Verdict::Accept),
        (uapi::NF_DROP, None) => Some(Verdict::Drop),
        (uapi::NFT_CONTINUE, None) => Some(Verdict::Continue),
        (uapi::NFT_RETURN, None) => Some(Verdict::Return),
        (uapi::NFT_JUMP, Some(chain)) => Some(Verdict::Jump(chain)),
        (uapi::NFT_GOTO, Some(chain)) => Some(Verdict::Goto(chain)),
        _ => None,
    }
}

fn counter(attributes: Attributes<'_>) -> Option<Expr> {
    if !attributes.only(&[uapi::NFTA_COUNTER_BYTES, uapi::NFTA_COUNTER_PACKETS, uapi::NFTA_COUNTER_PAD]) {
        return None;
    }
    let value = |kind| match attributes.get(kind) {
        None => Some(0),
        Some(_) => attributes.u64(kind),
    };
    let packets = value(uapi::NFTA_COUNTER_PACKETS)?;
    Some(Expr::Counter { packets, bytes: value(uapi::NFTA_COUNTER_BYTES)? })
}

fn counter_ref(attributes: Attributes<'_>) -> Option<Expr> {
    let counter = attributes.u32(uapi::NFTA_OBJREF_IMM_TYPE)? == uapi::NFT_OBJECT_COUNTER;
    if !counter || !attributes.only(&[uapi::NFTA_OBJREF_IMM_TYPE, uapi::NFTA_OBJREF_IMM_NAME]) {
        return None;
    }
    attributes.text(uapi::NFTA_OBJREF_IMM_NAME).map(Expr::CounterRef)
}

fn masquerade(attributes: Attributes<'_>) -> Option<Expr> {
    if !attributes.only(&[uapi::NFTA_MASQ_FLAGS, uapi::NFTA_MASQ_REG_PROTO_MIN, uapi::NFTA_MASQ_REG_PROTO_MAX]) {
        return None;
    }
    let ports = register_pair(attributes, uapi::NFTA_MASQ_REG_PROTO_MIN, uapi::NFTA_MASQ_REG_PROTO_MAX)?;
    let flags = attributes.u32(uapi::NFTA_MASQ_FLAGS).unwrap_or_default();
    let implied = if ports.is_some() { uapi::NF_NAT_RANGE_PROTO_SPECIFIED } else { 0 };
    Some(Expr::Masquerade { flags: NatFlags(flags & !implied), ports })
}

fn nat(attributes: Attributes<'_>) -> Option<Expr> {
    let kinds = [
        uapi::NFTA_NAT_TYPE,
        uapi::NFTA_NAT_FAMILY,
        uapi::NFTA_NAT_REG_ADDR_MIN,
        uapi::NFTA_NAT_REG_ADDR_MAX,
        uapi::NFTA_NAT_REG_PROTO_MIN,
        uapi::NFTA_NAT_REG_PROTO_MAX,
        uapi::NFTA_NAT_FLAGS,
    ];
    if !attributes.only(&kinds) {
        return None;
    }
    let addresses = register_pair(attributes, uapi::NFTA_NAT_REG_ADDR_MIN, uapi::NFTA_NAT_REG_ADDR_MAX)?;
    let ports = register_pair(attributes, uapi::NFTA_NAT_REG_PROTO_MIN, uapi::NFTA_NAT_REG_PROTO_MAX)?;
    let flags = attributes.u32(uapi::NFTA_NAT_FLAGS).unwrap_or_default();
    let implied = if addresses.is_some() { uapi::NF_NAT_RANGE_MAP_IPS } else { 0 }
        | if ports.is_some() { uapi::NF_NAT_RANGE_PROTO_SPECIFIED } else { 0 };
    Some(Expr::Nat {
        kind: NatKind::from_number(attributes.u32(uapi::NFTA_NAT_TYPE)?)?,
        family: ProtocolFamily::from_number(attributes.u32(uapi::NFTA_NAT_FAMILY)?.try_into().ok()?),
        addresses,
        ports,
        flags: NatFlags(flags & !implied),
    })
}

fn register(attributes: Attributes<'_>, kind: u16) -> Option<Register> {
    attributes.u32(kind).map(Register)
}

/// Two registers, where the second defaults to the first; the inner `None` when both are absent.
fn register_pair(attributes: Attributes<'_>, first: u16, second: u16) -> Option<Option<(Register, Register)>> {
    match (attributes.get(first), attributes.get(second)) {
        (None, None) => Some(None),
        (None, Some(_)) => None,
        (Some(_), None) => register(attributes, first).map(|only| Some((only, only))),
        (Some(_), Some(_)) => Some(Some((register(attributes, first)?, register(attributes, second)?))),
    }
}
