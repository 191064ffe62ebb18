//! `explain` of the built program: each known way to be surprised, and its harmless twin.

mod packets;
mod surprises;

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::{Host, Lab, OUTSIDE_LINK};
use masq::config::Flags;
use serde_json::Value;

use crate::support::agent::Agent;
use crate::support::directory::Directory;
use crate::support::engine::Engine;
use crate::support::iptables::write_program;
use crate::support::program::{Run, run, run_in, run_powerless};
use crate::support::ruleset::nft;

const POD: &str = "10.244.0.2";
const OUTSIDE: &str = "198.51.100.2";
/// The outside's network and two others are exempt.
const LISTED: &str = "nonMasqueradeCIDRs:\n- 198.51.100.0/24\n- 10.0.0.0/8\n- 192.168.0.0/16\n";

/// Runs a program on the lab's node as a stranger would, with a lock file of its own.
fn on_node(lab: &Lab, words: &str) {
    let directory = Directory::new();
    let mut command = Command::new("/bin/sh");
    command.args(["-ec", words]).env("XTABLES_LOCKFILE", directory.join("lock"));
    let output = lab.node.run(move || command.output().unwrap());
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Asks for text and for JSON, which must come to the same.
fn explain(lab: &Lab, config: &str, words: &[&str]) -> (Run, Value) {
    let args = [&["explain", "--config", "-"], words].concat();
    let text = run_in(&lab.node, &args, config, |_| {});
    let json = run_in(&lab.node, &[&args[..], &["-o", "json"]].concat(), config, |_| {});
    assert_eq!(text.status, json.status, "{}{}", text.stdout, text.stderr);
    let value = serde_json::from_str(&json.stdout).unwrap_or_else(|error| panic!("{error}: {json:?}"));
    (text, value)
}

fn kinds<'v>(value: &'v Value, of: &str) -> Vec<&'v str> {
    value[of].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect()
}

/// Asserts that nothing is found and the packet leaves with this source.
#[track_caller]
fn assert_fine(lab: &Lab, config: &str, words: &[&str], source: &str) {
    let (run, value) = explain(lab, config, words);
    assert_eq!((run.status, kinds(&value, "findings")), (Some(0), vec![]), "{}{}", run.stdout, run.stderr);
    assert_eq!(
        (&value["result"]["source"], &value["result"]["certain"]),
        (&source.into(), &true.into()),
        "{}",
        run.stdout
    );
}

/// Asserts that one thing is found and the packet leaves with this source; answers the finding.
#[track_caller]
fn assert_found(lab: &Lab, config: &str, words: &[&str], kind: &str, source: &str) -> Value {
    let (run, value) = explain(lab, config, words);
    assert_eq!((run.status, kinds(&value, "findings")), (Some(1), vec![kind]), "{}{}", run.stdout, run.stderr);
    assert_eq!(
        (&value["result"]["source"], &value["result"]["certain"]),
        (&source.into(), &true.into()),
        "{}",
        run.stdout
    );
    let finding = value["findings"][0].clone();
    assert!(run.stdout.contains(&format!("! {}", finding["text"].as_str().unwrap())), "{}", run.stdout);
    finding
}

fn lab_with(config: &str, args: &[&str]) -> (Lab, Agent) {
    let lab = Lab::open().unwrap();
    let agent = Agent::start_ready(&lab.node, &[&["--backend=nftables"], args].concat(), Some(config));
    (lab, agent)
}

#[test]
fn the_story_names_route_cidr_line_and_result() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7:443"]);
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    for part in [
        "1. packet       10.244.0.2 to 192.168.7.7:443, tcp, coming in by p0",
        "2. route        out of e0, through 198.51.100.2 (table main)",
        "3. policy       exempt: in 192.168.0.0/16 (<stdin>:4:3)",
        "8. result       a new connection leaves with its own address, 10.244.0.2",
    ] {
        assert!(run.stdout.contains(part), "{part}\n{}", run.stdout);
    }
    assert_eq!(
        (&value["policy"]["cidr"], &value["policy"]["origin"]),
        (&"192.168.0.0/16".into(), &"<stdin>:4:3".into())
    );
    let (run, value) = explain(&lab, LISTED, &[POD, "8.8.8.8:53/udp"]);
    assert!(run.stdout.contains("leaves as 198.51.100.1, port random"), "{}", run.stdout);
    assert_eq!((&value["policy"]["port"], &value["result"]["decided_by"]), (&"random".into(), &"policy".into()));
}

