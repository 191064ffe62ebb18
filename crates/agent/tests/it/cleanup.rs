//! `cleanup` of the built program: all of ours goes, nothing of anybody else, and it says what it did.

use ip_masq_agent::backend::iptables::render::jump;
use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::namespace::Namespace;
use masq::cidr::Family;
use serde_json::Value;

use crate::support::agent::{Agent, PATIENCE};
use crate::support::directory::Directory;
use crate::support::iptables::{CHAIN, Node, ruleset};
use crate::support::program::{Run, run_in, run_powerless};
use crate::support::ruleset::{nft, observe};

const STRANGERS: &str = ":THEIRS - [0:0]\n-A POSTROUTING -j THEIRS\n-A POSTROUTING -s 10.9.0.0/16 -j MASQUERADE\n\
    -A THEIRS -d 10.8.0.0/16 -j RETURN\n";

const STRANGERS_NATIVE: &str = "add table inet theirs; add set inet theirs s { type ipv4_addr; };
    add element inet theirs s { 1.2.3.4 }; add chain inet theirs post { type nat hook postrouting priority 110; };
    add rule inet theirs post ip daddr @s masquerade";

/// A chain of another name, with a jump whose comment has literal quotes around it.
fn old_generation() -> String {
    let quoted = jump("OLD").replacen("\"ip-", "\"\\\"ip-", 1).replacen("chain\"", "chain\\\"\"", 1);
    let rule = "-m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\" -j RETURN";
    format!(":OLD - [0:0]\n-A POSTROUTING {quoted}\n-A OLD {rule}\n")
}

/// The tool on a node with no other programs than the node's.
fn cleanup_on(node: &Node, args: &[&str]) -> Run {
    run_in(&node.namespace, &[&["cleanup"], args].concat(), "", |command| {
        command.env("PATH", node.programs.path()).env("XTABLES_LOCKFILE", node.programs.join("lock"));
    })
}

/// Everything on the node, our own rules included.
fn everything(node: &Node) -> String {
    let mut text = node.run(&["nft", "-s", "list", "ruleset"]);
    for stack in Stack::ALL {
        for family in Family::ALL {
            text += &node.save_on(stack, family).join("\n");
        }
    }
    text
}

/// A node with strangers' rules in both stacks and natively, and what all of it looks like.
fn node_of_strangers(stack: Stack) -> (Node, String) {
    let node = Node::with_both_stacks(stack);
    nft(&node.namespace, STRANGERS_NATIVE);
    for place in Stack::ALL {
        for family in [Family::Ipv4, Family::Ipv6] {
            let lines = if family == Family::Ipv4 { STRANGERS } else { ":THEIRS - [0:0]\n-A POSTROUTING -j THEIRS\n" };
            node.load(place, family, lines);
        }
    }
    let pristine = everything(&node);
    (node, pristine)
}

/// Puts rules of ours everywhere: the table, and today's chain on both stacks and in both families.
fn put_ours_everywhere(node: &Node) {
    for place in Stack::ALL {
        node.load(place, Family::Ipv4, &(ruleset("save4-default").join("\n") + "\n"));
        node.load(place, Family::Ipv6, &(ruleset("save6-default").join("\n") + "\n"));
    }
    nft(&node.namespace, "add table inet ip-masq-agent");
}

#[test]
fn all_of_ours_goes_and_strangers_rules_are_as_before() {
    for stack in Stack::ALL {
        let (node, pristine) = node_of_strangers(stack);
        put_ours_everywhere(&node);
        let run = cleanup_on(&node, &[]);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{run:?}");
        assert_eq!(everything(&node), pristine, "{stack}");
        for told in [
            "Removed table inet ip-masq-agent.\n",
            "Removed the IPv4 chain IP-MASQ-AGENT of iptables-nft with 5 rules and the jumps to it.\n",
            "Removed the IPv6 chain IP-MASQ-AGENT of iptables-legacy with 2 rules and the jumps to it.\n",
        ] {
            assert!(run.stdout.contains(told), "{told} in {}", run.stdout);
        }
        assert_eq!(run.stdout.lines().count(), 5, "{}", run.stdout);
        let again = cleanup_on(&node, &[]);
        assert_eq!((again.status, again.stdout.as_str()), (Some(0), "There is nothing of ours here.\n"), "{again:?}");
    }
}

#[test]
fn other_generations_go_only_on_request() {
    for stack in Stack::ALL {
        let (node, pristine) = node_of_strangers(stack);
        for place in Stack::ALL {
            node.load(place, Family::Ipv4, &old_generation());
        }
        let with_old = everything(&node);
        assert_eq!(cleanup_on(&node, &[]).stdout, "There is nothing of ours here.\n");
        assert_eq!(everything(&node), with_old);
        let run = cleanup_on(&node, &["--all-generations"]);
        assert_eq!((run.status, run.stdout.matches("the IPv4 chain OLD").count()), (Some(0), 2), "{run:?}");
        assert_eq!(everything(&node), pristine);
    }
}

#[test]
fn a_dry_run_tells_the_same_and_writes_nothing() {
    for stack in Stack::ALL {
        let (node, _) = node_of_strangers(stack);
        put_ours_everywhere(&node);
        node.load(stack, Family::Ipv4, &old_generation());
        let (before, (_, generation)) = (everything(&node), observe(&node.namespace));
        let dry = cleanup_on(&node, &["--dry-run", "--all-generations"]);
        assert_eq!(dry.status, Some(0), "{dry:?}");
        assert_eq!(everything(&node), before);
        assert_eq!(observe(&node.namespace).1, generation);
        let real = cleanup_on(&node, &["--all-generations"]);
        assert_eq!(dry.stdout.replace("Would remove", "Removed"), real.stdout);
    }
}

