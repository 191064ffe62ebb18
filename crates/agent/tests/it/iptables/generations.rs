//! What other versions, chain names, families and stacks left goes once ours is in place, and nothing of strangers does.

use ip_masq_agent::backend::iptables::render::jump;
use ip_masq_agent::backend::iptables::version::Stack;
use masq::cidr::Family;
use masq::config::{Config, Flags, Source};
use masq::policy::Policy;

use crate::support::agent::{Agent, PATIENCE};
use crate::support::iptables::{CHAIN, Node, agent_without_programs, ruleset};

const LOCAL: &str = "-m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\"";
const OUTBOUND: &str =
    "-m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\"";

fn policy(enable_ipv6: bool) -> Policy {
    Policy::new(&Config::default_for(&Flags { enable_ipv6, ..Flags::default() }))
}

/// A jump whose comment has literal quotes around it.
fn quoted_jump(chain: &str) -> String {
    jump(chain).replacen("\"ip-", "\"\\\"ip-", 1).replacen("chain\"", "chain\\\"\"", 1)
}

/// What a version of the agent left behind: name, and the lines of the nat table.
fn generations() -> Vec<(&'static str, String)> {
    let chain = |name: &str, jump: &str, outbound: &str| {
        format!(
            ":{name} - [0:0]\n-A POSTROUTING {jump}\n-A {name} {LOCAL} -d 169.254.0.0/16 -j RETURN\n\
             -A {name} {LOCAL} -d 10.0.0.0/8 -j RETURN\n-A {name} {OUTBOUND} {outbound}\n"
        )
    };
    let plain = "-j MASQUERADE";
    let random = "-j MASQUERADE --random-fully";
    let not_local = "-m addrtype ! --dst-type LOCAL";
    let old = |prefix: &str, name: &str| {
        format!(
            ":{name} - [0:0]\n\
             -A POSTROUTING -m comment --comment \"{prefix}: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our \
             custom {name} chain\" -j {name}\n\
             -A {name} -m comment --comment \"{prefix}: cluster-local traffic should not be subject to MASQUERADE\" {not_local} \
             -d 10.0.0.0/8 -j RETURN\n\
             -A {name} -m comment --comment \"{prefix}: outbound traffic should be subject to MASQUERADE (this match must come after \
             cluster-local CIDR matches)\" {not_local} -j MASQUERADE\n"
        )
    };
    let script = format!(
        ":IP-MASQ - [0:0]\n\
         -A POSTROUTING -m comment --comment \"ip-masq: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom \
         IP-MASQ chain\" {not_local} -j IP-MASQ\n\
         -A IP-MASQ -d 169.254.0.0/16 -m comment --comment \"ip-masq: local traffic is not subject to MASQUERADE\" -j RETURN\n\
         -A IP-MASQ -d 10.0.0.0/8 -m comment --comment \"ip-masq: RFC 1918 reserved range is not subject to MASQUERADE\" -j RETURN\n\
         -A IP-MASQ -m comment --comment \"ip-masq: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE\n"
    );
    vec![
        ("v0.2.0", old("non-masquerade-daemon", "NON-MASQUERADE-DAEMON")),
        ("v0.4.0", old("ip-masq-agent", CHAIN)),
        ("v2.8.0", chain(CHAIN, &jump(CHAIN), plain)),
        ("v2.10.2", chain(CHAIN, &quoted_jump(CHAIN), random)),
        (
            "v2.12.0 and then v2.12.6",
            chain(CHAIN, &quoted_jump(CHAIN), random) + &format!("-A POSTROUTING {}\n", jump(CHAIN)),
        ),
        (
            "v2.12.6 and then Azure's",
            chain(CHAIN, &jump(CHAIN), plain) + &format!("-A POSTROUTING {}\n", quoted_jump(CHAIN)),
        ),
        ("the cloud manifest", chain("IP-MASQ", &jump("IP-MASQ"), random)),
        ("the cloud script", script.clone()),
        ("the cloud script and then the manifest", script + &format!("-A POSTROUTING {}\n", jump("IP-MASQ"))),
        ("another --masq-chain", chain("MY-MASQ", &quoted_jump("MY-MASQ"), plain)),
    ]
}

#[test]
fn every_generation_is_replaced_by_one_chain_and_one_jump() {
    for stack in Stack::ALL {
        for (name, lines) in generations() {
            let node = Node::new(stack);
            node.load(stack, Family::Ipv4, &lines);
            let mut opened = node.open(CHAIN);
            opened.want(&policy(false)).changes();
            assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"), "{name} on {stack}");
            assert_eq!(opened.changes(), Vec::<String>::new(), "{name} on {stack}");
        }
    }
}

