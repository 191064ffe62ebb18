//! Tests of taking rules of nf_tables apart; packets decide about the rest in the integration tests.

use super::*;
use crate::foreign::condition::Answer;

const R1: Register = Register::R1;

fn cmp(op: CmpOp, value: &[u8]) -> Expr {
    Expr::Cmp { sreg: R1, op, value: value.to_vec() }
}

fn network(offset: u32, len: u32) -> Expr {
    Expr::Payload { dreg: R1, base: PayloadBase::Network, offset, len }
}

fn masked(mask: &[u8]) -> Expr {
    let len = u32::try_from(mask.len()).unwrap();
    Expr::Bitwise { sreg: R1, dreg: R1, len, mask: mask.to_vec(), xor: vec![0; mask.len()] }
}

fn parsed(family: ProtocolFamily, expressions: Vec<Expr>) -> Rule {
    rule(family, false, &nfnetlink::Rule { chain: "post".to_owned(), expressions, ..nfnetlink::Rule::default() })
}

fn tests(family: ProtocolFamily, expressions: Vec<Expr>) -> Vec<String> {
    parsed(family, expressions).tests.iter().map(Test::to_string).collect()
}

#[test]
fn blocks_are_read_by_their_first_bytes_and_by_masks() {
    let of_ipv4 = |expressions| tests(ProtocolFamily::Ipv4, expressions);
    assert_eq!(of_ipv4(vec![network(16, 1), cmp(CmpOp::Neq, &[10])]), ["! -d 10.0.0.0/8"]);
    assert_eq!(of_ipv4(vec![network(12, 4), cmp(CmpOp::Eq, &[10, 0, 0, 1])]), ["-s 10.0.0.1"]);
    let mask = masked(&[255, 240, 0, 0]);
    assert_eq!(of_ipv4(vec![network(16, 4), mask, cmp(CmpOp::Eq, &[172, 16, 0, 0])]), ["-d 172.16.0.0/12"]);
    let ragged = vec![network(16, 4), masked(&[255, 0, 255, 0]), cmp(CmpOp::Eq, &[10, 0, 1, 0])];
    assert!(matches!(parsed(ProtocolFamily::Ipv4, ragged).tests[0].question, Question::Opaque(_)));
    let all = vec![network(16, 4), masked(&[0; 4]), cmp(CmpOp::Neq, &[0; 4])];
    assert_eq!(of_ipv4(all), ["! -d 0.0.0.0/0"]);
    let of_ipv6 = |expressions| tests(ProtocolFamily::Ipv6, expressions);
    assert_eq!(of_ipv6(vec![network(8, 1), cmp(CmpOp::Eq, &[0xfd])]), ["-s fd00::/8"]);
}

#[test]
fn in_a_table_of_both_families_addresses_need_a_test_of_the_family() {
    let nfproto = Expr::Meta { key: MetaKey::NFPROTO, dreg: R1 };
    let address = || vec![network(16, 4), cmp(CmpOp::Eq, &[10, 0, 0, 1])];
    let known = [vec![nfproto, cmp(CmpOp::Eq, &[NFPROTO_IPV4])], address()].concat();
    assert_eq!(tests(ProtocolFamily::Inet, known), ["IPv4", "-d 10.0.0.1"]);
    assert!(matches!(parsed(ProtocolFamily::Inet, address()).tests[0].question, Question::Opaque(_)));
}

#[test]
fn ranges_are_read_from_both_forms() {
    let port = Expr::Payload { dreg: R1, base: PayloadBase::Transport, offset: 2, len: 2 };
    let range = Expr::Range { sreg: R1, op: RangeOp::Neq, from: vec![0, 53], to: vec![0, 60] };
    assert_eq!(tests(ProtocolFamily::Inet, vec![port, range]), ["! --dport 53:60"]);
    let between = vec![network(12, 4), cmp(CmpOp::Gte, &[10, 0, 0, 1]), cmp(CmpOp::Lte, &[10, 0, 0, 3])];
    assert_eq!(tests(ProtocolFamily::Ipv4, between), ["-s 10.0.0.1-255.255.255.255", "-s 0.0.0.0-10.0.0.3"]);
    let below = vec![network(12, 4), cmp(CmpOp::Lt, &[10, 0, 0, 1])];
    assert_eq!(tests(ProtocolFamily::Ipv4, below), ["! -s 10.0.0.1-255.255.255.255"]);
}

