//! The way of the packet as a short numbered story for people, and what contradicts the policy.

use std::net::IpAddr;

use masq::verdict::{SourcePort, Verdict};
use nfnetlink::{Connection, Tuple};

use super::look::Seen;
use super::outcome::{Fate, Finding, Note, Outcome};
use super::port;
use crate::cli::{Endpoint, Question};
use crate::foreign::Owner;
use crate::foreign::condition::protocol_name;
use crate::foreign::walk::Step;
use crate::tools::output::printable;

/// More of a kind than this are counted instead of shown; `-o json` has them all.
const SHOWN: usize = 5;

/// The whole story.
pub(super) fn tell(question: &Question, seen: &Seen, outcome: &Outcome<'_>) -> String {
    let steps = [
        ("packet", packet(question, seen)),
        ("route", route(seen)),
        ("policy", format!("{}: {}", outcome.decision.verdict, outcome.decision.reason)),
        ("address", address(seen, outcome)),
        ("port", port_text(question, seen, outcome)),
        ("other rules", other_rules(seen, outcome)),
        ("connections", connections(seen)),
        ("result", result(question, outcome)),
    ];
    let mut lines: Vec<String> =
        steps.iter().enumerate().map(|(index, (name, text))| format!("{}. {name:<12} {text}", index + 1)).collect();
    let (also, notes): (Vec<_>, Vec<_>) =
        outcome.notes.iter().partition(|note| matches!(note, Note::AlsoTranslates(_)));
    lines.extend(notes.into_iter().map(|note| format!("note: {}", note_text(note, seen))));
    lines.extend(first_of("note:", "rules", &also, |note| note_text(note, seen)));
    let (old, findings): (Vec<_>, Vec<_>) =
        outcome.findings.iter().partition(|finding| matches!(finding, Finding::OldTranslation(_)));
    let (may, findings): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| matches!(finding, Finding::MayOverrule(_)));
    let say = |finding: &Finding<'_>| finding_text(finding, question, outcome);
    lines.extend(findings.into_iter().map(|finding| format!("! {}", say(finding))));
    lines.extend(first_of("!", "rules", &may, say));
    lines.extend(first_of("!", "connections", &old, say));
    lines.extend(seen.unseen.iter().map(|error| format!("? could not look at {error:#}")));
    lines.iter().map(|line| format!("{}\n", printable(line))).collect()
}

/// Lines about the first few of a kind, and how many more there are.
fn first_of<T>(mark: &str, what: &str, all: &[&T], say: impl Fn(&T) -> String) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(SHOWN).map(|one| format!("{mark} {}", say(one))).collect();
    if all.len() > SHOWN {
        lines.push(format!("{mark} and {} more {what} like these", all.len() - SHOWN));
    }
    lines
}

fn packet(question: &Question, seen: &Seen) -> String {
    let Question { source, destination, protocol, .. } = question;
    let whose = match (&seen.input, seen.is_host) {
        (_, true) => "the node's own".to_owned(),
        (Some(link), false) => format!("coming in by {}", link.name),
        (None, false) => "coming in by an unknown link, for there is no route back".to_owned(),
    };
    let protocol = protocol.map(|number| format!(", {}", protocol_name(number))).unwrap_or_default();
    format!("{} to {}{protocol}, {whose}; first of its connection", endpoint(*source), endpoint(*destination))
}

fn endpoint(endpoint: Endpoint) -> String {
    with_port(endpoint.address, endpoint.port)
}

fn with_port(address: IpAddr, port: Option<u16>) -> String {
    match (address, port) {
        (address, None) => address.to_string(),
        (IpAddr::V4(address), Some(port)) => format!("{address}:{port}"),
        (IpAddr::V6(address), Some(port)) => format!("[{address}]:{port}"),
    }
}

