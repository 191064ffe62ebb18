//! Decoding loses nothing of what we encode, and survives whatever else it is given.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{ElementReader, chain, counter, expressions, flowtable, named_object, rule, set, table};
use crate::batch::Batch;
use crate::encode::{self, put_expressions};
use crate::error::attribute_path;
use crate::expr::{
    ByteOrderOp, CmpOp, CtKey, Expr, FibFlags, FibResult, MetaKey, NatFlags, NatKind, NumgenKind, PayloadBase, RangeOp,
    Register, Verdict,
};
use crate::object::{
    BaseChain, Chain, Counter, Elements, Interval, ProtocolFamily, Rule, Set, SetFlags, Table, TableFlags, TableRef,
};
use crate::uapi;
use crate::wire::{Attributes, Messages, Writer};

const TABLE: TableRef<'static> = (ProtocolFamily::Inet, "t");

proptest! {
    #[test]
    fn expressions_are_decoded_as_they_were_encoded(written in vec(expr(), 0..8)) {
        let mut writer = Writer::default();
        put_expressions(&mut writer, &written);
        prop_assert_eq!(writer.defect(), None);
        prop_assert_eq!(expressions(Attributes(writer.bytes())), written);
    }

    #[test]
    fn arbitrary_bytes_are_survived(bytes in vec(any::<u8>(), 0..200), offset in 0..300_usize) {
        survive(&bytes);
        for message in Messages(&bytes) {
            survive(message.payload);
        }
        for kind in 0xa00..0xa20 {
            let _ = attribute_path(kind, &bytes, offset);
        }
    }

    /// Bytes near to what the kernel sends reach deeper than bytes of no form at all.
    #[test]
    fn damaged_messages_are_survived(written in vec(expr(), 1..4), at in any::<usize>(), byte in any::<u8>()) {
        let encoded = encode::batch(&sample(written), 0, None).unwrap();
        let mut bytes = encoded.bytes;
        let at = at % bytes.len();
        bytes[at] = byte;
        for message in Messages(&bytes) {
            survive(message.payload.get(4..).unwrap_or_default());
            let _ = attribute_path(message.kind, message.payload, at);
        }
        survive(&bytes[..at]);
    }

    #[test]
    fn a_rule_of_any_expressions_prints_as_one_line(expressions in vec(expr(), 0..8)) {
        let rule = Rule { expressions, ..Rule::default() };
        prop_assert!(!rule.to_string().contains('\n'));
    }

    #[test]
    fn disjoint_intervals_are_read_as_they_were_written(edges in proptest::collection::btree_set(any::<u32>(), 0..60)) {
        let edges: Vec<u128> = edges.into_iter().map(u128::from).collect();
        let written: Vec<_> = edges.chunks_exact(2).map(|it| Interval { first: it[0], last: it[1] }).collect();
        let set = Set::ipv4_intervals("s");
        let mut batch = Batch::new();
        batch.add_elements(TABLE, &set, &written);
        let encoded = encode::batch(&batch, 0, None).unwrap();
        prop_assert_eq!(read(&set, &encoded.bytes).intervals, written);
    }
}

#[test]
fn objects_are_decoded_as_they_were_encoded() {
    let written = Table { flags: TableFlags::OWNER, userdata: vec![1, 2], ..Table::new(TABLE.0, TABLE.1) };
    let mut batch = Batch::new();
    batch.add_table(&written);
    assert_eq!(decoded(&batch, table), written);

    let base = BaseChain { kind: "nat".to_owned(), hook: 4, priority: -7, policy: Some(BaseChain::DROP) };
    let written = Chain { name: "c".to_owned(), base: Some(base), flags: 2, userdata: vec![3], handle: None };
    let mut batch = Batch::new();
    batch.add_chain(TABLE, &written);
    assert_eq!(decoded(&batch, |_, it| chain(it)), written);

    let written = Set {
        flags: SetFlags::CONCAT.with(SetFlags::INTERVAL).with(SetFlags::MAP),
        key_len: 8,
        data_type: Some(7),
        data_len: Some(4),
        size: Some(9),
        field_lens: vec![4, 2],
        policy: Some(1),
        timeout: Some(5),
        gc_interval: Some(6),
        expressions: vec![Expr::Counter { packets: 1, bytes: 2 }],
        ..Set::ipv4_intervals("s")
    };
    let mut batch = Batch::new();
    batch.add_set(TABLE, &written);
    assert_eq!(decoded(&batch, |_, it| set(it)), written);

    let written = Counter { name: "n".to_owned(), packets: 1, bytes: u64::MAX };
    let mut batch = Batch::new();
    batch.add_counter(TABLE, &written);
    assert_eq!(decoded(&batch, |_, it| counter(it)), written);
}

