//! Netlink messages to values; nothing a kernel or a stranger sends makes this fail worse than
//! with `None`.

use crate::object::{
    BaseChain, Chain, Counter, Flowtable, NamedObject, ObjectKind, ProtocolFamily, Rule, Set, SetFlags, Table,
    TableFlags,
};
use crate::uapi;
use crate::wire::Attributes;

mod elements;
mod expr;

pub(crate) use elements::ElementReader;
pub(crate) use expr::expressions;

pub(crate) fn table(family: u8, attributes: Attributes<'_>) -> Option<Table> {
    Some(Table {
        family: ProtocolFamily::from_number(family),
        name: attributes.text(uapi::NFTA_TABLE_NAME)?,
        flags: TableFlags(attributes.u32(uapi::NFTA_TABLE_FLAGS).unwrap_or_default()),
        userdata: bytes(attributes, uapi::NFTA_TABLE_USERDATA),
        handle: attributes.u64(uapi::NFTA_TABLE_HANDLE),
        owner: attributes.u32(uapi::NFTA_TABLE_OWNER),
    })
}

pub(crate) fn chain(attributes: Attributes<'_>) -> Option<Chain> {
    let base = match attributes.nested(uapi::NFTA_CHAIN_HOOK) {
        None => None,
        Some(hook) => Some(BaseChain {
            kind: attributes.text(uapi::NFTA_CHAIN_TYPE).unwrap_or_default(),
            hook: hook.u32(uapi::NFTA_HOOK_HOOKNUM)?,
            priority: hook.u32(uapi::NFTA_HOOK_PRIORITY)?.cast_signed(),
            policy: attributes.u32(uapi::NFTA_CHAIN_POLICY),
        }),
    };
    let implied = if base.is_some() { uapi::NFT_CHAIN_BASE } else { 0 };
    Some(Chain {
        name: attributes.text(uapi::NFTA_CHAIN_NAME)?,
        base,
        flags: attributes.u32(uapi::NFTA_CHAIN_FLAGS).unwrap_or_default() & !implied,
        userdata: bytes(attributes, uapi::NFTA_CHAIN_USERDATA),
        handle: attributes.u64(uapi::NFTA_CHAIN_HANDLE),
    })
}

pub(crate) fn rule(attributes: Attributes<'_>) -> Option<Rule> {
    let userdata = attributes.get(uapi::NFTA_RULE_USERDATA).unwrap_or_default();
    let (comment, userdata) = split_comment(userdata);
    Some(Rule {
        chain: attributes.text(uapi::NFTA_RULE_CHAIN)?,
        expressions: attributes.nested(uapi::NFTA_RULE_EXPRESSIONS).map(expressions).unwrap_or_default(),
        comment,
        userdata,
        handle: attributes.u64(uapi::NFTA_RULE_HANDLE),
    })
}

/// The comment, if user data begins with one that is a proper string, and what follows it.
fn split_comment(userdata: &[u8]) -> (Option<String>, Vec<u8>) {
    let comment = || {
        let (&[kind, len], rest) = userdata.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(len))?;
        let (&end, text) = value.split_last()?;
        let text = std::str::from_utf8(text).ok()?;
        let proper = kind == uapi::NFTNL_UDATA_RULE_COMMENT && end == 0 && !text.contains('\0');
        proper.then(|| (text.to_owned(), rest.to_vec()))
    };
    match comment() {
        Some((comment, rest)) => (Some(comment), rest),
        None => (None, userdata.to_vec()),
    }
}

pub(crate) fn set(attributes: Attributes<'_>) -> Option<Set> {
    let description = attributes.nested(uapi::NFTA_SET_DESC).unwrap_or_default();
    let fields = description.nested(uapi::NFTA_SET_DESC_CONCAT).unwrap_or_default();
    Some(Set {
        name: attributes.text(uapi::NFTA_SET_NAME)?,
        flags: SetFlags(attributes.u32(uapi::NFTA_SET_FLAGS).unwrap_or_default()),
        key_type: attributes.u32(uapi::NFTA_SET_KEY_TYPE).unwrap_or_default(),
        key_len: attributes.u32(uapi::NFTA_SET_KEY_LEN)?,
        data_type: attributes.u32(uapi::NFTA_SET_DATA_TYPE),
        data_len: attributes.u32(uapi::NFTA_SET_DATA_LEN),
        object_kind: attributes.u32(uapi::NFTA_SET_OBJ_TYPE).map(ObjectKind),
        size: description.u32(uapi::NFTA_SET_DESC_SIZE),
        field_lens: fields.iter().filter_map(|(_, field)| Attributes(field).u32(uapi::NFTA_SET_FIELD_LEN)).collect(),
        // The kernel leaves the policy out when it is 0, its default.
        policy: attributes.u32(uapi::NFTA_SET_POLICY).filter(|&policy| policy != 0),
        timeout: attributes.u64(uapi::NFTA_SET_TIMEOUT),
        gc_interval: attributes.u32(uapi::NFTA_SET_GC_INTERVAL).filter(|&interval| interval != 0),
        expressions: set_expressions(attributes),
        userdata: bytes(attributes, uapi::NFTA_SET_USERDATA),
        handle: attributes.u64(uapi::NFTA_SET_HANDLE),
    })
}

/// Expressions of a set: a single one has an attribute of its own.
fn set_expressions(attributes: Attributes<'_>) -> Vec<crate::Expr> {
    if let Some(list) = attributes.nested(uapi::NFTA_SET_EXPRESSIONS) {
        return expressions(list);
    }
    attributes.nested(uapi::NFTA_SET_EXPR).map(expr::expression).into_iter().collect()
}

pub(crate) fn named_object(attributes: Attributes<'_>) -> Option<NamedObject> {
    Some(NamedObject {
        kind: ObjectKind(attributes.u32(uapi::NFTA_OBJ_TYPE)?),
        name: attributes.text(uapi::NFTA_OBJ_NAME)?,
    })
}

pub(crate) fn counter(attributes: Attributes<'_>) -> Option<Counter> {
    let values = attributes.nested(uapi::NFTA_OBJ_DATA)?;
    Some(Counter {
        name: attributes.text(uapi::NFTA_OBJ_NAME)?,
        packets: values.u64(uapi::NFTA_COUNTER_PACKETS)?,
        bytes: values.u64(uapi::NFTA_COUNTER_BYTES)?,
    })
}

pub(crate) fn flowtable(attributes: Attributes<'_>) -> Option<Flowtable> {
    Some(Flowtable { name: attributes.text(uapi::NFTA_FLOWTABLE_NAME)? })
}

fn bytes(attributes: Attributes<'_>, kind: u16) -> Vec<u8> {
    attributes.get(kind).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests;
