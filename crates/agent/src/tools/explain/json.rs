//! The way of the packet for programs; the keys are an interface and stay as they are.

use masq::partition::List;
use masq::verdict::{Reason, SourcePort, Verdict};
use nfnetlink::{Connection, Tuple};
use serde_json::{Value, json};

use super::look::Seen;
use super::outcome::{By, Fate, Finding, Note, Outcome};
use super::port;
use super::story::{finding_text, note_text};
use crate::cli::{Endpoint, Question};
use crate::foreign::Owner;
use crate::foreign::walk::Step;

/// All that was concluded.
pub(super) fn value(question: &Question, seen: &Seen, outcome: &Outcome<'_>) -> Value {
    json!({
        "packet": {
            "source": endpoint(question.source),
            "destination": endpoint(question.destination),
            "protocol": question.protocol,
            "host": seen.is_host,
            "input": seen.input.as_ref().map(|link| &link.name),
        },
        "route": route(seen),
        "policy": policy(outcome),
        "masquerade_address": seen.picked.as_ref().and_then(|picked| picked.address),
        "ports_in_use": port::held_ports(question, &seen.others),
        "result": result(question, outcome),
        "connections": seen.connections.iter().map(connection).collect::<Vec<_>>(),
        "foreign_rules": seen.ruleset.foreign_rules().len(),
        "findings": outcome.findings.iter().map(|it| finding(it, question, outcome)).collect::<Vec<_>>(),
        "notes": outcome.notes.iter().map(|it| note(it, seen)).collect::<Vec<_>>(),
        "unseen": seen.unseen.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>(),
        "error": null,
    })
}

/// The keys of an answer, so that a program need not tell the cases apart before it reads them, and the reason.
pub(super) fn failure(reason: &str) -> Value {
    json!({
        "packet": null, "route": null, "policy": null, "masquerade_address": null, "ports_in_use": [], "result": null,
        "connections": [], "foreign_rules": null, "findings": [], "notes": [], "unseen": [], "error": reason,
    })
}

fn endpoint(endpoint: Endpoint) -> Value {
    json!({ "address": endpoint.address, "port": endpoint.port })
}

fn route(seen: &Seen) -> Value {
    match &seen.route {
        Err(_) => Value::Null,
        Ok(route) => json!({
            "output": route.output.name,
            "gateway": route.gateway,
            "table": route.table,
            "preferred_source": seen.preferred_source,
        }),
    }
}

fn policy(outcome: &Outcome<'_>) -> Value {
    let (cidr, origin, list) = match outcome.decision.reason {
        Reason::InCidr(entry) => {
            let list = match entry.list {
                List::LinkLocal => "link-local",
                List::NonMasquerade => "nonMasqueradeCIDRs",
                List::Masquerade => "masqueradeCIDRs",
            };
            (Some(entry.listed.text.as_str()), Some(entry.listed.origin.to_string()), Some(list))
        }
        Reason::Ipv6Off | Reason::LocalDestination | Reason::InNoCidr => (None, None, None),
    };
    json!({
        "verdict": outcome.decision.verdict.to_string(),
        "reason": outcome.decision.reason.to_string(),
        "cidr": cidr,
        "origin": origin,
        "list": list,
        "port": match outcome.decision.verdict {
            Verdict::Masquerade(SourcePort::KeptIfFree) => Some("kept"),
            Verdict::Masquerade(SourcePort::Random) => Some("random"),
            Verdict::Masquerade(SourcePort::Within(_)) => Some("within"),
            Verdict::Untouched | Verdict::Exempt => None,
        },
        "port_ranges": match outcome.decision.verdict {
            Verdict::Masquerade(SourcePort::Within(ranges)) => Some(ranges.to_string()),
            Verdict::Masquerade(SourcePort::KeptIfFree | SourcePort::Random) | Verdict::Untouched | Verdict::Exempt => None,
        },
    })
}

fn result(question: &Question, outcome: &Outcome<'_>) -> Value {
    let (fate, address, last) = match outcome.fate {
        Fate::Kept => ("kept", Some(question.source.address), None),
        Fate::Becomes(address) => ("translated", Some(address), None),
        Fate::OneOf(first, last) => ("translated", Some(first), Some(last)),
        Fate::Unknown => ("unknown", None, None),
        Fate::Lost => ("lost", None, None),
    };
    let (by, decider) = match outcome.by {
        By::Nobody => ("nobody", None),
        By::Policy => ("policy", None),
        By::Rule(step) => ("rule", Some(rule(&step))),
    };
    json!({
        "fate": fate,
        "source": address,
        "last_source": last,
        "certain": outcome.is_certain,
        "decided_by": by,
        "rule": decider,
    })
}

fn rule(step: &Step<'_>) -> Value {
    json!({
        "owner": Owner::of(step.table, step.chain, step.rule).to_string(),
        "stack": step.table.stack.to_string(),
        "family": step.table.family.to_string(),
        "table": step.table.name,
        "chain": step.chain.name,
        "text": step.rule.text,
        "position": if step.is_after_ours { "after" } else { "before" },
    })
}

fn connection(connection: &Connection) -> Value {
    json!({ "original": tuple(&connection.original), "reply": tuple(&connection.reply), "timeout": connection.timeout })
}

fn tuple(tuple: &Tuple) -> Value {
    json!({
        "source": tuple.source,
        "source_port": tuple.source_port,
        "destination": tuple.destination,
        "destination_port": tuple.destination_port,
        "protocol": tuple.protocol,
    })
}

fn finding(finding: &Finding<'_>, question: &Question, outcome: &Outcome<'_>) -> Value {
    let (kind, step, held) = match finding {
        Finding::NotInForce => ("not-in-force", None, None),
        Finding::NotReached(step) => ("not-reached", Some(step), None),
        Finding::OutOfSync => ("out-of-sync", None, None),
        Finding::Untracked(step) => ("untracked", Some(step), None),
        Finding::Overruled(step) => ("overruled", Some(step), None),
        Finding::MayOverrule(step) => ("may-be-overruled", Some(step), None),
        Finding::NoRoute(_) => ("no-route", None, None),
        Finding::NoAddress => ("no-address", None, None),
        Finding::OldTranslation(held) => ("old-translation", None, Some(held)),
        Finding::PortTaken(held) => ("port-taken", None, Some(held)),
    };
    json!({
        "kind": kind,
        "text": finding_text(finding, question, outcome),
        "rule": step.map(rule),
        "connection": held.map(connection),
    })
}

fn note(note: &Note<'_>, seen: &Seen) -> Value {
    let (kind, step) = match note {
        Note::TakenForHost => ("taken-for-host", None),
        Note::OtherThanPreferred { .. } => ("other-than-preferred", None),
        Note::AddressDoubt(_) => ("address-doubt", None),
        Note::NotInForce => ("not-in-force", None),
        Note::AlsoTranslates(step) => ("also-translates", Some(step)),
        Note::Untracked(step) => ("untracked", Some(step)),
        Note::OtherDestination(step) => ("other-destination", Some(step)),
        Note::MarkDecides(step) => ("mark-decides", Some(step)),
        Note::ForTheNode => ("for-the-node", None),
        Note::OrderUnknown => ("order-unknown", None),
        Note::Cut => ("cut", None),
    };
    json!({ "kind": kind, "text": note_text(note, seen), "rule": step.map(rule) })
}
