//! Our bytes against those that the nft program sends for the same command.

use crate::batch::Batch;
use crate::encode;
use crate::expr::{
    ByteOrderOp, CmpOp, CtKey, Expr, FibFlags, FibResult, IPS_DST_NAT, MetaKey, NFPROTO_IPV4, NFPROTO_IPV6, NatFlags,
    NatKind, NumgenKind, PayloadBase, RTN_LOCAL, Register, Verdict,
};
use crate::object::{BaseChain, Chain, Counter, Interval, ProtocolFamily, Rule, Set, Table, TableRef};
use crate::uapi;
use crate::wire::{Attributes, Messages, nftables};

const TABLE: TableRef<'static> = (ProtocolFamily::Inet, "t");
const R1: Register = Register::R1;

/// What nft 1.0.6 sent: each line that starts with `>` is a command, and the lines below it are
/// the messages it made of it, as type, flags and the bytes behind the netlink header.
const RECORDED: &str = include_str!("../../tests/nft-1.0.6.txt");

#[test]
fn every_message_is_the_one_that_nft_sends() {
    let recorded = recorded();
    let ours = commands();
    assert_eq!(recorded.len(), ours.operations().len());
    for (operation, (command, messages)) in ours.operations().iter().zip(&recorded) {
        assert_eq!(&operation.to_string(), command);
        let mut batch = Batch::new();
        batch.append_operation(operation.clone());
        let encoded = encode::batch(&batch, 0, None).unwrap();
        let ours: Vec<String> = Messages(&encoded.bytes)
            .map(|message| canonical(message.kind, message.flags & !uapi::NLM_F_ACK, message.payload))
            .collect();
        assert_eq!(&ours[1..ours.len() - 1], messages, "{command}");
    }
}

#[test]
fn a_batch_begins_with_the_generation_and_asks_for_one_acknowledgement() {
    let mut batch = Batch::new();
    batch.flush_set(TABLE, "a");
    batch.flush_set(TABLE, "b");
    let encoded = encode::batch(&batch, 7, Some(0x0102_0304)).unwrap();
    let messages: Vec<_> = Messages(&encoded.bytes).collect();
    let facts: Vec<_> = messages.iter().map(|it| (it.kind, it.flags, it.sequence)).collect();
    let flush = nftables(uapi::NFT_MSG_DELSETELEM);
    assert_eq!(facts, [(0x10, 1, 7), (flush, 1, 8), (flush, 5, 9), (0x11, 1, 10)]);
    assert_eq!(messages[0].payload, [0, 0, 0, 10, 8, 0, 1, 0, 1, 2, 3, 4]);
    assert_eq!(messages[3].payload, [0, 0, 0, 10]);
    assert_eq!(encoded.messages, [(28, 0), (28 + 36, 1)]);
}

#[test]
fn long_element_lists_are_cut_into_messages_below_the_limit_of_an_attribute() {
    let set = Set::ipv6_intervals("s");
    let intervals: Vec<_> = (0..5_000).map(|n| Interval::single(2 * n)).collect();
    let mut batch = Batch::new();
    batch.add_elements(TABLE, &set, &intervals);
    let encoded = encode::batch(&batch, 0, None).unwrap();
    assert!(encoded.messages.len() > 5);
    let mut elements = 0;
    let acknowledged = Messages(&encoded.bytes).filter(|it| it.flags & uapi::NLM_F_ACK != 0).count();
    for message in Messages(&encoded.bytes) {
        let (_, _, attributes) = message.nfnetlink().unwrap();
        if let Some(list) = attributes.nested(uapi::NFTA_SET_ELEM_LIST_ELEMENTS) {
            assert!(list.0.len() <= 60 * 1024);
            elements += list.iter().count();
        }
    }
    assert_eq!((elements, acknowledged), (10_000, 1));
}

/// Part of the error, and the operation that ends in it.
type Spoil<'a> = (&'static str, &'a dyn Fn(&mut Batch));

