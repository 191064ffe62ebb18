//! What the kernel tells is what was sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nfnetlink::{
    Batch, Elements, Error, Interval, NamedObject, ObjectKind, ProtocolFamily, Set, SetFlags, Socket, Table,
};

use crate::support::{TABLE, in_namespace, intervals4, intervals6, loaded, nft, postrouting, rules};

#[test]
fn everything_we_write_is_read_back_as_it_was_written() {
    in_namespace(|| {
        let mut socket = loaded();
        let table = socket.table(TABLE).unwrap().unwrap();
        assert!(table.same_definition(&Table::new(TABLE.0, TABLE.1)) && table.handle.is_some());
        assert_eq!(socket.tables(ProtocolFamily::Unspec).unwrap().items, [table]);

        let chains = socket.chains(TABLE).unwrap().items;
        assert_eq!(chains.len(), 1);
        assert!(chains[0].same_definition(&postrouting()), "{chains:?}");

        let found = socket.rules(TABLE).unwrap().items;
        assert_eq!(found.len(), rules().len());
        for (found, written) in found.iter().zip(&rules()) {
            assert!(found.same_definition(written) && found.handle.is_some(), "{found:?}\n{written:?}");
        }

        let sets = socket.sets(TABLE).unwrap().items;
        let written = [Set::ipv4_intervals("no4"), Set::ipv6_intervals("no6"), Set::protocols("ports")];
        assert_eq!(sets.len(), 3);
        assert!(sets.iter().zip(&written).all(|(found, written)| found.same_definition(written)), "{sets:?}");
        let elements = |socket: &mut Socket, set| socket.elements(TABLE, set).unwrap().items;
        assert_eq!(elements(&mut socket, &sets[0]), Elements { intervals: intervals4(), catch_all: false });
        assert_eq!(elements(&mut socket, &sets[1]).intervals, intervals6());
        assert_eq!(elements(&mut socket, &sets[2]).intervals, [Interval::single(6), Interval::single(132)]);

        let counters = socket.counters(TABLE).unwrap().items;
        assert_eq!(counters.iter().map(|it| (&*it.name, it.packets, it.bytes)).collect::<Vec<_>>(), [("hits", 3, 400)]);
    });
}

#[test]
fn a_missing_table_or_set_has_nothing() {
    in_namespace(|| {
        let mut socket = Socket::open().unwrap();
        assert_eq!(socket.table(TABLE).unwrap(), None);
        assert_eq!(socket.chains(TABLE).unwrap().items, []);
        assert_eq!(socket.rules(TABLE).unwrap().items, []);
        assert_eq!(socket.sets(TABLE).unwrap().items, []);
        assert_eq!(socket.counters(TABLE).unwrap().items, []);
        assert_eq!(socket.objects(TABLE).unwrap().items, []);
        assert_eq!(socket.flowtables(TABLE).unwrap().items, []);
        let dump = socket.elements(TABLE, &Set::ipv4_intervals("s")).unwrap();
        assert_eq!((dump.items, dump.generation_low16), (Elements::default(), None));
        nft("add table inet t");
        assert_eq!(socket.elements(TABLE, &Set::ipv4_intervals("s")).unwrap().items, Elements::default());
    });
}

