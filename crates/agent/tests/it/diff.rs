//! `diff` of the built program: the policy against real kernels, with every backend, without changing them.

use std::fs;

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::namespace::Namespace;
use masq::cidr::Family;
use serde_json::Value;

use crate::support::agent::{Agent, PATIENCE};
use crate::support::directory::Directory;
use crate::support::iptables::Node;
use crate::support::program::{Run, run, run_in, run_powerless};
use crate::support::ruleset::{nft, observe};

const LISTED: &str = "nonMasqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]\n";

/// Lets the agent put a policy in force with the nftables backend, and end.
fn apply(namespace: &Namespace, config: &str) {
    let mut agent = Agent::start(namespace, &["--backend=nftables", "--once"], Some(config));
    assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
}

fn diff(namespace: &Namespace, config: &str) -> Run {
    run_in(namespace, &["diff", "--backend=nftables", "--config", "-"], config, |_| {})
}

/// The lines that tell a difference, without their indent.
fn lines(run: &Run) -> Vec<&str> {
    run.stdout.lines().filter_map(|line| line.strip_prefix("  ")).collect()
}

/// The tool on a node with the iptables backend and no other programs than the node's.
fn diff_on(node: &Node, config: &str) -> Run {
    run_in(&node.namespace, &["diff", "--backend=iptables", "--config", "-"], config, |command| {
        command.env("PATH", node.programs.path()).env("XTABLES_LOCKFILE", node.programs.join("lock"));
    })
}

fn start_on(node: &Node, config: &str) {
    let mut daemon = node.start_daemon(&["--once"], config);
    assert_eq!(daemon.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
}

#[test]
fn what_the_agent_has_just_applied_is_in_sync() {
    let node = Namespace::open("node").unwrap();
    apply(&node, LISTED);
    let run = diff(&node, LISTED);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    assert!(run.stdout.contains("Backend: nftables (--backend asks for it)"), "{}", run.stdout);
    assert!(run.stdout.contains("In sync"), "{}", run.stdout);
}

#[test]
fn a_new_config_is_told_as_the_cidrs_that_come_and_go() {
    let node = Namespace::open("node").unwrap();
    apply(&node, LISTED);
    let run = diff(&node, "nonMasqueradeCIDRs: [10.2.0.0/16, 10.3.0.0/16]\n");
    assert_eq!(run.status, Some(1));
    assert_eq!(lines(&run), ["- 10.1.0.0/16", "+ 10.3.0.0/16"]);
    assert!(run.stdout.contains("\ntable inet ip-masq-agent, set exempt-ipv4\n"), "{}", run.stdout);
    assert!(!run.stdout.contains('\x1b'), "no colour but on a terminal: {}", run.stdout);
}

#[test]
fn every_hand_made_change_is_told_and_nothing_is_changed() {
    for (command, told) in [
        (
            "add rule inet ip-masq-agent postrouting ip daddr 1.2.3.4 return",
            "- meta nfproto ipv4 ip daddr 1.2.3.4 return",
        ),
        ("add chain inet ip-masq-agent theirs", "- chain theirs"),
        (
            "flush chain inet ip-masq-agent postrouting",
            "+ fib daddr type local return comment \"an address of this node\"",
        ),
        ("delete element inet ip-masq-agent exempt-ipv4 { 10.1.0.0-10.2.255.255 }", "+ 10.1.0.0-10.2.255.255"),
        ("add table inet ip-masq-agent { flags dormant; }", "- table inet ip-masq-agent { flags dormant; }"),
        ("delete table inet ip-masq-agent", "+ table inet ip-masq-agent"),
    ] {
        let node = Namespace::open("node").unwrap();
        apply(&node, LISTED);
        nft(&node, command);
        let before = observe(&node);
        let run = diff(&node, LISTED);
        assert_eq!(run.status, Some(1), "{command}: {run:?}");
        assert!(lines(&run).contains(&told), "{command}: {}", run.stdout);
        assert_eq!(observe(&node), before, "{command}");
    }
}

#[test]
fn a_protected_table_is_in_sync_too() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &["--backend=nftables", "--protect-table"], Some(LISTED));
    let run = diff(&node, LISTED);
    assert_eq!(run.status, Some(0), "{run:?} {}", agent.log_tail());
}

