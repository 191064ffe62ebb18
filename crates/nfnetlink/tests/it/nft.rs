//! The nft program as the oracle: it reads what we print, and prints what we wrote.

use nfnetlink::{Batch, Chain, Counter, Elements, Interval, Rule, Set, Socket, Table};

use crate::support::{TABLE, in_namespace, intervals4, loaded, nft, ruleset};

/// Everything of the table without what the kernel chooses.
#[derive(Debug, PartialEq)]
struct Content {
    chains: Vec<Chain>,
    rules: Vec<Rule>,
    sets: Vec<(Set, Elements)>,
    counters: Vec<Counter>,
}

fn content(socket: &mut Socket) -> Content {
    let mut sets = socket.sets(TABLE).unwrap().items;
    sets.iter_mut().for_each(|set| set.handle = None);
    Content {
        chains: socket.chains(TABLE).unwrap().items.into_iter().map(|it| Chain { handle: None, ..it }).collect(),
        rules: socket.rules(TABLE).unwrap().items.into_iter().map(|it| Rule { handle: None, ..it }).collect(),
        sets: sets
            .into_iter()
            .map(|set| {
                let elements = socket.elements(TABLE, &set).unwrap().items;
                (set, elements)
            })
            .collect(),
        counters: socket.counters(TABLE).unwrap().items,
    }
}

#[test]
fn nft_loads_what_we_print_as_what_we_commit() {
    in_namespace(|| {
        let mut socket = loaded();
        let ours = content(&mut socket);
        let listed = nft("list ruleset");
        nft(&format!("flush ruleset\n{}", ruleset()));
        assert_eq!(content(&mut socket), ours);
        assert_eq!(nft("list ruleset"), listed);
    });
}

#[test]
fn nft_prints_every_rule_we_wrote_as_we_do() {
    in_namespace(|| {
        let mut socket = loaded();
        let listed = nft("list chain inet t post");
        let lines: Vec<&str> = listed.lines().map(str::trim).collect();
        // nft leaves out what an address implies, and the zeros of counters it prints.
        let expected = [
            "fib daddr type local return comment \"of this node\"",
            "ip daddr @no4 counter packets 0 bytes 0 counter name \"hits\" return comment \"exempt\"",
            "meta l4proto tcp masquerade to :1024-2047 fully-random",
            "masquerade fully-random",
        ];
        assert_eq!(lines[3..7], expected);
        let ours: Vec<_> = socket.rules(TABLE).unwrap().items.iter().map(Rule::to_string).collect();
        assert_eq!(ours[0], expected[0]);
        assert_eq!(ours[1], "meta nfproto ipv4 ip daddr @no4 counter counter name \"hits\" return comment \"exempt\"");
        assert_eq!(ours[2..], expected[2..]);
    });
}

/// Rules that other programs write, as nft reads them; ours print the same after a round trip.
#[test]
fn rules_of_others_are_printed_as_nft_reads_them() {
    const RULES: [&str; 17] = [
        "meta nfproto ipv4 ip saddr 10.0.0.0/8 accept",
        "meta nfproto ipv4 ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade",
        "meta nfproto ipv4 ip daddr 172.16.0.0/12 return",
        "meta nfproto ipv6 ip6 daddr fd00::/8 return",
        "meta nfproto ipv6 ip6 daddr fe80::/10 return",
        "meta nfproto ipv6 ip6 saddr fd00::1 snat ip6 to fd00::2",
        "meta mark & 0x00004000 != 0x00004000 return",
        "meta mark 0x00000001 return",
        "meta mark set meta mark ^ 0x00004000",
        "ct status dnat accept",
        "ct state established,related accept",
        "oifname != \"lo\" return",
        "iifname \"cali*\" jump sub",
        "meta l4proto udp th dport 53-60 dnat ip to 10.0.0.1:5353",
        "meta l4proto tcp th dport != 80 goto sub",
        "fib saddr type local return",
        "numgen inc mod 3 offset 1 1 drop",
    ];
    in_namespace(|| {
        let mut socket = Socket::open().unwrap();
        nft("add table inet t; add chain inet t sub; add chain inet t post");
        for rule in RULES {
            let chain = if rule.contains("dnat ip") { "pre" } else { "post" };
            nft("add chain inet t pre { type nat hook prerouting priority 0; }");
            nft(&format!("add rule inet t {chain} {rule}"));
            let found = socket.rules(TABLE).unwrap().items;
            let found = found.iter().rfind(|it| it.chain == chain).unwrap();
            assert_eq!(found.to_string(), rule);
            let mut batch = Batch::new();
            batch.add_rule(TABLE, found);
            socket.commit(&batch, None).unwrap();
            let again = socket.rules(TABLE).unwrap().items;
            let again = again.iter().rfind(|it| it.chain == chain).unwrap();
            assert!(again.same_definition(found), "{again:?}");
        }
    });
}

#[test]
fn long_lists_are_short_for_people_and_whole_for_nft() {
    let mut batch = Batch::new();
    let set = Set::ipv4_intervals("s");
    let many: Vec<_> = (0..100).map(nfnetlink::Interval::single).collect();
    batch.add_elements(TABLE, &set, &many);
    assert!(batch.to_string().ends_with("0.0.0.98, 0.0.0.99 }\n"));
    assert!(format!("{batch:#}").ends_with("0.0.0.7, ... 92 more }\n"));
    let mut few = Batch::new();
    few.add_elements(TABLE, &set, &intervals4());
    assert_eq!(
        format!("{few:#}"),
        "add element inet t s { 10.0.0.0/8, 11.0.0.0/24, 20.0.0.1-20.0.0.9, 192.168.1.7, 240.0.0.0/4 }\n"
    );
}

#[test]
fn nft_reads_a_counting_set_as_we_print_it_and_we_read_what_it_counts() {
    in_namespace(|| {
        let mut socket = Socket::open().unwrap();
        let set = Set::ipv4_intervals("s").counting();
        let [first, second] =
            [(10, 12), (12, 13)].map(|(from, to)| Interval { first: from << 24, last: (to << 24) - 1 });
        let mut batch = Batch::new();
        batch.add_table(&Table::new(TABLE.0, TABLE.1));
        batch.add_set(TABLE, &set);
        batch.add_elements(TABLE, &set, &[first, second]);
        socket.commit(&batch, None).unwrap();
        let listed = nft("list ruleset");
        assert_eq!(socket.counted_elements(TABLE, &set).unwrap().items, [(first, 0), (second, 0)], "{listed}");
        nft(&format!("flush ruleset\n{batch}"));
        assert_eq!(nft("list ruleset"), listed);
        nft("flush set inet t s\nadd element inet t s { 10.0.0.0-11.255.255.255 counter packets 5 bytes 6 }");
        assert_eq!(socket.counted_elements(TABLE, &set).unwrap().items, [(first, 5)]);
        assert_eq!(socket.elements(TABLE, &set).unwrap().items.intervals, [first]);
    });
}
