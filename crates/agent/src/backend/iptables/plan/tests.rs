//! The plan, held against the recordings of the reference, and against a table that restores are played on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use masq::config::{Config, Flags};
use masq::policy::Policy;
use proptest::prelude::*;
use serde_json::Value;

use super::super::desired::Desired;
use super::super::meaning::{Ends, is_todays_jump};
use super::super::save::POSTROUTING;
use super::*;

const CHAIN: &str = "IP-MASQ-AGENT";

static VECTORS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../../../masq/tests/vectors.json")).unwrap());

fn lines(ruleset: &str) -> impl Iterator<Item = &'static str> {
    VECTORS["rulesets"][ruleset].as_array().unwrap().iter().map(|line| line.as_str().unwrap())
}

fn ruleset(name: &str) -> Observed {
    let text: String = lines(name).map(|line| format!("{line}\n")).collect();
    Observed::parse(&format!("*nat\n{text}COMMIT\n"))
}

fn default_rules() -> Vec<Rule> {
    Desired::new(&Policy::new(&Config::default_for(&Flags::default())), CHAIN).ipv4
}

fn plan(observed: &Observed) -> Plan {
    Plan::new(Family::Ipv4, CHAIN, &default_rules(), observed, false).unwrap()
}

/// What the kernel holds after a restore, by the few commands that plans use.
fn restored(observed: &Observed, plan: &Plan) -> Observed {
    let mut after = observed.clone();
    for line in plan.restore_text().lines().filter(|line| !matches!(*line, "*nat" | "COMMIT")) {
        let (command, rest) = line.split_once(' ').unwrap();
        if let Some(chain) = command.strip_prefix(':') {
            after.chains.insert(chain.to_owned(), Vec::new());
            continue;
        }
        let (chain, words) = rest.split_once(' ').unwrap();
        match command {
            "-A" => after.read_listing(line),
            "-I" => {
                let (position, words) = words.split_once(' ').unwrap();
                after.read_listing(&format!("-A {chain} {words}"));
                let rules = after.chains.get_mut(chain).unwrap();
                let rule = rules.pop().unwrap();
                rules.insert(position.parse::<usize>().unwrap() - 1, rule);
            }
            "-D" => {
                let rules = after.chains.get_mut(chain).unwrap();
                let place = rules.iter().position(|rule| rule.text == words).expect("a rule to delete");
                rules.remove(place);
            }
            other => panic!("{other}"),
        }
    }
    after
}

#[test]
fn every_recorded_save_is_in_sync_with_its_policy() {
    for name in ["save4-default", "bfb8fc0eb2", "e3de4b886f", "2a5ed0e55b"] {
        assert_eq!(plan(&ruleset(name)).changes(), [], "{name}");
    }
}

#[test]
fn an_empty_table_gets_chain_and_jump_in_one_transaction() {
    let plan = plan(&Observed::default());
    assert_eq!(plan.to_string(), "IPv4 chain IP-MASQ-AGENT missing; IPv4 jump to IP-MASQ-AGENT missing");
    let text = plan.restore_text();
    assert!(text.starts_with("*nat\n:IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -m comment"), "{text}");
    assert!(text.ends_with(&format!("\n-A POSTROUTING {}\nCOMMIT\n", render::jump(CHAIN))), "{text}");
}

#[test]
fn what_the_reference_never_heals_is_healed() {
    let default = ruleset("save4-default");
    for (name, kind) in [("543435de2b", "foreign"), ("d3c7ac21e8", "jump"), ("f6a3a2b401", "jump")] {
        let observed = ruleset(name);
        let plan = plan(&observed);
        assert!(plan.changes().iter().any(|change| change.kind() == kind), "{name}: {plan}");
        let after = restored(&observed, &plan);
        assert_eq!(after.postrouting(), default.postrouting(), "{name}");
    }
}

#[test]
fn a_rule_that_no_packet_gets_past_stays_and_the_jump_goes_before_it() {
    let observed = ruleset("ffde7d22f6");
    let plan = plan(&observed);
    assert_eq!(plan.to_string(), "IPv4 jump to IP-MASQ-AGENT behind \"-j ACCEPT\", which no packet gets past");
    let after = restored(&observed, &plan);
    assert!(is_todays_jump(&after.postrouting()[0], CHAIN));
    assert_eq!(after.postrouting()[1].text, "-j ACCEPT");
    assert_eq!(after.postrouting().len(), 2);
}