#[test]
fn the_new_chain_is_in_place_before_the_old_one_goes() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.open("OLD").want(&policy(false)).changes();
        let log = node.programs.join("restores");
        node.script("iptables-restore", &format!("tee -a {} | \"$REAL\" \"$@\"", log.display()));
        node.open("NEW").want(&policy(false)).changes();
        let text = std::fs::read_to_string(&log).unwrap();
        let transactions: Vec<&str> = text.split_inclusive("COMMIT\n").collect();
        assert_eq!(transactions.len(), 2, "{text}");
        assert!(transactions[0].contains(":NEW - [0:0]") && !transactions[0].contains("OLD"), "{text}");
        assert!(transactions[1].contains("-X OLD") && !transactions[1].contains("-F NEW"), "{text}");
    }
}

#[test]
fn ipv6_rules_go_when_ipv6_is_switched_off() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.open(CHAIN).want(&policy(true)).changes();
        assert_eq!(node.save(Family::Ipv6), ruleset("save6-default"));
        let mut restarted = node.open(CHAIN);
        assert_eq!(restarted.want(&policy(false)).changes(), ["IPv6 chain IP-MASQ-AGENT left over (2 rules)"]);
        assert_eq!(node.save(Family::Ipv6), ruleset("none"));
        restarted.want(&policy(true)).changes();
        assert_eq!(node.save(Family::Ipv6), ruleset("save6-default"));
        restarted.want(&policy(false)).changes();
        assert_eq!(node.save(Family::Ipv6), ruleset("none"), "switched off by the config of a running agent");
        assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
    }
}

#[test]
fn our_own_rules_never_decide_the_stack_and_go_from_the_other_one() {
    let node = Node::with_both_stacks(Stack::Nft);
    for family in Family::ALL {
        let name = if family == Family::Ipv4 { "save4-default" } else { "save6-default" };
        node.load(Stack::Legacy, family, &(ruleset(name).join("\n") + "\n"));
    }
    let mut opened = node.open(CHAIN);
    assert_eq!(opened.with(|iptables| iptables.stack().chosen), Stack::Nft);
    opened.want(&policy(true)).changes();
    assert_eq!(node.save_on(Stack::Nft, Family::Ipv4), ruleset("save4-default"));
    for family in Family::ALL {
        assert_eq!(node.save_on(Stack::Legacy, family), ruleset("none"));
    }
    assert_eq!(opened.warnings(), Vec::<String>::new());
}

#[test]
fn the_stack_follows_kubelets_hint_and_then_the_rules_of_others() {
    let chosen = |node: &Node| node.open(CHAIN).with(|iptables| iptables.stack().clone());
    let node = Node::with_both_stacks(Stack::Nft);
    node.try_run_on(Stack::Legacy, &["iptables", "-t", "filter", "-A", "FORWARD", "-s", "10.0.0.0/8", "-j", "ACCEPT"])
        .unwrap();
    let choice = chosen(&node);
    assert_eq!(choice.chosen, Stack::Legacy, "{}", choice.reason);
    node.try_run_on(Stack::Nft, &["iptables", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]).unwrap();
    let choice = chosen(&node);
    assert_eq!((choice.chosen, choice.reason.as_str()), (Stack::Nft, "kubelet's hint chain is in iptables-nft"));

    let node = Node::with_both_stacks(Stack::Nft);
    node.try_run_on(Stack::Legacy, &["ip6tables", "-t", "mangle", "-N", "KUBE-KUBELET-CANARY"]).unwrap();
    assert_eq!(chosen(&node).chosen, Stack::Legacy);
    assert_eq!(chosen(&Node::with_both_stacks(Stack::Legacy)).chosen, Stack::Legacy, "what the node's iptables is");
    assert_eq!(chosen(&Node::with_both_stacks(Stack::Nft)).chosen, Stack::Nft);
}

#[test]
fn to_choose_a_stack_makes_no_table_in_either() {
    let node = Node::with_both_stacks(Stack::Nft);
    node.open(CHAIN);
    let legacy = node.namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap());
    assert_eq!(legacy, "");
    assert_eq!(node.run(&["nft", "list", "tables"]), "");
}

#[test]
fn a_generation_that_comes_back_is_reported_and_not_fought() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let (_, manifest) = generations().into_iter().find(|(name, _)| *name == "the cloud manifest").unwrap();
        node.load(stack, Family::Ipv4, &manifest);
        let mut opened = node.open(CHAIN);
        opened.want(&policy(false)).changes();
        node.load(stack, Family::Ipv4, &manifest);
        let with_theirs = node.save(Family::Ipv4);
        assert_eq!(opened.changes(), Vec::<String>::new());
        assert_eq!(node.save(Family::Ipv4), with_theirs);
        let warnings = opened.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("the IPv4 chain IP-MASQ"), "{warnings:?}");
    }
}