#[test]
fn a_comment_is_told_from_other_user_data() {
    for (comment, userdata) in [(Some("why"), vec![]), (Some(""), vec![9, 0]), (None, vec![0, 9, 1]), (None, vec![5])] {
        let comment = comment.map(str::to_owned);
        let written = Rule { chain: "c".to_owned(), comment, userdata, ..Rule::default() };
        let mut batch = Batch::new();
        batch.add_rule(TABLE, &written);
        assert_eq!(decoded(&batch, |_, it| rule(it)), written);
    }
}

#[test]
fn what_the_kernel_adds_to_a_translation_is_left_out() {
    let mut writer = Writer::default();
    writer.nest(uapi::NFTA_LIST_ELEM, |writer| {
        writer.put_text(uapi::NFTA_EXPR_NAME, "nat");
        writer.nest(uapi::NFTA_EXPR_DATA, |writer| {
            writer.put_u32(uapi::NFTA_NAT_TYPE, 0);
            writer.put_u32(uapi::NFTA_NAT_FAMILY, 2);
            writer.put_u32(uapi::NFTA_NAT_REG_ADDR_MIN, 1);
            writer.put_u32(uapi::NFTA_NAT_REG_ADDR_MAX, 1);
            writer.put_u32(uapi::NFTA_NAT_FLAGS, uapi::NF_NAT_RANGE_MAP_IPS | NatFlags::PERSISTENT.0);
        });
    });
    let expected = Expr::Nat {
        kind: NatKind::Snat,
        family: ProtocolFamily::Ipv4,
        addresses: Some((Register::R1, Register::R1)),
        ports: None,
        flags: NatFlags::PERSISTENT,
    };
    assert_eq!(expressions(Attributes(writer.bytes())), [expected]);
}

/// Keys and flags of elements, and what a set with them matches.
type Case = (&'static [(u128, u32)], &'static [(u128, u128)]);

#[test]
fn odd_edges_are_read_as_a_lookup_finds_them() {
    const START: u32 = 0;
    const END: u32 = uapi::NFT_SET_ELEM_INTERVAL_END;
    let cases: [Case; 5] = [
        (&[], &[]),
        (&[(0, END)], &[]),
        (&[(10, START), (20, END), (20, START), (30, END)], &[(10, 19), (20, 29)]),
        // A start to the top beside an interval: behind that interval nothing is found.
        (&[(0, START), (11, START), (12, END)], &[(0, 10), (11, 11)]),
        (&[(12, END), (30, START), (5, START)], &[(5, 11), (30, 0xffff_ffff)]),
    ];
    for (edges, expected) in cases {
        let mut reader = ElementReader::new(&Set::ipv4_intervals("s"));
        let mut writer = Writer::default();
        writer.nest(uapi::NFTA_SET_ELEM_LIST_ELEMENTS, |writer| {
            for &(key, flags) in edges {
                writer.nest(uapi::NFTA_LIST_ELEM, |writer| {
                    encode::put_key(writer, &Set::ipv4_intervals("s"), uapi::NFTA_SET_ELEM_KEY, key);
                    writer.put_u32(uapi::NFTA_SET_ELEM_FLAGS, flags);
                });
            }
        });
        reader.read(Attributes(writer.bytes())).unwrap();
        let found: Vec<_> = reader.finish().intervals.iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(found, expected, "{edges:?}");
    }
}

fn sample(expressions: Vec<Expr>) -> Batch {
    let mut batch = Batch::new();
    batch.add_table(&Table::new(TABLE.0, TABLE.1));
    batch.add_set(TABLE, &Set::ipv4_intervals("s"));
    batch.add_elements(TABLE, &Set::ipv4_intervals("s"), &[Interval { first: 1, last: 2 }]);
    batch.add_counter(TABLE, &Counter::default());
    batch.add_rule(TABLE, &Rule { expressions, comment: Some("why".to_owned()), ..Rule::default() });
    batch
}

