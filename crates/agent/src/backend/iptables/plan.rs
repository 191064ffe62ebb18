//! The difference between what the nat table of a family should hold and what it holds, and the restore that removes it.

use std::fmt;

use masq::cidr::Family;

use super::desired::Rule;
use super::meaning::{is_jump_of_a_generation, is_of_a_generation, is_printed_as};
use super::placement::Placement;
use super::render;
use super::save::Observed;

/// What to do to one family's nat table, as one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    changes: Vec<Change>,
    lines: String,
}

/// One difference in one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whose nat table it is about.
    pub family: Family,
    /// The chain it is about.
    pub chain: String,
    /// What was found.
    pub difference: Difference,
}

/// What was found to differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// There is no such chain.
    ChainMissing {
        /// How many rules it gets.
        rules: usize,
    },
    /// The chain holds other rules, or the same in another order.
    RulesDiffer {
        /// How many it holds, as far as they can be read.
        found: usize,
        /// How many it should.
        wanted: usize,
    },
    /// Nothing jumps to the chain as it should.
    JumpMissing,
    /// No packet reaches the jump, for a stranger's rule before it takes them all.
    JumpBehind {
        /// That rule.
        rule: String,
    },
    /// The jump is there once more.
    JumpDoubled,
    /// A jump by another version, or by another program in our name.
    JumpOutdated {
        /// The rule.
        rule: String,
    },
    /// A jump to our chain that is not ours.
    JumpForeign {
        /// The rule.
        rule: String,
    },
    /// A chain of another generation, chain name, family setting or iptables stack.
    Leftover {
        /// How many rules it holds.
        rules: usize,
    },
}

/// Why a chain is left alone although the agent was told to use it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {family} chain {chain} holds rules of somebody else (the first is {first:?}), which are not ours to flush; \
     choose another name with --masq-chain, or remove these rules"
)]
pub struct StrangersChain {
    /// Whose nat table it is in.
    pub family: Family,
    /// The chain's name.
    pub chain: String,
    /// Its first rule.
    pub first: String,
}

impl Plan {
    /// Compares the rules that `chain` should hold in a family, and the jump to it, with what is there.
    ///
    /// # Errors
    /// The chain holds only strangers' rules, and it is not `known` to have been ours before.
    pub fn new(
        family: Family,
        chain: &str,
        rules: &[Rule],
        observed: &Observed,
        known: bool,
    ) -> Result<Plan, StrangersChain> {
        if let Some(first) = strangers_rule(chain, observed).filter(|_| !known) {
            return Err(StrangersChain { family, chain: chain.to_owned(), first });
        }
        let mut plan = Plan::default();
        let placement = Placement::new(chain, observed);
        if let Some(difference) = chain_difference(chain, rules, observed) {
            plan.push(family, chain, difference);
            plan.lines += &render::chain_lines(chain, rules);
        }
        placement.differences.into_iter().for_each(|difference| plan.push(family, chain, difference));
        plan.lines += &placement.lines;
        Ok(plan)
    }

    pub(super) fn push(&mut self, family: Family, chain: &str, difference: Difference) {
        self.changes.push(Change { family, chain: chain.to_owned(), difference });
    }

    pub(super) fn append_lines(&mut self, lines: &str) {
        self.lines += lines;
    }

    /// Whether there is nothing to change.
    pub fn is_in_sync(&self) -> bool {
        self.changes.is_empty()
    }

    /// The differences.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Whether the rules of a chain are written anew.
    pub fn writes_chain(&self, chain: &str) -> bool {
        let writes = |change: &Change| match change.difference {
            Difference::ChainMissing { .. } | Difference::RulesDiffer { .. } => change.chain == chain,
            Difference::JumpMissing
            | Difference::JumpBehind { .. }
            | Difference::JumpDoubled
            | Difference::JumpOutdated { .. }
            | Difference::JumpForeign { .. }
            | Difference::Leftover { .. } => false,
        };
        self.changes.iter().any(writes)
    }

    /// The differences by value.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// What to feed to the family's restore program with `--noflush`: one transaction for all of it.
    pub fn restore_text(&self) -> String {
        render::transaction(&self.lines)
    }
}

/// The first rule of a chain whose rules are all strangers'.
fn strangers_rule(chain: &str, observed: &Observed) -> Option<String> {
    if observed.unreadable.contains(chain) {
        let jumped_to = observed.postrouting().iter().any(|rule| rule.leads_to(chain) && is_jump_of_a_generation(rule));
        return (!jumped_to && !observed.has_jump_beyond).then(|| "one that iptables cannot read".to_owned());
    }
    let rules = observed.rules(chain)?;
    if rules.iter().any(is_of_a_generation) { None } else { rules.first().map(|rule| rule.text.clone()) }
}

fn chain_difference(chain: &str, wanted: &[Rule], observed: &Observed) -> Option<Difference> {
    if observed.unreadable.contains(chain) {
        return Some(Difference::RulesDiffer { found: 0, wanted: wanted.len() });
    }
    let Some(found) = observed.rules(chain) else {
        return Some(Difference::ChainMissing { rules: wanted.len() });
    };
    let same = found.len() == wanted.len() && wanted.iter().zip(found).all(|(rule, saved)| is_printed_as(rule, saved));
    (!same).then_some(Difference::RulesDiffer { found: found.len(), wanted: wanted.len() })
}

impl Change {
    /// What kind of object the change is about: the value of the label `kind` where drift is counted.
    pub fn kind(&self) -> &'static str {
        match self.difference {
            Difference::ChainMissing { .. } => "chain",
            Difference::RulesDiffer { .. } => "rule",
            Difference::JumpMissing
            | Difference::JumpBehind { .. }
            | Difference::JumpDoubled
            | Difference::JumpOutdated { .. } => "jump",
            Difference::JumpForeign { .. } => "foreign",
            Difference::Leftover { .. } => "leftover",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { family, chain, difference } = self;
        match difference {
            Difference::ChainMissing { .. } => write!(f, "{family} chain {chain} missing"),
            Difference::RulesDiffer { found, wanted } if found == wanted => {
                write!(f, "other rules in {family} chain {chain}")
            }
            Difference::RulesDiffer { found, wanted } => {
                write!(f, "{found} rules in {family} chain {chain} instead of {wanted}")
            }
            Difference::JumpMissing => write!(f, "{family} jump to {chain} missing"),
            Difference::JumpBehind { rule } => {
                write!(f, "{family} jump to {chain} behind {rule:?}, which no packet gets past")
            }
            Difference::JumpDoubled => write!(f, "{family} jump to {chain} doubled"),
            Difference::JumpOutdated { rule } => write!(f, "{family} jump to {chain} outdated: {rule:?}"),
            Difference::JumpForeign { rule } => write!(f, "{family} jump to {chain} not ours: {rule:?}"),
            Difference::Leftover { rules } => write!(f, "{family} chain {chain} left over ({rules} rules)"),
        }
    }
}

impl fmt::Display for Plan {
    /// The differences on one line, for the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, change) in self.changes.iter().enumerate() {
            write!(f, "{}{change}", if n == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
