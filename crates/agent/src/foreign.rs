//! Everybody's NAT rules, of both stacks, as values: whose they are, what they can do, and when the kernel asks them.

pub mod condition;
pub mod owner;
pub mod sets;
pub mod walk;

mod extension;
mod native;
mod read;
mod rule;
mod saved;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use masq::cidr::Family;
use nfnetlink::{BaseChain, ProtocolFamily};

pub use self::owner::Owner;
pub use self::read::{Reading, Unseen, read};
pub use self::rule::{Action, Condition, Effect, Rule, SnatTo};
use crate::backend::detect::Backend;
use crate::backend::nftables::desired::TABLE;

/// Where the kernel keeps a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stack {
    /// In nf_tables: native rules, and those of iptables-nft.
    Nft,
    /// In the tables of iptables-legacy.
    Legacy,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stack::Nft => "nftables",
            Stack::Legacy => "iptables-legacy",
        })
    }
}

/// Every table that can translate addresses or keep packets from translation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruleset {
    /// The tables of iptables-legacy, then those of nf_tables in the order in which they were made.
    pub tables: Vec<Table>,
}

/// One table, strangers' or ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Where it is kept.
    pub stack: Stack,
    /// Whose packets it sees.
    pub family: ProtocolFamily,
    /// Its name.
    pub name: String,
    /// Whether it is there, but its chains see no packets.
    pub is_dormant: bool,
    /// Its chains, in the order in which they were made.
    pub chains: Vec<Chain>,
    /// Places in `chains` by name: with thousands of chains every jump would be a search.
    places: BTreeMap<String, usize>,
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Where packets enter it; `None` for a chain that is only jumped to.
    pub base: Option<Base>,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
    /// Whether it is one that holds our policy.
    pub is_ours: bool,
}

/// Where a base chain is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// What the chain is for.
    pub kind: Kind,
    /// The hook.
    pub hook: Hook,
    /// Priority among the chains of the hook: lower ones are asked earlier.
    pub priority: i32,
}

/// What a base chain is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// It may translate the first packet of each connection.
    Nat,
    /// It sees packets before their connection is looked up, and can keep them from being tracked.
    BeforeTracking,
}

/// A hook of the network stack at which base chains are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// Packets that come in.
    Prerouting,
    /// Packets for this node.
    Input,
    /// Packets of this node.
    Output,
    /// Packets that leave, forwarded ones and the node's own.
    Postrouting,
}

impl Hook {
    /// The hook with the kernel's number, if base chains of the kinds looked at can be there.
    pub fn from_number(number: u32) -> Option<Hook> {
        match number {
            BaseChain::PREROUTING => Some(Hook::Prerouting),
            BaseChain::INPUT => Some(Hook::Input),
            BaseChain::OUTPUT => Some(Hook::Output),
            BaseChain::POSTROUTING => Some(Hook::Postrouting),
            _ => None,
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hook::Prerouting => "prerouting",
            Hook::Input => "input",
            Hook::Output => "output",
            Hook::Postrouting => "postrouting",
        })
    }
}

/// Whether the kernel asks a rule before or after our rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Position {
    /// Before: what it translates never reaches us.
    Before,
    /// After: what we exempt may reach it.
    After,
}

/// A rule of somebody else, with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignRule {
    /// Where it is kept.
    pub stack: Stack,
    /// Family of its table.
    pub family: ProtocolFamily,
    /// Name of its table.
    pub table: String,
    /// Name of its chain.
    pub chain: String,
    /// The hook from which packets reach it.
    pub hook: Hook,
    /// Priority of the base chain from which they do.
    pub priority: i32,
    /// When it is asked; `None` where our rules are not in the kernel, or at another hook.
    pub position: Option<Position>,
    /// Who probably made it.
    pub owner: Owner,
    /// What it can do.
    pub effect: Effect,
    /// When it does.
    pub condition: Condition,
    /// The rule as its program would show it.
    pub text: String,
}

impl ForeignRule {
    /// Whether it can translate the source of what leaves.
    pub fn may_translate_what_leaves(&self) -> bool {
        match self.effect {
            Effect::MayMasquerade | Effect::MayTranslate => self.hook == Hook::Postrouting,
            Effect::MayUntrack | Effect::EndsTraversal | Effect::None => false,
        }
    }
}

impl Table {
    /// A table with these chains, whose names differ.
    pub fn new(stack: Stack, family: ProtocolFamily, name: impl Into<String>, chains: Vec<Chain>) -> Table {
        let places = chains.iter().enumerate().map(|(place, chain)| (chain.name.clone(), place)).collect();
        Table { stack, family, name: name.into(), is_dormant: false, chains, places }
    }

    /// The chain of that name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.places.get(name).and_then(|&place| self.chains.get(place))
    }

    /// Whether it is the one that our nftables backend makes.
    fn is_of_our_nftables(&self) -> bool {
        self.family == ProtocolFamily::Inet && self.name == TABLE
    }

    /// Whether it sees packets of a family.
    pub fn sees(&self, family: Family) -> bool {
        match self.family {
            ProtocolFamily::Inet => true,
            ProtocolFamily::Ipv4 => family == Family::Ipv4,
            ProtocolFamily::Ipv6 => family == Family::Ipv6,
            ProtocolFamily::Unspec
            | ProtocolFamily::Arp
            | ProtocolFamily::Netdev
            | ProtocolFamily::Bridge
            | ProtocolFamily::Other(_) => false,
        }
    }
}

