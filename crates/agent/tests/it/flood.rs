//! Floods of first packets while the policy changes: in neither direction is a packet treated as the other class.

use ip_masq_agent::backend::nftables::Nftables;
use ip_masq_agent::backend::nftables::desired::Desired;
use ip_masq_agent::backend::nftables::plan::Plan;
use ip_masq_agent::lab::Lab;
use masq::config::Flags;
use masq::ports::PortRanges;
use nfnetlink::{Batch, ProtocolFamily, Socket};

use crate::support::agent::{Agent, PATIENCE};
use crate::support::engine::{ENGINES, policy};
use crate::support::flood::{Class, Count, Flood};
use crate::support::random::{config_of, thousand_cidrs, thousand_gaps};

/// Panics unless a flood kept its classes apart, and was one.
#[track_caller]
fn assert_flooded(count: Count, what: &str) {
    assert_eq!(count.wrong, 0, "{what}: {count:?}");
    assert!(count.right > 1000, "{what}: {count:?}");
}

/// The backend in the lab's node, once the kernel holds a first table.
fn open_with(lab: &Lab, first: Desired) -> Nftables {
    lab.node.run(move || {
        let mut nftables = Nftables::open().unwrap();
        nftables.reconcile(&first).unwrap();
        nftables
    })
}

#[test]
fn no_packet_is_treated_wrongly_while_the_policy_is_replaced_ten_thousand_times() {
    let lab = Lab::open().unwrap();
    // The first half stays, the other half comes and goes, a few blocks or all of them at a time.
    let all = thousand_cidrs();
    let (kept, replaced) = all.split_at(500);
    let lists = [&all[..], kept, &all[..999], &[kept, &replaced[100..]].concat(), &[&replaced[250..], kept].concat()];
    let desired = lists.map(|list| Desired::new(&policy(&Flags::default(), Some(&config_of(list))), false));
    let mut nftables = open_with(&lab, desired[0].clone());
    let flood = Flood::start(&lab, kept.to_vec(), thousand_gaps());
    for turn in 1..=10_000 {
        let outcome = nftables.reconcile(&desired[turn % desired.len()]).unwrap();
        assert!(!outcome.plan.is_in_sync(), "each list differs from the one before");
    }
    flood.wait_for_more(1000);
    for class in [Class::Exempt, Class::Masqueraded] {
        assert_flooded(flood.count(class, |_| true), &format!("{class:?}"));
    }
}

#[test]
fn no_packet_is_treated_wrongly_while_ports_and_families_come_and_go() {
    let lab = Lab::open().unwrap();
    let config = config_of(&thousand_cidrs());
    let to_ports: PortRanges = "1024-29999,32768-65535".parse().unwrap();
    let flags = [
        Flags::default(),
        Flags { to_ports: to_ports.clone(), ..Flags::default() },
        Flags { enable_ipv6: true, ..Flags::default() },
        Flags { random_fully: false, ..Flags::default() },
        Flags { enable_ipv6: true, random_fully: false, to_ports, ..Flags::default() },
    ];
    let desired = flags.map(|flags| Desired::new(&policy(&flags, Some(&config)), false));
    let mut nftables = open_with(&lab, desired[0].clone());
    let flood = Flood::start(&lab, thousand_cidrs(), thousand_gaps());
    for turn in 1..=500 {
        let outcome = nftables.reconcile(&desired[turn % desired.len()]).unwrap();
        assert!(!outcome.plan.is_in_sync(), "each policy differs from the one before");
    }
    flood.wait_for_more(1000);
    for class in [Class::Exempt, Class::Masqueraded] {
        assert_flooded(flood.count(class, |_| true), &format!("{class:?}"));
    }
}

#[test]
fn a_start_under_load_masquerades_no_exempt_packet_and_leaves_none_bare_once_ready() {
    let config = config_of(&thousand_cidrs());
    for engine in ENGINES {
        for _ in 0..20 {
            let lab = Lab::open().unwrap();
            let flood = Flood::start(&lab, thousand_cidrs(), thousand_gaps());
            flood.wait_for_more(1000);
            let mut agent = engine.launch(&lab, &Flags::default(), Some(&config));
            agent.wait_until_ready(PATIENCE).unwrap();
            let ready = flood.next_phase();
            flood.wait_for_more(4000);
            assert_flooded(flood.count(Class::Exempt, |_| true), &engine.to_string());
            assert_flooded(flood.count(Class::Masqueraded, |phase| phase == ready), &engine.to_string());
            let before = flood.count(Class::Masqueraded, |phase| phase < ready);
            assert!(before.wrong > 100, "{engine}: without rules packets leave bare: {before:?}");
        }
    }
}

#[test]
fn no_packet_is_treated_wrongly_once_a_flush_is_healed() {
    let lab = Lab::open().unwrap();
    let config = config_of(&thousand_cidrs());
    let mut agent = Agent::start(&lab.node, &["--backend=nftables"], Some(&config));
    agent.wait_until_ready(PATIENCE).unwrap();
    let flood = Flood::start(&lab, thousand_cidrs(), thousand_gaps());
    let desired = Desired::new(&policy(&Flags::default(), Some(&config)), false);
    let (mut stranger, mut observer) = lab.node.run(|| (Socket::open().unwrap(), Nftables::open().unwrap()));
    for _ in 0..20 {
        // Settled until here: the phases between a flush and its heal have odd numbers.
        flood.next_phase();
        let mut flush = Batch::new();
        flush.delete_table((ProtocolFamily::Inet, "ip-masq-agent"));
        stranger.commit(&flush, None).unwrap();
        agent.wait_until("the table to be back", || Plan::new(&desired, &observer.observe().unwrap().0).is_in_sync());
        flood.next_phase();
        flood.wait_for_more(2000);
    }
    assert_flooded(flood.count(Class::Exempt, |_| true), "exempt");
    assert_flooded(flood.count(Class::Masqueraded, |phase| phase % 2 == 0), "masqueraded");
}