#[test]
fn on_a_fresh_node_nothing_is_made_and_nothing_is_removed() {
    for stack in Stack::ALL {
        let node = Node::with_both_stacks(stack);
        let run = cleanup_on(&node, &["--all-generations"]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(0), "There is nothing of ours here.\n"), "{run:?}");
        let legacy = node.namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap());
        assert_eq!((legacy.as_str(), node.run(&["nft", "list", "tables"]).as_str()), ("", ""));
    }
}

#[test]
fn a_chain_that_a_stranger_jumps_to_is_emptied_and_told() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.load(stack, Family::Ipv4, &(ruleset("save4-default").join("\n") + "\n"));
        node.load(stack, Family::Ipv4, ":THEIRS - [0:0]\n-A THEIRS -j IP-MASQ-AGENT\n");
        let run = cleanup_on(&node, &[]);
        assert_eq!(run.status, Some(0), "{run:?}");
        assert!(
            run.stderr.contains("was emptied but not deleted, for the rule \"-A THEIRS -j IP-MASQ-AGENT\""),
            "{run:?}"
        );
        let saved = node.save(Family::Ipv4);
        assert_eq!(saved, [":IP-MASQ-AGENT - [0:0]", ":THEIRS - [0:0]", "-A THEIRS -j IP-MASQ-AGENT"]);
    }
}

#[test]
fn an_agent_that_still_runs_is_told_and_its_tools_are_not_taken_for_it() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &["--backend=nftables"], None);
    let run = run_in(&node, &["cleanup", "--dry-run"], "", |_| {});
    assert_eq!(run.status, Some(1), "{run:?}");
    assert!(run.stderr.contains("an agent runs here (process "), "{run:?}");
    drop(agent);
    let run = run_in(&node, &["cleanup"], "", |_| {});
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), "Removed table inet ip-masq-agent.\n"), "{run:?}");
}

#[test]
fn an_agent_in_another_namespace_is_none_of_ours() {
    let (node, other) = (Namespace::open("node").unwrap(), Namespace::open("other").unwrap());
    let _agent = Agent::start_ready(&other, &["--backend=nftables"], None);
    let run = run_in(&node, &["cleanup"], "", |_| {});
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), "There is nothing of ours here.\n"), "{run:?}");
}

#[test]
fn a_table_that_its_owner_protects_stays_and_is_told() {
    let node = Namespace::open("node").unwrap();
    let _agent = Agent::start_ready(&node, &["--backend=nftables", "--protect-table"], None);
    let run = run_in(&node, &["cleanup"], "", |_| {});
    assert_eq!(run.status, Some(1), "{run:?}");
    assert!(run.stderr.contains("not removed: ") && !run.stdout.contains("nothing of ours"), "{run:?}");
}

#[test]
fn without_programs_rules_of_iptables_nft_are_removed_over_netlink_and_those_of_legacy_are_told() {
    let empty = Directory::new();
    let without = |node: &Node| {
        run_in(&node.namespace, &["cleanup"], "", |command| {
            command.env("PATH", empty.path());
        })
    };
    let node = Node::new(Stack::Nft);
    node.load(Stack::Nft, Family::Ipv4, STRANGERS);
    let strangers = node.save(Family::Ipv4);
    assert_eq!(without(&node).status, Some(0), "strangers' rules alone");
    node.load(Stack::Nft, Family::Ipv4, &(ruleset("save4-default").join("\n") + "\n"));
    let run = without(&node);
    assert_eq!(run.status, Some(0), "{run:?}");
    let removed = "Removed the IPv4 chain IP-MASQ-AGENT of iptables-nft with 5 rules and the jumps to it.\n";
    assert_eq!(run.stdout, removed, "{run:?}");
    assert_eq!(node.save(Family::Ipv4), strangers);
    let node = Node::new(Stack::Legacy);
    node.load(Stack::Legacy, Family::Ipv4, STRANGERS);
    let run = without(&node);
    assert_eq!(run.status, Some(3), "{run:?}");
    assert!(run.stderr.contains("iptables-legacy-save"), "{run:?}");
}

#[test]
fn without_the_power_to_look_it_says_so_and_exits_3() {
    let node = Namespace::open("node").unwrap();
    let mut agent = Agent::start(&node, &["--backend=nftables", "--once"], None);
    assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
    let run = run_powerless(&node, &["cleanup"]);
    assert_eq!(run.status, Some(3), "{run:?}");
    assert!(run.stderr.contains("CAP_NET_ADMIN") && run.stdout.is_empty(), "{run:?}");
}

#[test]
fn json_keeps_its_keys() {
    let node = Node::new(Stack::Nft);
    node.load(Stack::Nft, Family::Ipv4, &(ruleset("save4-default").join("\n") + "\n"));
    let run = cleanup_on(&node, &["-o", "json", "--dry-run"]);
    let value: Value = serde_json::from_str(&run.stdout).unwrap();
    let chain = serde_json::json!({
        "stack": "iptables-nft", "family": "IPv4", "chain": CHAIN, "rules": 5, "jumpsOnly": false,
    });
    let report = serde_json::json!({
        "dryRun": true, "table": false, "chains": [chain], "kept": [], "failures": [], "unseen": [], "agents": [],
    });
    assert_eq!((run.status, value), (Some(0), report));
}
