//! `explain` where the way of a packet is not plain: maps, marks, packets to many, policy routing; and what it does not know.

use super::{LISTED, OUTSIDE, POD, assert_fine, assert_found, explain, kinds, lab_with, on_node};
use crate::support::program::run_powerless;

/// A table of a stranger's, asked after ours, with a chain whose rules are these.
fn stranger(rules: &str) -> String {
    format!(
        "nft -f - <<'END'\ntable ip stranger {{\nchain masking {{ masquerade\n}}\nchain post {{\ntype nat hook postrouting priority 110\n{rules}\n}}\n}}\nEND\n"
    )
}

#[test]
fn an_address_out_of_a_map_is_not_taken_for_the_packets_own() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, &stranger("snat to ip saddr map { 10.244.0.2 : 198.51.100.9 }"));
    let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7"]);
    assert_eq!((run.status, kinds(&value, "findings")), (Some(1), vec!["overruled"]), "{}", run.stdout);
    assert_eq!(value["result"]["fate"], "unknown", "{}", run.stdout);
}

#[test]
fn a_map_of_verdicts_leaves_open_what_it_does_and_what_comes_behind_it() {
    for rules in
        ["ip daddr vmap { 192.168.0.0/16 : jump masking }", "ip daddr vmap { 192.168.0.0/16 : return }\nmasquerade"]
    {
        let (lab, _agent) = lab_with(LISTED, &[]);
        on_node(&lab, &stranger(rules));
        let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7"]);
        let found = kinds(&value, "findings");
        assert!(run.status == Some(1) && found.iter().all(|kind| *kind == "may-be-overruled"), "{}", run.stdout);
        assert_eq!(value["result"]["certain"], false, "{}", run.stdout);
    }
}

#[test]
fn a_mark_that_a_rule_on_the_way_sets_leaves_open_what_asks_for_it() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, "iptables-nft -t nat -A PREROUTING -s 10.244.0.0/24 -d 192.168.7.0/24 -j MARK --set-mark 1");
    on_node(&lab, "iptables-nft -t nat -A POSTROUTING -m mark --mark 1 -j MASQUERADE");
    let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7"]);
    assert_eq!((run.status, kinds(&value, "findings")), (Some(1), vec!["may-be-overruled"]), "{}", run.stdout);
    // What other tables may do to marks is not looked at, which is said.
    let (run, value) = explain(&lab, LISTED, &[POD, "192.168.8.8"]);
    assert_eq!((run.status, kinds(&value, "notes")), (Some(0), vec!["mark-decides"]), "{}", run.stdout);
    assert_eq!(value["notes"][0]["rule"]["text"], "-A POSTROUTING -m mark --mark 0x1/0xffffffff -j MASQUERADE");
}

#[test]
fn kube_proxys_marks_are_for_services_and_no_remark() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(
        &lab,
        "iptables-nft -t nat -N KUBE-POSTROUTING; iptables-nft -t nat -A POSTROUTING -j KUBE-POSTROUTING
         iptables-nft -t nat -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
         iptables-nft -t nat -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
         iptables-nft -t nat -A KUBE-POSTROUTING -j MASQUERADE --random-fully",
    );
    let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7"]);
    assert_eq!((run.status, kinds(&value, "notes")), (Some(0), vec![]), "{}", run.stdout);
}

#[test]
fn a_rule_to_which_many_ways_lead_is_told_once_and_many_rules_of_a_kind_are_counted() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    let jumps = |to: &str| (0..10).map(|n| format!("meta length > {n} jump {to}\n")).collect::<String>();
    let masking: String = (0..8).map(|n| format!("meta length > {n} masquerade\n")).collect();
    let [first, second] = [jumps("second"), jumps("masking")];
    on_node(
        &lab,
        &format!(
            "nft -f - <<'END'\ntable ip stranger {{\nchain masking {{\n{masking}}}\nchain second {{\n{second}}}\nchain first {{\n{first}}}\n\
             chain post {{\ntype nat hook postrouting priority 110\njump first\n}}\n}}\nEND\n"
        ),
    );
    let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7"]);
    assert_eq!(kinds(&value, "findings"), ["may-be-overruled"; 8], "{}", run.stdout);
    assert_eq!(run.stdout.matches("may decide").count(), 5, "{}", run.stdout);
    assert!(run.stdout.contains("! and 3 more rules like these"), "{}", run.stdout);
}

