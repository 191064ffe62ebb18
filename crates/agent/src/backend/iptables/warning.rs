//! What people should know although nothing is wrong with our own rules.

use std::fmt;

use masq::cidr::Family;

use super::leftovers::Leftovers;
use super::version::{Stack, Version};

/// Something that the agent reports and leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// `--random-fully` is on, and the programs are too old for it.
    NoRandomFully {
        /// Whose programs they are.
        family: Family,
        /// Their version.
        version: Version,
    },
    /// A stranger's rule behind our jump translates what our chain exempts.
    Overridden {
        /// Whose nat table it is in.
        family: Family,
        /// The rule.
        rule: String,
    },
    /// A chain that bears an agent's comments came up after such chains were removed.
    LivingAgent {
        /// Whose nat table it is in.
        family: Family,
        /// The chain.
        chain: String,
    },
    /// A chain of ours was emptied and could not be deleted.
    Kept {
        /// Whose nat table it is in.
        family: Family,
        /// The chain.
        chain: String,
        /// The stranger's rule that jumps to it.
        rule: String,
    },
    /// What an earlier run or another version left could not be removed.
    NotRemoved {
        /// Whose nat table it is in.
        family: Family,
        /// On which stack.
        stack: Stack,
        /// Why.
        error: String,
    },
}

impl Warning {
    /// One for each chain that was emptied and stays.
    pub fn of_kept(family: Family, leftovers: &Leftovers) -> Vec<Warning> {
        let warning =
            |(chain, rule): &(String, String)| Warning::Kept { family, chain: chain.clone(), rule: rule.clone() };
        leftovers.kept.iter().map(warning).collect()
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NoRandomFully { family, version } => {
                write!(f, "--random-fully has no effect on {family}: it takes iptables 1.6.2, and this is {version}")
            }
            Warning::Overridden { family, rule } => write!(
                f,
                "The {family} rule \"-A POSTROUTING {rule}\" of another program translates also what is exempt here; remove it, or \
                 give it a condition"
            ),
            Warning::LivingAgent { family, chain } => write!(
                f,
                "Another masquerading agent keeps the {family} chain {chain}, and of both policies each masquerades what it likes; \
                 stop one of them"
            ),
            Warning::Kept { family, chain, rule } => write!(
                f,
                "The {family} chain {chain} was emptied but not deleted, for the rule \"{rule}\" of another program jumps to it"
            ),
            Warning::NotRemoved { family, stack, error } => {
                write!(f, "{family} rules of an earlier run or another version may be left in {stack}: {error}")
            }
        }
    }
}