#[test]
fn only_what_differs_is_written() {
    let mut observed = ruleset("save4-default");
    observed.chains.get_mut(CHAIN).unwrap().remove(0);
    let text = plan(&observed).restore_text();
    assert!(!text.contains(POSTROUTING), "{text}");
    let mut observed = ruleset("save4-default");
    observed.chains.get_mut(POSTROUTING).unwrap().clear();
    let text = plan(&observed).restore_text();
    assert!(!text.contains(":IP-MASQ-AGENT"), "{text}");
}

#[test]
fn a_chain_of_strangers_rules_is_refused_and_one_of_ours_with_a_strangers_rule_is_healed() {
    let theirs =
        Observed::parse("*nat\n:IP-MASQ-AGENT - [0:0]\n-A IP-MASQ-AGENT -m mark --mark 1 -j MASQUERADE\nCOMMIT\n");
    let refusal = Plan::new(Family::Ipv4, CHAIN, &default_rules(), &theirs, false).unwrap_err();
    assert!(refusal.to_string().contains("-m mark --mark 1 -j MASQUERADE"), "{refusal}");
    assert!(Plan::new(Family::Ipv4, CHAIN, &default_rules(), &theirs, true).is_ok(), "it was ours before");
    let mut mixed = ruleset("save4-default");
    mixed.read_listing("-A IP-MASQ-AGENT -d 203.0.113.0/24 -j RETURN\n");
    assert_eq!(plan(&mixed).to_string(), "6 rules in IPv4 chain IP-MASQ-AGENT instead of 5");
}

#[test]
fn a_jump_behind_what_cannot_be_read_is_enough() {
    let mut observed = ruleset("save4-default");
    observed.chains.get_mut(POSTROUTING).unwrap().clear();
    observed.has_jump_beyond = true;
    assert!(plan(&observed).is_in_sync());
}

#[test]
fn a_chain_that_cannot_be_read_is_rewritten_if_it_is_ours() {
    let mut observed = ruleset("save4-default");
    observed.chains.remove(CHAIN);
    observed.unreadable.insert(CHAIN.to_owned());
    assert!(plan(&observed).restore_text().contains(":IP-MASQ-AGENT - [0:0]"));
    observed.chains.get_mut(POSTROUTING).unwrap().clear();
    assert!(Plan::new(Family::Ipv4, CHAIN, &default_rules(), &observed, false).is_err());
}

fn postrouting_rule() -> impl Strategy<Value = String> {
    let todays = render::jump(CHAIN);
    let quoted = todays.replacen("\"ip", "\"\\\"ip", 1).replacen("chain\"", "chain\\\"\"", 1);
    prop::sample::select(vec![
        todays,
        quoted,
        format!("-j {CHAIN}"),
        format!("-s 10.0.0.0/8 -g {CHAIN}"),
        "-s 10.64.0.0/16 -j MASQUERADE".to_owned(),
        "-m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING".to_owned(),
        "-j ACCEPT".to_owned(),
        "-j THEIRS".to_owned(),
        "-j LOG".to_owned(),
    ])
}

fn strangers(observed: &Observed) -> Vec<String> {
    let rules = observed.postrouting().iter();
    rules.filter(|rule| !rule.leads_to(CHAIN)).map(|rule| rule.text.clone()).collect()
}

/// How many strangers' rules stand before each of today's jumps.
fn places(observed: &Observed) -> Vec<usize> {
    let rules = observed.postrouting();
    let todays = (0..rules.len()).filter(|&index| is_todays_jump(&rules[index], CHAIN));
    todays.map(|index| rules[..index].iter().filter(|rule| !rule.leads_to(CHAIN)).count()).collect()
}

