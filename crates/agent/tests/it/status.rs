//! `status` of the built program: what it says of real nodes, each finding with the situation it is for and a harmless twin.

use std::os::fd::AsFd;

use ip_masq_agent::backend::iptables::render::jump;
use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::link::Rtnetlink;
use ip_masq_agent::lab::namespace::Namespace;
use masq::cidr::Family;
use serde_json::Value;

use crate::support::agent::Agent;
use crate::support::applied::{Applied, DEFAULTS, sentence};
use crate::support::iptables::{Node, ruleset};
use crate::support::program::{run, run_in, run_powerless};
use crate::support::ruleset::{nft, observe};

/// The old kubelet's rule.
const KUBENET: &str = "-A POSTROUTING ! -d 10.0.0.0/8 -m comment --comment \"kubenet: SNAT for outbound traffic from cluster\" \
    -m addrtype ! --dst-type LOCAL -j MASQUERADE\n";

#[test]
fn a_node_in_order_has_nothing_to_report_and_is_not_changed() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        let (_, generation) = observe(&applied.node.namespace);
        applied.expect(0, &[]);
        let run = applied.run(&[]);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{run:?}");
        for part in
            ["Config:    <stdin>, hash ", "in sync with the policy", "Agent:     not seen", "Nothing to report."]
        {
            assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
        }
        assert_eq!(observe(&applied.node.namespace).1, generation);
    }
}

#[test]
fn an_old_kubelets_rule_masquerades_what_it_does_not_know() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        let findings = applied.load(KUBENET).expect(1, &["exempt-but-translated"]);
        let text = sentence(&findings[0]);
        assert!(text.contains("kubelet") && text.contains("takes 172.16.0.0/12, 192.168.0.0/16 ("), "{text}");
        let when = if applied.backend == "--backend=nftables" { "before ours" } else { "after ours" };
        assert!(text.contains(when), "{text}");
    }
}

#[test]
fn a_rule_that_can_never_match_is_no_conflict() {
    let applied = Applied::new(Stack::Legacy, "--backend=iptables", &[], DEFAULTS);
    applied.load("-A POSTROUTING ! -d 0.0.0.0/0 -m addrtype ! --dst-type LOCAL -j MASQUERADE\n").expect(0, &[]);
}

#[test]
fn a_later_rule_for_pods_masquerades_what_is_exempt() {
    for applied in Applied::everywhere(&[], "nonMasqueradeCIDRs: [198.51.100.0/24]\n") {
        let findings =
            applied.load("-A POSTROUTING -s 10.244.0.0/24 -j MASQUERADE\n").expect(1, &["exempt-but-translated"]);
        assert!(sentence(&findings[0]).contains("10.244.0.1 to 198.51.100.1"), "{findings:?}");
    }
}

#[test]
fn rules_that_spare_what_is_exempt_or_have_a_network_of_their_own_are_no_conflict() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        applied
            .load(
                ":KUBE-POSTROUTING - [0:0]\n-A POSTROUTING -j KUBE-POSTROUTING\n\
                   -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n-A KUBE-POSTROUTING -j MASQUERADE\n",
            )
            .load("-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE\n")
            .load("-A POSTROUTING -s 10.244.0.0/24 -d 203.0.113.0/24 -j MASQUERADE\n")
            .expect(0, &[]);
        let run = applied.run(&[]);
        assert!(run.stdout.contains("1 of kube-proxy") && run.stdout.contains("1 of Docker"), "{}", run.stdout);
    }
}

#[test]
fn rules_in_both_stacks_are_told_and_rules_in_one_are_not() {
    const RULE: &str = "-A POSTROUTING -d 203.0.113.7/32 -j RETURN\n";
    let applied = Applied::on(Node::with_both_stacks(Stack::Nft), "--backend=nftables", &[], DEFAULTS);
    applied.node.load(Stack::Nft, Family::Ipv4, RULE);
    applied.node.load(Stack::Legacy, Family::Ipv4, "");
    applied.expect(0, &[]);
    applied.node.load(Stack::Legacy, Family::Ipv4, RULE);
    let findings = applied.expect(1, &["stacks-split"]);
    assert!(sentence(&findings[0]).contains("iptables-nft (1) and iptables-legacy (1)"), "{findings:?}");
}