#[test]
fn what_a_pod_sends_to_everybody_ends_at_the_node() {
    let (lab, _agent) = lab_with("nonMasqueradeCIDRs: []\n", &[]);
    for destination in ["255.255.255.255", "198.51.100.255", "224.0.0.1:5353/udp"] {
        let (run, value) = explain(&lab, "nonMasqueradeCIDRs: []\n", &[POD, destination]);
        assert_eq!((run.status, kinds(&value, "notes")), (Some(0), vec!["for-the-node"]), "{}", run.stdout);
        assert_eq!(value["result"]["source"], POD, "{}", run.stdout);
    }
    // These groups the node has not joined, or the kernel does not say.
    for (pod, group) in [(POD, "224.0.0.251"), ("fd00:244::2", "ff02::1")] {
        let (run, value) = explain(&lab, "nonMasqueradeCIDRs: []\n", &[pod, group]);
        assert_eq!((run.status, kinds(&value, "notes")), (Some(0), vec!["for-the-node"]), "{}", run.stdout);
        assert_eq!(value["result"]["fate"], "lost", "{}", run.stdout);
    }
    // The node's own leave.
    assert_fine(&lab, "nonMasqueradeCIDRs: []\n", &["198.51.100.1", "255.255.255.255", "--host"], "198.51.100.1");
}

#[test]
fn rules_of_policy_routing_that_ask_for_ports_are_heeded() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, "ip rule add ipproto udp dport 53 lookup 100; ip route add blackhole default table 100");
    let (run, value) = explain(&lab, LISTED, &[POD, "8.8.8.8:53/udp"]);
    assert_eq!((run.status, kinds(&value, "findings")), (Some(1), vec!["no-route"]), "{}", run.stdout);
    assert!(run.stdout.contains("a blackhole route"), "{}", run.stdout);
    assert_fine(&lab, LISTED, &[POD, "8.8.8.8:53/tcp"], "198.51.100.1");
    assert_fine(&lab, LISTED, &[POD, "8.8.8.8:54/udp"], "198.51.100.1");
}

#[test]
fn the_source_that_the_node_prefers_on_another_way_is_no_remark() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, &format!("ip route add 8.8.8.0/24 via {OUTSIDE} src 198.51.100.9"));
    let notes = || kinds(&explain(&lab, LISTED, &[POD, "8.8.8.8"]).1, "notes").join(" ");
    assert_eq!(notes(), "other-than-preferred");
    on_node(&lab, "ip rule add from 10.244.0.0/24 lookup 100; ip route add default via 198.51.100.3 table 100");
    assert_eq!(notes(), "");
}

#[test]
fn without_sight_of_the_rules_the_policy_is_taken_to_be_in_force() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    let run = run_powerless(&lab.node, &["explain", POD, "8.8.8.8"]);
    for part in ["other rules  not all could be looked at", "a new connection probably leaves as 198.51.100.1"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
}

#[test]
fn strangers_ranges_and_ports_are_told_as_far_as_they_can_be() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, "iptables-nft -t nat -A POSTROUTING -d 192.168.7.7 -j SNAT --to-source 198.51.100.8-198.51.100.9");
    let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7"]);
    assert_eq!(
        (&value["result"]["source"], &value["result"]["last_source"]),
        (&"198.51.100.8".into(), &"198.51.100.9".into()),
        "{}",
        run.stdout
    );
    on_node(&lab, "iptables-nft -t nat -I POSTROUTING -p udp -d 192.168.7.7 -j MASQUERADE --to-ports 5000-5009");
    assert_found(&lab, LISTED, &[POD, "192.168.7.7:53/udp"], "overruled", "198.51.100.1");
}

#[test]
fn a_chain_that_routes_anew_may_keep_packets_untracked_too() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, "nft 'table ip stranger { chain out { type route hook output priority -300; notrack; }; }'");
    assert_found(&lab, LISTED, &["198.51.100.9", "8.8.8.8", "--host"], "untracked", "198.51.100.9");
}
