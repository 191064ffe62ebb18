//! Rules disturbed behind the agent's back: every recorded case, and what strangers keep.

use std::fmt::Write as _;

use ip_masq_agent::backend::iptables::render;
use ip_masq_agent::backend::iptables::version::Stack;
use masq::cidr::Family;
use masq::config::{Config, Flags};
use masq::policy::Policy;
use serde_json::Value;

use crate::support::iptables::{CHAIN, Node, Opened, VECTORS, ruleset};

fn default_policy() -> Policy {
    Policy::new(&Config::default_for(&Flags::default()))
}

#[test]
fn every_recorded_drift_is_healed_or_reported() {
    let (mut held, mut failures) = (0, String::new());
    for recorded in VECTORS["drift"].as_array().unwrap() {
        let stack = if recorded["backend"] == "nft" { Stack::Nft } else { Stack::Legacy };
        let node = Node::new(stack);
        let mut opened = node.open(CHAIN);
        opened.want(&default_policy()).changes();
        assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
        if let Err(why) = check_drift(&node, &mut opened, recorded) {
            writeln!(failures, "{} on {stack}: {why}", recorded["name"]).unwrap();
        }
        held += 1;
    }
    assert!(failures.is_empty(), "{failures}");
    assert_eq!(held, 42);
}

fn check_drift(node: &Node, opened: &mut Opened<'_>, recorded: &Value) -> Result<(), String> {
    for step in recorded["steps"].as_array().unwrap() {
        let words: Vec<&str> = step.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        if let Err(error) = node.try_run(&words)
            && recorded["step_refused"] != true
        {
            return Err(format!("{words:?}: {error}"));
        }
    }
    let ours = recorded["ours"].as_str().unwrap();
    let default = ruleset("save4-default");
    if ours.starts_with("cannot be healed") {
        let first = opened.failures();
        let second = opened.failures();
        let named = first[0].contains("IPv4") && first[0].contains("; somebody made") && first[0].contains("`nft ");
        return if named && first == second { Ok(()) } else { Err(format!("{first:?}, then {second:?}")) };
    }
    let changes = opened.changes();
    let again = opened.changes();
    if !again.is_empty() {
        return Err(format!("{changes:?}, and in the next pass {again:?}"));
    }
    match ours {
        "nothing to heal; the foreign rule stays" => {
            unchanged(&changes, node, "-A POSTROUTING -s 10.9.0.0/16 -j ACCEPT")
        }
        _ if ours.starts_with("nothing to heal") || ours.starts_with("the step itself") => {
            if changes.is_empty() {
                Ok(())
            } else {
                Err(format!("changed {changes:?}"))
            }
        }
        _ if ours.starts_with("the foreign rule stays; the policy") => {
            let mut wanted = default;
            wanted.insert(2, "-A POSTROUTING -j ACCEPT".to_owned());
            equal(&node.save(Family::Ipv4), &wanted)
        }
        _ if ours.starts_with("the foreign rule stays and is reported") => {
            unchanged(&changes, node, "-A POSTROUTING -s 10.64.0.0/16 -j MASQUERADE")
        }
        _ if ours.starts_with("healed")
            || ours.starts_with("the chain name is ours")
            || ours.starts_with("one jump")
            || ours.starts_with("the extra jump") =>
        {
            if changes.is_empty() {
                return Err("nothing was found".to_owned());
            }
            equal(&node.save(Family::Ipv4), &default)
        }
        other => Err(format!("unknown expectation {other:?}")),
    }
}

fn unchanged(changes: &[String], node: &Node, rule: &str) -> Result<(), String> {
    let saved = node.save(Family::Ipv4);
    let stays = changes.is_empty() && saved.iter().any(|line| line == rule);
    if stays { Ok(()) } else { Err(format!("{changes:?}, {saved:#?}")) }
}

fn equal(found: &[String], wanted: &[String]) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("wanted {wanted:#?}, got {found:#?}")) }
}

