//! Rules of other programs that translate what is exempt, found by sending packets through everybody's rules in thought.

use masq::verdict::{Decision, PacketFacts, Protocol, Reason, Verdict, decide};

use super::{Facts, Finding, Severity, listed, rule_with_chain};
use crate::foreign::condition::{Packet, Question};
use crate::foreign::walk::{Ours, Sets, Step};
use crate::foreign::{Action, Hook, Kind, Owner, SnatTo};

/// One finding for each rule that is sure to translate one of the packets.
pub(super) fn findings(facts: &Facts<'_>, sets: &mut Sets<'_>) -> Vec<Finding> {
    let mut overriding: Vec<Overriding<'_>> = Vec::new();
    for packet in facts.packets {
        let Some(cidr) = exempting_cidr(facts, packet) else { continue };
        let mut ask = |table: &_, set: &str, address| sets(table, set, address);
        let way = facts.ruleset.walk(Kind::Nat, Hook::Postrouting, packet, Ours::Pass, &mut ask);
        let Some(step) = way.settled.filter(|step| !way.is_cut && is_unexpected(step)) else { continue };
        match overriding.iter_mut().find(|found| std::ptr::eq(found.step.rule, step.rule)) {
            Some(found) if found.cidrs.contains(&cidr) => {}
            Some(found) => found.cidrs.push(cidr),
            None => overriding.push(Overriding { step, packet, cidrs: vec![cidr] }),
        }
    }
    overriding.iter().map(Overriding::finding).collect()
}

/// A rule, the first packet that it translates, and the exempt CIDRs that such packets go to.
struct Overriding<'r> {
    step: Step<'r>,
    packet: &'r Packet,
    cidrs: Vec<String>,
}

impl Overriding<'_> {
    fn finding(&self) -> Finding {
        let Step { table, chain, rule, is_after_ours, .. } = self.step;
        let when = if is_after_ours { "after" } else { "before" };
        let Packet { source, destination, .. } = self.packet;
        Finding {
            id: "exempt-but-translated",
            severity: Severity::Warning,
            sentence: format!(
                "a rule of {}, asked {when} ours, translates what is exempt: \"{}\" in table {} {} takes {} (for example {source} to \
                 {destination})",
                Owner::of(table, chain, rule),
                rule_with_chain(&chain.name, &rule.text),
                table.family,
                table.name,
                listed(&self.cidrs)
            ),
            remedy:
                "remove that rule or let its program leave these destinations out; ip-masq-agent masquerades the rest"
                    .to_owned(),
        }
    }
}

fn exempting_cidr(facts: &Facts<'_>, packet: &Packet) -> Option<String> {
    let destination = packet.destination;
    let asked = PacketFacts { destination, destination_is_local: false, protocol: Protocol::Tcp };
    match decide(facts.policy, &asked) {
        Decision { verdict: Verdict::Exempt, reason: Reason::InCidr(entry) } => Some(entry.listed.text.clone()),
        Decision { .. } => None,
    }
}

/// Other agents are a finding of their own, and programs that masquerade a network of their own, such as Docker's, do what they should.
fn is_unexpected(step: &Step<'_>) -> bool {
    let translates = match step.rule.action {
        Action::Masquerade => true,
        Action::Snat(to) => to != SnatTo::OwnSource,
        _ => false,
    };
    let from_a_network = || step.rule.tests.iter().any(|test| matches!(test.question, Question::Source(_)));
    translates
        && match Owner::of(step.table, step.chain, step.rule) {
            Owner::IpMasqAgent => false,
            Owner::Docker | Owner::Netavark | Owner::Libvirt | Owner::Incus | Owner::SystemdNetworkd => {
                !from_a_network()
            }
            Owner::KubeProxy
            | Owner::Kubelet
            | Owner::CniBridge
            | Owner::CniPortmap
            | Owner::Flannel
            | Owner::Calico
            | Owner::Cilium
            | Owner::Antrea
            | Owner::AwsVpcCni
            | Owner::Kindnet
            | Owner::Firewalld
            | Owner::Unknown => true,
        }
}
