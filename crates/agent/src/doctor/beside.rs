//! Network plugins and kubelet masquerading beside us what we masquerade anyway: harmless but for the ports, which are theirs then.

use std::collections::BTreeMap;

use masq::cidr::Family;
use masq::verdict::{Protocol, Verdict};

use super::overriding::{Overriding, owner, remedy, translates};
use super::{Facts, Finding, Severity, decision, listed, rule_with_chain};
use crate::foreign::condition::Packet;
use crate::foreign::walk::{Ours, Sets};
use crate::foreign::{Hook, Kind, Owner};

/// One finding for each program whose rules take such packets before ours are asked. What comes behind ours gets none of them, and what
/// is a finding already is not told twice.
pub(super) fn findings(facts: &Facts<'_>, sets: &mut Sets<'_>, told: &[Overriding<'_>]) -> Vec<Finding> {
    let mut rules: BTreeMap<Owner, Vec<String>> = BTreeMap::new();
    for packet in facts.packets.iter().filter(|packet| is_ours_to_masquerade(facts, packet)) {
        let mut ask = |table: &_, set: &str, address| sets(table, set, address);
        let way = facts.ruleset.walk(Kind::Nat, Hook::Postrouting, packet, Ours::Translate, &mut ask);
        let Some(step) = way.settled.filter(|step| !way.is_cut && !step.rule.is_ours && translates(step.rule)) else {
            continue;
        };
        let owner = owner(&step);
        if is_of_the_pods_network(owner) && !told.iter().any(|told| told.tells_of(step.rule)) {
            let text = format!("\"{}\"", rule_with_chain(&step.chain.name, &step.rule.text));
            let texts = rules.entry(owner).or_default();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    rules.into_iter().map(|(owner, texts)| finding(facts, owner, &texts)).collect()
}

fn finding(facts: &Facts<'_>, owner: Owner, rules: &[String]) -> Finding {
    let rules = listed(rules);
    let (severity, consequence) = if facts.policy.masquerade.to_ports.is_empty() {
        (Severity::Note, "and picks their ports as it likes")
    } else {
        (Severity::Warning, "and picks their ports, whatever --to-ports says")
    };
    Finding {
        id: "masqueraded-beside",
        severity,
        sentence: format!("{owner} masquerades connections before our rules are asked, {consequence}: {rules}"),
        remedy: remedy(owner).to_owned(),
    }
}

/// Without our rules in the kernel, those of others do what ours should, which is told elsewhere.
fn is_ours_to_masquerade(facts: &Facts<'_>, packet: &Packet) -> bool {
    let verdict = decision(facts.policy, packet.destination, Protocol::Tcp).verdict;
    matches!(verdict, Verdict::Masquerade(_)) && facts.ruleset.has_ours(Family::of(packet.destination))
}

/// Whether a program makes the network of all pods of a node, whose masquerading the agent is for. kube-proxy's and portmap's rules are
/// for connections that they redirect, and others have networks of their own.
fn is_of_the_pods_network(owner: Owner) -> bool {
    match owner {
        Owner::Kubelet
        | Owner::CniBridge
        | Owner::Flannel
        | Owner::Calico
        | Owner::Cilium
        | Owner::Antrea
        | Owner::AwsVpcCni
        | Owner::Kindnet => true,
        Owner::KubeProxy
        | Owner::CniPortmap
        | Owner::Docker
        | Owner::Netavark
        | Owner::Firewalld
        | Owner::SystemdNetworkd
        | Owner::Libvirt
        | Owner::Incus
        | Owner::IpMasqAgent
        | Owner::Unknown => false,
    }
}
