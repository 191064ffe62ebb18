//! Transactions: all or nothing, for the right generation, of any size.

use std::time::Instant;

use nfnetlink::expr::Verdict;
use nfnetlink::{BaseChain, Batch, Chain, Error, Expr, Interval, ProtocolFamily, Rule, Set, Socket, Table, TableFlags};

use crate::support::{TABLE, in_namespace, intervals4, loaded, nft, nft_accepts, postrouting, rules, ruleset};

/// An operation, and parts of the error that it must end in.
type Case<'a> = (&'a dyn Fn(&mut Batch), [&'static str; 3]);

#[test]
fn a_commit_answers_the_generation_it_made() {
    in_namespace(|| {
        let mut socket = Socket::open().unwrap();
        let before = socket.generation().unwrap();
        let after = socket.commit(&ruleset(), Some(before)).unwrap();
        assert_eq!(after, Some(before.next()));
        assert_eq!(socket.generation().unwrap(), before.next());
        assert_eq!(socket.commit(&Batch::new(), after).unwrap(), after);
        let mut same = Batch::new();
        same.add_table(&Table::new(TABLE.0, TABLE.1));
        assert_eq!(socket.commit(&same, after).unwrap(), after);
    });
}

#[test]
fn a_batch_for_an_older_generation_changes_nothing() {
    in_namespace(|| {
        let mut socket = Socket::open().unwrap();
        let before = socket.generation().unwrap();
        nft("add table inet other");
        let error = socket.commit(&ruleset(), Some(before)).unwrap_err();
        assert!(matches!(error, Error::StaleGeneration { expected } if expected == before.0), "{error}");
        assert_eq!(socket.table(TABLE).unwrap(), None);
        let now = socket.generation().unwrap();
        socket.commit(&ruleset(), Some(now)).unwrap();
    });
}

#[test]
fn a_refusal_names_the_operation_the_attribute_and_the_remedy() {
    in_namespace(|| {
        let mut socket = loaded();
        let mut elsewhere = postrouting();
        elsewhere.base.as_mut().unwrap().priority = 95;
        let missing_set = Expr::Lookup { sreg: nfnetlink::expr::Register::R1, set: "none".to_owned(), invert: false };
        let rule = |expr| Rule { chain: "post".to_owned(), expressions: vec![expr], ..Rule::default() };
        let strange = Expr::Unknown { name: "frobnicate".to_owned(), attributes: Vec::new() };
        let hook = BaseChain { hook: BaseChain::FORWARD, ..postrouting().base.unwrap() };
        let wrong_hook = Chain { name: "fwd".to_owned(), base: Some(hook), ..Chain::default() };
        let cases: [Case<'_>; 8] = [
            (&|it| it.add_chain(TABLE, &elsewhere), ["add chain inet t post", "Operation not supported", "same batch"]),
            (&|it| it.add_chain(TABLE, &wrong_hook), ["add chain inet t fwd", "Operation not supported", ""]),
            (
                &|it| it.delete_chain(TABLE, "x"),
                ["delete chain inet t x (at NFTA_CHAIN_NAME)", "No such file", "exist"],
            ),
            (&|it| it.delete_set(TABLE, "no4"), ["delete set inet t no4", "busy", "refers to it"]),
            (
                &|it| it.add_rule(TABLE, &rule(missing_set.clone())),
                ["add rule", "expression 1 (lookup)", "set, counter"],
            ),
            (&|it| it.add_rule(TABLE, &rule(strange.clone())), ["add rule", "expression 1 (frobnicate)", "a module"]),
            (
                &|it| {
                    let wide = Interval { first: 0x0a00_0001, last: 0x0c00_0000 };
                    it.add_elements(TABLE, &Set::ipv4_intervals("no4"), &[wide]);
                },
                ["add element inet t no4 { 10.0.0.1-12.0.0.0 }", "File exists", "overlap"],
            ),
            (
                &|it| it.add_table(&Table::new(ProtocolFamily::Inet, "x".repeat(300))),
                ["add table", "out of range", "255"],
            ),
        ];
        for (operation, parts) in cases {
            let mut batch = Batch::new();
            batch.add_table(&Table::new(ProtocolFamily::Inet, "bystander"));
            operation(&mut batch);
            let error = socket.commit(&batch, None).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}\nlacks one of {parts:?}");
            assert_eq!(socket.table((ProtocolFamily::Inet, "bystander")).unwrap(), None, "{error}");
        }
    });
}

#[test]
fn all_refused_operations_of_a_batch_are_counted() {
    in_namespace(|| {
        let mut socket = loaded();
        let mut batch = Batch::new();
        for chain in ["a", "b", "c"] {
            batch.delete_chain(TABLE, chain);
        }
        let error = socket.commit(&batch, None).unwrap_err().to_string();
        assert!(error.contains("delete chain inet t a") && error.contains("2 more operations"), "{error}");
        assert!(socket.table(TABLE).unwrap().is_some(), "the socket is in step again");
    });
}

