//! Whatever somebody does to the agent's table is put right, and said with the name of who did it.

use ip_masq_agent::lab::namespace::Namespace;

use crate::support::agent::{Agent, wait_until};
use crate::support::ruleset::{nft, observe, table_text};

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
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &[], None);
    let handle = observe(&node).0.rules[1].handle.unwrap();
    // What the chain counted is stood in for by putting a value into the counter itself: only the agent is under test here.
    nft(&node, &format!("delete rule inet ip-masq-agent postrouting handle {handle}"));
    agent.wait_for_line("Drift healed");
    let counters = |node: &Namespace| observe(node).0.counters;
    let before = counters(&node);
    assert_eq!(before.len(), 2);
    agent.write_config("masqLinkLocal: true\n");
    agent.wait_for_line("Kernel updated");
    assert_eq!(counters(&node), before);
}
