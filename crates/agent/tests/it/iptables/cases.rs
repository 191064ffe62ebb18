//! Every recorded case: after our pass the tables equal, byte for byte, what the reference left.

use std::fmt::Write as _;

use ip_masq_agent::backend::Look;
use ip_masq_agent::backend::iptables::version::Stack;
use masq::cidr::Family;
use masq::config::{Config, Flags};
use masq::policy::Policy;
use serde_json::Value;

use crate::support::iptables::{CHAIN, Node, Opened, VECTORS, case, ruleset};

#[test]
fn every_case_ends_as_recorded_on_iptables_nft() {
    every_case_ends_as_recorded(Stack::Nft);
}

#[test]
fn every_case_ends_as_recorded_on_iptables_legacy() {
    every_case_ends_as_recorded(Stack::Legacy);
}

fn every_case_ends_as_recorded(stack: Stack) {
    let (mut held, mut failures) = (0, String::new());
    for recorded in VECTORS["cases"].as_array().unwrap() {
        let name = recorded["name"].as_str().unwrap();
        let too_long = recorded["expect"]["save4_from_config"] == true && stack == Stack::Nft && in_user_namespace();
        if recorded["run_as"].is_array() || recorded["iptables"].is_string() || too_long {
            continue;
        }
        let Some(wanted) = wanted(recorded) else { continue };
        let Some(case) = case(recorded) else { continue };
        let node = Node::new(stack);
        let mut opened = node.open(&case.chain);
        opened.want(&case.policy).changes();
        let saved = [node.save(Family::Ipv4), node.save(Family::Ipv6)];
        if saved != wanted {
            writeln!(failures, "{name}: wanted {wanted:#?}, got {saved:#?}").unwrap();
        }
        let again = opened.changes();
        if !again.is_empty() {
            writeln!(failures, "{name}: a second pass found {again:?}").unwrap();
        }
        held += 1;
    }
    assert!(failures.is_empty(), "{held} held, but:\n{failures}");
    assert!(held >= 230, "only {held} cases were looked at");
}

/// There iptables-nft may not enlarge its socket's buffer, and a thousand rules do not fit.
fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// What both families' tables are to hold; `None` where no rules come of it.
fn wanted(recorded: &Value) -> Option<[Vec<String>; 2]> {
    let (expect, ours) = (&recorded["expect"], &recorded["ours"]);
    let outcome = ours["outcome"].as_str().or(expect["outcome"].as_str()).unwrap();
    if !matches!(outcome, "ok" | "config-error") {
        return None;
    }
    let name = |key: &str| ours[key].as_str().or(expect[key].as_str());
    let ipv6 = ruleset(name("save6")?);
    if expect["save4_from_config"] == true {
        let block = |i: usize| format!("{}.{}.{}.0/24", 11 + i / 65_536, i / 256 % 256, i % 256);
        let mut lines = ruleset("save4-default");
        let exempt = lines.iter().position(|line| line.contains("-d 10.0.0.0/8")).unwrap();
        let template = lines[exempt].clone();
        let count = usize::try_from(expect["effective"]["nonMasqueradeCIDRs_count"].as_u64().unwrap()).unwrap();
        lines.splice(exempt..exempt + 3, (0..count).map(|i| template.replace("10.0.0.0/8", &block(i))));
        return Some([lines, ipv6]);
    }
    Some([ruleset(name("save4")?), ipv6])
}

#[test]
fn a_hundred_passes_write_nothing_start_one_program_each_and_keep_the_counters() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.note_calls();
        let mut opened = node.open(CHAIN);
        let policy = Policy::new(&Config::default_for(&Flags { enable_ipv6: true, ..Flags::default() }));
        opened.want(&policy).changes();
        node.shell("iptables-save -t nat -c | sed 's/^\\[0:0\\]/[5:500]/' | iptables-restore -c");
        let before = [Family::Ipv4, Family::Ipv6].map(|family| node.save_counters(family));
        assert!(before[0].contains("[5:500] -A IP-MASQ-AGENT"), "{}", before[0]);
        opened.changes();
        node.take_calls();
        for _ in 0..100 {
            assert_eq!(opened.changes(), Vec::<String>::new());
        }
        assert_eq!(node.take_calls(), ["iptables-save -t nat -c", "ip6tables-save -t nat -c"].repeat(100));
        assert_eq!([Family::Ipv4, Family::Ipv6].map(|family| node.save_counters(family)), before);
    }
}

#[test]
fn a_first_pass_on_a_fresh_node_starts_three_programs_per_family() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.note_calls();
        let mut opened = node.open(CHAIN);
        let policy = Policy::new(&Config::default_for(&Flags { enable_ipv6: true, ..Flags::default() }));
        opened.want(&policy).changes();
        let calls = |base: &str| {
            [format!("{base} --version"), format!("{base}-restore -w 1 --noflush"), format!("{base}-save -t nat -c")]
        };
        assert_eq!(node.take_calls(), [calls("iptables"), calls("ip6tables")].concat());
    }
}

#[test]
fn iptables_nft_is_read_again_only_when_somebody_has_committed_something() {
    let node = Node::new(Stack::Nft);
    node.note_calls();
    let mut opened = node.open(CHAIN);
    let policy = Policy::new(&Config::default_for(&Flags { enable_ipv6: true, ..Flags::default() }));
    let outcome = opened.want(&policy).pass();
    let current = opened.with(|iptables| iptables.generation());
    assert!(current.is_some() && outcome.generation == current, "{outcome:?}, and now {current:?}");
    node.take_calls();
    let glance = |opened: &mut Opened<'_>| opened.with(|iptables| iptables.reconcile(Look::IfChanged));
    assert!(glance(&mut opened).changes.is_empty());
    assert_eq!(node.take_calls(), Vec::<String>::new());
    node.run(&["iptables", "-t", "nat", "-F", CHAIN]);
    let healed = glance(&mut opened);
    assert_eq!((healed.changes.len(), healed.made.len()), (1, 1), "{healed:?}");
    node.take_calls();
    glance(&mut opened);
    assert_eq!(node.take_calls(), Vec::<String>::new(), "our own commit is no news");
}
