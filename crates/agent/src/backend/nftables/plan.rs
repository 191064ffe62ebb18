//! The difference between the desired and the observed table, as data: what to say about it and what to send.

use std::fmt;

use nfnetlink::{Batch, Chain, Counter, Interval, ObjectKind, TableFlags, TableRef};

use super::desired::{CHAIN, Desired, FilledSet, PROTECTED};
use super::observed::{Observed, ObservedSet, is_same_set};

/// What has to change in the kernel. Empty when it holds what it should.
///
/// The three transactions keep every packet's treatment right while they are committed one after the other:
/// * `prepare` makes and fills sets that no rule reads yet. The kernel shows a new set to packets a little later than the rules
///   of the same transaction, and in between exempt destinations would be masqueraded.
/// * `switch` changes existing sets in place, and rules and chain, all at once for every packet.
/// * `retire` removes what no rule reads any more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    changes: Vec<Change>,
    by: By,
    elements: usize,
    counters: Vec<Counter>,
    prepare: Batch,
    switch: Batch,
    retire: Batch,
}

/// How a set that holds other elements is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// Unwanted elements go, missing ones come.
    #[default]
    Deltas,
    /// All go and all wanted ones come: for what others put there in a form that cannot be deleted one by one.
    Refill,
}

/// One difference, from the kernel's point of view: what was found there and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The table is not there.
    AddTable,
    /// Something in the table cannot be changed in place.
    RebuildTable(String),
    /// The table has other flags, such as `dormant`.
    SetTableFlags(TableFlags),
    /// A counter is not there.
    AddCounter(String),
    /// A set is not there.
    AddSet {
        /// Its name.
        set: String,
        /// How many elements it gets.
        elements: usize,
    },
    /// A set holds other elements.
    ChangeElements {
        /// Its name.
        set: String,
        /// How many are missing.
        missing: usize,
        /// How many should not be there.
        unwanted: usize,
    },
    /// The chain is not there.
    AddChain,
    /// The chain has another type, hook, priority or policy.
    ReplaceChain,
    /// The chain holds other rules, or the same in another order.
    ReplaceRules {
        /// How many rules it holds.
        found: usize,
        /// How many it should.
        wanted: usize,
    },
    /// Something stands in the table that does not belong there, or no longer.
    Remove {
        /// `chain`, `set`, ...
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

impl Plan {
    /// Compares what should be with what is.
    pub fn new(desired: &Desired, observed: &Observed) -> Plan {
        Plan::with(desired, observed, By::Deltas)
    }

    /// As [`Plan::new`], with a choice of how to change a set.
    pub fn with(desired: &Desired, observed: &Observed, by: By) -> Plan {
        let mut plan = Plan { by, ..Plan::default() };
        match &observed.table {
            None => {
                plan.changes.push(Change::AddTable);
                plan.add_everything(desired, &[]);
            }
            Some(table) => match cannot_change_in_place(desired, observed, table.flags) {
                Some(why) => return Plan::rebuild(desired, observed, why),
                None => plan.change_in_place(desired, observed, table.flags),
            },
        }
        plan
    }

    /// Makes the table anew, for what cannot be changed in place: all in one transaction, since one that the kernel refuses must not
    /// leave the node without rules. For a moment exempt destinations may be masqueraded.
    pub fn rebuild(desired: &Desired, observed: &Observed, why: String) -> Plan {
        let mut plan = Plan { changes: vec![Change::RebuildTable(why)], ..Plan::default() };
        plan.prepare.delete_table(desired.table.reference());
        plan.add_everything(desired, &observed.counters);
        plan.prepare.append(std::mem::take(&mut plan.switch));
        plan
    }

    /// Whether there is nothing to change.
    pub fn is_in_sync(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the table stays and only parts of it change.
    pub fn is_in_place(&self) -> bool {
        !self.changes.iter().any(|change| matches!(change, Change::AddTable | Change::RebuildTable(_)))
    }

    /// The differences.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// How many set elements the transactions add or delete, each of which the kernel announces to whoever listens.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The counters that are made, all by the first transaction, with what they begin with.
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// The transactions to commit in this order; none is empty.
    pub fn transactions(&self) -> impl Iterator<Item = &Batch> {
        [&self.prepare, &self.switch, &self.retire].into_iter().filter(|batch| !batch.is_empty())
    }

    fn add_everything(&mut self, desired: &Desired, counted: &[Counter]) {
        let table = desired.table.reference();
        self.prepare.add_table(&desired.table);
        for name in &desired.counters {
            let known = counted.iter().find(|counter| counter.name == *name).cloned();
            self.add_counter(table, known.unwrap_or_else(|| zero(name)));
        }
        for filled in &desired.sets {
            self.add_set(table, filled);
        }
        self.switch.add_chain(table, &desired.chain);
        self.add_rules(desired);
    }

    fn change_in_place(&mut self, desired: &Desired, observed: &Observed, flags: TableFlags) {
        if flags != desired.table.flags {
            self.changes.push(Change::SetTableFlags(flags));
            // In a transaction of its own: the kernel refuses a new base chain in a table that was dormant when it began.
            self.prepare.add_table(&desired.table);
        }
        self.add_missing_counters(desired, observed);
        self.sets(desired, observed);
        self.remove_strangers(desired, observed);
        self.chain(desired, observed);
    }

    fn add_missing_counters(&mut self, desired: &Desired, observed: &Observed) {
        for name in &desired.counters {
            if !observed.counters.iter().any(|counter| counter.name == *name) {
                self.changes.push(Change::AddCounter(name.clone()));
                self.add_counter(desired.table.reference(), zero(name));
            }
        }
    }

    fn add_counter(&mut self, table: TableRef<'_>, counter: Counter) {
        self.prepare.add_counter(table, &counter);
        self.counters.push(counter);
    }

    fn sets(&mut self, desired: &Desired, observed: &Observed) {
        let table = desired.table.reference();
        for wanted in &desired.sets {
            match observed.sets.iter().find(|found| found.set.name == wanted.set.name) {
                None => {
                    self.changes.push(Change::AddSet { set: wanted.set.name.clone(), elements: wanted.elements.len() });
                    self.add_set(table, wanted);
                }
                Some(found) => self.change_elements(table, wanted, found),
            }
        }
    }

    fn add_set(&mut self, table: TableRef<'_>, filled: &FilledSet) {
        self.elements += filled.elements.len();
        self.prepare.add_set(table, &filled.set);
        if !filled.elements.is_empty() {
            self.prepare.add_elements(table, &filled.set, &filled.elements);
        }
    }

    fn change_elements(&mut self, table: TableRef<'_>, wanted: &FilledSet, found: &ObservedSet) {
        let (missing, unwanted) = difference(&wanted.elements, &found.elements.intervals);
        if missing.is_empty() && unwanted.is_empty() && !found.elements.catch_all {
            return;
        }
        self.changes.push(Change::ChangeElements {
            set: wanted.set.name.clone(),
            missing: missing.len(),
            unwanted: unwanted.len() + usize::from(found.elements.catch_all),
        });
        // Only a flush removes the catch-all element, and it is the cheaper way where most elements go.
        if self.by == By::Refill || found.elements.catch_all || unwanted.len() * 2 > found.elements.intervals.len() {
            self.elements += found.elements.intervals.len() + wanted.elements.len();
            self.switch.flush_set(table, &wanted.set.name);
            if !wanted.elements.is_empty() {
                self.switch.add_elements(table, &wanted.set, &wanted.elements);
            }
            return;
        }
        self.elements += missing.len() + unwanted.len();
        if !unwanted.is_empty() {
            self.switch.delete_elements(table, &wanted.set, &unwanted);
        }
        if !missing.is_empty() {
            self.switch.add_elements(table, &wanted.set, &missing);
        }
    }

    fn chain(&mut self, desired: &Desired, observed: &Observed) {
        let table = desired.table.reference();
        match observed.chains.iter().find(|chain| chain.name == CHAIN) {
            None => {
                self.changes.push(Change::AddChain);
                self.switch.add_chain(table, &desired.chain);
                self.add_rules(desired);
            }
            Some(found) if !same_base(found, &desired.chain) => {
                self.changes.push(Change::ReplaceChain);
                self.switch.flush_chain(table, CHAIN);
                self.switch.delete_chain(table, CHAIN);
                self.switch.add_chain(table, &desired.chain);
                self.add_rules(desired);
            }
            Some(_) => self.rules(desired, observed),
        }
    }

    fn rules(&mut self, desired: &Desired, observed: &Observed) {
        let found = observed.rules_of(CHAIN).count();
        let wanted = desired.rules.len();
        let same = observed.rules_of(CHAIN).zip(&desired.rules).all(|(found, wanted)| found.same_definition(wanted));
        if found != wanted || !same {
            self.changes.push(Change::ReplaceRules { found, wanted });
            self.switch.flush_chain(desired.table.reference(), CHAIN);
            self.add_rules(desired);
        }
    }

    fn add_rules(&mut self, desired: &Desired) {
        for rule in &desired.rules {
            self.switch.add_rule(desired.table.reference(), rule);
        }
    }

    /// Flushes strangers' chains together with the switch, so that they neither treat packets nor hold on to anything, and
    /// deletes afterwards: sets before the chains that a map's elements may jump to.
    fn remove_strangers(&mut self, desired: &Desired, observed: &Observed) {
        let table = desired.table.reference();
        for found in &observed.sets {
            if !desired.sets.iter().any(|wanted| wanted.set.name == found.set.name) {
                self.remove("set", &found.set.name);
                self.retire.delete_set(table, &found.set.name);
            }
        }
        for chain in observed.chains.iter().filter(|chain| chain.name != CHAIN) {
            self.remove("chain", &chain.name);
            // A transaction that changes nothing makes no generation, and the next one would be taken for stale.
            if observed.rules_of(&chain.name).next().is_some() {
                self.switch.flush_chain(table, &chain.name);
            }
            self.retire.delete_chain(table, &chain.name);
        }
        for object in &observed.objects {
            if object.kind != ObjectKind::COUNTER || !desired.counters.contains(&object.name) {
                self.remove("object", &object.name);
                self.retire.delete_object(table, object.kind, &object.name);
            }
        }
        for flowtable in &observed.flowtables {
            self.remove("flowtable", &flowtable.name);
            self.retire.delete_flowtable(table, &flowtable.name);
        }
    }

    fn remove(&mut self, kind: &'static str, name: &str) {
        self.changes.push(Change::Remove { kind, name: name.to_owned() });
    }
}

/// Why the table has to be made anew, if it has to.
fn cannot_change_in_place(desired: &Desired, observed: &Observed, flags: TableFlags) -> Option<String> {
    // A table without owner takes one, and a new process takes over what its predecessor left with `persist`; nothing else.
    let adopts = desired.table.flags == PROTECTED && flags == TableFlags::PERSIST;
    if (flags.0 ^ desired.table.flags.0) & PROTECTED.0 != 0 && !adopts {
        return Some("owner flags differ".to_owned());
    }
    let differs = |wanted: &&FilledSet| {
        let found = observed.sets.iter().find(|found| found.set.name == wanted.set.name);
        found.is_some_and(|found| !is_same_set(&found.set, &wanted.set))
    };
    desired.sets.iter().find(differs).map(|wanted| format!("set {} has another type", wanted.set.name))
}

/// Whether packets reach the chain in the same way.
fn same_base(found: &Chain, wanted: &Chain) -> bool {
    let mut found = found.clone();
    found.userdata.clone_from(&wanted.userdata);
    found.same_definition(wanted)
}

fn zero(name: &str) -> Counter {
    Counter { name: name.to_owned(), packets: 0, bytes: 0 }
}

/// What only `wanted` holds and what only `found` holds; both ascending and without duplicates.
pub(super) fn difference(wanted: &[Interval], found: &[Interval]) -> (Vec<Interval>, Vec<Interval>) {
    let (mut missing, mut unwanted) = (Vec::new(), Vec::new());
    let (mut wanted, mut found) = (wanted.iter().peekable(), found.iter().peekable());
    loop {
        match (wanted.peek(), found.peek()) {
            (Some(want), Some(have)) if want == have => {
                wanted.next();
                found.next();
            }
            (Some(want), Some(have)) if want < have => missing.extend(wanted.next().copied()),
            (_, Some(_)) => unwanted.extend(found.next().copied()),
            (Some(_), None) => missing.extend(wanted.next().copied()),
            (None, None) => return (missing, unwanted),
        }
    }
}

impl Change {
    /// What kind of object the change is about: the value of the label `kind` where drift is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Change::AddTable | Change::RebuildTable(_) | Change::SetTableFlags(_) => "table",
            Change::AddCounter(_) => "counter",
            Change::AddSet { .. } => "set",
            Change::ChangeElements { .. } => "element",
            Change::AddChain | Change::ReplaceChain => "chain",
            Change::ReplaceRules { .. } => "rule",
            Change::Remove { .. } => "foreign",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::AddTable => f.write_str("table missing"),
            Change::RebuildTable(why) => write!(f, "table to be rebuilt: {why}"),
            Change::SetTableFlags(found) => write!(f, "table has flags {:#x}", found.0),
            Change::AddCounter(name) => write!(f, "counter {name} missing"),
            Change::AddSet { set, elements } => write!(f, "set {set} missing ({elements} elements)"),
            Change::ChangeElements { set, missing, unwanted } => {
                write!(f, "set {set}: {missing} elements missing, {unwanted} unwanted")
            }
            Change::AddChain => write!(f, "chain {CHAIN} missing"),
            Change::ReplaceChain => write!(f, "chain {CHAIN} has another type, hook, priority or policy"),
            Change::ReplaceRules { found, wanted } if found == wanted => write!(f, "other rules in chain {CHAIN}"),
            Change::ReplaceRules { found, wanted } => write!(f, "{found} rules in chain {CHAIN} instead of {wanted}"),
            Change::Remove { kind, name } => write!(f, "{kind} {name} does not belong there"),
        }
    }
}

#[cfg(test)]
mod tests;