#[test]
fn a_rule_that_iptables_cannot_read_hides_neither_our_chain_nor_our_jump() {
    let node = Node::new(Stack::Nft);
    let mut opened = node.open(CHAIN);
    node.run(&["iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "eth9", "-j", "ACCEPT"]);
    node.shell("nft add rule ip nat POSTROUTING meta random \\& 1 == 0 accept");
    let policy = default_policy();
    assert_eq!(opened.want(&policy).changes().len(), 2, "chain and jump");
    assert_eq!(opened.changes(), Vec::<String>::new());
    node.run(&["iptables", "-t", "nat", "-F", CHAIN]);
    assert_eq!(opened.changes(), ["0 rules in IPv4 chain IP-MASQ-AGENT instead of 5"]);
    node.shell("nft add rule ip nat IP-MASQ-AGENT meta random \\& 1 == 0 accept");
    assert_eq!(opened.changes().len(), 1);
    assert_eq!(opened.changes(), Vec::<String>::new());
    let rules = node.run(&["nft", "list", "chain", "ip", "nat", "POSTROUTING"]);
    assert!(rules.contains("oifname \"eth9\"") && rules.contains("meta random"), "strangers' rules stay: {rules}");
}

#[test]
fn a_stranger_that_translates_everything_behind_our_jump_is_named_and_left_alone() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let mut opened = node.open(CHAIN);
        opened.want(&default_policy()).changes();
        node.run(&["iptables", "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE"]);
        assert_eq!(opened.changes(), Vec::<String>::new());
        let warnings = opened.warnings();
        assert!(warnings[0].contains("\"-A POSTROUTING -j MASQUERADE\""), "{warnings:?}");
        node.run(&["iptables", "-t", "nat", "-D", "POSTROUTING", "-j", "MASQUERADE"]);
        opened.changes();
        assert_eq!(opened.warnings(), Vec::<String>::new());
    }
}

#[test]
fn a_chain_that_holds_a_strangers_rules_is_refused_and_not_touched() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.shell("iptables -t nat -N KUBE-POSTROUTING; iptables -t nat -A KUBE-POSTROUTING -j MASQUERADE");
        let before = node.save_counters(Family::Ipv4);
        let mut opened = node.open("KUBE-POSTROUTING");
        let failures = opened.want(&default_policy()).failures();
        assert!(failures[0].contains("KUBE-POSTROUTING holds rules of somebody else"), "{failures:?}");
        assert_eq!(node.save_counters(Family::Ipv4), before);
    }
}

#[test]
fn one_familys_counters_survive_a_change_of_the_other() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let mut opened = node.open(CHAIN);
        let flags = Flags { enable_ipv6: true, ..Flags::default() };
        let mut config = Config::default_for(&flags);
        opened.want(&Policy::new(&config)).changes();
        node.shell("iptables-save -t nat -c | sed 's/^\\[0:0\\]/[7:700]/' | iptables-restore -c");
        let before = node.save_counters(Family::Ipv4);
        assert!(before.contains("[7:700]"));
        config.masq_link_local_ipv6 = true;
        let changes = opened.want(&Policy::new(&config)).changes();
        assert_eq!(changes, ["2 rules in IPv6 chain IP-MASQ-AGENT instead of 1"]);
        assert_eq!(node.save_counters(Family::Ipv4), before);
    }
}

#[test]
fn a_base_chain_in_our_name_is_replaced_if_it_was_ours_and_named_with_the_remedy_if_not() {
    let node = Node::new(Stack::Nft);
    let base = "nft add table ip nat; nft 'add chain ip nat IP-MASQ-AGENT { type nat hook postrouting priority 110; }'";
    node.shell(base);
    let mut opened = node.open(CHAIN);
    let failures = opened.want(&default_policy()).failures();
    assert!(failures[0].contains("`nft delete chain ip nat IP-MASQ-AGENT`"), "{failures:?}");
    node.shell("nft delete chain ip nat IP-MASQ-AGENT");
    opened.changes();
    node.shell(&format!("iptables -t nat -F; iptables -t nat -X; {base}"));
    assert_eq!(opened.changes().len(), 2, "chain and jump");
    assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
}

#[test]
fn a_line_break_in_a_strangers_comment_passes_for_no_rule_of_ours() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let comment = format!("a\n-A POSTROUTING {}\nCOMMIT", render::jump(CHAIN));
        node.run(&[
            "iptables",
            "-t",
            "nat",
            "-A",
            "POSTROUTING",
            "-d",
            "203.0.113.7",
            "-m",
            "comment",
            "--comment",
            &comment,
            "-j",
            "RETURN",
        ]);
        let mut opened = node.open(CHAIN);
        assert!(!opened.want(&default_policy()).changes().is_empty(), "{stack}");
        let saved = node.try_run(&["iptables", "-t", "nat", "-S", "POSTROUTING"]).unwrap();
        assert_eq!(
            saved.matches("MASQ-AGENT chain\" -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT").count(),
            1,
            "{saved}"
        );
        assert_eq!(opened.changes(), Vec::<String>::new(), "{stack}");
    }
}
