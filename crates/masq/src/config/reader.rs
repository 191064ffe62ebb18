//! One config file, read by the table of keys: what it sets, and what is wrong with it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::cidr::{Cidr, CidrError};
use crate::config::findings::{Finding, Findings};
use crate::config::keys;
use crate::config::{ListedCidr, Origin, Source};
use crate::diagnostic::{DiagnosticKind, Place, excerpt};
use crate::duration::GoDuration;
use crate::value::text::Text;
use crate::value::{Document, Fault, Member, Node, NodeId, Value};
use crate::{json, yaml};

/// What one file sets; a key that is absent or null sets nothing.
#[derive(Debug, Default)]
pub(super) struct FileConfig {
    pub non_masquerade_cidrs: Option<Setting<Vec<ListedCidr>>>,
    pub cidr_limit: Option<Setting<i64>>,
    pub masq_link_local: Option<Setting<bool>>,
    pub masq_link_local_ipv6: Option<Setting<bool>>,
    pub resync_interval: Option<Setting<GoDuration>>,
}

/// A value and where it is set.
#[derive(Debug, Clone)]
pub(super) struct Setting<T> {
    pub value: T,
    pub place: Place,
}

/// Reads one file. What is wrong is told to `findings`; the rest of the file is read on, so that one look shows everything.
pub(super) fn read_file(source: &Source, findings: &mut Findings) -> FileConfig {
    let text = Text::decode(Arc::from(source.name.as_str()), &source.bytes);
    let mut config = FileConfig::default();
    match if text.is_json() { json::parse(&text) } else { yaml::parse(&text) } {
        Ok(document) => {
            let file = File { text: &text, document: &document };
            Reader { file, findings, path: Path { key: "", element: None } }.read(&mut config);
        }
        Err(Fault { kind, at, value, reason, remedy }) => {
            let place = Some(text.place(at));
            findings.error(|| Finding { kind, place, path: String::new(), value, reason, remedy });
        }
    }
    config
}

/// Takes typed values out of a document.
pub(super) struct Reader<'file> {
    file: File<'file>,
    findings: &'file mut Findings,
    path: Path<'file>,
}

/// A text and what it says.
#[derive(Clone, Copy)]
struct File<'file> {
    text: &'file Text,
    document: &'file Document,
}

/// What is being read: a key as written in the file, or an element of its list.
#[derive(Clone, Copy)]
struct Path<'file> {
    key: &'file str,
    element: Option<usize>,
}

impl<'file> Reader<'file> {
    fn read(&mut self, config: &mut FileConfig) {
        let File { text, document } = self.file;
        let root = document.root();
        match &root.value {
            Value::Null => {}
            Value::Map(_) => {
                let members = document.members();
                self.remark_on_keys(&members);
                for Member { key: name, value, .. } in members {
                    if let Some(key) = keys::find(name) {
                        self.path.key = name;
                        (key.read)(self, *value, config);
                    }
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::List(_) => self.reject_root(root),
        }
        if let Some(at) = document.ignored_at {
            self.findings.warning(|| Finding {
                kind: DiagnosticKind::LaterDocument,
                place: Some(text.place(at)),
                path: String::new(),
                value: None,
                reason: "only the first YAML document is read; everything from here on is ignored".to_owned(),
                remedy: "put all keys into one document, or remove this".to_owned(),
            });
        }
    }

    fn reject_root(&mut self, root: &Node) {
        self.findings.error(|| Finding {
            kind: DiagnosticKind::WrongType,
            place: Some(self.file.text.place(root.at())),
            path: String::new(),
            value: self.file.shown(root),
            reason: format!("a config is a mapping of keys to values, and this is {}", root.value.type_name()),
            remedy: "write lines of the form \"key: value\", with a blank behind the colon".to_owned(),
        });
    }

    /// Warns about keys that mean nothing and about keys that mean the same.
    fn remark_on_keys(&mut self, members: &[&Member]) {
        let File { text, document } = self.file;
        let mut winners: HashMap<&str, usize> = HashMap::new();
        for member in members {
            match keys::find(&member.key) {
                Some(key) => {
                    winners.insert(key.name, member.key_at);
                }
                None => self.findings.unknown_key(|| unknown_key(text, member)),
            }
        }
        for member in document.written_members() {
            let Some(key) = keys::find(&member.key).filter(|_| !member.merge) else { continue };
            if let Some(&winner) = winners.get(key.name).filter(|&&winner| winner != member.key_at) {
                self.findings.warning(|| Finding {
                    kind: DiagnosticKind::DuplicateKey,
                    place: Some(text.place(member.key_at)),
                    path: member.key.to_string(),
                    value: None,
                    reason: format!("{} is set again in line {}, which counts", key.name, text.place(winner).line),
                    remedy: "keep one of them".to_owned(),
                });
            }
        }
    }

    /// Reads a boolean; null leaves the setting alone.
    pub fn boolean(&mut self, id: NodeId, setting: &mut Option<Setting<bool>>) {
        match self.file.value(id) {
            Value::Null => {}
            &Value::Bool(value) => *setting = Some(Setting { value, place: self.file.place(id) }),
            Value::String(_) => self.reject_type(id, "true or false", "write true or false, without quotes"),
            Value::Number(_) | Value::List(_) | Value::Map(_) => {
                self.reject_type(id, "true or false", "write true or false");
            }
        }
    }

    /// Reads an integer; null leaves the setting alone.
    pub fn integer(&mut self, id: NodeId, setting: &mut Option<Setting<i64>>) {
        const WANTED: &str = "an integer of 64 bits";
        match self.file.value(id) {
            Value::Null => {}
            &Value::Number(Some(value)) => *setting = Some(Setting { value, place: self.file.place(id) }),
            Value::String(_) => self.reject_type(id, WANTED, "write a decimal number, without quotes"),
            Value::Number(None) | Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                self.reject_type(id, WANTED, "write a decimal number without a fraction, like 64");
            }
        }
    }

    /// Reads a duration; null is as wrong as an empty string.
    pub fn duration(&mut self, id: NodeId, setting: &mut Option<Setting<GoDuration>>) {
        const WANTED: &str = "a duration, which is a string";
        let parsed = match self.file.value(id) {
            Value::Null => "".parse(),
            Value::String(text) => text.parse(),
            Value::Number(_) => return self.reject_type(id, WANTED, "put a unit behind the number, like 60s"),
            Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                return self.reject_type(id, WANTED, "write it like 60s or 1m30s");
            }
        };
        match parsed {
            Ok(value) => *setting = Some(Setting { value, place: self.file.place(id) }),
            Err(error) => self.reject(id, DiagnosticKind::Duration, || (error.reason(), error.remedy().to_owned())),
        }
    }