/// A base chain and its table.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'r> {
    /// The table.
    pub table: &'r Table,
    /// The chain.
    pub chain: &'r Chain,
    /// Where it is attached.
    pub base: Base,
}

impl Ruleset {
    /// The base chains of one kind at a hook in the order in which the kernel asks them: by priority, and among equals the one
    /// registered last first. When that was is known only within a table; elsewhere the order of the tables stands for it.
    pub fn entries(&self, kind: Kind, hook: Hook) -> Vec<Entry<'_>> {
        let chains = self.tables.iter().filter(|table| !table.is_dormant).flat_map(|table| {
            table.chains.iter().filter_map(move |chain| Some(Entry { table, chain, base: chain.base? }))
        });
        let mut entries: Vec<Entry<'_>> =
            chains.filter(|entry| entry.base.kind == kind && entry.base.hook == hook).collect();
        entries.reverse();
        entries.sort_by_key(|entry| entry.base.priority);
        entries
    }

    /// The same base chains with those of equal priority the other way round; `None` if no two of different tables are equal, so that
    /// their order is known.
    pub fn entries_otherwise(&self, kind: Kind, hook: Hook) -> Option<Vec<Entry<'_>>> {
        let mut entries = self.entries(kind, hook);
        let are_equal = |pair: &[Entry<'_>]| match pair {
            [one, other] => one.base.priority == other.base.priority && !std::ptr::eq(one.table, other.table),
            _ => false,
        };
        if !entries.windows(2).any(are_equal) {
            return None;
        }
        entries.reverse();
        entries.sort_by_key(|entry| entry.base.priority);
        Some(entries)
    }

    /// Takes what one of our backends made for a stranger's: left from an earlier run, it decides as it stands.
    pub fn disown(&mut self, backend: Backend) {
        let is_its = |table: &&mut Table| table.is_of_our_nftables() == (backend == Backend::Nftables);
        for chain in self.tables.iter_mut().filter(is_its).flat_map(|table| &mut table.chains) {
            chain.is_ours = false;
            chain.rules.iter_mut().for_each(|rule| rule.is_ours = false);
        }
    }

    /// Whether our rules are in the kernel for a family.
    pub fn has_ours(&self, family: Family) -> bool {
        let entries = self.entries(Kind::Nat, Hook::Postrouting);
        let mut tables = entries.iter().filter(|entry| entry.table.sees(family));
        tables.any(|entry| entry.chain.rules.iter().any(|rule| rule.is_ours))
    }

    /// The rules of others in the order in which the kernel comes upon them, hook by hook; each once, and only those that a base
    /// chain leads to.
    pub fn foreign_rules(&self) -> Vec<ForeignRule> {
        let hooks = [Hook::Prerouting, Hook::Input, Hook::Output, Hook::Postrouting];
        let kinds = [Kind::BeforeTracking, Kind::Nat];
        hooks.into_iter().flat_map(|hook| kinds.into_iter().flat_map(move |kind| self.rules_at(kind, hook))).collect()
    }

    fn rules_at(&self, kind: Kind, hook: Hook) -> Vec<ForeignRule> {
        let mut found = Vec::new();
        // The two families may come upon our rules at different points, or have none.
        let mut ahead: BTreeSet<Family> = Family::ALL.into_iter().filter(|family| self.has_ours(*family)).collect();
        let ours = if (kind, hook) == (Kind::Nat, Hook::Postrouting) { ahead.clone() } else { BTreeSet::new() };
        for entry in self.entries(kind, hook) {
            let sees = |family: &&Family| entry.table.sees(**family);
            for (chain, rule) in entry.reached() {
                if rule.is_ours {
                    ahead.retain(|family| !entry.table.sees(*family));
                    continue;
                }
                let position = ours
                    .iter()
                    .any(|family| sees(&family))
                    .then(|| if ahead.iter().any(|family| sees(&family)) { Position::Before } else { Position::After });
                found.push(foreign(entry, chain, rule, position));
            }
        }
        found
    }
}

impl<'r> Entry<'r> {
    /// The rules that packets may come upon, in order; those of a chain that several rules lead to where the first does.
    fn reached(self) -> Vec<(&'r Chain, &'r Rule)> {
        let mut reached = Vec::new();
        let mut seen = BTreeSet::from([self.chain.name.as_str()]);
        let mut stack = vec![(self.chain, 0)];
        // Each chain is entered once, so this ends after as many steps as the table has rules and chains.
        while let Some((chain, place)) = stack.pop() {
            let Some(rule) = chain.rules.get(place) else { continue };
            stack.push((chain, place + 1));
            reached.push((chain, rule));
            if let Action::Jump(name) | Action::Goto(name) = &rule.action
                && !rule.is_ours
                && let Some(next) = self.table.chain(name)
                && seen.insert(name)
            {
                stack.push((next, 0));
            }
        }
        reached
    }
}

fn foreign(entry: Entry<'_>, chain: &Chain, rule: &Rule, position: Option<Position>) -> ForeignRule {
    ForeignRule {
        stack: entry.table.stack,
        family: entry.table.family,
        table: entry.table.name.clone(),
        chain: chain.name.clone(),
        hook: entry.base.hook,
        priority: entry.base.priority,
        position,
        owner: Owner::of(entry.table, chain, rule),
        effect: rule.effect(),
        condition: rule.condition(),
        text: rule.text.clone(),
    }
}

#[cfg(test)]
mod tests;