#[test]
fn ipv6_without_a_cidr_is_told_and_ipv6_with_one_or_off_is_not() {
    let flags = &["--enable-ipv6"];
    Applied::new(Stack::Nft, "--backend=nftables", flags, DEFAULTS).expect(1, &["no-ipv6-cidrs"]);
    let listed = "nonMasqueradeCIDRs: [10.0.0.0/8, 'fd00::/8']\n";
    Applied::new(Stack::Nft, "--backend=nftables", flags, listed).expect(0, &[]);
}

/// Gives the node a link with this name and address, which stays for as long as the pod's namespace at its other end.
fn add_link(node: &Namespace, name: &'static str, address: &'static str) -> Namespace {
    let pod = Namespace::open("pod").unwrap();
    let other_end = pod.as_fd().try_clone_to_owned().unwrap();
    node.run(move || {
        let mut links = Rtnetlink::open().unwrap();
        links.add_veth_pair(name, "eth0", other_end.as_fd()).unwrap();
        links.add_address(name, address.parse().unwrap(), 24).unwrap();
        links.set_up(name).unwrap();
    });
    pod
}

#[test]
fn pods_outside_of_the_list_are_told_and_pods_inside_or_other_links_are_not() {
    for (link, address, expected) in
        [("cni0", "100.64.1.1", &["pods-not-exempt"][..]), ("cni0", "10.244.1.1", &[]), ("uplink", "100.64.1.1", &[])]
    {
        let applied = Applied::new(Stack::Nft, "--backend=nftables", &[], DEFAULTS);
        let _pod = add_link(&applied.node.namespace, link, address);
        let findings = applied.expect(i32::from(!expected.is_empty()), expected);
        assert!(findings.iter().all(|finding| sentence(finding).contains("100.64.1.0/24 on cni0")), "{findings:?}");
    }
}

#[test]
fn ports_that_overlap_node_ports_are_told_and_ports_around_them_are_not() {
    Applied::new(Stack::Nft, "--backend=nftables", &["--to-ports=1024-65535"], DEFAULTS).expect(1, &["node-ports"]);
    let around = &["--to-ports=1024-29999,32768-65535"];
    Applied::new(Stack::Nft, "--backend=nftables", around, DEFAULTS).expect(0, &[]);
    let any = Applied::new(Stack::Nft, "--backend=nftables", &[], DEFAULTS);
    any.load(":KUBE-NODEPORTS - [0:0]\n-A PREROUTING -j KUBE-NODEPORTS\n").expect(0, &[]);
    any.load("-A KUBE-NODEPORTS -p tcp --dport 30080 -j RETURN\n").expect(0, &["node-ports"]);
}

#[test]
fn ports_that_are_reserved_are_told_and_others_are_not() {
    for (flag, expected) in [("--to-ports=40005-40999", &["reserved-ports"][..]), ("--to-ports=41000-42000", &[])] {
        let applied = Applied::new(Stack::Nft, "--backend=nftables", &[flag], DEFAULTS);
        applied.node.namespace.set_sysctl("net/ipv4/ip_local_reserved_ports", "40000-40010").unwrap();
        applied.expect(i32::from(!expected.is_empty()), expected);
    }
}

#[test]
fn random_ports_that_iptables_is_too_old_for_are_told() {
    for (flag, expected) in [("--random-fully=true", &["random-fully-unavailable"][..]), ("--random-fully=false", &[])]
    {
        let node = Node::new(Stack::Nft);
        for program in ["iptables", "ip6tables"] {
            node.script(program, "[ \"$1\" = --version ] && echo iptables v1.6.1 && exit\nexec \"$REAL\" \"$@\"");
        }
        let applied = Applied::on(node, "--backend=iptables", &[flag], DEFAULTS);
        applied.expect(i32::from(!expected.is_empty()), expected);
    }
}

#[test]
fn rules_of_another_generation_break_the_policy() {
    let rule = "-m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)\" -j MASQUERADE";
    let old = format!(":OLD - [0:0]\n-A POSTROUTING {}\n-A OLD {rule}\n", jump("OLD"));
    for applied in Applied::everywhere(&[], DEFAULTS) {
        let findings = applied.load(&old).expect(2, &["not-in-force", "other-generation"]);
        let when = if applied.backend == "--backend=nftables" { "before ours and decide" } else { "asked after ours" };
        assert!(sentence(&findings[1]).contains(when) && sentence(&findings[1]).contains("chain OLD"), "{findings:?}");
    }
}

