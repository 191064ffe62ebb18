//! What the kernel holds in the agent's table, all of it of one generation.

use masq::cidr::Family;
use nfnetlink::expr::Verdict;
use nfnetlink::{
    BaseChain, Chain, Counter, Elements, Error, Expr, Flowtable, NamedObject, ObjectKind, Rule, Set, SetFlags, Socket,
    Table, TableFlags, TableRef,
};

use super::desired::{CHAIN, Desired, FilledSet, PROTECTED, cidrs_name, empty_cidr_set, empty_set};

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
    /// Its elements, if it has the name and the type of one of ours.
    pub elements: Elements,
}

impl Observed {
    /// Reads the table. Nothing is passed over: what does not belong there has to be seen to be removed. But elements are read of
    /// sets only that can be ours, for others may have any shape and size.
    pub(super) fn read(socket: &mut Socket, table: TableRef<'_>) -> Result<Observed, Error> {
        let Some(found) = socket.table(table)? else {
            return Ok(Observed::default());
        };
        let mut sets = Vec::new();
        for set in socket.sets(table)?.items {
            if set.flags.contains(SetFlags::ANONYMOUS) {
                continue;
            }
            let mut found = ObservedSet { set, elements: Elements::default() };
            if found.is_ours() {
                found.elements = socket.elements(table, &found.set)?.items;
            }
            sets.push(found);
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

    /// Whether connections are counted by CIDR.
    pub fn counts_cidrs(&self) -> bool {
        self.sets.iter().any(|found| Family::ALL.into_iter().any(|family| found.set.name == cidrs_name(family)))
    }

    /// The rules of one chain, in order of evaluation.
    pub fn rules_of(&self, chain: &str) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.chain == chain)
    }

    /// What an earlier run left, as something to keep in force while there is no valid config; `None` if nothing in the table
    /// treats packets, or it is not wholly of our making, so that it could not be put back as it is.
    pub fn adopt(&self) -> Option<Desired> {
        let flags = TableFlags(self.table.as_ref()?.flags.0 & PROTECTED.0);
        let table = self.table.clone().filter(|table| table.flags == flags)?;
        let chain = self.chains.iter().find(|chain| chain.name == CHAIN && is_nat_postrouting(chain))?.clone();
        let rules: Vec<Rule> = self.rules_of(CHAIN).cloned().collect();
        let expressions = || rules.iter().flat_map(|rule| &rule.expressions);
        let masquerades = expressions().any(|expression| matches!(expression, Expr::Masquerade { .. }));
        let ours: Vec<&ObservedSet> = self.sets.iter().filter(|found| found.is_ours()).collect();
        let is_known = |expression: &Expr| match expression {
            Expr::Lookup { set, .. } => ours.iter().any(|found| found.set.name == *set),
            Expr::Verdict(Verdict::Jump(_) | Verdict::Goto(_)) | Expr::Unknown { .. } => false,
            _ => true,
        };
        if !masquerades || !expressions().all(is_known) {
            return None;
        }
        let filled =
            |found: &&ObservedSet| FilledSet { set: found.set.clone(), elements: found.elements.intervals.clone() };
        let sets = ours.iter().map(filled).collect();
        let counters = self.counters.iter().map(|counter| counter.name.clone()).collect();
        Some(Desired { table, sets, counters, chain, rules })
    }
}

impl ObservedSet {
    fn is_ours(&self) -> bool {
        let ours = |family| [empty_set(family), empty_cidr_set(family)];
        Family::ALL.into_iter().flat_map(ours).any(|set| is_same_set(&self.set, &set))
    }
}

/// Whether a set can hold our elements and rules can read it as ours. User data is nft's own note on how to print it.
pub(super) fn is_same_set(found: &Set, wanted: &Set) -> bool {
    // The kernel adds the flag once an element with expressions has come by; it changes nothing for elements without.
    let flags = SetFlags(found.flags.0 & !SetFlags::EXPR.0 | wanted.flags.0 & SetFlags::EXPR.0);
    found.name == wanted.name
        && Set { flags, userdata: wanted.userdata.clone(), ..found.clone() }.same_definition(wanted)
}

fn is_nat_postrouting(chain: &Chain) -> bool {
    let is_it = |base: &BaseChain| {
        base.kind == "nat" && base.hook == BaseChain::POSTROUTING && base.policy != Some(BaseChain::DROP)
    };
    chain.base.as_ref().is_some_and(is_it)
}