#[test]
fn json_keeps_its_keys_whatever_happened() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    let (_, fine) = explain(&lab, LISTED, &[POD, OUTSIDE]);
    let refused = run_in(&lab.node, &["explain", "--config", "-", "-o", "json", POD, OUTSIDE], "[", |_| {});
    let refused_value: Value = serde_json::from_str(&refused.stdout).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&fine), keys(&refused_value));
    assert_eq!(refused.status, Some(1));
    assert!(refused_value["error"].as_str().unwrap().contains("config is refused"));
}

#[test]
fn names_and_impossible_packets_are_wrong_usage() {
    for words in [&[POD, "example.org"][..], &[POD], &[POD, OUTSIDE, OUTSIDE], &["fd00::1", OUTSIDE]] {
        let run = run(&[&["explain"], words].concat());
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{words:?}");
    }
    let (lab, _agent) = lab_with(LISTED, &[]);
    let (run, value) = explain(&lab, LISTED, &["--host", POD, OUTSIDE]);
    assert_eq!(run.status, Some(2));
    assert!(value["error"].as_str().unwrap().contains("not an address of this node"), "{value}");
    let (run, _) = explain(&lab, LISTED, &["198.51.100.1", "8.8.8.8", "--host"]);
    assert_eq!(run.status, Some(0), "flags may follow the words: {}", run.stderr);
}

#[test]
fn without_privilege_it_says_what_it_could_not_see() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    let run = run_powerless(&lab.node, &["explain", POD, "8.8.8.8"]);
    assert_eq!(run.status, Some(3), "{run:?}");
    for part in ["? could not look at nftables", "? could not look at live connections", "CAP_NET_ADMIN", "probably"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
}

#[test]
fn without_rules_in_the_kernel_it_says_that_the_policy_is_not_in_force() {
    let lab = Lab::open().unwrap();
    assert_found(&lab, LISTED, &[POD, "8.8.8.8"], "not-in-force", POD);
    assert_fine(&lab, LISTED, &[POD, "192.168.7.7"], POD);
}

#[test]
fn rules_of_the_backend_that_is_not_asked_about_are_a_strangers() {
    for engine in [Engine::Nftables, Engine::Iptables(Stack::Nft)] {
        let lab = Lab::open().unwrap();
        let _agent = engine.start(&lab, &Flags::default(), Some(LISTED));
        let (own, other) = match engine {
            Engine::Nftables => ("--backend=nftables", "--backend=iptables"),
            Engine::Iptables(_) => ("--backend=iptables", "--backend=nftables"),
        };
        for backend in ["--backend=auto", own] {
            assert_fine(&lab, LISTED, &[POD, "8.8.8.8", backend], "198.51.100.1");
            assert_fine(&lab, LISTED, &[POD, "192.168.7.7", backend], POD);
        }
        let found = assert_found(&lab, LISTED, &[POD, "8.8.8.8", other], "not-in-force", "198.51.100.1");
        assert!(found["text"].as_str().unwrap().contains("--backend"), "{found}");
        let (run, value) = explain(&lab, LISTED, &[POD, "8.8.8.8", other]);
        assert_eq!(kinds(&value, "notes"), ["also-translates"], "{}", run.stdout);
        assert_eq!(value["notes"][0]["rule"]["owner"], "another ip-masq-agent");
        assert_fine(&lab, LISTED, &[POD, "192.168.7.7", other], POD);
    }
}

#[test]
fn a_config_that_is_not_the_one_in_force_is_noticed() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    assert_found(&lab, "nonMasqueradeCIDRs: []\n", &[POD, "192.168.7.7"], "out-of-sync", "198.51.100.1");
    assert_fine(&lab, "nonMasqueradeCIDRs: []\n", &[POD, "8.8.8.8"], "198.51.100.1");
}

