//! Whatever somebody does to the agent's table is put right, and said with the name of who did it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ip_masq_agent::lab::namespace::Namespace;
use ip_masq_agent::lab::{Host, Lab};
use nfnetlink::{Batch, Interval, ProtocolFamily, Set, Socket, Table, TableFlags};

use crate::support::agent::{Agent, wait_until};
use crate::support::ruleset::{nft, observe, table_text, wait_for_exempt};

const DUAL_STACK: &str = "nonMasqueradeCIDRs: [10.0.0.0/8, 192.168.0.0/16, 'fd00::/8']\n";

/// Lets a stranger run nft commands and waits until the table is as before and the agent has said so.
fn is_healed(commands: &[&str]) {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &["--enable-ipv6"], Some(DUAL_STACK));
    let before = table_text(&node);
    assert!(before.contains("masquerade"), "{before}");
    for command in commands {
        nft(&node, command);
    }
    wait_until(&format!("the table to be as before {commands:?}"), || table_text(&node) == before);
    let line = agent.wait_for_line("Drift healed");
    assert!(line.contains("by nft["), "the author is named: {line}");
}

#[test]
fn a_flushed_ruleset_is_healed() {
    is_healed(&["flush ruleset"]);
}

#[test]
fn a_deleted_table_is_healed() {
    is_healed(&["delete table inet ip-masq-agent"]);
}

#[test]
fn a_flushed_chain_is_healed() {
    is_healed(&["flush chain inet ip-masq-agent postrouting"]);
}

#[test]
fn a_deleted_chain_is_healed() {
    is_healed(&["flush chain inet ip-masq-agent postrouting; delete chain inet ip-masq-agent postrouting"]);
}

#[test]
fn a_chain_at_another_priority_is_healed() {
    is_healed(&["flush chain inet ip-masq-agent postrouting; delete chain inet ip-masq-agent postrouting; \
                 add chain inet ip-masq-agent postrouting { type nat hook postrouting priority 300; }"]);
}

#[test]
fn a_chain_that_lost_its_hook_is_healed() {
    is_healed(&["flush chain inet ip-masq-agent postrouting; delete chain inet ip-masq-agent postrouting; \
                 add chain inet ip-masq-agent postrouting"]);
}

#[test]
fn a_deleted_rule_is_healed() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &[], None);
    let before = table_text(&node);
    let handle = observe(&node).0.rules[1].handle.unwrap();
    nft(&node, &format!("delete rule inet ip-masq-agent postrouting handle {handle}"));
    wait_until("the rule to be back", || table_text(&node) == before);
    agent.wait_for_line("2 rules in chain postrouting instead of 3");
}

#[test]
fn an_inserted_rule_is_healed() {
    is_healed(&["insert rule inet ip-masq-agent postrouting masquerade"]);
}

#[test]
fn an_appended_rule_is_healed() {
    is_healed(&["add rule inet ip-masq-agent postrouting counter"]);
}

#[test]
fn a_doubled_rule_is_healed() {
    is_healed(&["add rule inet ip-masq-agent postrouting fib daddr type local return"]);
}

#[test]
fn a_deleted_element_is_healed() {
    is_healed(&["delete element inet ip-masq-agent exempt-ipv4 { 10.0.0.0/8 }"]);
}

#[test]
fn a_deleted_ipv6_element_is_healed() {
    is_healed(&["delete element inet ip-masq-agent exempt-ipv6 { fd00::/8 }"]);
}

#[test]
fn an_added_element_is_healed() {
    is_healed(&["add element inet ip-masq-agent exempt-ipv4 { 203.0.113.0/24 }"]);
}

#[test]
fn a_flushed_set_is_healed() {
    is_healed(&["flush set inet ip-masq-agent exempt-ipv4"]);
}

#[test]
fn a_set_that_exempts_everything_is_healed() {
    is_healed(&["flush set inet ip-masq-agent exempt-ipv4; add element inet ip-masq-agent exempt-ipv4 { 0.0.0.0/0 }"]);
}

#[test]
fn a_set_of_another_type_under_our_name_is_healed() {
    is_healed(&["flush chain inet ip-masq-agent postrouting; delete set inet ip-masq-agent exempt-ipv4; \
                 add set inet ip-masq-agent exempt-ipv4 { type inet_service; }"]);
}

#[test]
fn a_dormant_table_is_healed() {
    is_healed(&["add table inet ip-masq-agent { flags dormant; }"]);
}

#[test]
fn a_dormant_table_without_our_chain_is_healed() {
    is_healed(&["add table inet ip-masq-agent { flags dormant; }; flush chain inet ip-masq-agent postrouting; \
                 delete chain inet ip-masq-agent postrouting"]);
    is_healed(&["delete table inet ip-masq-agent; add table inet ip-masq-agent { flags dormant; }"]);
}

#[test]
fn a_fight_with_another_agent_is_told_and_slowed_down() {
    let node = Namespace::open("node").unwrap();
    let first = Agent::start_ready(&node, &[], Some("nonMasqueradeCIDRs: [11.0.0.0/8]\n"));
    let second = Agent::start_ready(&node, &[], Some("nonMasqueradeCIDRs: [12.0.0.0/8]\n"));
    first.wait_for_line("Another program keeps changing our rules");
    second.wait_for_line("Another program keeps changing our rules");
    let before = observe(&node).1;
    let began = Instant::now();
    wait_until("two seconds to pass", || began.elapsed() > Duration::from_secs(2));
    let transactions = observe(&node).1.wrapping_sub(before);
    assert!(transactions <= 16, "{transactions} transactions in two seconds");
}

#[test]
fn a_strangers_base_chain_in_our_table_is_removed() {
    is_healed(&["add chain inet ip-masq-agent theirs { type filter hook forward priority 0; policy drop; }"]);
}