#[test]
fn links_are_read_with_and_without_the_end_of_their_name() {
    let output = || Expr::Meta { key: MetaKey::OIFNAME, dreg: R1 };
    let mut whole = [0; 16];
    whole[..4].copy_from_slice(b"eth0");
    assert_eq!(tests(ProtocolFamily::Inet, vec![output(), cmp(CmpOp::Eq, &whole)]), ["-o eth0"]);
    assert_eq!(tests(ProtocolFamily::Inet, vec![output(), cmp(CmpOp::Neq, b"eth")]), ["! -o eth+"]);
}

#[test]
fn states_and_marks_are_read_by_their_bits() {
    let state = Expr::Ct { key: CtKey::STATE, dreg: R1, direction: None };
    let new = vec![state, masked(&8_u32.to_ne_bytes()), cmp(CmpOp::Neq, &[0; 4])];
    assert_eq!(parsed(ProtocolFamily::Inet, new).tests, [Test::new(Question::State(8))]);
    let mark = Expr::Meta { key: MetaKey::MARK, dreg: R1 };
    let bit = masked(&0x4000_u32.to_ne_bytes());
    let unmarked = vec![mark, bit, cmp(CmpOp::Neq, &0x4000_u32.to_ne_bytes())];
    assert_eq!(tests(ProtocolFamily::Inet, unmarked), ["-m mark ! --mark 0x4000/0x4000"]);
}

#[test]
fn a_translation_to_the_own_source_is_told_from_one_to_an_address() {
    let nat = |addresses| Expr::Nat {
        kind: NatKind::Snat,
        family: ProtocolFamily::Ipv4,
        addresses,
        ports: None,
        flags: nfnetlink::expr::NatFlags::default(),
    };
    let own = vec![network(12, 4), nat(Some((R1, R1)))];
    assert_eq!(parsed(ProtocolFamily::Ipv4, own).action, Action::Snat(SnatTo::OwnSource));
    let constant = Expr::Immediate { dreg: R1, value: vec![1, 2, 3, 4] };
    let to = "1.2.3.4".parse().unwrap();
    let action = parsed(ProtocolFamily::Ipv4, vec![constant, nat(Some((R1, R1)))]).action;
    assert_eq!(action, Action::Snat(SnatTo::Addresses(to, to)));
    assert_eq!(parsed(ProtocolFamily::Ipv4, vec![nat(Some((R1, R1)))]).action, Action::Snat(SnatTo::Unknown));
    assert_eq!(parsed(ProtocolFamily::Ipv4, vec![nat(None)]).action, Action::Snat(SnatTo::Ports));
}

#[test]
fn statements_that_are_not_known_stay_conditions_or_open_actions() {
    let unknown = |name: &str| Expr::Unknown { name: name.to_owned(), attributes: Vec::new() };
    let limited = parsed(ProtocolFamily::Inet, vec![unknown("limit"), unknown("log")]);
    assert_eq!(limited.tests, [Test::opaque("[limit]")]);
    assert_eq!(limited.action, Action::Continue);
    assert_eq!(parsed(ProtocolFamily::Inet, vec![unknown("lookup")]).action, Action::Opaque);
    assert_eq!(parsed(ProtocolFamily::Inet, vec![unknown("notrack")]).action, Action::Notrack);
}

#[test]
fn a_set_is_asked_about_the_address_that_the_rule_looks_up() {
    let lookup = Expr::Lookup { sreg: R1, set: "blocks".to_owned(), invert: true };
    let parsed = parsed(ProtocolFamily::Ipv4, vec![network(16, 4), lookup]);
    let packet = crate::foreign::condition::Packet {
        source: "10.0.0.1".parse().unwrap(),
        destination: "8.8.8.8".parse().unwrap(),
        source_type: crate::foreign::condition::AddressTypes::UNICAST,
        destination_type: crate::foreign::condition::AddressTypes::UNICAST,
        protocol: None,
        source_port: None,
        destination_port: None,
        input: None,
        output: None,
        mark: Some(0),
    };
    let assumed = crate::foreign::condition::Assumed { mark: Some(0) };
    let mut set = |name: &str, address: std::net::IpAddr| Some((name, address) == ("blocks", packet.destination));
    assert_eq!(parsed.tests[0].answer(&packet, assumed, &mut set), Answer::No);
    assert_eq!(parsed.tests[0].answer(&packet, assumed, &mut |_, _| None), Answer::Maybe);
}