#[test]
fn what_does_not_fit_the_format_is_refused_with_the_operation() {
    let long = "x".repeat(70_000);
    let backwards = Interval { first: 2, last: 1 };
    let beyond = Interval::single(1 << 32);
    let wide = Interval { first: 1, last: 2 };
    let plain = Set::protocols("p");
    let spoil: [Spoil<'_>; 7] = [
        ("longer than 65,535 bytes", &|batch| batch.flush_set(TABLE, &long)),
        ("NUL", &|batch| batch.flush_set(TABLE, "a\0b")),
        ("comment", &|batch| batch.add_rule(TABLE, &commented(&long[..255]))),
        ("comment contains a NUL", &|batch| batch.add_rule(TABLE, &commented("a\0"))),
        ("before it starts", &|batch| batch.add_elements(TABLE, &Set::ipv4_intervals("s"), &[backwards])),
        ("beyond the longest key", &|batch| batch.add_elements(TABLE, &Set::ipv4_intervals("s"), &[beyond])),
        ("single keys", &|batch| batch.add_elements(TABLE, &plain, &[wide])),
    ];
    for (reason, operation) in spoil {
        let mut batch = Batch::new();
        operation(&mut batch);
        let error = encode::batch(&batch, 0, None).unwrap_err().to_string();
        assert!(error.starts_with("cannot encode ") && error.contains(reason), "{error}");
    }
}

fn commented(comment: &str) -> Rule {
    Rule { chain: "c".to_owned(), comment: Some(comment.to_owned()), ..Rule::default() }
}

/// The commands of the recording, in its order.
fn commands() -> Batch {
    let mut batch = Batch::new();
    batch.add_table(&Table::new(ProtocolFamily::Inet, "t"));
    let (four, six) = (Set::ipv4_intervals("no4"), Set::ipv6_intervals("no6"));
    batch.add_set(TABLE, &four);
    batch.add_set(TABLE, &six);
    batch.add_set(TABLE, &Set::protocols("ports"));
    let lists = [cidr4(0x0a00_0000, 8), cidr4(0xc0a8_0107, 32), cidr4(0xf000_0000, 4)];
    batch.add_elements(TABLE, &four, &lists);
    batch.add_elements(TABLE, &six, &[Interval { first: 0xfd << 120, last: (0xfe << 120) - 1 }]);
    batch.add_elements(TABLE, &Set::protocols("ports"), &[Interval::single(6), Interval::single(17)]);
    batch.add_counter(TABLE, &Counter { name: "hits".to_owned(), packets: 0, bytes: 0 });
    let base = BaseChain {
        kind: "nat".to_owned(),
        hook: BaseChain::POSTROUTING,
        priority: 105,
        policy: Some(BaseChain::ACCEPT),
    };
    batch.add_chain(TABLE, &Chain { name: "post".to_owned(), base: Some(base), ..Chain::default() });
    batch.add_chain(TABLE, &Chain { name: "sub".to_owned(), ..Chain::default() });
    for (expressions, comment) in rules() {
        let comment = comment.map(str::to_owned);
        batch.add_rule(TABLE, &Rule { chain: "post".to_owned(), expressions, comment, ..Rule::default() });
    }
    let rule = Rule { chain: "post".to_owned(), expressions: vec![Expr::Verdict(Verdict::Accept)], ..Rule::default() };
    batch.insert_rule(TABLE, &rule, None);
    batch.delete_elements(TABLE, &four, &lists[..1]);
    batch.flush_set(TABLE, "no6");
    batch.flush_chain(TABLE, "post");
    batch.delete_chain(TABLE, "sub");
    batch.delete_set(TABLE, "no6");
    batch.delete_counter(TABLE, "hits");
    batch.delete_table(TABLE);
    batch
}

fn cidr4(first: u128, len: u32) -> Interval {
    Interval { first, last: first | (0xffff_ffff >> len) }
}

