//! Events into nodes: anchors, merges, keys and the limits on depth and aliases.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::diagnostic::DiagnosticKind;
use crate::value::{Document, Fault, MAX_DEPTH, Member, Node, NodeId, Nodes, Order, Value};
use crate::yaml::scalar::{ScalarError, Tag, resolve};

/// A document that is being built from events.
pub(super) struct Builder<'text> {
    content: &'text str,
    nodes: Nodes,
    open: Vec<Open>,
    root: Option<NodeId>,
    anchors: HashMap<usize, Finished>,
    effort: Effort,
    /// Where the scalars stand, for the check of what is between them.
    scalars: Vec<Range<usize>>,
    cursor: Cursor,
}

/// A list or mapping whose end has not come.
struct Open {
    at: usize,
    anchor: usize,
    content: OpenContent,
    size: u64,
    height: usize,
}

enum OpenContent {
    List(Vec<NodeId>),
    Map { members: Vec<Member>, key: Option<Key> },
}

/// The key whose value comes next.
struct Key {
    name: String,
    at: usize,
    merge: bool,
}

/// A node that is complete, with all that it holds.
#[derive(Clone, Copy)]
struct Finished {
    id: NodeId,
    /// Nodes in it, each alias counted with what it stands for.
    size: u64,
    /// Levels of nesting in it, aliases included.
    height: usize,
    /// Whether it was written as `<<` without quotes or a tag of somebody's own.
    is_merge_sign: bool,
}

impl<'text> Builder<'text> {
    pub fn new(content: &'text str) -> Builder<'text> {
        Builder {
            content,
            nodes: Nodes::default(),
            open: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            effort: Effort::default(),
            scalars: Vec::new(),
            cursor: Cursor::default(),
        }
    }

    /// Whether the top value has ended.
    pub fn is_complete(&self) -> bool {
        self.root.is_some()
    }

    pub fn scalars(&self) -> &[Range<usize>] {
        &self.scalars
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
        self.effort.spend(1);
        // An empty plain scalar is written with no character; its place is that of its neighbour.
        if is_quoted || !text.is_empty() {
            self.scalars.push(at..end);
        }
        let value = resolve(text, kind).map_err(|error| self.scalar_fault(&error, at..end))?;
        let id = self.push(at, end, value)?;
        self.finish_node(Finished { id, size: 1, height: 0, is_merge_sign }, anchor, at..end)
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
        self.finish_node(Finished { size: target.size.saturating_add(1), is_merge_sign: false, ..target }, 0, at..end)
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
        self.open.push(Open { at, anchor, content, size: 1, height: 1 });
        Ok(())
    }

    /// Ends the innermost list or mapping.
    pub fn end(&mut self, end: usize) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.content {
            OpenContent::List(items) => Value::List(items),
            OpenContent::Map { members, .. } => Value::Map(members),
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
        parent.size = parent.size.saturating_add(node.size);
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
    fn key_name(&self, id: NodeId) -> Result<String, Fault> {
        let node = self.nodes.get(id);
        match &node.value {
            Value::String(name) => Ok(name.clone()),
            Value::Bool(value) => Ok(value.to_string()),
            Value::Number(Some(integer)) => Ok(integer.to_string()),
            Value::Number(None) => Ok(self.slice(node.at..node.end)),
            Value::Null | Value::List(_) | Value::Map(_) => Err(self.fault_at(
                node.at..node.end,
                &format!("{} cannot be a key", node.value.type_name()),
                "write a text before the colon, in quotes if it is special to YAML",
            )),
        }
    }

    /// A key without a question mark stands in one line with its colon, and not too far from it.
    fn check_key_line(&mut self, span: Range<usize>) -> Result<(), Fault> {
        const LONGEST: usize = 1024;
        let (Some(start), Some(end)) =
            (self.cursor.advance(self.content, span.start), self.cursor.advance(self.content, span.end))
        else {
            return Ok(());
        };
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
            node.at..node.end,
            "<< takes a mapping or a list of mappings",
            "let it refer to a mapping, or write \"<<\" in quotes for a key of this name",
        ))
    }

    fn push(&mut self, at: usize, end: usize, value: Value) -> Result<NodeId, Fault> {
        let id = self.nodes.push(Node { at, end, value });
        id.ok_or_else(|| self.fault_at(at..at, "the file has more than 500,000 values", "make it smaller"))
    }

    fn too_deep(&self, at: usize) -> Fault {
        self.fault_at(at..at, "lists and mappings are nested deeper than 10,000 levels", "remove the nesting")
    }

    fn fault_at(&self, span: Range<usize>, reason: &str, remedy: &str) -> Fault {
        let value = if span.is_empty() { None } else { Some(self.slice(span.clone())) };
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

    fn slice(&self, span: Range<usize>) -> String {
        self.content.chars().skip(span.start).take(span.len()).collect()
    }
}

/// How much of the decoding would be repetition through aliases, by go-yaml's measure.
#[derive(Default)]
struct Effort {
    total: u64,
    repeated: u64,
}

impl Effort {
    fn spend(&mut self, nodes: u64) {
        self.total = self.total.saturating_add(nodes);
    }

    /// Counts an alias and, once more, the nodes it stands for.
    fn repeat(&mut self, nodes: u64) {
        self.spend(nodes.saturating_add(1));
        self.repeated = self.repeated.saturating_add(nodes);
    }

    /// Small documents may consist of repetition nearly whole, from four million nodes on only a tenth may be.
    fn is_excessive(&self) -> bool {
        const FEW: f64 = 400_000.0;
        const MANY: f64 = 4_000_000.0;
        let total = self.total as f64;
        let allowed = 0.99 - 0.89 * ((total.clamp(FEW, MANY) - FEW) / (MANY - FEW));
        self.repeated > 100 && self.total > 1_000 && self.repeated as f64 / total > allowed
    }
}

/// A byte of the content and its character, moved forward only, so that a whole document is counted once.
#[derive(Default)]
struct Cursor {
    byte: usize,
    character: usize,
}

impl Cursor {
    /// The byte of a character; none for one that has been passed.
    fn advance(&mut self, content: &str, character: usize) -> Option<usize> {
        let ahead = character.checked_sub(self.character)?;
        let rest = &content[self.byte..];
        self.byte += rest.char_indices().nth(ahead).map_or(rest.len(), |(byte, _)| byte);
        self.character = character;
        Some(self.byte)
    }
}
