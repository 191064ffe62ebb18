//! Batches to netlink messages.

use crate::batch::{Batch, Change, Operation, TableName};
use crate::error::Error;
use crate::object::{Chain, Counter, Interval, ProtocolFamily, Rule, Set, SetFlags, Table};
use crate::uapi;
use crate::wire::{Header, Writer, nftables};

mod expr;

pub(crate) use expr::put_expressions;

/// Elements of one message fill at most this much, so that their attribute, whose length has
/// 16 bits, has room to spare.
const ELEMENT_BYTES: usize = 60 * 1024;

/// A batch as bytes, with a note of what each message came from.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    /// The messages, batch begin and end included.
    pub(crate) bytes: Vec<u8>,
    /// Where each message starts and the index of its operation, batch begin and end excluded; the
    /// first has the sequence number after that of the batch begin.
    pub(crate) messages: Vec<(usize, usize)>,
}

/// The bytes of a batch whose first message has the number `sequence`. Only the last operation
/// asks for an acknowledgement: the kernel sends it after the whole transaction.
pub(crate) fn batch(batch: &Batch, sequence: u32, generation: Option<u32>) -> Result<EncodedBatch, Error> {
    let mut encoder = Encoder { writer: Writer::default(), sequence, messages: Vec::new() };
    encoder.mark(uapi::NFNL_MSG_BATCH_BEGIN, |writer| {
        if let Some(generation) = generation {
            writer.put_u32(uapi::NFNL_BATCH_GENID, generation);
        }
    });
    let last = batch.len().saturating_sub(1);
    for (index, operation) in batch.operations().iter().enumerate() {
        encoder.operation(index, operation, index == last);
        if let Some(reason) = encoder.writer.defect() {
            return Err(Error::Unencodable { operation: format!("{operation:#}"), reason });
        }
    }
    encoder.mark(uapi::NFNL_MSG_BATCH_END, |_| {});
    Ok(EncodedBatch { bytes: encoder.writer.into_bytes(), messages: encoder.messages })
}

struct Encoder {
    writer: Writer,
    sequence: u32,
    messages: Vec<(usize, usize)>,
}

/// What the messages of one operation have in common.
#[derive(Clone, Copy)]
struct Context<'a> {
    index: usize,
    table: &'a TableName,
    acknowledge: bool,
}