proptest! {
    #[test]
    fn one_restore_leads_to_one_jump_and_leaves_strangers_alone(rules in prop::collection::vec(postrouting_rule(), 0..8)) {
        let mut observed = ruleset("save4-default");
        observed.chains.insert(POSTROUTING.to_owned(), Vec::new());
        observed.read_listing("-N THEIRS\n-A THEIRS -j MASQUERADE\n-N KUBE-POSTROUTING\n-A KUBE-POSTROUTING -m mark ! --mark 1 -j RETURN\n");
        for rule in &rules {
            observed.read_listing(&format!("-A POSTROUTING {rule}"));
        }
        let before = observed.clone();
        let first = plan(&observed);
        let after = if first.is_in_sync() { observed } else { restored(&observed, &first) };
        prop_assert_eq!(plan(&after).to_string(), "");
        prop_assert_eq!(strangers(&after), strangers(&before));
        let ours = after.postrouting().iter().filter(|rule| rule.leads_to(CHAIN)).count();
        prop_assert_eq!(ours, 1);
        let mut ends = Ends::new(&after);
        let stop = strangers_rules(&after).position(|rule| ends.every_packet(rule));
        let place = places(&after)[0];
        prop_assert!(stop.is_none_or(|stop| place <= stop));
        // A jump that was reached before is not moved past anything.
        if let Some(first) = places(&before).first().filter(|first| stop.is_none_or(|stop| **first <= stop)) {
            prop_assert_eq!(place, *first);
        }
    }
}

fn strangers_rules(observed: &Observed) -> impl Iterator<Item = &super::super::save::SavedRule> {
    observed.postrouting().iter().filter(|rule| !rule.leads_to(CHAIN))
}

#[test]
fn every_recorded_case_is_rendered_as_recorded_and_its_save_is_in_sync() {
    let mut held = 0;
    let mut wrong = BTreeMap::new();
    for case in VECTORS["cases"].as_array().unwrap() {
        let expect = &case["expect"];
        if expect["outcome"] != "ok" || case["ours"].is_object() || case["iptables"].is_string() {
            continue;
        }
        let (Some(policy), Some(chain)) = (policy(case), chain_of(case)) else { continue };
        let desired = Desired::new(&policy, &chain);
        for (key, family) in [("save4", Family::Ipv4), ("save6", Family::Ipv6)] {
            let (Some(name), Some(rules)) = (expect[key].as_str(), desired.rules(family)) else { continue };
            let observed = ruleset(name);
            let plan = Plan::new(family, &chain, rules, &observed, true).unwrap();
            if !plan.is_in_sync() {
                wrong.insert(case["name"].as_str().unwrap().to_owned(), plan.to_string());
            }
            if let Some(restore) = expect[&key.replace("save", "restore")].as_str() {
                let recorded: String = lines(restore).map(|line| line.to_owned() + "\n").collect();
                assert_eq!(render::transaction(&render::chain_lines(&chain, rules)), recorded, "{}", case["name"]);
            }
            held += 1;
        }
    }
    assert_eq!(wrong, BTreeMap::new());
    assert!(held > 100, "only {held} were looked at");
}

fn chain_of(case: &Value) -> Option<String> {
    let flags = case["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap());
    let mut chain = CHAIN.to_owned();
    for flag in flags {
        match flag.strip_prefix("--masq-chain=") {
            Some(name) => chain = name.to_owned(),
            None if flag.contains("masq-chain") => return None,
            None => {}
        }
    }
    Some(chain)
}

fn policy(case: &Value) -> Option<Policy> {
    let mut flags = Flags::default();
    for flag in case["flags"].as_array().unwrap() {
        match flag.as_str().unwrap() {
            "--enable-ipv6" | "--enable-ipv6=true" => flags.enable_ipv6 = true,
            "--nomasq-all-reserved-ranges" => flags.nomasq_all_reserved_ranges = true,
            "--random-fully=false" => flags.random_fully = false,
            flag if flag.starts_with("--to-ports=") => flags.to_ports = flag["--to-ports=".len()..].parse().ok()?,
            flag if flag.starts_with("--masq-chain=") || flag.starts_with("--v=") => {}
            _ => return None,
        }
    }
    let bytes = case["config"].as_str()?.as_bytes().to_vec();
    let sources = [masq::config::Source { name: "config".to_owned(), bytes }];
    Config::parse(&sources, &flags).ok().map(|parsed| Policy::new(&parsed.config))
}