/// The value of the one message of a batch.
fn decoded<T>(batch: &Batch, decode: impl Fn(u8, Attributes<'_>) -> Option<T>) -> T {
    let encoded = encode::batch(batch, 0, None).unwrap();
    let message = Messages(&encoded.bytes).nth(1).unwrap();
    let (family, _, attributes) = message.nfnetlink().unwrap();
    decode(family, attributes).unwrap()
}

fn read(set: &Set, bytes: &[u8]) -> Elements {
    let mut reader = ElementReader::new(set);
    for message in Messages(bytes) {
        let (_, _, attributes) = message.nfnetlink().unwrap();
        reader.read(attributes).unwrap();
    }
    reader.finish()
}

/// Reads bytes as everything that there is.
fn survive(bytes: &[u8]) {
    let attributes = Attributes(bytes);
    let _ = table(1, attributes);
    let _ = chain(attributes);
    let _ = set(attributes);
    let _ = (counter(attributes), named_object(attributes), flowtable(attributes));
    let _ = rule(attributes).map(|rule| rule.to_string());
    let _ = expressions(attributes);
    for set in [Set::ipv4_intervals("s"), Set::ipv6_intervals("s"), Set::protocols("s"), Set::default()] {
        let mut reader = ElementReader::new(&set);
        let _ = reader.read(attributes);
        let _ = reader.finish();
    }
}

fn expr() -> impl Strategy<Value = Expr> {
    prop_oneof![load(), test(), statement()]
}

fn load() -> impl Strategy<Value = Expr> {
    let base = prop_oneof![Just(PayloadBase::Link), Just(PayloadBase::Network), Just(PayloadBase::Transport)];
    let result = prop_oneof![Just(FibResult::Oif), Just(FibResult::OifName), Just(FibResult::AddressType)];
    let kind = prop_oneof![Just(NumgenKind::Incremental), Just(NumgenKind::Random)];
    prop_oneof![
        (0..30_u32, register()).prop_map(|(key, dreg)| Expr::Meta { key: MetaKey(key), dreg }),
        (0..30_u32, register()).prop_map(|(key, sreg)| Expr::MetaSet { key: MetaKey(key), sreg }),
        (0..30_u32, register(), any::<Option<u8>>()).prop_map(|(key, dreg, direction)| Expr::Ct {
            key: CtKey(key),
            dreg,
            direction
        }),
        (register(), base, 0..40_u32, 0..20_u32).prop_map(|(dreg, base, offset, len)| Expr::Payload {
            dreg,
            base,
            offset,
            len
        }),
        (register(), result, any::<u32>()).prop_map(|(dreg, result, flags)| Expr::Fib {
            dreg,
            result,
            flags: FibFlags(flags)
        }),
        (register(), any::<u32>(), kind, any::<u32>()).prop_map(|(dreg, modulus, kind, offset)| Expr::Numgen {
            dreg,
            modulus,
            kind,
            offset
        }),
        (1..24_u32, value()).prop_map(|(dreg, value)| Expr::Immediate { dreg: Register(dreg), value }),
    ]
}

fn test() -> impl Strategy<Value = Expr> {
    let op = (0..6_u32).prop_map(|number| CmpOp::from_number(number).unwrap());
    let range = prop_oneof![Just(RangeOp::Eq), Just(RangeOp::Neq)];
    let order = prop_oneof![Just(ByteOrderOp::Ntoh), Just(ByteOrderOp::Hton)];
    prop_oneof![
        (register(), op, value()).prop_map(|(sreg, op, value)| Expr::Cmp { sreg, op, value }),
        (register(), range, value(), value()).prop_map(|(sreg, op, from, to)| Expr::Range { sreg, op, from, to }),
        (register(), name(), any::<bool>()).prop_map(|(sreg, set, invert)| Expr::Lookup { sreg, set, invert }),
        (register(), register(), any::<u32>(), value(), value())
            .prop_map(|(sreg, dreg, len, mask, xor)| Expr::Bitwise { sreg, dreg, len, mask, xor }),
        (register(), register(), order, any::<u32>(), any::<u32>())
            .prop_map(|(sreg, dreg, op, len, size)| Expr::ByteOrder { sreg, dreg, op, len, size }),
    ]
}

fn statement() -> impl Strategy<Value = Expr> {
    // The bits 1 and 2 of the flags are not independent of the registers.
    let flags = || any::<u32>().prop_map(|flags| NatFlags(flags & !3));
    let kind = prop_oneof![Just(NatKind::Snat), Just(NatKind::Dnat)];
    let verdict = prop_oneof![
        Just(Verdict::Accept),
        Just(Verdict::Drop),
        Just(Verdict::Continue),
        Just(Verdict::Return),
        name().prop_map(Verdict::Jump),
        name().prop_map(Verdict::Goto),
    ];
    prop_oneof![
        any::<(u64, u64)>().prop_map(|(packets, bytes)| Expr::Counter { packets, bytes }),
        name().prop_map(Expr::CounterRef),
        (flags(), registers()).prop_map(|(flags, ports)| Expr::Masquerade { flags, ports }),
        (kind, any::<u8>(), registers(), registers(), flags()).prop_map(|(kind, family, addresses, ports, flags)| {
            Expr::Nat { kind, family: ProtocolFamily::from_number(family), addresses, ports, flags }
        }),
        verdict.prop_map(Expr::Verdict),
        ("[a-z]{1,8}x", vec(any::<u8>(), 0..40)).prop_map(|(name, attributes)| Expr::Unknown { name, attributes }),
    ]
}

fn register() -> impl Strategy<Value = Register> {
    (0..24_u32).prop_map(Register)
}

fn registers() -> impl Strategy<Value = Option<(Register, Register)>> {
    proptest::option::of((register(), register()))
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..20)
}

fn name() -> impl Strategy<Value = String> {
    "[ -~äß]{0,20}"
}
