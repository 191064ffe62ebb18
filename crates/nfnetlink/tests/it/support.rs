//! A namespace per test, and the ruleset that most tests use.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;

use nfnetlink::expr::{
    CmpOp, FibFlags, FibResult, MetaKey, NFPROTO_IPV4, NatFlags, PayloadBase, RTN_LOCAL, Register, Verdict,
};
use nfnetlink::{BaseChain, Batch, Chain, Counter, Expr, Interval, ProtocolFamily, Rule, Set, Socket, Table, TableRef};
use nix::sched::{CloneFlags, unshare};

/// The table of the tests.
pub const TABLE: TableRef<'static> = (ProtocolFamily::Inet, "t");

/// Runs a test on a thread in a new network namespace. Programs and threads that it starts are in
/// that namespace too.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace: run as root or under `unshare -rn`");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Feeds a script to `nft -f`, which must take it; answers what it printed.
pub fn nft(script: &str) -> String {
    let output = run_nft(script);
    assert!(output.status.success(), "nft: {}\n{script}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether `nft -f` takes a script.
pub fn nft_accepts(script: &str) -> bool {
    run_nft(script).status.success()
}

fn run_nft(script: &str) -> Output {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the nft program: install the package nftables");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// A table with everything a masquerading program needs.
pub fn ruleset() -> Batch {
    let mut batch = Batch::new();
    batch.add_table(&Table::new(TABLE.0, TABLE.1));
    batch.add_counter(TABLE, &Counter { name: "hits".to_owned(), packets: 3, bytes: 400 });
    let (four, six) = (Set::ipv4_intervals("no4"), Set::ipv6_intervals("no6"));
    batch.add_set(TABLE, &four);
    batch.add_set(TABLE, &six);
    batch.add_set(TABLE, &Set::protocols("ports"));
    batch.add_elements(TABLE, &four, &intervals4());
    batch.add_elements(TABLE, &six, &intervals6());
    batch.add_elements(TABLE, &Set::protocols("ports"), &[Interval::single(6), Interval::single(132)]);
    batch.add_chain(TABLE, &postrouting());
    rules().iter().for_each(|rule| batch.add_rule(TABLE, rule));
    batch
}

/// Ours, committed.
pub fn loaded() -> Socket {
    let mut socket = Socket::open().unwrap();
    socket.commit(&ruleset(), None).unwrap();
    socket
}

/// Prefixes, neighbours, a range that is no prefix, a single address, and the top of the range.
pub fn intervals4() -> Vec<Interval> {
    [
        (0x0a00_0000, 0x0aff_ffff),
        (0x0b00_0000, 0x0b00_00ff),
        (0x1400_0001, 0x1400_0009),
        (0xc0a8_0107, 0xc0a8_0107),
        (0xf000_0000, 0xffff_ffff),
    ]
    .map(|(first, last)| Interval { first, last })
    .to_vec()
}

pub fn intervals6() -> Vec<Interval> {
    let fd = 0xfd_u128 << 120;
    vec![Interval::single(1), Interval { first: fd, last: fd | u128::MAX >> 8 }]
}

pub fn postrouting() -> Chain {
    let base = BaseChain {
        kind: "nat".to_owned(),
        hook: BaseChain::POSTROUTING,
        priority: 105,
        policy: Some(BaseChain::ACCEPT),
    };
    Chain { name: "post".to_owned(), base: Some(base), ..Chain::default() }
}

pub fn rules() -> Vec<Rule> {
    const R1: Register = Register::R1;
    let eq = |value: &[u8]| Expr::Cmp { sreg: R1, op: CmpOp::Eq, value: value.to_vec() };
    let fib = Expr::Fib { dreg: R1, result: FibResult::AddressType, flags: FibFlags::DADDR };
    let port = |dreg, port: u16| Expr::Immediate { dreg, value: port.to_be_bytes().to_vec() };
    let masquerade = |flags, ports| Expr::Masquerade { flags, ports };
    let rules = [
        (vec![fib, eq(&RTN_LOCAL.to_ne_bytes()), Expr::Verdict(Verdict::Return)], Some("of this node")),
        (
            vec![
                Expr::Meta { key: MetaKey::NFPROTO, dreg: R1 },
                eq(&[NFPROTO_IPV4]),
                Expr::Payload { dreg: R1, base: PayloadBase::Network, offset: 16, len: 4 },
                Expr::Lookup { sreg: R1, set: "no4".to_owned(), invert: false },
                Expr::Counter { packets: 0, bytes: 0 },
                Expr::CounterRef("hits".to_owned()),
                Expr::Verdict(Verdict::Return),
            ],
            Some("exempt"),
        ),
        (
            vec![
                Expr::Meta { key: MetaKey::L4PROTO, dreg: R1 },
                eq(&[6]),
                port(R1, 1024),
                port(Register::R2, 2047),
                masquerade(NatFlags::FULLY_RANDOM, Some((R1, Register::R2))),
            ],
            None,
        ),
        (vec![masquerade(NatFlags::FULLY_RANDOM, None)], None),
    ];
    rules
        .into_iter()
        .map(|(expressions, comment)| Rule {
            chain: "post".to_owned(),
            expressions,
            comment: comment.map(str::to_owned),
            ..Rule::default()
        })
        .collect()
}
