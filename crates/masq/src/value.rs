//! A document as a flat list of nodes: what YAML and JSON have in common, each value with its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::slice;

use crate::diagnostic::DiagnosticKind;

pub(crate) mod characters;
pub(crate) mod text;

/// How deep lists and mappings may be nested: the limit of both of the reference's parsers.
pub(crate) const MAX_DEPTH: usize = 10_000;

/// How many values a document may have: more than twice a list of 100,000 CIDRs. The reference has no such limit, but some hundred
/// bytes of memory for each two bytes of a hostile file would add up.
pub(crate) const MAX_VALUES: usize = 250_000;

/// Why a text is no document, before it is told with the file's name.
#[derive(Debug)]
pub(crate) struct Fault {
    /// What kind of fault.
    pub kind: DiagnosticKind,
    /// The index of the character where it shows.
    pub at: usize,
    /// The text that is wrong, where there is one.
    pub value: Option<String>,
    /// Why it is wrong.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

/// The index of a node in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

/// One value and where it stands in the text.
#[derive(Debug)]
pub(crate) struct Node {
    /// Narrow, since a document has many nodes; a text of four billion characters would not be told its places right.
    at: u32,
    end: u32,
    /// What it is.
    pub value: Value,
}

impl Node {
    /// A value that stands at these characters.
    pub fn new(span: Range<usize>, value: Value) -> Node {
        let narrow = |character| u32::try_from(character).unwrap_or(u32::MAX);
        Node { at: narrow(span.start), end: narrow(span.end), value }
    }

    /// The index of its first character.
    pub fn at(&self) -> usize {
        self.at as usize
    }

    /// The characters that it is made of.
    pub fn span(&self) -> Range<usize> {
        self.at()..self.end as usize
    }
}

/// What a node is, after scalars have been resolved.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A number; the integer is absent where the reference's decoder refuses it as one.
    Number(Option<i64>),
    String(Box<str>),
    List(Box<[NodeId]>),
    Map(Box<[Member]>),
}

impl Value {
    /// What people call the type, with its article.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// The members of a mapping; none of anything else.
    fn members(&self) -> &[Member] {
        match self {
            Value::Map(members) => members,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::List(_) => &[],
        }
    }
}

/// One `key: value` of a mapping.
#[derive(Debug)]
pub(crate) struct Member {
    /// The key as text.
    pub key: Box<str>,
    /// The index of the key's first character.
    pub key_at: usize,
    /// The value.
    pub value: NodeId,
    /// Whether this is a YAML merge (`<<`), whose value's members count as members of this mapping.
    pub merge: bool,
}

/// A parsed document. Aliases share nodes and nothing is nested in memory, so that neither a deep document can overflow the
/// stack nor an alias multiply its target.
#[derive(Debug)]
pub(crate) struct Document {
    nodes: Vec<Node>,
    root: NodeId,
    /// Where text begins that the parser was told to ignore.
    pub ignored_at: Option<usize>,
    order: Order,
}

/// In which order the reference decodes the members of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As written, duplicates one after another (JSON).
    Written,
    /// By the bytes of the key, and of equal keys only the last (YAML).
    Sorted,
}

impl Document {
    pub fn new(nodes: Vec<Node>, root: NodeId, order: Order) -> Document {
        Document { nodes, root, ignored_at: None, order }
    }

    pub fn root(&self) -> &Node {
        self.node(self.root)
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The members of the top mapping in the order of decoding, merges resolved.
    pub fn members(&self) -> Vec<&Member> {
        match self.order {
            Order::Written => self.written_members().iter().collect(),
            Order::Sorted => self.merged(self.written_members()),
        }
    }

    /// The members of the top mapping as written, for remarks on duplicates.
    pub fn written_members(&self) -> &[Member] {
        self.root().value.members()
    }

    /// Resolves merges, and of equal keys keeps the one that comes last, merged or not. The parser has bounded how much aliases
    /// may repeat before anything gets here.
    fn merged<'document>(&'document self, written: &'document [Member]) -> Vec<&'document Member> {
        let mut last: BTreeMap<&str, &Member> = BTreeMap::new();
        let mut pending: Vec<slice::Iter<'_, Member>> = vec![written.iter()];
        while let Some(members) = pending.last_mut() {
            let Some(member) = members.next() else {
                pending.pop();
                continue;
            };
            if !member.merge {
                last.insert(&member.key, member);
                continue;
            }
            let merged = &self.node(member.value).value;
            let maps = if let Value::List(maps) = merged { &maps[..] } else { slice::from_ref(&member.value) };
            // The first of several mappings wins, therefore it is on the bottom of the stack and comes last.
            pending.extend(maps.iter().map(|&id| self.node(id).value.members().iter()));
        }
        last.into_values().collect()
    }
}

/// The nodes of a document that is being read.
#[derive(Debug, Default)]
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    /// Adds a node; none when the document has [`MAX_VALUES`] of them.
    pub fn push(&mut self, node: Node) -> Option<NodeId> {
        let id = u32::try_from(self.0.len()).ok().filter(|_| self.0.len() < MAX_VALUES)?;
        self.0.push(node);
        Some(NodeId(id))
    }

    pub fn get(&self, id: NodeId) -> &Node {
        &self.0[id.0 as usize]
    }

    pub fn into_document(self, root: NodeId, order: Order) -> Document {
        Document::new(self.0, root, order)
    }
}