impl Encoder {
    /// The begin or the end of a batch.
    fn mark(&mut self, kind: u16, body: impl FnOnce(&mut Writer)) {
        let header = Header {
            kind,
            flags: uapi::NLM_F_REQUEST,
            sequence: self.sequence,
            family: ProtocolFamily::Unspec.number(),
            resource: uapi::NFNL_SUBSYS_NFTABLES,
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.writer.message(header, body);
    }

    fn message(&mut self, at: Context<'_>, kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) {
        let acknowledge = if at.acknowledge { uapi::NLM_F_ACK } else { 0 };
        let header = Header {
            kind: nftables(kind),
            flags: uapi::NLM_F_REQUEST | acknowledge | flags,
            sequence: self.sequence,
            family: at.table.family.number(),
            resource: 0,
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.messages.push((self.writer.bytes().len(), at.index));
        self.writer.message(header, |writer| {
            // In every kind of message attribute 1 is the name of the table.
            writer.put_text(uapi::NFTA_TABLE_NAME, &at.table.name);
            body(writer);
        });
    }

    fn operation(&mut self, index: usize, operation: &Operation, acknowledge: bool) {
        let at = Context { index, table: &operation.table, acknowledge };
        let create = uapi::NLM_F_CREATE;
        match &operation.change {
            Change::AddTable(table) => {
                self.message(at, uapi::NFT_MSG_NEWTABLE, 0, |writer| put_table(writer, table));
            }
            Change::DeleteTable => self.message(at, uapi::NFT_MSG_DELTABLE, 0, |_| {}),
            Change::AddChain(chain) => {
                self.message(at, uapi::NFT_MSG_NEWCHAIN, create, |writer| put_chain(writer, chain));
            }
            Change::DeleteChain { chain } => {
                self.named(at, uapi::NFT_MSG_DELCHAIN, uapi::NFTA_CHAIN_NAME, chain);
            }
            Change::FlushChain { chain } => {
                self.named(at, uapi::NFT_MSG_DELRULE, uapi::NFTA_RULE_CHAIN, chain);
            }
            Change::AddRule(rule) => {
                let flags = create | uapi::NLM_F_APPEND;
                self.message(at, uapi::NFT_MSG_NEWRULE, flags, |writer| put_rule(writer, rule, None));
            }
            Change::InsertRule { rule, before } => {
                self.message(at, uapi::NFT_MSG_NEWRULE, create, |writer| put_rule(writer, rule, *before));
            }
            Change::DeleteRule { chain, handle } => {
                self.message(at, uapi::NFT_MSG_DELRULE, 0, |writer| {
                    writer.put_text(uapi::NFTA_RULE_CHAIN, chain);
                    writer.put_u64(uapi::NFTA_RULE_HANDLE, *handle);
                });
            }
            Change::AddSet(set) => {
                let id = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
                self.message(at, uapi::NFT_MSG_NEWSET, create, |writer| put_set(writer, set, id));
            }
            Change::DeleteSet { set } => self.named(at, uapi::NFT_MSG_DELSET, uapi::NFTA_SET_NAME, set),
            Change::FlushSet { set } => {
                self.named(at, uapi::NFT_MSG_DELSETELEM, uapi::NFTA_SET_ELEM_LIST_SET, set);
            }
            Change::AddElements { set, intervals } => {
                self.elements(at, (uapi::NFT_MSG_NEWSETELEM, create), set, intervals);
            }
            Change::DeleteElements { set, intervals } => {
                self.elements(at, (uapi::NFT_MSG_DELSETELEM, 0), set, intervals);
            }
            Change::AddCounter(counter) => {
                self.message(at, uapi::NFT_MSG_NEWOBJ, create, |writer| put_counter(writer, counter));
            }
            Change::DeleteObject { kind, name } => {
                self.message(at, uapi::NFT_MSG_DELOBJ, 0, |writer| {
                    writer.put_text(uapi::NFTA_OBJ_NAME, name);
                    writer.put_u32(uapi::NFTA_OBJ_TYPE, kind.0);
                });
            }
            Change::DeleteFlowtable { name } => {
                self.named(at, uapi::NFT_MSG_DELFLOWTABLE, uapi::NFTA_FLOWTABLE_NAME, name);
            }
        }
    }

    /// A message that says no more than a name.
    fn named(&mut self, at: Context<'_>, kind: u16, attribute: u16, name: &str) {
        self.message(at, kind, 0, |writer| writer.put_text(attribute, name));
    }

    /// As many messages as the elements need; the last one may ask for the acknowledgement.
    fn elements(&mut self, at: Context<'_>, (kind, flags): (u16, u16), set: &Set, intervals: &[Interval]) {
        let mut rest = intervals;
        while !rest.is_empty() {
            let chunk;
            (chunk, rest) = rest.split_at(rest.len().min(ELEMENT_BYTES / widest_element(set)));
            let at = Context { acknowledge: at.acknowledge && rest.is_empty(), ..at };
            self.message(at, kind, flags, |writer| {
                writer.put_text(uapi::NFTA_SET_ELEM_LIST_SET, &set.name);
                writer.nest(uapi::NFTA_SET_ELEM_LIST_ELEMENTS, |writer| {
                    chunk.iter().for_each(|&interval| put_interval(writer, set, interval));
                });
            });
        }
    }
}

/// Bytes that an interval of this set needs at most: headers, flags and user data of its start
/// and its end, and the keys of both.
fn widest_element(set: &Set) -> usize {
    2 * (32 + usize::try_from(set.key_len).unwrap_or(16).min(16))
}

fn put_table(writer: &mut Writer, table: &Table) {
    writer.put_u32(uapi::NFTA_TABLE_FLAGS, table.flags.0);
    if !table.userdata.is_empty() {
        writer.put(uapi::NFTA_TABLE_USERDATA, &table.userdata);
    }
}

fn put_chain(writer: &mut Writer, chain: &Chain) {
    writer.put_text(uapi::NFTA_CHAIN_NAME, &chain.name);
    if let Some(base) = &chain.base {
        writer.put_text(uapi::NFTA_CHAIN_TYPE, &base.kind);
        if let Some(policy) = base.policy {
            writer.put_u32(uapi::NFTA_CHAIN_POLICY, policy);
        }
        writer.nest(uapi::NFTA_CHAIN_HOOK, |writer| {
            writer.put_u32(uapi::NFTA_HOOK_HOOKNUM, base.hook);
            writer.put(uapi::NFTA_HOOK_PRIORITY, &base.priority.to_be_bytes());
        });
    }
    if chain.flags != 0 {
        writer.put_u32(uapi::NFTA_CHAIN_FLAGS, chain.flags);
    }
    if !chain.userdata.is_empty() {
        writer.put(uapi::NFTA_CHAIN_USERDATA, &chain.userdata);
    }
}

fn put_rule(writer: &mut Writer, rule: &Rule, before: Option<u64>) {
    writer.put_text(uapi::NFTA_RULE_CHAIN, &rule.chain);
    writer.nest(uapi::NFTA_RULE_EXPRESSIONS, |writer| put_expressions(writer, &rule.expressions));
    if let Some(handle) = before {
        writer.put_u64(uapi::NFTA_RULE_POSITION, handle);
    }
    let mut userdata = Vec::new();
    if let Some(comment) = &rule.comment {
        if !put_tlv(&mut userdata, uapi::NFTNL_UDATA_RULE_COMMENT, &[comment.as_bytes(), &[0]].concat()) {
            writer.reject("the comment is longer than 254 bytes");
        }
        if comment.contains('\0') {
            writer.reject("the comment contains a NUL byte");
        }
    }
    userdata.extend_from_slice(&rule.userdata);
    if !userdata.is_empty() {
        writer.put(uapi::NFTA_RULE_USERDATA, &userdata);
    }
}

fn put_set(writer: &mut Writer, set: &Set, id: u32) {
    writer.put_text(uapi::NFTA_SET_NAME, &set.name);
    writer.put_u32(uapi::NFTA_SET_FLAGS, set.flags.0);
    writer.put_u32(uapi::NFTA_SET_KEY_TYPE, set.key_type);
    writer.put_u32(uapi::NFTA_SET_KEY_LEN, set.key_len);
    let numbers = [
        (uapi::NFTA_SET_DATA_TYPE, set.data_type),
        (uapi::NFTA_SET_DATA_LEN, set.data_len),
        (uapi::NFTA_SET_OBJ_TYPE, set.object_kind.map(|kind| kind.0)),
        (uapi::NFTA_SET_ID, Some(id)),
        (uapi::NFTA_SET_POLICY, set.policy),
        (uapi::NFTA_SET_GC_INTERVAL, set.gc_interval),
    ];
    for (kind, number) in numbers {
        if let Some(number) = number {
            writer.put_u32(kind, number);
        }
    }
    if let Some(timeout) = set.timeout {
        writer.put_u64(uapi::NFTA_SET_TIMEOUT, timeout);
    }
    if set.size.is_some() || !set.field_lens.is_empty() {
        writer.nest(uapi::NFTA_SET_DESC, |writer| put_set_description(writer, set));
    }
    if !set.userdata.is_empty() {
        writer.put(uapi::NFTA_SET_USERDATA, &set.userdata);
    }
    if !set.expressions.is_empty() {
        writer.nest(uapi::NFTA_SET_EXPRESSIONS, |writer| put_expressions(writer, &set.expressions));
    }
}

fn put_set_description(writer: &mut Writer, set: &Set) {
    if let Some(size) = set.size {
        writer.put_u32(uapi::NFTA_SET_DESC_SIZE, size);
    }
    if !set.field_lens.is_empty() {
        writer.nest(uapi::NFTA_SET_DESC_CONCAT, |writer| {
            for &len in &set.field_lens {
                writer.nest(uapi::NFTA_LIST_ELEM, |writer| writer.put_u32(uapi::NFTA_SET_FIELD_LEN, len));
            }
        });
    }
}

fn put_counter(writer: &mut Writer, counter: &Counter) {
    writer.put_text(uapi::NFTA_OBJ_NAME, &counter.name);
    writer.put_u32(uapi::NFTA_OBJ_TYPE, uapi::NFT_OBJECT_COUNTER);
    writer.nest(uapi::NFTA_OBJ_DATA, |writer| {
        writer.put_u64(uapi::NFTA_COUNTER_BYTES, counter.bytes);
        writer.put_u64(uapi::NFTA_COUNTER_PACKETS, counter.packets);
    });
}

/// The element or elements of one interval.
fn put_interval(writer: &mut Writer, set: &Set, interval: Interval) {
    let Some(top) = highest_key(set.key_len) else {
        return writer.reject("keys of more than 16 bytes, or of none, are not supported");
    };
    let Interval { first, last } = interval;
    if first > last || last > top {
        return writer.reject("an interval ends before it starts, or beyond the longest key");
    }
    let interval_set = set.flags.contains(SetFlags::INTERVAL);
    if set.flags.contains(SetFlags::CONCAT) && first != last {
        return put_element(writer, set, first, |writer| put_key(writer, set, uapi::NFTA_SET_ELEM_KEY_END, last));
    }
    if !interval_set && first != last {
        return writer.reject("a set without the interval flag holds single keys only");
    }
    if !interval_set || set.flags.contains(SetFlags::CONCAT) {
        return put_element(writer, set, first, |_| {});
    }
    if last == top {
        return put_element(writer, set, first, |writer| {
            writer.put(uapi::NFTA_SET_ELEM_USERDATA, &open_interval_userdata());
        });
    }
    put_element(writer, set, first, |_| {});
    writer.nest(uapi::NFTA_LIST_ELEM, |writer| {
        writer.put_u32(uapi::NFTA_SET_ELEM_FLAGS, uapi::NFT_SET_ELEM_INTERVAL_END);
        put_key(writer, set, uapi::NFTA_SET_ELEM_KEY, last + 1);
    });
}

fn put_element(writer: &mut Writer, set: &Set, key: u128, more: impl FnOnce(&mut Writer)) {
    writer.nest(uapi::NFTA_LIST_ELEM, |writer| {
        put_key(writer, set, uapi::NFTA_SET_ELEM_KEY, key);
        more(writer);
    });
}

/// A key as the kernel compares it.
pub(crate) fn put_key(writer: &mut Writer, set: &Set, attribute: u16, key: u128) {
    let len = usize::try_from(set.key_len).unwrap_or(16).min(16);
    writer.put_value(attribute, &key.to_be_bytes()[16 - len..]);
}

/// The highest key of that many bytes, from 1 to 16.
pub(crate) fn highest_key(len: u32) -> Option<u128> {
    (1..=16).contains(&len).then(|| u128::MAX >> (128 - 8 * len))
}

/// The user data by which nft knows that an interval reaches to the top of the range.
fn open_interval_userdata() -> Vec<u8> {
    let mut userdata = Vec::new();
    let flags = uapi::NFTNL_SET_ELEM_F_INTERVAL_OPEN.to_ne_bytes();
    put_tlv(&mut userdata, uapi::NFTNL_UDATA_SET_ELEM_FLAGS, &flags);
    userdata
}

/// The user data that nft gives a set whose keys have this type.
pub(crate) fn set_userdata(key_type: u32) -> Vec<u8> {
    let order = match key_type {
        Set::INET_PROTO => uapi::BYTEORDER_INVALID,
        Set::IFNAME => uapi::BYTEORDER_HOST_ENDIAN,
        _ => uapi::BYTEORDER_BIG_ENDIAN,
    };
    let mut userdata = Vec::new();
    put_tlv(&mut userdata, uapi::NFTNL_UDATA_SET_KEYBYTEORDER, &order.to_ne_bytes());
    userdata
}

/// Appends one TLV of user data, of at most 255 bytes; says whether it fits.
fn put_tlv(userdata: &mut Vec<u8>, kind: u8, value: &[u8]) -> bool {
    let Ok(len) = u8::try_from(value.len()) else { return false };
    userdata.extend_from_slice(&[kind, len]);
    userdata.extend_from_slice(value);
    true
}

#[cfg(test)]
mod tests;
