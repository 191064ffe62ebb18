//! What the kernel holds in the agent's table, all of it of one generation.

use nfnetlink::{
    Chain, Counter, Elements, Error, Flowtable, NamedObject, ObjectKind, Rule, Set, SetFlags, Socket, Table, TableRef,
};

use super::desired::{CHAIN, Desired, FilledSet};

/// The content of the agent's table, whoever put it there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// The table; without it all the rest is empty.
    pub table: Option<Table>,
    /// Chains, strangers' ones included.
    pub chains: Vec<Chain>,
    /// Rules of all chains, each chain's in order of evaluation.
    pub rules: Vec<Rule>,
    /// Sets and maps that have a name of their own. Those of a rule come and go with the rule.
    pub sets: Vec<ObservedSet>,
    /// Named counters and what they have counted.
    pub counters: Vec<Counter>,
    /// Named objects of all kinds, counters included.
    pub objects: Vec<NamedObject>,
    /// Flow tables.
    pub flowtables: Vec<Flowtable>,
}

/// A set and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedSet {
    /// Its definition.
    pub set: Set,
    /// Its elements; those of maps are not read, for no map is ours.
    pub elements: Elements,
}

impl Observed {
    /// Reads the table. Nothing is filtered: what does not belong there has to be seen to be removed.
    pub(super) fn read(socket: &mut Socket, table: TableRef<'_>) -> Result<Observed, Error> {
        let Some(found) = socket.table(table)? else {
            return Ok(Observed::default());
        };
        let mut sets = Vec::new();
        for set in socket.sets(table)?.items {
            if set.flags.contains(SetFlags::ANONYMOUS) {
                continue;
            }
            let is_map = set.flags.contains(SetFlags::MAP) || set.flags.contains(SetFlags::OBJECT);
            let elements = if is_map { Elements::default() } else { socket.elements(table, &set)?.items };
            sets.push(ObservedSet { set, elements });
        }
        Ok(Observed {
            table: Some(found),
            chains: socket.chains(table)?.items,
            rules: socket.rules(table)?.items,
            sets,
            counters: socket.counters(table)?.items,
            objects: socket.objects(table)?.items,
            flowtables: socket.flowtables(table)?.items,
        })
    }

    /// What a table holds right after a desired one was committed; only the kernel's handles are not known.
    pub(super) fn holding(desired: &Desired) -> Observed {
        let zero = |name: &String| Counter { name: name.clone(), ..Counter::default() };
        let set = |filled: &FilledSet| ObservedSet {
            set: filled.set.clone(),
            elements: Elements { intervals: filled.elements.clone(), catch_all: false },
        };
        let object = |name: &String| NamedObject { kind: ObjectKind::COUNTER, name: name.clone() };
        Observed {
            table: Some(desired.table.clone()),
            chains: vec![desired.chain.clone()],
            rules: desired.rules.clone(),
            sets: desired.sets.iter().map(set).collect(),
            counters: desired.counters.iter().map(zero).collect(),
            objects: desired.counters.iter().map(object).collect(),
            flowtables: Vec::new(),
        }
    }

    /// The rules of one chain, in order of evaluation.
    pub fn rules_of(&self, chain: &str) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.chain == chain)
    }

    /// What an earlier run left, as something to keep in force while there is no valid config; `None` if nothing in the table
    /// treats packets, or not all of it could be put back after somebody deleted it.
    pub fn adopt(&self) -> Option<Desired> {
        let table = self.table.clone()?;
        let chain = self.chains.iter().find(|chain| chain.name == CHAIN && chain.base.is_some())?.clone();
        let rules: Vec<Rule> = self.rules_of(CHAIN).cloned().collect();
        let is_named = |name: &String| self.sets.iter().any(|set| set.set.name == *name);
        let can_be_put_back = rules.iter().flat_map(|rule| &rule.expressions).all(|expression| match expression {
            nfnetlink::Expr::Lookup { set, .. } => is_named(set),
            nfnetlink::Expr::Unknown { .. } => false,
            _ => true,
        });
        if rules.is_empty() || !can_be_put_back {
            return None;
        }
        let sets = self
            .sets
            .iter()
            .map(|found| FilledSet { set: found.set.clone(), elements: found.elements.intervals.clone() });
        let counters = self.counters.iter().map(|counter| counter.name.clone());
        Some(Desired { table, sets: sets.collect(), counters: counters.collect(), chain, rules })
    }
}