#[test]
fn an_exemption_that_a_strangers_rule_undoes_is_told() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, "iptables-nft -t nat -A POSTROUTING -s 10.99.0.0/16 -j MASQUERADE");
    assert_fine(&lab, LISTED, &[POD, OUTSIDE], POD);
    on_node(&lab, "iptables-nft -t nat -A POSTROUTING -s 10.244.0.0/24 -j MASQUERADE");
    let found = assert_found(&lab, LISTED, &[POD, OUTSIDE], "overruled", "198.51.100.1");
    assert_eq!(found["rule"]["text"], "-A POSTROUTING -s 10.244.0.0/24 -j MASQUERADE");
}

#[test]
fn a_rule_after_ours_is_told_apart_from_one_before() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    let table = |priority: i32, block: &str| {
        format!(
            "table ip t{priority} {{ chain post {{ type nat hook postrouting priority {priority}; ip daddr {block} masquerade; }}; }}"
        )
    };
    nft(&lab.node, &table(110, "198.51.100.0/24"));
    let found = assert_found(&lab, LISTED, &[POD, OUTSIDE], "overruled", "198.51.100.1");
    assert_eq!(found["rule"]["position"], "after");
    nft(&lab.node, &table(90, "192.168.0.0/16"));
    let found = assert_found(&lab, LISTED, &[POD, "192.168.7.7"], "overruled", "198.51.100.1");
    assert_eq!(found["rule"]["position"], "before");
    let (_, value) = explain(&lab, LISTED, &[POD, "8.8.8.8"]);
    assert_eq!(kinds(&value, "notes"), Vec::<&str>::new());
}

#[test]
fn kubelets_old_rule_is_told_where_it_masquerades_and_not_elsewhere() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(
        &lab,
        "iptables-nft -t nat -A POSTROUTING ! -d 10.0.0.0/8 -m comment --comment 'kubenet: SNAT for outbound traffic from cluster' \
         -m addrtype ! --dst-type LOCAL -j MASQUERADE",
    );
    let found = assert_found(&lab, LISTED, &[POD, "192.168.1.1"], "overruled", "198.51.100.1");
    assert_eq!(found["rule"]["owner"], "kubelet");
    assert_fine(&lab, LISTED, &[POD, "10.1.2.3"], POD);
    assert_fine(&lab, LISTED, &[POD, "8.8.8.8"], "198.51.100.1");
}

#[test]
fn a_rule_that_cannot_match_is_no_conflict() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, "iptables-legacy -t nat -A POSTROUTING ! -d 0.0.0.0/0 -m addrtype ! --dst-type LOCAL -j MASQUERADE");
    assert_fine(&lab, LISTED, &[POD, OUTSIDE], POD);
}

#[test]
fn a_rule_that_is_not_taken_apart_leaves_the_result_open() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    let rule = |block: &str| {
        format!("iptables-nft -t nat -A POSTROUTING -s {block} -m length --length 100 -j SNAT --to-source 198.51.100.9")
    };
    on_node(&lab, &rule("10.99.0.0/16"));
    assert_fine(&lab, LISTED, &[POD, OUTSIDE], POD);
    on_node(&lab, &rule("10.244.0.0/16"));
    let (run, value) = explain(&lab, LISTED, &[POD, OUTSIDE]);
    assert_eq!((run.status, kinds(&value, "findings")), (Some(1), vec!["may-be-overruled"]), "{}", run.stdout);
    assert_eq!(value["result"]["certain"], false);
}

#[test]
fn untracked_packets_are_told_with_the_rule_that_makes_them_so() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    for program in ["iptables-nft", "iptables-legacy"] {
        on_node(&lab, &format!("{program} -t raw -A PREROUTING -s 10.244.0.99 -j NOTRACK"));
        assert_fine(&lab, LISTED, &[POD, "8.8.8.8"], "198.51.100.1");
        on_node(&lab, &format!("{program} -t raw -A PREROUTING -s {POD} -j NOTRACK"));
        let found = assert_found(&lab, LISTED, &[POD, "8.8.8.8"], "untracked", POD);
        assert_eq!(found["rule"]["table"], "raw");
        assert_fine(&lab, LISTED, &[POD, "192.168.7.7"], POD);
        on_node(&lab, &format!("{program} -t raw -F"));
    }
}

