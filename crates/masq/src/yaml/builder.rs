//! Events into nodes: anchors, merges, keys and the limits on depth and aliases.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::diagnostic::{DiagnosticKind, excerpt};
use crate::value::characters::Characters;
use crate::value::{Document, Fault, MAX_DEPTH, Member, Node, NodeId, Nodes, Order, Value};
use crate::yaml::scalar::{ScalarError, Tag, resolve};

/// A document that is being built from events.
pub(super) struct Builder<'text> {
    content: &'text str,
    characters: &'text Characters,
    nodes: Nodes,
    open: Vec<Open>,
    root: Option<NodeId>,
    anchors: HashMap<usize, Finished>,
    effort: Effort,
    /// Where the scalars stand, for the check of what is between them; none if there is nothing to check.
    scalars: Option<Vec<Range<usize>>>,
}

/// A list or mapping whose end has not come.
struct Open {
    at: usize,
    anchor: usize,
    content: OpenContent,
    size: Size,
    height: usize,
}

/// How much a node holds, each alias counted with what it stands for.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: u64,
    /// The bytes of its scalars.
    text: u64,
}

enum OpenContent {
    List(Vec<NodeId>),
    Map { members: Vec<Member>, key: Option<Key> },
}

/// The key whose value comes next.
struct Key {
    name: Box<str>,
    at: usize,
    merge: bool,
}

/// A node that is complete, with all that it holds.
#[derive(Clone, Copy)]
struct Finished {
    id: NodeId,
    size: Size,
    /// Levels of nesting in it, aliases included.
    height: usize,
    /// Whether it was written as `<<` without quotes or a tag of somebody's own.
    is_merge_sign: bool,
}