fn rules() -> Vec<(Vec<Expr>, Option<&'static str>)> {
    let verdict = Expr::Verdict;
    let eq = |value: &[u8]| Expr::Cmp { sreg: R1, op: CmpOp::Eq, value: value.to_vec() };
    let load = |key| Expr::Meta { key, dreg: R1 };
    let daddr = |offset, len| Expr::Payload { dreg: R1, base: PayloadBase::Network, offset, len };
    let lookup = |set: &str| Expr::Lookup { sreg: R1, set: set.to_owned(), invert: false };
    let port = |dreg, port: u16| Expr::Immediate { dreg, value: port.to_be_bytes().to_vec() };
    let masquerade = |flags, ports| Expr::Masquerade { flags, ports };
    let snat = |addresses, ports| Expr::Nat {
        kind: NatKind::Snat,
        family: ProtocolFamily::Ipv4,
        addresses,
        ports,
        flags: NatFlags::default(),
    };
    let ipv4 = [load(MetaKey::NFPROTO), eq(&[NFPROTO_IPV4])];
    let ipv6 = [load(MetaKey::NFPROTO), eq(&[NFPROTO_IPV6])];
    let fib = Expr::Fib { dreg: R1, result: FibResult::AddressType, flags: FibFlags::DADDR };
    let byteorder = Expr::ByteOrder { sreg: R1, dreg: R1, op: ByteOrderOp::Hton, len: 4, size: 4 };
    let numgen = Expr::Numgen { dreg: R1, modulus: 100, kind: NumgenKind::Random, offset: 0 };
    let dnat = Expr::Bitwise { sreg: R1, dreg: R1, len: 4, mask: IPS_DST_NAT.to_ne_bytes().to_vec(), xor: vec![0; 4] };
    let mut eth0 = *b"eth0\0\0\0\0\0\0\0\0\0\0\0\0";
    eth0[4..].fill(0);
    let counter = Expr::Counter { packets: 0, bytes: 0 };
    let part = Expr::Cmp { sreg: R1, op: CmpOp::Lt, value: 30_u32.to_be_bytes().to_vec() };
    let first = |addresses: &[u8]| Expr::Immediate { dreg: R1, value: addresses.to_vec() };
    vec![
        (vec![fib, eq(&RTN_LOCAL.to_ne_bytes()), verdict(Verdict::Return)], None),
        ([&ipv4[..], &[daddr(16, 4), lookup("no4"), counter, verdict(Verdict::Return)]].concat(), Some("exempt")),
        (
            [
                &ipv6[..],
                &[daddr(24, 16), lookup("no6"), Expr::CounterRef("hits".to_owned())],
                &[verdict(Verdict::Accept)],
            ]
            .concat(),
            None,
        ),
        (
            [
                &[load(MetaKey::L4PROTO), eq(&[132]), numgen, byteorder, part][..],
                &[port(R1, 1024), port(Register::R2, 2047)],
                &[masquerade(NatFlags::FULLY_RANDOM, Some((R1, Register::R2)))],
            ]
            .concat(),
            None,
        ),
        (
            vec![
                Expr::Ct { key: CtKey::STATUS, dreg: R1, direction: None },
                dnat,
                Expr::Cmp { sreg: R1, op: CmpOp::Neq, value: vec![0; 4] },
                verdict(Verdict::Jump("sub".to_owned())),
            ],
            None,
        ),
        (
            [&[load(MetaKey::OIFNAME), eq(&eth0)], &ipv4[..], &[first(&[1, 2, 3, 4]), snat(Some((R1, R1)), None)]]
                .concat(),
            None,
        ),
        (
            [
                &[load(MetaKey::OIFNAME), eq(b"eth")][..],
                &ipv4,
                &[load(MetaKey::L4PROTO), eq(&[6]), first(&[1, 2, 3, 4])],
                &[Expr::Immediate { dreg: Register::R2, value: vec![1, 2, 3, 9] }],
                &[port(Register::R3, 1024), port(Register::R4, 2047)],
                &[snat(Some((R1, Register::R2)), Some((Register::R3, Register::R4)))],
            ]
            .concat(),
            None,
        ),
        ([&ipv4[..], &[daddr(12, 4), snat(Some((R1, R1)), None)]].concat(), None),
        (
            vec![load(MetaKey::L4PROTO), eq(&[17]), port(R1, 1024), masquerade(NatFlags::default(), Some((R1, R1)))],
            None,
        ),
        (vec![masquerade(NatFlags(NatFlags::RANDOM.0 | NatFlags::PERSISTENT.0), None)], None),
    ]
}