#[test]
fn untracked_packets_are_a_note() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        applied.node.run(&["iptables", "-t", "raw", "-A", "PREROUTING", "-s", "10.244.0.2", "-j", "NOTRACK"]);
        let findings = applied.expect(0, &["untracked"]);
        assert!(sentence(&findings[0]).contains("10.244.0.2"), "{findings:?}");
    }
}

#[test]
fn a_policy_that_is_not_in_force_is_broken_whether_an_agent_is_seen_or_not() {
    let node = Namespace::open("node").unwrap();
    let look = || run_in(&node, &["status", "--backend=nftables", "--config", "-"], DEFAULTS, |_| {});
    let run = look();
    assert_eq!(run.status, Some(2), "{run:?}");
    assert!(
        run.stdout.contains("broken (not-in-force): the kernel differs") && run.stdout.contains("start the agent"),
        "{run:?}"
    );
    let agent = Agent::start_ready(&node, &["--backend=nftables"], Some(DEFAULTS));
    let run = look();
    assert_eq!(run.status, Some(0), "{run:?} {}", agent.log_tail());
    assert!(run.stdout.contains("Agent:     seen as process "), "{}", run.stdout);
    assert!(run.stdout.contains("IPv4 connections: 0 exempt, 0 masqueraded"), "{}", run.stdout);
}

#[test]
fn a_config_that_is_refused_is_broken_and_a_warning_is_a_warning() {
    let mut applied = Applied::new(Stack::Nft, "--backend=nftables", &[], DEFAULTS);
    applied.config = "nonMasqueradeCIDRs: 5\n";
    applied.expect(2, &["wrong-type"]);
    applied.config = "nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16]\nfoo: 1\n";
    let findings = applied.expect(1, &["unknown-key"]);
    assert!(sentence(&findings[0]).starts_with("<stdin>:2:1: "), "{findings:?}");
}

#[test]
fn json_keeps_its_keys() {
    let applied = Applied::new(Stack::Nft, "--backend=nftables", &[], DEFAULTS);
    applied.load("-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE\n");
    let value: Value = serde_json::from_str(&applied.run(&["-o", "json"]).stdout).unwrap();
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = [
        "agents",
        "backend",
        "config",
        "connections",
        "conntrack",
        "findings",
        "foreign",
        "inSync",
        "unseen",
        "verdict",
    ];
    assert_eq!(keys, wanted);
    assert_eq!((&value["verdict"], &value["inSync"]), (&Value::from("fine"), &Value::from(true)));
    assert_eq!(value["config"]["files"][0]["name"], "<stdin>");
    assert_eq!(value["config"]["hash"].as_str().unwrap().len(), 16);
    assert_eq!(value["connections"], serde_json::json!([{ "family": "IPv4", "exempt": 0, "masqueraded": 0 }]));
    let rule = &value["foreign"][0];
    assert_eq!(
        (&rule["owner"], &rule["position"], &rule["effect"]),
        (&"Docker".into(), &"before".into(), &"may-masquerade".into())
    );
    assert_eq!((&rule["chain"], &rule["priority"]), (&"POSTROUTING".into(), &100.into()));
    let failed: Value =
        serde_json::from_str(&run(&["status", "-o", "json", "--config", "/nonexistent"]).stdout).unwrap();
    assert_eq!(failed.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), wanted);
}

#[test]
fn without_the_power_to_look_it_says_so_and_exits_3() {
    let node = Namespace::open("node").unwrap();
    nft(&node, "add table inet ip-masq-agent");
    let run = run_powerless(&node, &["status", "--backend=nftables"]);
    assert_eq!(run.status, Some(3), "{run:?}");
    assert!(run.stdout.contains("Not seen:") && run.stdout.contains("CAP_NET_ADMIN"), "{run:?}");
    assert!(!run.stdout.contains("in sync"), "{run:?}");
    for part in ["Others:    not all could be looked at", "Nothing to report of what could be looked at."] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
}

#[test]
fn todays_rules_of_the_other_backend_break_the_policy() {
    let applied = Applied::new(Stack::Nft, "--backend=nftables", &[], DEFAULTS);
    applied.load(&(ruleset("save4-default").join("\n") + "\n"));
    let (status, findings) = applied.look();
    assert_eq!((status, findings[0]["id"].as_str()), (Some(2), Some("not-in-force")), "{findings:?}");
}
