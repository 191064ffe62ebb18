//! Names for the attribute that the kernel points at when it refuses a message.

use crate::uapi;
use crate::wire::{Attributes, NFNETLINK_HEADER, nftables};

const TABLE: &[&str] = &["NAME", "FLAGS", "USE", "HANDLE", "PAD", "USERDATA", "OWNER"];
const CHAIN: &[&str] =
    &["TABLE", "HANDLE", "NAME", "HOOK", "POLICY", "USE", "TYPE", "COUNTERS", "PAD", "FLAGS", "ID", "USERDATA"];
const RULE: &[&str] = &[
    "TABLE",
    "CHAIN",
    "HANDLE",
    "EXPRESSIONS",
    "COMPAT",
    "POSITION",
    "USERDATA",
    "PAD",
    "ID",
    "POSITION_ID",
    "CHAIN_ID",
];
const SET: &[&str] = &[
    "TABLE",
    "NAME",
    "FLAGS",
    "KEY_TYPE",
    "KEY_LEN",
    "DATA_TYPE",
    "DATA_LEN",
    "POLICY",
    "DESC",
    "ID",
    "TIMEOUT",
    "GC_INTERVAL",
    "USERDATA",
    "PAD",
    "OBJ_TYPE",
    "HANDLE",
    "EXPR",
    "EXPRESSIONS",
];
const SET_ELEM_LIST: &[&str] = &["TABLE", "SET", "ELEMENTS", "SET_ID"];
const OBJ: &[&str] = &["TABLE", "NAME", "TYPE", "DATA", "USE", "HANDLE", "PAD", "USERDATA"];
const FLOWTABLE: &[&str] = &["TABLE", "NAME", "HOOK", "USE", "HANDLE", "PAD", "FLAGS"];

/// The name of the attribute at `offset` of a message of type `kind`, and inside a list which
/// expression or element of it: `NFTA_RULE_EXPRESSIONS, expression 3 (masq)`.
pub(crate) fn attribute_path(kind: u16, message: &[u8], offset: usize) -> Option<String> {
    let (prefix, names) = names(kind)?;
    let offset = offset.checked_sub(NFNETLINK_HEADER)?;
    let body = Attributes(message.get(NFNETLINK_HEADER..)?);
    let (attribute, inner, inner_offset) = find(body, offset)?;
    let name = names.get(usize::from(attribute).checked_sub(1)?)?;
    let path = format!("NFTA_{prefix}_{name}");
    let detail = inner_offset.and_then(|offset| match (prefix, *name) {
        ("RULE", "EXPRESSIONS") => {
            let (index, expr) = entry(inner, offset)?;
            let name = expr.text(uapi::NFTA_EXPR_NAME)?;
            Some(format!("expression {} ({name})", index + 1))
        }
        ("SET_ELEM_LIST", "ELEMENTS") => {
            let (index, _) = entry(inner, offset)?;
            Some(format!("entry {}", index + 1))
        }
        _ => None,
    });
    Some(match detail {
        None => path,
        Some(detail) => format!("{path}, {detail}"),
    })
}

fn names(kind: u16) -> Option<(&'static str, &'static [&'static str])> {
    let number = kind.checked_sub(nftables(0))?;
    Some(match number {
        uapi::NFT_MSG_NEWTABLE..=uapi::NFT_MSG_DELTABLE => ("TABLE", TABLE),
        uapi::NFT_MSG_NEWCHAIN..=uapi::NFT_MSG_DELCHAIN => ("CHAIN", CHAIN),
        uapi::NFT_MSG_NEWRULE..=uapi::NFT_MSG_DELRULE => ("RULE", RULE),
        uapi::NFT_MSG_NEWSET..=uapi::NFT_MSG_DELSET => ("SET", SET),
        uapi::NFT_MSG_NEWSETELEM..=uapi::NFT_MSG_DELSETELEM => ("SET_ELEM_LIST", SET_ELEM_LIST),
        uapi::NFT_MSG_NEWOBJ..=uapi::NFT_MSG_DELOBJ => ("OBJ", OBJ),
        uapi::NFT_MSG_NEWFLOWTABLE..=uapi::NFT_MSG_DELFLOWTABLE => ("FLOWTABLE", FLOWTABLE),
        _ => return None,
    })
}

/// The attribute that `offset` falls into: its type, its value, and the offset within the value
/// unless it points at the attribute itself.
fn find(attributes: Attributes<'_>, offset: usize) -> Option<(u16, Attributes<'_>, Option<usize>)> {
    let start = attributes.0.as_ptr().addr();
    attributes.iter().find_map(|(kind, value)| {
        let begin = value.as_ptr().addr() - start;
        let inner = offset.checked_sub(begin);
        let here = offset + 4 >= begin && offset < begin + value.len();
        here.then_some((kind, Attributes(value), inner))
    })
}

/// Which entry of a list `offset` falls into.
fn entry(list: Attributes<'_>, offset: usize) -> Option<(usize, Attributes<'_>)> {
    let start = list.0.as_ptr().addr();
    list.iter().enumerate().find_map(|(index, (_, value))| {
        let end = value.as_ptr().addr() - start + value.len();
        (offset < end).then_some((index, Attributes(value)))
    })
}