#[test]
fn rules_are_inserted_and_deleted_where_told() {
    in_namespace(|| {
        let mut socket = loaded();
        let marked = |comment: &str| Rule {
            chain: "post".to_owned(),
            expressions: vec![Expr::Verdict(Verdict::Continue)],
            comment: Some(comment.to_owned()),
            ..Rule::default()
        };
        let found = socket.rules(TABLE).unwrap().items;
        let mut batch = Batch::new();
        batch.insert_rule(TABLE, &marked("head"), None);
        batch.insert_rule(TABLE, &marked("before the third"), found[2].handle);
        batch.delete_rule(TABLE, "post", found[3].handle.unwrap());
        socket.commit(&batch, None).unwrap();
        let comments: Vec<_> = socket.rules(TABLE).unwrap().items.into_iter().map(|rule| rule.comment).collect();
        let comments: Vec<_> = comments.iter().map(Option::as_deref).collect();
        assert_eq!(comments, [Some("head"), Some("of this node"), Some("exempt"), Some("before the third"), None]);
    });
}

#[test]
fn everything_in_a_table_can_be_taken_apart() {
    in_namespace(|| {
        let mut socket = loaded();
        nft("add chain inet t sub");
        // A kernel without flow tables refuses this one; the rest is the same there.
        let flowtable = nft_accepts("add flowtable inet t f { hook ingress priority 0; }");
        let found = socket.flowtables(TABLE).unwrap().items;
        assert_eq!(found.iter().map(|it| &*it.name).collect::<Vec<_>>(), if flowtable { vec!["f"] } else { vec![] });
        let mut batch = Batch::new();
        batch.flush_chain(TABLE, "post");
        batch.delete_chain(TABLE, "post");
        batch.delete_chain(TABLE, "sub");
        batch.delete_elements(TABLE, &Set::ipv4_intervals("no4"), &intervals4());
        batch.flush_set(TABLE, "no6");
        ["no4", "no6", "ports"].iter().for_each(|set| batch.delete_set(TABLE, set));
        batch.delete_counter(TABLE, "hits");
        if flowtable {
            batch.delete_flowtable(TABLE, "f");
        }
        socket.commit(&batch, None).unwrap();
        assert_eq!(nft("list ruleset").split_whitespace().collect::<String>(), "tableinett{}");
        let mut batch = Batch::new();
        batch.delete_table(TABLE);
        socket.commit(&batch, None).unwrap();
        assert_eq!(socket.table(TABLE).unwrap(), None);
    });
}

#[test]
fn an_owned_table_obeys_its_socket_only_and_goes_with_it() {
    in_namespace(|| {
        let mut owner = Socket::open().unwrap();
        let mut batch = Batch::new();
        batch.add_table(&Table { flags: TableFlags::OWNER, ..Table::new(TABLE.0, TABLE.1) });
        owner.commit(&batch, None).unwrap();
        let mut other = Socket::open().unwrap();
        let mut batch = Batch::new();
        batch.delete_table(TABLE);
        let error = other.commit(&batch, None).unwrap_err().to_string();
        assert!(error.contains("Operation not permitted") && error.contains("owner flag"), "{error}");
        assert!(other.table(TABLE).unwrap().unwrap().owner.is_some());
        drop(owner);
        assert_eq!(other.table(TABLE).unwrap(), None);
    });
}

/// The send buffer of a socket takes some 5,000 intervals by default. Beyond the limit of the
/// system it grows only for a process with CAP_NET_ADMIN in the initial user namespace, so as an
/// ordinary user the same batch must be refused as too large, and nothing of it applied.
#[test]
fn a_hundred_thousand_intervals_are_one_transaction() {
    in_namespace(|| {
        let set = Set::ipv4_intervals("no4");
        let all: Vec<_> = (0..100_000).map(|n| Interval { first: n << 8, last: n << 8 | 0x7f }).collect();
        let mut socket = loaded();
        let mut batch = Batch::new();
        batch.flush_set(TABLE, "no4");
        batch.add_elements(TABLE, &set, &all);
        let started = Instant::now();
        match socket.commit(&batch, None) {
            Ok(_) => {}
            Err(Error::BatchTooLarge { bytes }) => {
                assert!(bytes > 4_000_000);
                let uid_map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
                assert!(!uid_map.contains("4294967295"), "refused in the initial user namespace");
                assert_eq!(socket.elements(TABLE, &set).unwrap().items.intervals, intervals4());
                return;
            }
            Err(error) => panic!("{error}"),
        }
        eprintln!("flush and load of 100,000: {:?}", started.elapsed());
        let started = Instant::now();
        assert!(socket.elements(TABLE, &set).unwrap().items.intervals == all);
        eprintln!("dump of 100,000: {:?}", started.elapsed());

        let mut delta = Batch::new();
        delta.delete_elements(TABLE, &set, &all[50_000..50_001]);
        delta.add_elements(TABLE, &set, &[Interval::single(0xf000_0000)]);
        let started = Instant::now();
        socket.commit(&delta, None).unwrap();
        eprintln!("delta of one: {:?}", started.elapsed());
        let found = socket.elements(TABLE, &set).unwrap().items.intervals;
        assert!(found.len() == 100_000 && found[50_000] == all[50_001] && found[99_999].first == 0xf000_0000);
        assert!(!socket.get_element(TABLE, &set, all[50_000].first).unwrap());
        assert_eq!(socket.rules(TABLE).unwrap().items.len(), rules().len());
    });
}