#[test]
fn iptables_rules_are_compared_on_both_stacks_by_what_they_mean() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let missing = diff_on(&node, LISTED);
        assert_eq!(missing.status, Some(1), "{missing:?}");
        assert!(lines(&missing).contains(&"+ :IP-MASQ-AGENT - [0:0]"), "{}", missing.stdout);
        start_on(&node, LISTED);
        let in_sync = diff_on(&node, LISTED);
        assert_eq!((in_sync.status, in_sync.stderr.as_str()), (Some(0), ""), "{in_sync:?}");
        assert!(in_sync.stdout.contains(&format!("with {stack} (")), "{}", in_sync.stdout);
        node.run(&["iptables", "-t", "nat", "-I", "IP-MASQ-AGENT", "2", "-d", "1.2.3.4/32", "-j", "RETURN"]);
        node.run(&["iptables", "-t", "nat", "-I", "POSTROUTING", "-j", "ACCEPT"]);
        let before = Family::ALL.map(|family| node.save(family));
        let run = diff_on(&node, LISTED);
        assert_eq!(run.status, Some(1), "{run:?}");
        let told = lines(&run);
        assert_eq!(told.len(), 3, "{}", run.stdout);
        assert_eq!(told[0], "- -A IP-MASQ-AGENT -d 1.2.3.4/32 -j RETURN");
        assert!(told[1].contains("behind \"-A POSTROUTING -j ACCEPT\""), "{}", run.stdout);
        assert_eq!(Family::ALL.map(|family| node.save(family)), before);
    }
}

#[test]
fn to_look_at_a_fresh_node_makes_no_table_in_either_stack() {
    for stack in Stack::ALL {
        let node = Node::with_both_stacks(stack);
        assert_eq!(diff_on(&node, LISTED).status, Some(1));
        let legacy = node.namespace.run(|| fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap());
        assert_eq!((legacy.as_str(), node.run(&["nft", "list", "tables"]).as_str()), ("", ""), "{stack}");
    }
}

#[test]
fn what_the_other_backend_and_other_versions_left_is_a_difference() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        start_on(&node, LISTED);
        nft(&node.namespace, "add table inet ip-masq-agent");
        let old = ":IP-MASQ - [0:0]\n-A IP-MASQ -m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\" -j RETURN\n";
        node.load(stack, Family::Ipv4, old);
        let run = diff_on(&node, LISTED);
        assert_eq!(run.status, Some(1), "{run:?}");
        let told = lines(&run);
        assert!(told.contains(&"- table inet ip-masq-agent (of the nftables backend)"), "{}", run.stdout);
        assert!(told.contains(&"- :IP-MASQ - [0:0]"), "{}", run.stdout);
        assert_eq!(told.len(), 3, "{}", run.stdout);
    }
}

#[test]
fn json_keeps_its_keys() {
    let node = Namespace::open("node").unwrap();
    apply(&node, LISTED);
    let json = |config: &str| -> (Option<i32>, Value) {
        let args = ["diff", "--backend=nftables", "-o", "json", "--config", "-"];
        let run = run_in(&node, &args, config, |_| {});
        (run.status, serde_json::from_str(&run.stdout).unwrap())
    };
    let backend = serde_json::json!({ "name": "nftables", "reason": "--backend asks for it", "stack": null });
    let (status, value) = json(LISTED);
    let report = serde_json::json!({ "verdict": "in-sync", "reasons": [], "backend": backend, "groups": [] });
    assert_eq!((status, value), (Some(0), report));
    let (status, value) = json("nonMasqueradeCIDRs: [10.1.0.0/16]\n");
    let groups = serde_json::json!([{
        "place": "table inet ip-masq-agent, set exempt-ipv4",
        "lines": [{ "side": "unwanted", "text": "10.2.0.0/16" }],
    }]);
    assert_eq!((status, &value["verdict"], &value["groups"]), (Some(1), &Value::from("differs"), &groups));
    let (status, value) = json("nonMasqueradeCIDRs: 5\n");
    assert_eq!((status, &value["verdict"]), (Some(1), &Value::from("refused")));
}

#[test]
fn without_the_power_to_look_it_says_so_and_exits_3() {
    let node = Namespace::open("node").unwrap();
    apply(&node, LISTED);
    let run = run_powerless(&node, &["diff", "--backend=nftables"]);
    assert_eq!(run.status, Some(3), "{run:?}");
    assert!(run.stderr.contains("CAP_NET_ADMIN") && !run.stdout.contains("In sync"), "{run:?}");
    let json = run_powerless(&node, &["diff", "--backend=nftables", "-o", "json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.status, &value["verdict"]), (Some(3), &Value::from("cannot-look")));
}

#[test]
fn without_a_config_to_read_or_programs_to_run_it_exits_3() {
    assert_eq!(run(&["diff", "--config", "/nonexistent"]).status, Some(3));
    let empty = Directory::new();
    let node = Namespace::open("node").unwrap();
    let run = run_in(&node, &["diff", "--backend=iptables"], "", |command| {
        command.env("PATH", empty.path());
    });
    assert_eq!(run.status, Some(3));
    assert!(run.stderr.contains("install iptables, or choose --backend=nftables"), "{run:?}");
}