fn route(seen: &Seen) -> String {
    match &seen.route {
        Err(no_route) => format!("none ({no_route})"),
        Ok(route) => {
            let through = route.gateway.map_or("directly".to_owned(), |gateway| format!("through {gateway}"));
            let table = table_name(route.table).map(|name| format!(" (table {name})")).unwrap_or_default();
            format!("out of {}, {through}{table}", route.output.name)
        }
    }
}

/// `None` for routes that are in no table, as those of groups.
fn table_name(number: u32) -> Option<String> {
    match number {
        0 => None,
        253 => Some("default".to_owned()),
        254 => Some("main".to_owned()),
        255 => Some("local".to_owned()),
        other => Some(other.to_string()),
    }
}

fn address(seen: &Seen, outcome: &Outcome<'_>) -> String {
    let Some(picked) = &seen.picked else { return "none".to_owned() };
    let text = match picked.address {
        Some(address) => format!("{address} is what masquerading picks there"),
        None => "there is none to masquerade to".to_owned(),
    };
    match outcome.decision.verdict {
        Verdict::Masquerade(_) => text,
        Verdict::Untouched | Verdict::Exempt => format!("its own; {text}"),
    }
}

fn port_text(question: &Question, seen: &Seen, outcome: &Outcome<'_>) -> String {
    match outcome.decision.verdict {
        Verdict::Untouched | Verdict::Exempt => "its own".to_owned(),
        Verdict::Masquerade(port @ (SourcePort::Random | SourcePort::Within(_))) => port.to_string(),
        Verdict::Masquerade(port @ SourcePort::KeptIfFree) => {
            let held = port::held_ports(question, &seen.others);
            match held.as_slice() {
                [] => port.to_string(),
                held => format!("{port}; in use towards {}: {}", endpoint(question.destination), counted(held)),
            }
        }
    }
}

