//! A batch: the operations of one transaction, as a value that can be compared and printed.

use crate::object::{Chain, Counter, Interval, ObjectKind, ProtocolFamily, Rule, Set, Table, TableRef};

/// A table by family and name, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) family: ProtocolFamily,
    pub(crate) name: String,
}

/// One change of the ruleset; made by the methods of [`Batch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub(crate) table: TableName,
    pub(crate) change: Change,
}

/// What an operation does within its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    AddTable(Table),
    DeleteTable,
    AddChain(Chain),
    DeleteChain { chain: String },
    FlushChain { chain: String },
    AddRule(Rule),
    InsertRule { rule: Rule, before: Option<u64> },
    DeleteRule { chain: String, handle: u64 },
    AddSet(Set),
    DeleteSet { set: String },
    FlushSet { set: String },
    AddElements { set: Set, intervals: Vec<Interval> },
    DeleteElements { set: Set, intervals: Vec<Interval> },
    AddCounter(Counter),
    DeleteObject { kind: ObjectKind, name: String },
    DeleteFlowtable { name: String },
}

/// The operations of one transaction, in order: the kernel applies all of them or none.
///
/// `Display` prints them as `nft -f` would read them; the alternate form (`{:#}`) shortens long
/// element lists for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    operations: Vec<Operation>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// The operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Adds all operations of `other` after those of this batch.
    pub fn append(&mut self, other: Self) {
        self.operations.extend(other.operations);
    }

    /// Adds an operation of another batch after those of this one.
    pub fn append_operation(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Adds a table; one of the same name stays, with the new flags.
    pub fn add_table(&mut self, table: &Table) {
        self.push(table.reference(), Change::AddTable(table.clone()));
    }

    /// Deletes a table and all it holds.
    pub fn delete_table(&mut self, table: TableRef<'_>) {
        self.push(table, Change::DeleteTable);
    }

    /// Adds a chain; one of the same name stays, with the new policy. The hook and the priority of
    /// an existing chain cannot be changed.
    pub fn add_chain(&mut self, table: TableRef<'_>, chain: &Chain) {
        self.push(table, Change::AddChain(chain.clone()));
    }

    /// Deletes a chain, which must be empty of rules and jumped to by none.
    pub fn delete_chain(&mut self, table: TableRef<'_>, chain: &str) {
        self.push(table, Change::DeleteChain { chain: chain.to_owned() });
    }

    /// Deletes all rules of a chain.
    pub fn flush_chain(&mut self, table: TableRef<'_>, chain: &str) {
        self.push(table, Change::FlushChain { chain: chain.to_owned() });
    }

    /// Adds a rule at the end of its chain.
    pub fn add_rule(&mut self, table: TableRef<'_>, rule: &Rule) {
        self.push(table, Change::AddRule(rule.clone()));
    }

    /// Adds a rule before the one with the handle `before`, or else at the head of its chain.
    pub fn insert_rule(&mut self, table: TableRef<'_>, rule: &Rule, before: Option<u64>) {
        self.push(table, Change::InsertRule { rule: rule.clone(), before });
    }

    /// Deletes the rule with that handle.
    pub fn delete_rule(&mut self, table: TableRef<'_>, chain: &str, handle: u64) {
        self.push(table, Change::DeleteRule { chain: chain.to_owned(), handle });
    }

    /// Adds a set or a map; one of the same name must have the same definition, and stays.
    pub fn add_set(&mut self, table: TableRef<'_>, set: &Set) {
        self.push(table, Change::AddSet(set.clone()));
    }

    /// Deletes a set and its elements; no rule may read it.
    pub fn delete_set(&mut self, table: TableRef<'_>, set: &str) {
        self.push(table, Change::DeleteSet { set: set.to_owned() });
    }

    /// Deletes all elements of a set.
    pub fn flush_set(&mut self, table: TableRef<'_>, set: &str) {
        self.push(table, Change::FlushSet { set: set.to_owned() });
    }

    /// Adds elements to a set; of `set` the name, the flags, the key type and length are read.
    /// Intervals must be disjoint, from each other and from what the set holds: the kernel finds
    /// most overlaps, but not those with an interval that reaches to the top of the range.
    pub fn add_elements(&mut self, table: TableRef<'_>, set: &Set, intervals: &[Interval]) {
        if let Some(set) = elements_of(set, intervals) {
            self.push(table, Change::AddElements { set, intervals: intervals.to_vec() });
        }
    }

    /// Deletes elements of a set, which must be there exactly so.
    pub fn delete_elements(&mut self, table: TableRef<'_>, set: &Set, intervals: &[Interval]) {
        if let Some(set) = elements_of(set, intervals) {
            self.push(table, Change::DeleteElements { set, intervals: intervals.to_vec() });
        }
    }

    /// Adds a named counter with its first values; an existing one stays as it is.
    pub fn add_counter(&mut self, table: TableRef<'_>, counter: &Counter) {
        self.push(table, Change::AddCounter(counter.clone()));
    }

    /// Deletes a named counter, which no rule may read.
    pub fn delete_counter(&mut self, table: TableRef<'_>, name: &str) {
        self.delete_object(table, ObjectKind::COUNTER, name);
    }

    /// Deletes a named object, which no rule may read.
    pub fn delete_object(&mut self, table: TableRef<'_>, kind: ObjectKind, name: &str) {
        self.push(table, Change::DeleteObject { kind, name: name.to_owned() });
    }

    /// Deletes a flow table, which no rule may read.
    pub fn delete_flowtable(&mut self, table: TableRef<'_>, name: &str) {
        self.push(table, Change::DeleteFlowtable { name: name.to_owned() });
    }

    fn push(&mut self, (family, name): TableRef<'_>, change: Change) {
        let table = TableName { family, name: name.to_owned() };
        self.operations.push(Operation { table, change });
    }
}

/// The parts of a set that its elements depend on, or nothing when there are no elements: an
/// element message without elements would mean all of them.
fn elements_of(set: &Set, intervals: &[Interval]) -> Option<Set> {
    (!intervals.is_empty()).then(|| Set {
        name: set.name.clone(),
        flags: set.flags,
        key_type: set.key_type,
        key_len: set.key_len,
        ..Set::default()
    })
}