const STRANGERS: &str = ":THEIRS - [0:0]\n:KUBE-POSTROUTING - [0:0]\n-A POSTROUTING -j KUBE-POSTROUTING\n\
    -A POSTROUTING ! -d 10.0.0.0/8 -m comment --comment \"kubenet: SNAT for outbound traffic from cluster\" -m addrtype \
    ! --dst-type LOCAL -j MASQUERADE\n-A THEIRS -j RETURN\n-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n";

#[test]
fn the_nftables_backend_removes_every_generation_of_iptables_nft_without_any_program() {
    let node = Node::new(Stack::Nft);
    node.load(Stack::Nft, Family::Ipv4, STRANGERS);
    let strangers = node.save(Family::Ipv4);
    for (name, lines) in generations() {
        node.load(Stack::Nft, Family::Ipv4, &lines);
        node.load(Stack::Nft, Family::Ipv6, &(ruleset("save6-default").join("\n") + "\n"));
        let mut agent = Agent::start_as(&node.namespace, agent_without_programs, &["--backend=nftables"], None);
        agent.wait_until_ready(PATIENCE).unwrap();
        agent.wait_until(name, || node.save(Family::Ipv4) == strangers && node.save(Family::Ipv6) == ruleset("none"));
    }
}

#[test]
fn a_chain_of_ours_that_a_stranger_jumps_to_is_emptied_and_reported() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.open("OLD").want(&policy(false)).changes();
        node.load(stack, Family::Ipv4, &format!("{STRANGERS}-I THEIRS 1 -s 10.9.0.0/16 -j OLD\n"));
        let mut opened = node.open("NEW");
        opened.want(&policy(false)).changes();
        let saved = node.save(Family::Ipv4);
        assert!(saved.contains(&":OLD - [0:0]".to_owned()), "{saved:#?}");
        assert!(!saved.iter().any(|line| line.starts_with("-A OLD")), "{saved:#?}");
        let warnings = opened.warnings();
        assert!(warnings[0].contains("-A THEIRS -s 10.9.0.0/16 -j OLD"), "{warnings:?}");
    }
}

#[test]
fn cleanup_removes_all_of_ours_from_both_stacks_and_nothing_of_others() {
    for stack in Stack::ALL {
        let node = Node::with_both_stacks(stack);
        let mut pristine = Vec::new();
        for place in Stack::ALL {
            node.load(place, Family::Ipv4, STRANGERS);
            pristine.push(node.save_on(place, Family::Ipv4));
            for (_, lines) in generations().iter().filter(|(name, _)| !name.contains("and then")) {
                node.load(place, Family::Ipv4, lines);
            }
        }
        node.load(stack, Family::Ipv6, &(ruleset("save6-default").join("\n") + "\n"));
        let mut opened = node.open(CHAIN);
        let (own, kept) = opened.with(|iptables| iptables.cleanup(false));
        assert!(own.failures.is_empty() && kept.is_empty(), "{own:?} {kept:?}");
        let saved = node.save(Family::Ipv4);
        assert!(!saved.iter().any(|line| line.contains(CHAIN)), "{saved:#?}");
        assert!(saved.iter().any(|line| line.contains("-j MY-MASQ")), "other generations stay: {saved:#?}");
        let (all, kept) = opened.with(|iptables| iptables.cleanup(true));
        assert!(all.failures.is_empty() && kept.is_empty(), "{all:?} {kept:?}");
        assert_eq!(Stack::ALL.map(|place| node.save_on(place, Family::Ipv4)).to_vec(), pristine);
        assert_eq!(node.save(Family::Ipv6), ruleset("none"));
        let (again, _) = opened.with(|iptables| iptables.cleanup(true));
        assert_eq!((again.changes.len(), again.failures.len()), (0, 0), "{again:?}");
    }
}

#[test]
fn what_an_earlier_run_left_can_be_kept_in_force_without_a_config() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let source =
            Source { name: "config".to_owned(), bytes: b"nonMasqueradeCIDRs: [1.0.0.0/8, 'fd00::/8']\n".to_vec() };
        let flags = Flags { enable_ipv6: true, to_ports: "1024-2000,3000-4000".parse().unwrap(), ..Flags::default() };
        let policy = Policy::new(&Config::parse(&[source], &flags).unwrap().config);
        let mut opened = node.open(CHAIN);
        assert!(!opened.with(|iptables| iptables.adopt().unwrap()), "there is nothing yet");
        opened.want(&policy).changes();
        let before = Family::ALL.map(|family| node.save(family));
        let mut restarted = node.open(CHAIN);
        assert!(restarted.with(|iptables| iptables.adopt().unwrap()));
        assert_eq!(restarted.changes(), Vec::<String>::new());
        node.run(&["iptables", "-t", "nat", "-F"]);
        node.run(&["ip6tables", "-t", "nat", "-F"]);
        assert!(!restarted.changes().is_empty());
        assert_eq!(Family::ALL.map(|family| node.save(family)), before);
    }
}
