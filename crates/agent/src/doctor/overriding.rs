//! Rules of other programs that translate what is exempt, found by sending packets through everybody's rules in thought.

use std::ptr;

use masq::verdict::{Decision, Protocol, Reason, Verdict};

use super::{Facts, Finding, Severity, decision, listed, rule_with_chain};
use crate::foreign::condition::{Packet, Question};
use crate::foreign::walk::{Ours, Sets, Step};
use crate::foreign::{Action, Hook, Kind, Owner, Rule, SnatTo};

/// The rules that are sure to translate one of the packets, those of one known program taken together: a plugin may have some for every
/// pod.
pub(super) fn rules<'f>(facts: &'f Facts<'_>, sets: &mut Sets<'_>) -> Vec<Overriding<'f>> {
    let mut overriding: Vec<Overriding<'_>> = Vec::new();
    for packet in facts.packets {
        let Some(cidr) = exempting_cidr(facts, packet) else { continue };
        let mut ask = |table: &_, set: &str, address| sets(table, set, address);
        let way = facts.ruleset.walk(Kind::Nat, Hook::Postrouting, packet, Ours::Pass, &mut ask);
        let Some(step) = way.settled.filter(|step| !way.is_cut && is_unexpected(step)) else { continue };
        match overriding.iter_mut().find(|found| found.is_like(&step)) {
            Some(found) => found.add(step, cidr),
            None => overriding.push(Overriding { step, packet, cidrs: vec![cidr], others: Vec::new() }),
        }
    }
    overriding
}

/// A rule, the first packet that it translates, the exempt CIDRs that such packets go to, and other rules of its program that do the
/// same.
pub(super) struct Overriding<'r> {
    step: Step<'r>,
    packet: &'r Packet,
    cidrs: Vec<String>,
    others: Vec<&'r Rule>,
}

impl<'r> Overriding<'r> {
    /// Whether a rule belongs to the same finding.
    fn is_like(&self, step: &Step<'_>) -> bool {
        let owner = owner(step);
        let of_one_program =
            owner != Owner::Unknown && (owner, step.is_after_ours) == (self.owner(), self.step.is_after_ours);
        ptr::eq(self.step.rule, step.rule) || of_one_program
    }

    fn add(&mut self, step: Step<'r>, cidr: String) {
        if !self.tells_of(step.rule) {
            self.others.push(step.rule);
        }
        if !self.cidrs.contains(&cidr) {
            self.cidrs.push(cidr);
        }
    }

    /// Whether the finding is about this rule too.
    pub(super) fn tells_of(&self, rule: &Rule) -> bool {
        ptr::eq(self.step.rule, rule) || self.others.iter().any(|other| ptr::eq(*other, rule))
    }

    fn owner(&self) -> Owner {
        owner(&self.step)
    }

    pub(super) fn finding(&self) -> Finding {
        let Step { table, chain, rule, is_after_ours, .. } = self.step;
        let when = if is_after_ours { "after" } else { "before" };
        let Packet { source, destination, .. } = self.packet;
        let more = match self.others.len() {
            0 => String::new(),
            count => format!(" and {count} more like it"),
        };
        Finding {
            id: "exempt-but-translated",
            severity: Severity::Warning,
            sentence: format!(
                "a rule of {}, asked {when} ours, translates what is exempt: \"{}\" in table {} {}{more} takes {} (for example {source} \
                 to {destination})",
                self.owner(),
                rule_with_chain(&chain.name, &rule.text),
                table.family,
                table.name,
                listed(&self.cidrs)
            ),
            remedy: format!("{}; ip-masq-agent masquerades the rest", remedy(self.owner())),
        }
    }
}

/// How to keep a program from masquerading.
pub(super) fn remedy(owner: Owner) -> &'static str {
    match owner {
        Owner::Kubelet => "start kubelet with --non-masquerade-cidr=0.0.0.0/0 and remove the rule that it has left",
        Owner::CniBridge => {
            "set \"ipMasq\": false in the CNI configuration of the node; pods that run already keep their rules until they are made anew"
        }
        Owner::Flannel => "start flannel without --ip-masq and remove the rules that it has left",
        Owner::Calico => "set natOutgoing: false in Calico's IPPools",
        Owner::Cilium => "set enableIPv4Masquerade and enableIPv6Masquerade to false in Cilium's configuration",
        Owner::Antrea => "set noSNAT: true in Antrea's agent configuration",
        Owner::AwsVpcCni => "set AWS_VPC_K8S_CNI_EXTERNALSNAT=true in the aws-node DaemonSet",
        Owner::KubeProxy
        | Owner::CniPortmap
        | Owner::Kindnet
        | Owner::Docker
        | Owner::Netavark
        | Owner::Firewalld
        | Owner::SystemdNetworkd
        | Owner::Libvirt
        | Owner::Incus
        | Owner::IpMasqAgent
        | Owner::Unknown => "remove that rule, or have its program leave these destinations out",
    }
}

fn exempting_cidr(facts: &Facts<'_>, packet: &Packet) -> Option<String> {
    match decision(facts.policy, packet.destination, Protocol::Tcp) {
        Decision { verdict: Verdict::Exempt, reason: Reason::InCidr(entry) } => Some(entry.listed.text.clone()),
        Decision { .. } => None,
    }
}

/// Who probably made the rule.
pub(super) fn owner(step: &Step<'_>) -> Owner {
    Owner::of(step.table, step.chain, step.rule)
}

/// Whether it changes the source of packets.
pub(super) fn translates(rule: &Rule) -> bool {
    match rule.action {
        Action::Masquerade => true,
        Action::Snat(to) => to != SnatTo::OwnSource,
        Action::Continue
        | Action::SetMark
        | Action::Translate
        | Action::Notrack
        | Action::Accept
        | Action::Drop
        | Action::Return
        | Action::Jump(_)
        | Action::Goto(_)
        | Action::Opaque => false,
    }
}

/// Other agents are a finding of their own, and programs that masquerade a network of their own, such as Docker's, do what they should.
fn is_unexpected(step: &Step<'_>) -> bool {
    let from_a_network = || step.rule.tests.iter().any(|test| matches!(test.question, Question::Source(_)));
    translates(step.rule)
        && match owner(step) {
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