fn counted(ports: &[u16]) -> String {
    let shown = ports.iter().take(SHOWN).map(u16::to_string).collect::<Vec<_>>().join(", ");
    match ports.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

fn other_rules(seen: &Seen, outcome: &Outcome<'_>) -> String {
    let say = outcome.findings.iter().any(|finding| {
        matches!(
            finding,
            Finding::Overruled(_) | Finding::MayOverrule(_) | Finding::Untracked(_) | Finding::NotReached(_)
        )
    });
    if say {
        return "contradict the policy, see below".to_owned();
    }
    match (seen.ruleset.foreign_rules().len(), seen.unseen.is_empty()) {
        (_, false) => "not all could be looked at, see below".to_owned(),
        (0, true) => "there are none".to_owned(),
        (count, true) => format!("none of {count} changes the result"),
    }
}

fn connections(seen: &Seen) -> String {
    match seen.connections.as_slice() {
        [] => "none is live".to_owned(),
        [only] => format!("live: {}", connection_text(only)),
        several => format!("{} are live, among them {}", several.len(), connection_text(&several[0])),
    }
}

fn connection_text(connection: &Connection) -> String {
    let Tuple { source, destination, protocol, source_port, destination_port } = connection.original;
    let reply = connection.reply;
    format!(
        "{} {} to {}, leaving as {}",
        protocol_name(protocol),
        with_port(source, source_port),
        with_port(destination, destination_port),
        with_port(reply.destination, reply.destination_port),
    )
}

fn result(question: &Question, outcome: &Outcome<'_>) -> String {
    let perhaps = if outcome.is_certain { "" } else { "probably " };
    match outcome.fate {
        Fate::Kept => format!("a new connection {perhaps}leaves with its own address, {}", question.source.address),
        Fate::Becomes(address) => {
            let port = outcome.port().map(|port| format!(", port {port}")).unwrap_or_default();
            format!("a new connection {perhaps}leaves as {address}{port}")
        }
        Fate::OneOf(first, last) => format!("a new connection {perhaps}leaves as one of {first}-{last}"),
        Fate::Unknown => "a new connection leaves with an address that cannot be told".to_owned(),
        Fate::Lost => format!("the packet {perhaps}does not leave"),
    }
}

/// A rule with its owner and place.
pub(super) fn rule_text(step: &Step<'_>) -> String {
    let owner = Owner::of(step.table, step.chain, step.rule);
    format!("{owner}'s rule \"{}\" in {} {} {}", step.rule.text, step.table.stack, step.table.family, step.table.name)
}

/// A remark, as one sentence without an end.
pub(super) fn note_text(note: &Note<'_>, seen: &Seen) -> String {
    match note {
        Note::TakenForHost => {
            "the source is an address of this node, so this is about the node's own traffic".to_owned()
        }
        Note::OtherThanPreferred { picked, preferred } => format!(
            "the route prefers {preferred} as the source of the node's own packets, but masquerading ignores that and picks {picked}"
        ),
        Note::AddressDoubt(doubt) => format!("the address may be another one: {doubt}"),
        Note::NotInForce => {
            "none of this agent's rules are in the kernel, which makes no difference to this packet".to_owned()
        }
        Note::AlsoTranslates(step) => {
            format!("{} decides, or may; the policy does not ask for otherwise", rule_text(step))
        }
        Note::Untracked(step) => format!("{} keeps the packet from all NAT", rule_text(step)),
        Note::OtherDestination(step) => format!(
            "{} may send the packet to another destination, as for a Service; ask about the endpoint's address then",
            rule_text(step)
        ),
        Note::MarkDecides(step) => format!(
            "the packet is taken to bear no mark; if rules that come before mark it, {} may decide",
            rule_text(step)
        ),
        Note::ForTheNode => {
            "the node takes such a packet itself, if at all, and forwards it to nobody, so it never comes to be masqueraded"
                .to_owned()
        }
        Note::OrderUnknown => {
            "two base chains have the same priority, and which the kernel asks first is a guess that matters here"
                .to_owned()
        }
        Note::Cut => {
            let rules = seen.ruleset.foreign_rules().len();
            format!("the way through the {rules} rules of others was too long to follow to its end")
        }
    }
}

/// A contradiction and what to do about it, as sentences without an end.
pub(super) fn finding_text(finding: &Finding<'_>, question: &Question, outcome: &Outcome<'_>) -> String {
    let verdict = outcome.decision.verdict;
    match finding {
        Finding::NotInForce => {
            "none of this agent's rules are in the kernel, so the policy is not in force; start the daemon, or \
             give explain its --masq-chain and --backend"
                .to_owned()
        }
        Finding::NotReached(step) => {
            format!(
                "{} may end the packet's way before this agent's rules; the jump has to stand before it",
                rule_text(step)
            )
        }
        Finding::OutOfSync => {
            "this agent's rules in the kernel treat the packet otherwise; give explain the daemon's own --config \
             and flags, or see what differs with diff"
                .to_owned()
        }
        Finding::Untracked(step) => format!(
            "{verdict} by the policy, but {} keeps it untracked, so that no NAT is done at all; remove that rule or exempt the destination",
            rule_text(step)
        ),
        Finding::Overruled(step) => {
            let order = if step.is_after_ours { "after" } else { "before" };
            format!("{verdict} by the policy, but {} decides, {order} this agent's rules", rule_text(step))
        }
        Finding::MayOverrule(step) => {
            let order = if step.is_after_ours { "after" } else { "before" };
            format!(
                "{verdict} by the policy, but {} may decide, {order} this agent's rules; not all its conditions can be told",
                rule_text(step)
            )
        }
        Finding::NoRoute(reason) => {
            format!("the node has no way to {} for this packet: {reason}", question.destination.address)
        }
        Finding::NoAddress => "the output link has no address to masquerade to, so the packet is dropped".to_owned(),
        Finding::OldTranslation(connection) => format!(
            "a live connection was set up otherwise than a new one would be, and stays so: {}",
            connection_text(connection)
        ),
        Finding::PortTaken(connection) => {
            format!("the source port cannot be kept, for another connection holds it: {}", connection_text(connection))
        }
    }
}
