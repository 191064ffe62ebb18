//! The status for programs. The keys are an interface: they stay as they are, and all of them are always there.

use serde_json::{Value, json};

use super::Status;
use crate::backend::difference::Counted;
use crate::doctor::Finding;
use crate::doctor::conntrack::Conntrack;
use crate::foreign::{Effect, ForeignRule, Position};
use crate::tools::running::Running;

/// All that there is to say.
pub(super) fn value(status: &Status<'_>) -> Value {
    let seen = status.seen;
    let files =
        seen.files.iter().map(|(name, age)| json!({ "name": name, "ageSeconds": age.map(|age| age.as_secs()) }));
    let comparison = seen.comparison.as_ref();
    json!({
        "verdict": status.verdict(),
        "config": {
            "files": files.collect::<Vec<_>>(),
            "hash": seen.hash,
            "valid": seen.config.is_some(),
            "findings": seen.diagnostics.len(),
        },
        "backend": seen.backend.as_ref().map(|(_, value)| value),
        "inSync": comparison.map(|comparison| comparison.groups.is_empty()).filter(|_| seen.unseen.is_empty()),
        "agents": seen.agents.iter().map(agent).collect::<Vec<_>>(),
        "foreign": status.foreign.iter().map(rule).collect::<Vec<_>>(),
        "connections": comparison.map_or(&[][..], |comparison| &comparison.counted).iter().map(counted).collect::<Vec<_>>(),
        "conntrack": seen.conntrack.map(conntrack),
        "findings": status.findings.iter().map(finding).collect::<Vec<_>>(),
        "unseen": seen.unseen.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>(),
    })
}

/// The same keys where there is nothing to say but why.
pub(super) fn failure(error: &anyhow::Error) -> Value {
    json!({
        "verdict": "cannot-look", "config": null, "backend": null, "inSync": null, "agents": [], "foreign": [], "connections": [],
        "conntrack": null, "findings": [], "unseen": [format!("{error:#}")],
    })
}

fn agent(Running { pid, words }: &Running) -> Value {
    json!({ "pid": pid, "commandLine": words })
}

fn rule(rule: &ForeignRule) -> Value {
    json!({
        "stack": rule.stack.to_string(),
        "family": rule.family.to_string(),
        "table": rule.table,
        "chain": rule.chain,
        "hook": rule.hook.to_string(),
        "priority": rule.priority,
        "position": rule.position.map(position_word),
        "owner": rule.owner.to_string(),
        "effect": effect_word(rule.effect),
        "rule": rule.text,
    })
}

pub(super) fn position_word(position: Position) -> &'static str {
    match position {
        Position::Before => "before",
        Position::After => "after",
    }
}

fn effect_word(effect: Effect) -> &'static str {
    match effect {
        Effect::MayMasquerade => "may-masquerade",
        Effect::MayTranslate => "may-translate",
        Effect::MayUntrack => "may-untrack",
        Effect::EndsTraversal => "ends-traversal",
        Effect::None => "none",
    }
}

fn counted(Counted { family, exempt, masqueraded }: &Counted) -> Value {
    json!({ "family": family.to_string(), "exempt": exempt, "masqueraded": masqueraded })
}

fn conntrack(Conntrack { size, statistics }: Conntrack) -> Value {
    json!({
        "entries": size.entries,
        "limit": size.limit,
        "insertFailed": statistics.insert_failed,
        "drop": statistics.drop,
        "earlyDrop": statistics.early_drop,
    })
}

fn finding(Finding { id, severity, sentence, remedy }: &Finding) -> Value {
    json!({ "id": id, "severity": severity.to_string(), "sentence": sentence, "remedy": remedy })
}