/// Sends one datagram between two hosts of the lab.
fn send(lab: &Lab, from: Host, source: (&str, u16), to: (&str, u16)) -> UdpSocket {
    let address = |(address, port): (&str, u16)| SocketAddr::new(address.parse::<IpAddr>().unwrap(), port);
    let (source, to) = (address(source), address(to));
    lab.namespace(from).run(move || {
        let socket = UdpSocket::bind(source).unwrap();
        socket.send_to(b"x", to).unwrap();
        socket
    })
}

#[test]
fn a_port_that_an_earlier_connection_holds_is_told_and_a_free_one_is_not() {
    let (lab, _agent) = lab_with("nonMasqueradeCIDRs: []\n", &["--random-fully=false"]);
    let receiver = lab.node.run(|| UdpSocket::bind("198.51.100.1:51820").unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _outside = send(&lab, Host::Outside, (OUTSIDE, 7001), ("198.51.100.1", 51820));
    receiver.recv_from(&mut [0; 8]).unwrap();
    let words = |source| [source, "198.51.100.2:7001/udp", "--random-fully=false"];
    let config = "nonMasqueradeCIDRs: []\n";
    let found = assert_found(&lab, config, &words("10.244.0.2:51820"), "port-taken", "198.51.100.1");
    assert_eq!(found["connection"]["original"]["source_port"], 7001);
    assert_fine(&lab, config, &words("10.244.0.2:51821"), "198.51.100.1");
    let (run, value) = explain(&lab, config, &words(POD));
    assert_eq!((run.status, &value["ports_in_use"]), (Some(0), &serde_json::json!([51820])), "{}", run.stdout);
}

#[test]
fn a_live_connection_that_kept_an_old_translation_is_told() {
    let (lab, agent) = lab_with("nonMasqueradeCIDRs: []\n", &[]);
    let receiver = lab.outside.run(|| UdpSocket::bind("[::]:7001").unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _senders = [("198.51.100.2", 5555), ("8.8.8.8", 5556)].map(|(to, port)| {
        let sender = send(&lab, Host::Pod, (POD, port), (to, 7001));
        receiver.recv_from(&mut [0; 8]).unwrap();
        sender
    });
    let asked = "198.51.100.2:7001/udp";
    assert_fine(&lab, "nonMasqueradeCIDRs: []\n", &[POD, asked], "198.51.100.1");
    agent.write_config(LISTED);
    agent.wait_until("the new list to be in force", || {
        let (run, value) = explain(&lab, LISTED, &[POD, "192.168.7.7"]);
        (run.status, kinds(&value, "findings").len()) == (Some(0), 0)
    });
    let found = assert_found(&lab, LISTED, &[POD, asked], "old-translation", POD);
    assert_eq!(found["connection"]["reply"]["destination"], "198.51.100.1");
    assert_fine(&lab, LISTED, &[POD, "8.8.8.8:7001/udp"], "198.51.100.1");
}

#[test]
fn an_address_other_than_the_routes_preferred_one_is_noted() {
    let (lab, _agent) = lab_with("nonMasqueradeCIDRs: []\n", &[]);
    let (run, value) = explain(&lab, "nonMasqueradeCIDRs: []\n", &[POD, "8.8.8.8"]);
    assert_eq!((run.status, kinds(&value, "notes")), (Some(0), vec![]), "{}", run.stdout);
    on_node(&lab, &format!("ip route replace 8.8.8.0/24 via {OUTSIDE} dev {OUTSIDE_LINK} src 198.51.100.9"));
    let (run, value) = explain(&lab, "nonMasqueradeCIDRs: []\n", &[POD, "8.8.8.8"]);
    assert_eq!((run.status, kinds(&value, "notes")), (Some(0), vec!["other-than-preferred"]), "{}", run.stdout);
    assert_eq!(
        (&value["result"]["source"], &value["route"]["preferred_source"]),
        (&"198.51.100.1".into(), &"198.51.100.9".into())
    );
    assert!(run.stdout.contains("198.51.100.9") && run.stdout.contains("picks 198.51.100.1"), "{}", run.stdout);
}

#[test]
fn an_address_that_a_strangers_rule_sends_elsewhere_is_noted() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(
        &lab,
        "iptables-nft -t nat -N KUBE-SERVICES; iptables-nft -t nat -A PREROUTING -j KUBE-SERVICES; iptables-nft -t nat -A KUBE-SERVICES \
         -d 10.96.0.10 -p udp --dport 53 -j DNAT --to-destination 10.244.0.2",
    );
    let (run, value) = explain(&lab, LISTED, &[POD, "10.96.0.10:53/udp"]);
    assert_eq!((run.status, kinds(&value, "notes")), (Some(0), vec!["other-destination"]), "{}", run.stdout);
    assert_eq!(
        (&value["notes"][0]["rule"]["owner"], &value["result"]["certain"]),
        (&"kube-proxy".into(), &false.into())
    );
    assert_fine(&lab, LISTED, &[POD, "10.96.0.10:53/tcp"], POD);
}

#[test]
fn a_destination_without_a_route_is_told() {
    let (lab, _agent) = lab_with(LISTED, &[]);
    on_node(&lab, "ip route add unreachable 203.0.113.0/24");
    let (run, value) = explain(&lab, LISTED, &[POD, "203.0.113.1"]);
    assert_eq!((run.status, kinds(&value, "findings")), (Some(1), vec!["no-route"]), "{}", run.stdout);
    assert_eq!(value["result"]["fate"], "lost");
}

#[test]
fn rules_of_ours_that_a_packet_does_not_reach_are_told() {
    let lab = Lab::open().unwrap();
    let engine = Engine::Iptables(Stack::Nft);
    let _agent = engine.start(&lab, &Flags::default(), Some(LISTED));
    on_node(&lab, "iptables-nft -t nat -I POSTROUTING -s 10.99.0.0/16 -j ACCEPT");
    assert_fine(&lab, LISTED, &[POD, "8.8.8.8"], "198.51.100.1");
    on_node(&lab, "iptables-nft -t nat -I POSTROUTING -s 10.244.0.0/16 -j ACCEPT");
    let found = assert_found(&lab, LISTED, &[POD, "8.8.8.8"], "not-reached", POD);
    assert_eq!(found["rule"]["text"], "-A POSTROUTING -s 10.244.0.0/16 -j ACCEPT");
    assert_fine(&lab, LISTED, &[POD, "192.168.7.7"], POD);
}

#[test]
fn a_family_that_cannot_be_looked_at_leaves_questions_about_the_other_open_to_an_answer() {
    let lab = Lab::open().unwrap();
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    let _agent = Engine::Nftables.start(&lab, &flags, Some(LISTED));
    on_node(&lab, "ip6tables-legacy -t nat -L");
    let programs = Directory::new();
    write_program(&programs, "ip6tables-legacy-save", "#!/bin/sh\necho 'this one fails' >&2\nexit 1\n");
    let ask = |tool: &[&str]| {
        let args = [tool, &["--backend=nftables", "--enable-ipv6", "--config", "-"]].concat();
        run_in(&lab.node, &args, LISTED, |command| {
            command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.path().display()));
        })
    };
    let fine = ask(&["explain", POD, "8.8.8.8"]);
    assert_eq!(fine.status, Some(0), "{fine:?}");
    assert!(!fine.stdout.contains("could not look") && !fine.stdout.contains("probably"), "{}", fine.stdout);
    for blind in [ask(&["explain", "fd00:244::2", "2606:4700::1111"]), ask(&["status"])] {
        assert_eq!(blind.status, Some(3), "{blind:?}");
        assert!(blind.stdout.contains("IPv6 tables of iptables-legacy"), "{}", blind.stdout);
        assert!(blind.stdout.contains("this one fails"), "{}", blind.stdout);
    }
}

/// Everything that `explain` might change: rules of both stacks, and which tables iptables-legacy has.
fn kernel(lab: &Lab) -> (String, Option<String>) {
    let legacy = lab.node.run(|| fs::read_to_string("/proc/thread-self/net/ip_tables_names").ok());
    (nft(&lab.node, "list ruleset"), legacy)
}

#[test]
fn nothing_in_the_kernel_changes() {
    let (lab, agent) = lab_with(LISTED, &[]);
    drop(agent);
    on_node(&lab, "iptables-nft -t nat -A POSTROUTING -s 10.244.0.0/24 -j MASQUERADE");
    let before = kernel(&lab);
    explain(&lab, LISTED, &[POD, OUTSIDE]);
    assert_eq!(kernel(&lab), before);
}