fn recorded() -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in RECORDED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(command) = line.strip_prefix("> ") {
            commands.push((command.to_owned(), Vec::new()));
            continue;
        }
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| u16::from_str_radix(text, 16).unwrap();
        let payload: Vec<u8> =
            (0..fields[2].len()).step_by(2).map(|at| u8::from_str_radix(&fields[2][at..at + 2], 16).unwrap()).collect();
        let message = canonical(number(fields[0]), number(fields[1]), &payload);
        commands.last_mut().unwrap().1.push(message);
    }
    commands
}

/// A message as text, without what differs from nft on purpose:
/// - ids of sets, by which nft names a set of the same batch: names do as well;
/// - the element `0 [end]` that nft puts before the first interval: nothing asks for it;
/// - the type of the entries of element lists, which nft counts up and the kernel ignores;
/// - the empty contents that nft sends with the name of an object to delete;
/// - the order of attributes, which nft swaps when it flushes a set.
fn canonical(kind: u16, flags: u16, payload: &[u8]) -> String {
    let (header, attributes) = payload.split_at(4);
    let mut parts = Vec::new();
    for (attribute, value) in Attributes(attributes).iter() {
        let skipped = match kind & 0xff {
            uapi::NFT_MSG_NEWSET => attribute == uapi::NFTA_SET_ID,
            uapi::NFT_MSG_NEWSETELEM | uapi::NFT_MSG_DELSETELEM => attribute == 4,
            uapi::NFT_MSG_DELOBJ => attribute == uapi::NFTA_OBJ_DATA,
            _ => false,
        };
        if skipped {
            continue;
        }
        let rule = kind == nftables(uapi::NFT_MSG_NEWRULE) && attribute == uapi::NFTA_RULE_EXPRESSIONS;
        let elements = matches!(kind & 0xff, uapi::NFT_MSG_NEWSETELEM | uapi::NFT_MSG_DELSETELEM) && attribute == 3;
        if rule || elements {
            for (_, entry) in Attributes(value).iter().filter(|&(_, entry)| !elements || !dummy(entry)) {
                parts.push(format!("{attribute}: {}", entry_text(entry)));
            }
        } else {
            parts.push(format!("{attribute}: {value:02x?}"));
        }
    }
    // Stable, so that expressions and elements keep their order.
    parts.sort_by_key(|part| part.split(':').next().map(str::to_owned));
    format!("{kind:x} {flags:x} {header:02x?}\n  {}", parts.join("\n  "))
}

/// Whether an element is an end at key 0.
fn dummy(element: &[u8]) -> bool {
    let element = Attributes(element);
    let end = element.u32(uapi::NFTA_SET_ELEM_FLAGS) == Some(uapi::NFT_SET_ELEM_INTERVAL_END);
    end && element.value(uapi::NFTA_SET_ELEM_KEY).unwrap().iter().all(|&byte| byte == 0)
}

fn entry_text(entry: &[u8]) -> String {
    let expr = Attributes(entry);
    if expr.text(uapi::NFTA_EXPR_NAME).as_deref() != Some("lookup") {
        return format!("{entry:02x?}");
    }
    let attributes = expr.nested(uapi::NFTA_EXPR_DATA).unwrap();
    let kept: Vec<_> = attributes.iter().filter(|&(kind, _)| kind != uapi::NFTA_LOOKUP_SET_ID).collect();
    format!("lookup {kept:02x?}")
}