#[test]
fn a_strangers_chain_that_our_rules_were_made_to_jump_to_is_removed() {
    is_healed(&["add chain inet ip-masq-agent theirs; add rule inet ip-masq-agent theirs masquerade; \
                 insert rule inet ip-masq-agent postrouting jump theirs"]);
}

#[test]
fn a_strangers_map_that_jumps_to_a_strangers_chain_is_removed() {
    is_healed(&["add chain inet ip-masq-agent theirs; \
                 add map inet ip-masq-agent theirmap { type ipv4_addr : verdict; elements = { 1.2.3.4 : jump theirs }; }"]);
}

#[test]
fn a_strangers_counter_set_and_quota_in_our_table_are_removed() {
    is_healed(&["add counter inet ip-masq-agent theirs; add quota inet ip-masq-agent theirquota { over 1 mbytes; }; \
                 add set inet ip-masq-agent theirset { type ipv4_addr; elements = { 1.2.3.4 }; }"]);
}

#[test]
fn a_table_made_anew_with_other_content_is_healed() {
    is_healed(&["delete table inet ip-masq-agent; add table inet ip-masq-agent; \
                 add chain inet ip-masq-agent postrouting { type nat hook postrouting priority 105; }; \
                 add rule inet ip-masq-agent postrouting masquerade"]);
}

#[test]
fn three_flushes_in_a_row_are_healed() {
    is_healed(&["flush ruleset", "flush ruleset", "flush ruleset"]);
}

#[test]
fn other_owners_tables_and_their_counters_are_never_touched() {
    let node = Namespace::open("node").unwrap();
    let theirs = "add table ip nat { chain POSTROUTING { type nat hook postrouting priority 100; \
                  counter packets 7 bytes 700 masquerade; }; }; add table inet ip-masq-agent-2 { chain postrouting { }; }";
    nft(&node, theirs);
    let before = nft(&node, "list ruleset");
    let agent = Agent::start_ready(&node, &[], None);
    nft(&node, "delete table inet ip-masq-agent");
    agent.wait_for_line("Drift healed");
    let with_ours = nft(&node, "list ruleset");
    nft(&node, "delete table inet ip-masq-agent");
    agent.wait_for_log(|line| line.contains("drifts so far: 2"), crate::support::agent::PATIENCE).unwrap();
    assert_eq!(with_ours.replace(&nft(&node, "list table inet ip-masq-agent"), ""), before);
}

#[test]
fn counters_survive_a_change_of_list_of_flags_and_of_a_rule() {
    let lab = Lab::open().unwrap();
    let agent = Agent::start_ready(&lab.node, &[], None);
    let counted = || -> Vec<(String, u64)> {
        observe(&lab.node).0.counters.into_iter().map(|counter| (counter.name, counter.packets)).collect()
    };
    let destinations: Vec<IpAddr> =
        ["10.9.9.9", "203.0.113.9", "203.0.113.10"].map(|text| text.parse().unwrap()).to_vec();
    lab.probe_many(Host::Pod, &destinations).unwrap();
    let before = counted();
    assert!(before.iter().all(|(_, packets)| *packets > 0), "{before:?}");
    let handle = observe(&lab.node).0.rules[1].handle.unwrap();
    nft(&lab.node, &format!("delete rule inet ip-masq-agent postrouting handle {handle}"));
    agent.wait_for_line("Drift healed");
    assert_eq!(counted(), before);
    agent.write_config("masqLinkLocal: true\n");
    agent.wait_for_line("elements missing, 1 unwanted");
    assert_eq!(counted(), before);
}

#[test]
fn a_strangers_set_whose_keys_are_longer_than_any_of_ours_is_removed() {
    is_healed(&["add set inet ip-masq-agent theirs { type ipv6_addr . inet_service; elements = { fd00::1 . 80 }; }; \
                 flush chain inet ip-masq-agent postrouting"]);
}

#[test]
fn an_interval_to_the_top_beside_ours_which_cannot_be_deleted_as_it_reads_is_healed() {
    for first in [0, 1 << 24] {
        let node = Namespace::open("node").unwrap();
        let agent = Agent::start_ready(&node, &[], None);
        let before = table_text(&node);
        // The nft program would refuse it; the kernel takes the start and finds no overlap, for there is no end.
        node.run(move || {
            let mut batch = Batch::new();
            let everything = Interval { first, last: u128::from(u32::MAX) };
            let table = (ProtocolFamily::Inet, "ip-masq-agent");
            batch.add_elements(table, &Set::ipv4_intervals("exempt-ipv4"), &[everything]);
            Socket::open().unwrap().commit(&batch, None).unwrap();
        });
        agent.wait_for_line("Drift healed");
        wait_until("the set to be as before", || table_text(&node) == before);
    }
}

#[test]
fn a_table_that_another_process_owns_is_taken_over_when_that_lets_it_go() {
    let node = Namespace::open("node").unwrap();
    let owner = node.run(|| {
        let mut socket = Socket::open().unwrap();
        let mut batch = Batch::new();
        let table = Table::new(ProtocolFamily::Inet, "ip-masq-agent");
        batch.add_table(&Table { flags: TableFlags::OWNER, ..table });
        socket.commit(&batch, None).unwrap();
        socket
    });
    let agent = Agent::start(&node, &[], Some("nonMasqueradeCIDRs: [11.0.0.0/8]\n"));
    let line = agent.wait_for_line("Cannot program the kernel");
    assert!(line.contains("owner"), "{line}");
    drop(owner);
    wait_for_exempt(&node, &["11.0.0.0-11.255.255.255", "169.254.0.0-169.254.255.255"]);
    agent.wait_for_line("holds the policy");
}