    /// Reads a list of CIDRs; null is the empty list, with a warning, and replaces an earlier list.
    pub fn cidrs(&mut self, id: NodeId, setting: &mut Option<Setting<Vec<ListedCidr>>>) {
        let value = match self.file.value(id) {
            Value::Null => {
                self.warn_of_no_list(id);
                Vec::new()
            }
            Value::List(items) => self.elements(items),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Map(_) => {
                return self.reject_type(
                    id,
                    "a list of CIDRs",
                    "write each CIDR on a line of its own below the key, like - 10.0.0.0/8",
                );
            }
        };
        *setting = Some(Setting { value, place: self.file.place(id) });
    }

    fn elements(&mut self, items: &[NodeId]) -> Vec<ListedCidr> {
        let mut listed = Vec::new();
        for (index, &id) in items.iter().enumerate() {
            self.path.element = Some(index);
            match self.file.value(id) {
                Value::String(text) => match text.parse::<Cidr>() {
                    Ok(cidr) => {
                        let origin = Origin::File(self.file.place(id));
                        listed.push(ListedCidr { cidr, text: text.to_string(), origin });
                    }
                    Err(error) => self.reject_cidr(id, &error),
                },
                Value::Null => self.reject(id, DiagnosticKind::NullElement, || {
                    let remedy = "write a CIDR behind the dash, or remove the element";
                    ("the element has no value".to_owned(), remedy.to_owned())
                }),
                Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => self.reject_type(
                    id,
                    "a CIDR, which is a string",
                    "write ADDRESS/PREFIX, like 10.0.0.0/8; in quotes if it ends in a colon",
                ),
            }
        }
        self.path.element = None;
        listed
    }

    fn warn_of_no_list(&mut self, id: NodeId) {
        let reason = "the key has no value, which means an empty list, not the default one".to_owned();
        let remedy = "list CIDRs, write [] for an empty list, or remove the key".to_owned();
        self.findings.warning(|| self.file.finding(id, self.path, DiagnosticKind::NullList, reason, remedy));
    }

    fn reject_cidr(&mut self, id: NodeId, error: &CidrError) {
        let kind = match error {
            CidrError::Unaligned { .. } => DiagnosticKind::CidrUnaligned,
            CidrError::NotACidr
            | CidrError::NoPrefix { .. }
            | CidrError::BadAddress
            | CidrError::BadPrefix { .. }
            | CidrError::PrefixTooLong { .. }
            | CidrError::LeadingZero { .. }
            | CidrError::Ipv4Mapped => DiagnosticKind::CidrParse,
        };
        self.reject(id, kind, || (error.reason(), error.remedy()));
    }

    fn reject_type(&mut self, id: NodeId, wanted: &str, remedy: &str) {
        let found = self.file.value(id).type_name();
        self.reject(id, DiagnosticKind::WrongType, || {
            (format!("this takes {wanted}, and there is {found}"), remedy.to_owned())
        });
    }

    /// Tells that a value is wrong; `explain` gives the reason and the remedy.
    fn reject(&mut self, id: NodeId, kind: DiagnosticKind, explain: impl FnOnce() -> (String, String)) {
        let finding = || {
            let (reason, remedy) = explain();
            self.file.finding(id, self.path, kind, reason, remedy)
        };
        match self.path.element {
            None => self.findings.error(finding),
            Some(_) => self.findings.element_error(finding),
        }
    }
}

fn unknown_key(text: &Text, member: &Member) -> Finding {
    let remedy = match keys::nearest(&member.key) {
        Some(known) => format!("did you mean {known}?"),
        None => "remove it; the documentation lists the keys".to_owned(),
    };
    Finding {
        kind: DiagnosticKind::UnknownKey,
        place: Some(text.place(member.key_at)),
        path: excerpt(&member.key),
        value: None,
        reason: "this key is unknown and has no effect".to_owned(),
        remedy,
    }
}

impl<'file> File<'file> {
    fn value(self, id: NodeId) -> &'file Value {
        &self.document.node(id).value
    }

    fn place(self, id: NodeId) -> Place {
        self.text.place(self.document.node(id).at())
    }

    fn finding(self, id: NodeId, path: Path<'_>, kind: DiagnosticKind, reason: String, remedy: String) -> Finding {
        let value = self.shown(self.document.node(id));
        Finding { kind, place: Some(self.place(id)), path: path.to_string(), value, reason, remedy }
    }

    /// A scalar as people would recognise it; lists and mappings are only named by type.
    fn shown(self, node: &Node) -> Option<String> {
        match &node.value {
            Value::String(text) => Some(excerpt(text)),
            Value::Bool(_) | Value::Number(_) => Some(excerpt(self.text.slice(node.span()))),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            Some(index) => write!(f, "{}[{index}]", self.key),
            None => f.write_str(self.key),
        }
    }
}