impl<'text> Builder<'text> {
    /// Starts on a document whose text is `content`. With `wants_scalars` it remembers where all scalars stand.
    pub fn new(content: &'text str, characters: &'text Characters, wants_scalars: bool) -> Builder<'text> {
        Builder {
            content,
            characters,
            nodes: Nodes::default(),
            open: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            effort: Effort::default(),
            scalars: wants_scalars.then(Vec::new),
        }
    }

    /// Whether the top value has ended.
    pub fn is_complete(&self) -> bool {
        self.root.is_some()
    }

    pub fn scalars(&self) -> Option<&[Range<usize>]> {
        self.scalars.as_deref()
    }

    /// Takes a scalar; `tag` is its full name.
    pub fn scalar(
        &mut self,
        text: Cow<'_, str>,
        is_quoted: bool,
        tag: Option<Cow<'_, str>>,
        anchor: usize,
        at: usize,
        end: usize,
    ) -> Result<(), Fault> {
        let is_merge_sign = text == "<<" && tag.as_deref().map_or(!is_quoted, |name| name == "tag:yaml.org,2002:merge");
        let kind = match (tag.as_deref(), is_quoted) {
            (Some(name), _) => Tag::named(name),
            (None, true) => Tag::String,
            (None, false) => Tag::None,
        };
        if !is_quoted && text.starts_with(['|', '>']) {
            let reason = "a text within brackets cannot begin with | or >";
            return Err(self.fault_at(at..end, reason, "put the text in quotes"));
        }
        let size = Size { nodes: 1, text: text.len() as u64 };
        self.effort.spend(1);
        // An empty plain scalar is written with no character; its place is that of its neighbour.
        if let Some(scalars) = self.scalars.as_mut().filter(|_| is_quoted || !text.is_empty()) {
            scalars.push(at..end);
        }
        let value = resolve(text, kind).map_err(|error| self.scalar_fault(&error, at..end))?;
        let id = self.push(at, end, value)?;
        self.finish_node(Finished { id, size, height: 0, is_merge_sign }, anchor, at..end)
    }

    /// Takes an alias to an anchor.
    pub fn alias(&mut self, anchor: usize, at: usize, end: usize) -> Result<(), Fault> {
        let Some(&target) = self.anchors.get(&anchor) else {
            return Err(self.fault_at(
                at..end,
                "the anchor stands around its own alias, so that the value would hold itself",
                "remove the alias",
            ));
        };
        self.effort.repeat(target.size);
        if self.effort.is_excessive() {
            return Err(self.fault_at(
                at..end,
                "the aliases repeat too much of the document",
                "write the values out, or remove the aliases",
            ));
        }
        if self.open.len() + target.height > MAX_DEPTH {
            return Err(self.too_deep(at));
        }
        let size = target.size.and(Size { nodes: 1, text: 0 });
        self.finish_node(Finished { size, is_merge_sign: false, ..target }, 0, at..end)
    }

    pub fn begin_list(&mut self, anchor: usize, at: usize) -> Result<(), Fault> {
        self.begin(anchor, at, OpenContent::List(Vec::new()))
    }

    pub fn begin_map(&mut self, anchor: usize, at: usize) -> Result<(), Fault> {
        self.begin(anchor, at, OpenContent::Map { members: Vec::new(), key: None })
    }

    fn begin(&mut self, anchor: usize, at: usize, content: OpenContent) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.too_deep(at));
        }
        self.effort.spend(1);
        self.open.push(Open { at, anchor, content, size: Size { nodes: 1, text: 0 }, height: 1 });
        Ok(())
    }

    /// Ends the innermost list or mapping.
    pub fn end(&mut self, end: usize) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.content {
            OpenContent::List(items) => Value::List(items.into()),
            OpenContent::Map { members, .. } => Value::Map(members.into()),
        };
        let id = self.push(open.at, end, value)?;
        self.finish_node(
            Finished { id, size: open.size, height: open.height, is_merge_sign: false },
            open.anchor,
            open.at..end,
        )
    }

    /// The document; without any event an empty one.
    pub fn finish(mut self) -> Result<Document, Fault> {
        let root = match self.root {
            Some(root) => root,
            None => self.push(0, 0, Value::Null)?,
        };
        Ok(self.nodes.into_document(root, Order::Sorted))
    }

    /// Puts a finished node into what is around it: as an element, a key or a value.
    fn finish_node(&mut self, node: Finished, anchor: usize, span: Range<usize>) -> Result<(), Fault> {
        if anchor != 0 {
            self.anchors.insert(anchor, node);
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node.id);
            return Ok(());
        };
        parent.size = parent.size.and(node.size);
        parent.height = parent.height.max(node.height + 1);
        match &mut parent.content {
            OpenContent::List(items) => items.push(node.id),
            OpenContent::Map { members, key } => match key.take() {
                Some(Key { name, at, merge }) => {
                    members.push(Member { key: name, key_at: at, value: node.id, merge });
                    if merge {
                        return self.check_merge(node.id);
                    }
                }
                None => {
                    let name = self.key_name(node.id)?;
                    self.check_key_line(span.clone())?;
                    let at = span.start;
                    if let Some(Open { content: OpenContent::Map { key, .. }, .. }) = self.open.last_mut() {
                        *key = Some(Key { name, at, merge: node.is_merge_sign });
                    }
                }
            },
        }
        Ok(())
    }

    /// The text that a key becomes on the reference's way through JSON.
    fn key_name(&self, id: NodeId) -> Result<Box<str>, Fault> {
        let node = self.nodes.get(id);
        match &node.value {
            Value::String(name) => Ok(name.clone()),
            Value::Bool(value) => Ok(value.to_string().into()),
            Value::Number(Some(integer)) => Ok(integer.to_string().into()),
            Value::Number(None) => Ok(excerpt(self.slice(node.span())).into()),
            Value::Null | Value::List(_) | Value::Map(_) => Err(self.fault_at(
                node.span(),
                &format!("{} cannot be a key", node.value.type_name()),
                "write a text before the colon, in quotes if it is special to YAML",
            )),
        }
    }

    /// A key without a question mark stands in one line with its colon, and not too far from it.
    fn check_key_line(&self, span: Range<usize>) -> Result<(), Fault> {
        const LONGEST: usize = 1024;
        let byte = |character| self.characters.byte(self.content, character);
        let (start, end) = (byte(span.start), byte(span.end));
        let behind = self.content[end..].trim_start_matches([' ', '\t', '\n', '\r']);
        let colon = self.content.len() - behind.len();
        let key = &self.content[start..colon];
        let is_explicit = self.content[..start].trim_end_matches([' ', '\t', '\n', '\r']).ends_with('?');
        if is_explicit
            || !behind.starts_with(':')
            || !(key.contains(['\n', '\r']) || key.chars().nth(LONGEST).is_some())
        {
            return Ok(());
        }
        Err(self.fault_at(
            span,
            "a key and its colon must stand in one line, at most 1,024 characters apart",
            "write the key in one line, or put \"? \" before it",
        ))
    }

    /// A merge takes a mapping or a list of mappings.
    fn check_merge(&self, id: NodeId) -> Result<(), Fault> {
        let node = self.nodes.get(id);
        let is_map = |id: &NodeId| matches!(self.nodes.get(*id).value, Value::Map(_));
        let fits = match &node.value {
            Value::Map(_) => true,
            Value::List(items) => items.iter().all(is_map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        if fits {
            return Ok(());
        }
        Err(self.fault_at(
            node.span(),
            "<< takes a mapping or a list of mappings",
            "let it refer to a mapping, or write \"<<\" in quotes for a key of this name",
        ))
    }

    fn push(&mut self, at: usize, end: usize, value: Value) -> Result<NodeId, Fault> {
        let id = self.nodes.push(Node::new(at..end, value));
        id.ok_or_else(|| self.fault_at(at..at, "the file has more than 250,000 values", "make it smaller"))
    }

    fn too_deep(&self, at: usize) -> Fault {
        self.fault_at(at..at, "lists and mappings are nested deeper than 10,000 levels", "remove the nesting")
    }

    fn fault_at(&self, span: Range<usize>, reason: &str, remedy: &str) -> Fault {
        let value = if span.is_empty() { None } else { Some(excerpt(self.slice(span.clone()))) };
        Fault {
            kind: DiagnosticKind::YamlSyntax,
            at: span.start,
            value,
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    fn scalar_fault(&self, error: &ScalarError, span: Range<usize>) -> Fault {
        match error {
            ScalarError::Mismatch { tag } => {
                let reason = format!("the text is not {tag}, which its tag asks for");
                self.fault_at(span, &reason, "remove the tag, or mend the text")
            }
            ScalarError::NotFinite => Fault {
                kind: DiagnosticKind::JsonValue,
                ..self.fault_at(
                    span,
                    "infinity and not-a-number are no values here",
                    "write a finite number, or quotes around a text",
                )
            },
        }
    }

    fn slice(&self, span: Range<usize>) -> &'text str {
        self.characters.slice(self.content, span)
    }
}

impl Size {
    fn and(self, other: Size) -> Size {
        Size { nodes: self.nodes.saturating_add(other.nodes), text: self.text.saturating_add(other.text) }
    }
}

/// How much of the decoding would be repetition through aliases: of nodes by go-yaml's measure, of text by one of ours.
#[derive(Default)]
struct Effort {
    total: u64,
    repeated: Size,
}

impl Effort {
    fn spend(&mut self, nodes: u64) {
        self.total = self.total.saturating_add(nodes);
    }

    /// Counts an alias and, once more, what it stands for.
    fn repeat(&mut self, size: Size) {
        self.spend(size.nodes.saturating_add(1));
        self.repeated = self.repeated.and(size);
    }

    /// Small documents may consist of repetition nearly whole, from four million nodes on only a tenth may be.
    fn is_excessive(&self) -> bool {
        const FEW: f64 = 400_000.0;
        const MANY: f64 = 4_000_000.0;
        /// Bytes; go-yaml shares a text that is repeated and need not count it.
        const MOST_TEXT: u64 = 4 << 20;
        let total = self.total as f64;
        let allowed = 0.99 - 0.89 * ((total.clamp(FEW, MANY) - FEW) / (MANY - FEW));
        let repeats_nodes = self.repeated.nodes > 100 && self.total > 1_000;
        self.repeated.text > MOST_TEXT || repeats_nodes && self.repeated.nodes as f64 / total > allowed
    }
}
