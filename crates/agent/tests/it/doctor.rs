//! The doctor's findings about the node: each in the situation it is for, and not in its harmless twin.

mod lock;
mod register;
mod tunnels;

use std::net::{Ipv4Addr, UdpSocket};

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::link::Rtnetlink;
use ip_masq_agent::lab::namespace::Namespace;
use masq::cidr::Family;
use nfnetlink::Conntrack;

use crate::support::applied::{Applied, DEFAULTS, sentence};
use crate::support::iptables::Node;

/// What flannel makes for a cluster of 10.244.0.0/16.
const FLANNEL: &str = ":FLANNEL-POSTRTG - [0:0]\n\
    -A POSTROUTING -m comment --comment \"flanneld masq\" -j FLANNEL-POSTRTG\n\
    -A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment \"flanneld masq\" -j RETURN\n\
    -A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment \"flanneld masq\" -j MASQUERADE\n";

/// Exempts what flannel exempts.
const CLUSTER: &str = "nonMasqueradeCIDRs: [10.244.0.0/16]\n";

/// What the CNI plugin bridge makes for one pod.
fn cni(pod: &str, id: &str) -> String {
    let comment = format!("-m comment --comment \"name: \\\"cbr0\\\" id: \\\"{id}\\\"\"");
    format!(
        ":CNI-{id} - [0:0]\n-A POSTROUTING -s {pod}/32 {comment} -j CNI-{id}\n-A CNI-{id} -d 10.244.1.0/24 {comment} -j ACCEPT\n\
         -A CNI-{id} ! -d 224.0.0.0/4 {comment} -j MASQUERADE\n"
    )
}

#[test]
fn a_plugin_that_masquerades_before_us_what_we_would_is_a_note_and_behind_us_it_is_nothing() {
    for applied in Applied::everywhere(&[], CLUSTER) {
        applied.load(FLANNEL);
        if applied.backend == "--backend=nftables" {
            let findings = applied.expect(0, &["masqueraded-beside"]);
            assert!(
                sentence(&findings[0]).contains("flannel masquerades connections before our rules"),
                "{findings:?}"
            );
            assert!(findings[0]["remedy"].as_str().unwrap().contains("--ip-masq"), "{findings:?}");
        } else {
            applied.expect(0, &[]);
        }
    }
}

#[test]
fn a_plugin_before_us_takes_the_choice_of_ports_from_us() {
    let flags = &["--to-ports=40000-50000"];
    let node = Node::new(Stack::Nft);
    node.load(Stack::Nft, Family::Ipv4, FLANNEL);
    let findings = Applied::on(node, "--backend=iptables", flags, CLUSTER).expect(1, &["masqueraded-beside"]);
    assert!(sentence(&findings[0]).contains("whatever --to-ports says"), "{findings:?}");
    // Ours is asked first there, for this very reason.
    Applied::new(Stack::Nft, "--backend=nftables", flags, CLUSTER).load(FLANNEL).expect(0, &[]);
}

#[test]
fn a_plugins_rules_for_all_pods_are_one_finding_with_the_remedy() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        applied.load(&cni("10.244.1.5", "aaaaaaaa")).load(&cni("10.244.1.6", "bbbbbbbb"));
        let findings = applied.expect(1, &["exempt-but-translated"]);
        assert!(sentence(&findings[0]).contains("CNI bridge") && sentence(&findings[0]).contains("and 1 more like it"));
        assert!(findings[0]["remedy"].as_str().unwrap().contains("\"ipMasq\": false"), "{findings:?}");
    }
}

#[test]
fn a_strangers_chain_that_is_jumped_to_is_no_other_generation() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        applied.load(":OLD - [0:0]\n-A POSTROUTING -m comment --comment \"ours, not an agent's\" -j OLD\n-A OLD -d 10.0.0.0/8 -j RETURN\n");
        applied.expect(0, &[]);
    }
}

#[test]
fn raw_rules_that_keep_no_packet_untracked_are_no_finding() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        applied.node.run(&["iptables", "-t", "raw", "-A", "PREROUTING", "-s", "10.244.0.2", "-j", "ACCEPT"]);
        applied.node.run(&["iptables", "-t", "raw", "-A", "OUTPUT", "-d", "10.244.0.2", "-j", "CT", "--zone", "7"]);
        applied.expect(0, &[]);
    }
}

/// Opens connections until the node's table holds this share of what it may, in percent.
fn fill(node: &Namespace, percent: u32) {
    node.run(move || {
        Rtnetlink::open().unwrap().set_up("lo").unwrap();
        let receiver = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
        let size = Conntrack::open().unwrap().size().unwrap();
        let wanted = size.limit.unwrap() / 100 * percent;
        // Every address of 127.0.0.0/8 is the node's own.
        for place in size.entries..wanted {
            sender.send_to(b"x", (Ipv4Addr::from_bits(0x7f01_0000 + place), port)).unwrap();
        }
    });
}

#[test]
fn a_connection_table_is_told_when_it_is_nearly_full_and_not_before() {
    let applied = Applied::new(Stack::Nft, "--backend=nftables", &[], DEFAULTS);
    applied.expect(0, &[]);
    fill(&applied.node.namespace, 85);
    applied.expect(0, &[]);
    fill(&applied.node.namespace, 92);
    let findings = applied.expect(1, &["conntrack-nearly-full"]);
    assert!(sentence(&findings[0]).contains("new connections are dropped"), "{findings:?}");
}
