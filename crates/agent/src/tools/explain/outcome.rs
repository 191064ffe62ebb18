//! What becomes of the packet: the policy's verdict, what other rules make of it, and what contradicts it.

use std::net::IpAddr;

use masq::cidr::Family;
use masq::policy::Policy;
use masq::verdict::{Decision, PacketFacts, Protocol, SourcePort, Verdict, decide};
use nfnetlink::Connection;

use super::look::Seen;
use super::port;
use crate::cli::Question;
use crate::foreign::condition::{AddressTypes, Answer, Packet};
use crate::foreign::walk::{Ours, Sets, Step, Way};
use crate::foreign::{Action, Hook, Kind, Owner, SnatTo};

/// What becomes of a new connection's source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays.
    Kept,
    /// It becomes this one.
    Becomes(IpAddr),
    /// It becomes one from the first to the last.
    OneOf(IpAddr, IpAddr),
    /// It becomes something that is not known.
    Unknown,
    /// The packet does not leave.
    Lost,
}

/// Who decides about the source address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum By<'r> {
    /// Nobody: it stays because no rule translates it.
    Nobody,
    /// Our rules.
    Policy,
    /// Somebody else's rule.
    Rule(Step<'r>),
}

/// Something that contradicts the policy.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Finding<'r> {
    /// The policy covers the packet, but none of our rules are in the kernel.
    NotInForce,
    /// The packet does not surely reach our rules, because of this rule.
    NotReached(Step<'r>),
    /// Our rules in the kernel treat the packet otherwise than the policy.
    OutOfSync,
    /// A rule keeps the packet, or may keep it, from all NAT.
    Untracked(Step<'r>),
    /// A rule decides otherwise than the policy.
    Overruled(Step<'r>),
    /// A rule may decide otherwise; its conditions are not taken apart.
    MayOverrule(Step<'r>),
    /// There is no way to the destination.
    NoRoute(String),
    /// The output link has no address to masquerade to.
    NoAddress,
    /// A live connection keeps a translation that a new one would not get.
    OldTranslation(Connection),
    /// Another connection holds the address and port that this one would leave with.
    PortTaken(Connection),
}

/// What is worth knowing, but no contradiction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Note<'r> {
    /// The packet is the node's own, although that was not said.
    TakenForHost,
    /// The node itself would use another address on this way than masquerading does.
    OtherThanPreferred {
        /// What masquerading picks.
        picked: IpAddr,
        /// What the node would use.
        preferred: IpAddr,
    },
    /// Why the address may be another one.
    AddressDoubt(&'static str),
    /// None of our rules are in the kernel, which happens to make no difference here.
    NotInForce,
    /// A rule of somebody else decides, or may, with the same result or where the policy says nothing.
    AlsoTranslates(Step<'r>),
    /// The packet bypasses all NAT, as it would have been left alone anyway.
    Untracked(Step<'r>),
    /// A rule may send the packet somewhere else before anything else is decided.
    OtherDestination(Step<'r>),
    /// The packet is taken to bear no mark; with one this rule may decide.
    MarkDecides(Step<'r>),
    /// A broadcast, or a packet to a group, that comes in: the node takes it itself and hands it to nobody.
    ForTheNode,
    /// Two base chains have the same priority, and which is asked first makes a difference.
    OrderUnknown,
    /// The way through the rules was too long to follow to its end.
    Cut,
}

/// All that is concluded about the packet.
#[derive(Debug)]
pub(super) struct Outcome<'r> {
    /// What the policy says.
    pub(super) decision: Decision<'r>,
    /// What becomes of the source address of a new connection.
    pub(super) fate: Fate,
    /// Who decides that.
    pub(super) by: By<'r>,
    /// Whether nothing that could not be told may change it.
    pub(super) is_certain: bool,
    /// Contradictions.
    pub(super) findings: Vec<Finding<'r>>,
    /// Remarks.
    pub(super) notes: Vec<Note<'r>>,
}

impl<'r> Outcome<'r> {
    /// Concludes from what was seen. `sets` answers what is in sets of the kernel.
    pub(super) fn new(question: &Question, policy: &'r Policy, seen: &'r Seen, sets: &mut Sets<'_>) -> Outcome<'r> {
        let decision = decide(policy, &facts(question, seen));
        let mut outcome = Outcome {
            decision,
            fate: Fate::Lost,
            by: By::Nobody,
            is_certain: seen.unseen.is_empty(),
            findings: Vec::new(),
            notes: Vec::new(),
        };
        if seen.is_host && !question.is_host {
            outcome.notes.push(Note::TakenForHost);
        }
        match &seen.route {
            // The kernel answers so for groups that the node has not joined, and for all of IPv6.
            Err(_) if !seen.is_host && question.destination.address.is_multicast() => {
                outcome.notes.push(Note::ForTheNode);
            }
            Err(no_route) => outcome.findings.push(Finding::NoRoute(no_route.to_string())),
            Ok(_) => {
                outcome.follow(question, policy, seen, sets);
                outcome.compare_connections(question, seen);
            }
        }
        outcome
    }

    /// The port that our masquerading chooses; `None` if it is not ours to choose.
    pub(super) fn port(&self) -> Option<SourcePort<'r>> {
        match (self.by, self.decision.verdict) {
            (By::Policy, Verdict::Masquerade(port)) => Some(port),
            _ => None,
        }
    }

    fn follow(&mut self, question: &Question, policy: &Policy, seen: &'r Seen, sets: &mut Sets<'_>) {
        let hook = if seen.is_host { Hook::Output } else { Hook::Prerouting };
        let before = Packet { output: None, ..packet(question, seen) };
        let tracking = seen.ruleset.walk(Kind::BeforeTracking, hook, &before, Ours::Pass, sets);
        if let Some(step) = self.untracked(&tracking) {
            self.fate = if step.rule.action == Action::Drop { Fate::Lost } else { Fate::Kept };
            self.by = By::Rule(step);
            return;
        }
        // The question is about an endpoint; for a Service's address all the rest may be different.
        let redirects = seen.ruleset.walk(Kind::Nat, hook, &before, Ours::Pass, sets);
        if let Some(step) = redirects.possible.iter().find(|step| step.rule.action == Action::Translate) {
            self.is_certain = false;
            self.notes.push(Note::OtherDestination(*step));
        }
        let hook = if seen.is_for_node() { Hook::Input } else { Hook::Postrouting };
        if hook == Hook::Input && seen.destination_type != AddressTypes::LOCAL {
            self.notes.push(Note::ForTheNode);
        }
        let packet = Packet { mark: if redirects.is_marked { None } else { Some(0) }, ..packet(question, seen) };
        let ours = match self.decision.verdict {
            Verdict::Masquerade(_) => Ours::Translate,
            Verdict::Untouched | Verdict::Exempt => Ours::Pass,
        };
        let way = seen.ruleset.walk(Kind::Nat, hook, &packet, ours, sets);
        (self.fate, self.by) = self.settled(&way, seen);
        if !seen.unseen.is_empty() && hook == Hook::Postrouting && ours == Ours::Translate && way.settled.is_none() {
            // Unseen rules are taken to be those that the policy asks for.
            (self.fate, self.by) = (self.masqueraded(seen), By::Policy);
        }
        self.judge_way(&way, seen);
        let marked = Packet { mark: None, ..packet.clone() };
        self.judge_mark(&way, &seen.ruleset.walk(Kind::Nat, hook, &marked, ours, sets), seen);
        if let Some(entries) = seen.ruleset.entries_otherwise(Kind::Nat, hook) {
            let other = seen.ruleset.walk_through(entries, &packet, ours, sets);
            if self.settled(&other, seen).0 != self.fate {
                self.is_certain = false;
                self.notes.push(Note::OrderUnknown);
            }
        }
        if hook == Hook::Postrouting && policy.family(Family::of(packet.destination)).is_some() {
            self.judge_ours(&way, &packet, seen, sets);
        }
        self.judge_address(seen);
    }

    /// The rule that surely keeps the packet from all NAT; one that may is reported.
    fn untracked(&mut self, tracking: &Way<'r>) -> Option<Step<'r>> {
        let translates = matches!(self.decision.verdict, Verdict::Masquerade(_));
        for step in tracking.settled.iter().chain(&tracking.possible) {
            match step.rule.action {
                Action::Notrack if translates => self.findings.push(Finding::Untracked(*step)),
                Action::Notrack => self.notes.push(Note::Untracked(*step)),
                // Rules of the raw table that drop, or do what is not known, are a firewall's.
                _ => {}
            }
        }
        self.is_certain &= !tracking.possible.iter().any(|step| step.rule.action == Action::Notrack);
        let surely = tracking.settled.filter(|step| matches!(step.rule.action, Action::Notrack | Action::Drop));
        if let Some(step) = surely.filter(|step| step.rule.action == Action::Drop) {
            self.findings.push(Finding::Overruled(step));
        }
        surely
    }

    fn masqueraded(&self, seen: &Seen) -> Fate {
        seen.picked.as_ref().and_then(|picked| picked.address).map_or(Fate::Lost, Fate::Becomes)
    }

    fn settled(&self, way: &Way<'r>, seen: &Seen) -> (Fate, By<'r>) {
        let Some(step) = way.settled else { return (Fate::Kept, By::Nobody) };
        if step.rule.is_ours {
            return (self.masqueraded(seen), By::Policy);
        }
        let fate = match &step.rule.action {
            Action::Masquerade => self.masqueraded(seen),
            Action::Snat(SnatTo::Addresses(first, last)) if first == last => Fate::Becomes(*first),
            Action::Snat(SnatTo::Addresses(first, last)) => Fate::OneOf(*first, *last),
            Action::Snat(SnatTo::OwnSource | SnatTo::Ports) => Fate::Kept,
            Action::Drop => Fate::Lost,
            Action::Snat(SnatTo::Unknown)
            | Action::Translate
            | Action::Opaque
            | Action::Continue
            | Action::SetMark
            | Action::Notrack
            | Action::Accept
            | Action::Return
            | Action::Jump(_)
            | Action::Goto(_) => Fate::Unknown,
        };
        (fate, By::Rule(step))
    }

    /// Holds other programs' rules against the policy.
    fn judge_way(&mut self, way: &Way<'r>, seen: &Seen) {
        let wanted = match self.decision.verdict {
            Verdict::Masquerade(_) => seen.picked.as_ref().and_then(|picked| picked.address).map(Fate::Becomes),
            Verdict::Untouched | Verdict::Exempt => Some(Fate::Kept),
        };
        let is_binding = self.decision.verdict != Verdict::Untouched;
        if let By::Rule(step) = self.by {
            let contradicts = Some(self.fate) != wanted && (is_binding || self.fate == Fate::Lost);
            if contradicts {
                self.findings.push(Finding::Overruled(step));
            } else {
                self.notes.push(Note::AlsoTranslates(step));
            }
        }
        for step in &way.possible {
            let (fate, _) = self.settled(&Way { settled: Some(*step), ..Way::default() }, seen);
            match Some(fate) == wanted || !is_binding {
                true => self.notes.push(Note::AlsoTranslates(*step)),
                false => self.findings.push(Finding::MayOverrule(*step)),
            }
            self.is_certain &= fate == self.fate;
        }
        if way.is_cut {
            self.is_certain = false;
            self.notes.push(Note::Cut);
        }
    }

    /// Tells of a rule that would decide if the packet bore a mark, which rules that do not translate may give it.
    fn judge_mark(&mut self, way: &Way<'r>, marked: &Way<'r>, seen: &Seen) {
        let is_new = |step: &&Step<'r>| !way.settled.iter().chain(&way.possible).any(|known| known == *step);
        let decides = |step: &&Step<'r>| {
            // These mark what goes through a Service or a host port, and the question is about an endpoint.
            let owner = Owner::of(step.table, step.chain, step.rule);
            !matches!(owner, Owner::KubeProxy | Owner::CniPortmap)
                && self.settled(&Way { settled: Some(**step), ..Way::default() }, seen).0 != self.fate
        };
        let found = marked.possible.iter().chain(&marked.settled).filter(is_new).find(decides).copied();
        self.is_certain &= found.is_none();
        self.notes.extend(found.map(Note::MarkDecides));
    }

    /// Whether our rules are in force, are reached, and are those that the policy asks for.
    fn judge_ours(&mut self, way: &Way<'r>, packet: &Packet, seen: &'r Seen, sets: &mut Sets<'_>) {
        let translates = matches!(self.decision.verdict, Verdict::Masquerade(_));
        if !seen.unseen.is_empty() {
            return;
        }
        if !seen.ruleset.has_ours(Family::of(packet.destination)) {
            if translates {
                self.findings.push(Finding::NotInForce);
            } else {
                self.notes.push(Note::NotInForce);
            }
            return;
        }
        match way.asked_ours {
            Answer::Yes => {}
            // Who decides before us is told already.
            Answer::No if way.settled.is_some() => return,
            Answer::No | Answer::Maybe => {
                if let Some(step) = way.ended.filter(|_| translates) {
                    self.findings.push(Finding::NotReached(step));
                    self.is_certain &= way.asked_ours == Answer::No;
                }
            }
        }
        let stand = seen.ruleset.walk(Kind::Nat, Hook::Postrouting, packet, Ours::AsTheyStand, sets);
        let by_ours = stand.settled.is_some_and(|step| step.chain.is_ours);
        let is_known = stand.possible.is_empty() && way.asked_ours == Answer::Yes;
        if is_known && by_ours != translates {
            self.findings.push(Finding::OutOfSync);
        }
    }

    fn judge_address(&mut self, seen: &Seen) {
        let Some(picked) = &seen.picked else { return };
        let masquerades = match self.by {
            By::Policy => true,
            By::Rule(step) => step.rule.action == Action::Masquerade,
            By::Nobody => false,
        };
        if !masquerades {
            return;
        }
        let Some(address) = picked.address else {
            self.findings.push(Finding::NoAddress);
            return;
        };
        if let Some(doubt) = picked.doubt {
            self.is_certain = false;
            self.notes.push(Note::AddressDoubt(doubt));
        }
        if let Some(preferred) = seen.preferred_source.filter(|preferred| *preferred != address) {
            self.notes.push(Note::OtherThanPreferred { picked: address, preferred });
        }
    }

    fn compare_connections(&mut self, question: &Question, seen: &Seen) {
        let agrees = |found: IpAddr| match self.fate {
            Fate::Kept => found == question.source.address,
            Fate::Becomes(address) => found == address,
            Fate::OneOf(first, last) => (first..=last).contains(&found),
            Fate::Unknown | Fate::Lost => true,
        };
        // One that goes through a Service may need another translation, and an open result contradicts nothing.
        let is_alike = |connection: &&Connection| {
            self.is_certain && connection.original.destination == question.destination.address
        };
        let old = seen.connections.iter().filter(is_alike).filter(|connection| !agrees(connection.reply.destination));
        let old: Vec<Finding<'_>> = old.copied().map(Finding::OldTranslation).collect();
        self.findings.extend(old);
        if self.port() == Some(SourcePort::KeptIfFree) {
            self.findings.extend(port::holder(question, &seen.others).copied().map(Finding::PortTaken));
        }
    }
}

fn facts(question: &Question, seen: &Seen) -> PacketFacts {
    PacketFacts {
        destination: question.destination.address,
        destination_is_local: seen.destination_type == AddressTypes::LOCAL,
        protocol: match question.protocol {
            None | Some(6) => Protocol::Tcp,
            Some(17) => Protocol::Udp,
            Some(132) => Protocol::Sctp,
            Some(_) => Protocol::Other,
        },
    }
}

fn packet(question: &Question, seen: &Seen) -> Packet {
    Packet {
        source: question.source.address,
        destination: question.destination.address,
        source_type: seen.source_type,
        destination_type: seen.destination_type,
        protocol: question.protocol,
        source_port: question.source.port,
        destination_port: question.destination.port,
        input: seen.input.clone(),
        output: seen.route.as_ref().ok().map(|route| route.output.clone()),
        mark: Some(0),
    }
}