#[test]
fn only_the_table_asked_for_is_read() {
    in_namespace(|| {
        let mut socket = loaded();
        nft("add table inet other; add chain inet other post; add rule inet other post accept;
             add counter inet other c; add set inet other s { type ipv4_addr; }; add table ip t; add chain ip t x");
        assert_eq!(socket.tables(ProtocolFamily::Unspec).unwrap().items.len(), 3);
        assert_eq!(socket.tables(ProtocolFamily::Inet).unwrap().items.len(), 2);
        assert_eq!(socket.chains(TABLE).unwrap().items.len(), 1);
        assert_eq!(socket.rules(TABLE).unwrap().items.len(), rules().len());
        assert_eq!(socket.sets(TABLE).unwrap().items.len(), 3);
        assert_eq!(socket.objects(TABLE).unwrap().items.len(), 1);
    });
}

#[test]
fn a_dump_of_all_tables_says_what_is_where_in_the_order_of_making() {
    in_namespace(|| {
        let mut socket = loaded();
        nft("add table ip6 t; add chain ip6 t x; add table ip a; add chain ip a y; add rule ip a y accept;
             add chain inet t late; add rule inet t late return");
        let chains = socket.all_chains().unwrap().items;
        let places: Vec<_> = chains.iter().map(|it| (it.family, it.table.as_str(), it.item.name.as_str())).collect();
        let inet = ProtocolFamily::Inet;
        let (ip6, ip) = (ProtocolFamily::Ipv6, ProtocolFamily::Ipv4);
        assert_eq!(places, [(inet, "t", "post"), (inet, "t", "late"), (ip6, "t", "x"), (ip, "a", "y")]);
        let rules = socket.all_rules(|_, _| true).unwrap().items;
        assert_eq!(rules.len(), crate::support::rules().len() + 2);
        let wanted = socket.all_rules(|table, chain| (table, chain) == ((ip, "a"), "y")).unwrap();
        assert_eq!(wanted.items.len(), 1);
        assert_eq!((wanted.items[0].family, wanted.items[0].item.to_string().as_str()), (ip, "accept"));
        assert_eq!(wanted.generation_low16, Some(socket.generation().unwrap().low16()));
    });
}

#[test]
fn a_dump_carries_the_generation_it_belongs_to() {
    in_namespace(|| {
        let mut socket = loaded();
        let generation = socket.generation().unwrap();
        let rules = socket.rules(TABLE).unwrap();
        assert_eq!(rules.generation_low16, Some(generation.low16()));
        let (sets, snapshot) = socket.snapshot(1, |socket| socket.sets(TABLE)).unwrap();
        assert_eq!((sets.generation_low16, snapshot), (Some(generation.low16()), generation));
    });
}

#[test]
fn what_strangers_add_to_a_table_is_seen() {
    in_namespace(|| {
        let mut socket = loaded();
        nft("add quota inet t q { over 10 mbytes }
             add element inet t no4 { 30.0.0.0/8 }
             add set inet t odd { type ipv4_addr; size 10; timeout 5s; flags timeout; gc-interval 1s; }
             add set inet t pair { type ipv4_addr . inet_service; flags interval; }
             add element inet t pair { 10.0.0.0/8 . 80-90 }
             add rule inet t post log prefix \"x\" limit rate 5/second
             add table inet t { flags dormant; }");
        assert_eq!(
            socket.objects(TABLE).unwrap().items,
            [(ObjectKind::COUNTER, "hits"), (ObjectKind::QUOTA, "q")]
                .map(|(kind, name)| NamedObject { kind, name: name.to_owned() })
        );
        let sets = socket.sets(TABLE).unwrap().items;
        assert_eq!((sets[3].size, sets[3].timeout, sets[3].gc_interval), (Some(10), Some(5_000), Some(1_000)));
        assert_eq!(sets[4].field_lens, [4, 2]);
        assert!(sets[4].flags.contains(SetFlags::CONCAT.with(SetFlags::INTERVAL)));
        let pair = socket.elements(TABLE, &sets[4]).unwrap().items.intervals;
        let (first, last) = (0x0a00_0000_0050_0000, 0x0aff_ffff_005a_0000);
        assert_eq!(pair, [Interval { first, last }]);
        assert_eq!(socket.elements(TABLE, &sets[0]).unwrap().items.intervals.len(), intervals4().len() + 1);
        let rule = socket.rules(TABLE).unwrap().items.pop().unwrap();
        assert_eq!(rule.to_string(), "[log] [limit]");
        assert_eq!(socket.table(TABLE).unwrap().unwrap().flags, nfnetlink::TableFlags::DORMANT);
    });
}

#[test]
fn the_catch_all_element_is_told_apart() {
    in_namespace(|| {
        let mut socket = loaded();
        // nft 1.0.6 dies when it adds `*` to an interval set that exists.
        nft("add set inet t wild { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, * }; }");
        let wild = Set::ipv4_intervals("wild");
        let elements = socket.elements(TABLE, &wild).unwrap().items;
        assert_eq!(elements, Elements { intervals: intervals4()[..1].to_vec(), catch_all: true });
        let mut batch = Batch::new();
        batch.flush_set(TABLE, "wild");
        socket.commit(&batch, None).unwrap();
        assert_eq!(socket.elements(TABLE, &wild).unwrap().items, Elements::default());
    });
}

#[test]
fn a_lookup_in_the_kernel_agrees_with_the_dump() {
    in_namespace(|| {
        let mut socket = loaded();
        let edges = |intervals: Vec<Interval>, top: u128| {
            intervals
                .into_iter()
                .flat_map(move |it| [it.first.saturating_sub(1), it.first, it.last, it.last.saturating_add(1).min(top)])
                .chain([0, top])
        };
        let lists = [
            (Set::ipv4_intervals("no4"), intervals4(), u128::from(u32::MAX)),
            (Set::ipv6_intervals("no6"), intervals6(), u128::MAX),
        ];
        for (set, intervals, top) in lists {
            for key in edges(intervals.clone(), top) {
                let expected = intervals.iter().any(|it| (it.first..=it.last).contains(&key));
                assert_eq!(socket.get_element(TABLE, &set, key).unwrap(), expected, "{key:#x} in {}", set.name);
            }
        }
        assert!(socket.get_element(TABLE, &Set::protocols("ports"), 132).unwrap());
        assert!(!socket.get_element(TABLE, &Set::protocols("ports"), 17).unwrap());
        let missing = socket.get_element(TABLE, &Set::ipv4_intervals("none"), 1).unwrap_err();
        assert!(missing.to_string().contains("NFTA_SET_ELEM_LIST_SET"), "{missing}");
    });
}

/// Under a writer that swaps two lists of elements, a snapshot must be one of them or torn.
#[test]
fn a_snapshot_that_was_overtaken_by_a_change_is_torn() {
    in_namespace(|| {
        let set = Set::ipv4_intervals("no4");
        let list = |offset: u128| (0..2_000).map(|n| Interval::single(4 * n + offset)).collect::<Vec<_>>();
        let swap = |offset| {
            let mut batch = Batch::new();
            batch.flush_set(TABLE, "no4");
            batch.add_elements(TABLE, &set, &list(offset));
            batch
        };
        let swaps = [swap(0), swap(2)];
        let mut reader = loaded();
        reader.commit(&swaps[0], None).unwrap();
        let done = AtomicBool::new(false);
        let (mut torn, mut whole) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut socket = Socket::open().unwrap();
                let mut pause = 0;
                for swap in swaps.iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                    socket.commit(swap, None).unwrap();
                    // Pauses of changing length let snapshots through, and let changes begin at
                    // any moment of them.
                    pause = (pause + 97) % 5_000;
                    thread::sleep(Duration::from_micros(pause));
                }
            });
            let _stop = SetOnDrop(&done);
            let deadline = Instant::now() + Duration::from_secs(20);
            while (torn < 200 || whole < 200) && Instant::now() < deadline {
                match reader.snapshot(1, |socket| socket.elements(TABLE, &set)) {
                    Ok((dump, _)) => {
                        let found = dump.items.intervals;
                        assert!(found == list(0) || found == list(2), "{} elements of both lists", found.len());
                        whole += 1;
                    }
                    Err(Error::Torn { .. }) => torn += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        assert!(torn > 0 && whole > 0, "{torn} torn, {whole} whole");
    });
}

/// Ends the writer also when the reader panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
