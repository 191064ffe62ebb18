//! Jumps of other versions, or of agents with another chain, that are still asked beside ours.

use super::{Finding, Severity, listed};
use crate::backend::iptables::comment;
use crate::foreign::{Action, Hook, Kind, Rule, Ruleset};

/// One finding for all such jumps. Those before ours decide alone, those behind it translate what ours exempts.
pub(super) fn finding(ruleset: &Ruleset) -> Option<Finding> {
    let mut ours_was_asked = false;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for entry in ruleset.entries(Kind::Nat, Hook::Postrouting) {
        for rule in &entry.chain.rules {
            ours_was_asked |= rule.is_ours;
            let Some(chain) = other_chain(rule) else { continue };
            let text = format!("{} {} chain {chain}", entry.table.stack, entry.table.family);
            if ours_was_asked { after.push(text) } else { before.push(text) }
        }
    }
    let sentence = match (before.as_slice(), after.as_slice()) {
        ([], []) => return None,
        ([], after) => {
            format!("rules of another agent, asked after ours, translate what ours exempt: {}", listed(after))
        }
        (before, _) => {
            format!("rules of another agent are asked before ours and decide in their place: {}", listed(before))
        }
    };
    let remedy = "stop the other agent if one runs, then remove its rules with ip-masq-agent cleanup --all-generations and start \
                  this one again"
        .to_owned();
    Some(Finding { id: "other-generation", severity: Severity::Warning, sentence, remedy })
}

/// The chain that an agent's jump other than ours leads to.
fn other_chain(rule: &Rule) -> Option<&str> {
    let Action::Jump(chain) = &rule.action else { return None };
    let named = rule.comment.as_deref().and_then(comment::names_chain)?;
    (!rule.is_ours && named == chain).then_some(named)
}
