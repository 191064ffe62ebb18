//! One config file, read by the table of keys: what it sets, and what is wrong with it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cidr::{Cidr, CidrError};
use crate::config::findings::{Finding, Findings};
use crate::config::keys::{self, Key};
use crate::config::{ListedCidr, Origin, Source};
use crate::diagnostic::{DiagnosticKind, Place};
use crate::duration::GoDuration;
use crate::value::text::Text;
use crate::value::{Document, Fault, Member, NodeId, Value};
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
            Reader { text: &text, document: &document, findings, path: String::new() }.read(&mut config);
        }
        Err(Fault { kind, at, value, reason, remedy }) => {
            findings.error(Finding { kind, place: Some(text.place(at)), path: String::new(), value, reason, remedy });
        }
    }
    config
}

/// Takes typed values out of a document.
pub(super) struct Reader<'file> {
    text: &'file Text,
    document: &'file Document,
    findings: &'file mut Findings,
    /// The key that is being read, as written in the file.
    path: String,
}

impl Reader<'_> {
    fn read(&mut self, config: &mut FileConfig) {
        let root = self.document.root();
        match &root.value {
            Value::Null => {}
            Value::Map(_) => {
                self.remark_on_keys();
                for Member { key: name, value, .. } in self.document.members() {
                    if let Some(Key { read, .. }) = keys::find(&name) {
                        self.path = name;
                        read(self, value, config);
                    }
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::List(_) => {
                let reason = format!("a config is a mapping of keys to values, and this is {}", root.value.type_name());
                self.reject_root(&reason);
            }
        }
        if let Some(at) = self.document.ignored_at {
            self.path.clear();
            self.findings.warning(Finding {
                kind: DiagnosticKind::LaterDocument,
                place: Some(self.text.place(at)),
                path: String::new(),
                value: None,
                reason: "only the first YAML document is read; everything from here on is ignored".to_owned(),
                remedy: "put all keys into one document, or remove this".to_owned(),
            });
        }
    }

    fn reject_root(&mut self, reason: &str) {
        let root = self.document.root();
        self.findings.error(Finding {
            kind: DiagnosticKind::WrongType,
            place: Some(self.text.place(root.at)),
            path: String::new(),
            value: self.shown(&root.value, root.at..root.end),
            reason: reason.to_owned(),
            remedy: "write lines of the form \"key: value\", with a blank behind the colon".to_owned(),
        });
    }

    /// Warns about keys that mean nothing and about keys that mean the same.
    fn remark_on_keys(&mut self) {
        let mut winners: HashMap<&str, usize> = HashMap::new();
        for member in self.document.members() {
            match keys::find(&member.key) {
                Some(key) => {
                    winners.insert(key.name, member.key_at);
                }
                None => self.remark_on_unknown(&member),
            }
        }
        for member in self.document.written_members() {
            let Some(key) = keys::find(&member.key).filter(|_| !member.merge) else { continue };
            if let Some(&winner) = winners.get(key.name).filter(|&&winner| winner != member.key_at) {
                let winner = self.text.place(winner);
                self.findings.warning(Finding {
                    kind: DiagnosticKind::DuplicateKey,
                    place: Some(self.text.place(member.key_at)),
                    path: member.key.clone(),
                    value: None,
                    reason: format!("{} is set again in line {}, which counts", key.name, winner.line),
                    remedy: "keep one of them".to_owned(),
                });
            }
        }
    }

    fn remark_on_unknown(&mut self, member: &Member) {
        let remedy = match keys::nearest(&member.key) {
            Some(known) => format!("did you mean {known}?"),
            None => "remove it; the documentation lists the keys".to_owned(),
        };
        self.findings.warning(Finding {
            kind: DiagnosticKind::UnknownKey,
            place: Some(self.text.place(member.key_at)),
            path: member.key.clone(),
            value: None,
            reason: "this key is unknown and has no effect".to_owned(),
            remedy,
        });
    }

    /// Reads a boolean; null leaves the setting alone.
    pub fn boolean(&mut self, id: NodeId, setting: &mut Option<Setting<bool>>) {
        match &self.document.node(id).value {
            Value::Null => {}
            &Value::Bool(value) => *setting = Some(Setting { value, place: self.place(id) }),
            Value::String(_) => self.reject_type(id, "true or false", "write true or false, without quotes"),
            Value::Number(_) | Value::List(_) | Value::Map(_) => {
                self.reject_type(id, "true or false", "write true or false");
            }
        }
    }

    /// Reads an integer; null leaves the setting alone.
    pub fn integer(&mut self, id: NodeId, setting: &mut Option<Setting<i64>>) {
        const WANTED: &str = "an integer of 64 bits";
        match &self.document.node(id).value {
            Value::Null => {}
            &Value::Number(Some(value)) => *setting = Some(Setting { value, place: self.place(id) }),
            Value::String(_) => self.reject_type(id, WANTED, "write a decimal number, without quotes"),
            Value::Number(None) | Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                self.reject_type(id, WANTED, "write a decimal number without a fraction, like 64");
            }
        }
    }

    /// Reads a duration; null is as wrong as an empty string.
    pub fn duration(&mut self, id: NodeId, setting: &mut Option<Setting<GoDuration>>) {
        const WANTED: &str = "a duration, which is a string";
        let parsed = match &self.document.node(id).value {
            Value::Null => "".parse(),
            Value::String(text) => text.parse(),
            Value::Number(_) => return self.reject_type(id, WANTED, "put a unit behind the number, like 60s"),
            Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                return self.reject_type(id, WANTED, "write it like 60s or 1m30s");
            }
        };
        match parsed {
            Ok(value) => *setting = Some(Setting { value, place: self.place(id) }),
            Err(error) => {
                let finding = self.finding(id, DiagnosticKind::Duration, error.reason(), error.remedy().to_owned());
                self.findings.error(finding);
            }
        }
    }

    /// Reads a list of CIDRs; null is the empty list, with a warning, and replaces an earlier list.
    pub fn cidrs(&mut self, id: NodeId, setting: &mut Option<Setting<Vec<ListedCidr>>>) {
        let place = self.place(id);
        let value = match &self.document.node(id).value {
            Value::Null => {
                let finding = self.finding(
                    id,
                    DiagnosticKind::NullList,
                    "the key has no value, which means an empty list, not the default one".to_owned(),
                    "list CIDRs, write [] for an empty list, or remove the key".to_owned(),
                );
                self.findings.warning(finding);
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
        *setting = Some(Setting { value, place });
    }

    fn elements(&mut self, items: &[NodeId]) -> Vec<ListedCidr> {
        let key = self.path.clone();
        let mut listed = Vec::with_capacity(items.len());
        for (index, &id) in items.iter().enumerate() {
            match &self.document.node(id).value {
                Value::String(text) => match text.parse::<Cidr>() {
                    Ok(cidr) => {
                        listed.push(ListedCidr { cidr, text: text.clone(), origin: Origin::File(self.place(id)) });
                    }
                    Err(error) => {
                        self.path = format!("{key}[{index}]");
                        self.reject_cidr(id, &error);
                    }
                },
                Value::Null => {
                    self.path = format!("{key}[{index}]");
                    self.reject_null_element(id);
                }
                Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                    self.path = format!("{key}[{index}]");
                    self.reject_type(
                        id,
                        "a CIDR, which is a string",
                        "write ADDRESS/PREFIX, like 10.0.0.0/8; in quotes if it ends in a colon",
                    );
                }
            }
        }
        self.path = key;
        listed
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
        let finding = self.finding(id, kind, error.reason(), error.remedy());
        self.findings.element_error(finding);
    }

    fn reject_null_element(&mut self, id: NodeId) {
        let finding = self.finding(
            id,
            DiagnosticKind::NullElement,
            "the element has no value".to_owned(),
            "write a CIDR behind the dash, or remove the element".to_owned(),
        );
        self.findings.element_error(finding);
    }

    fn reject_type(&mut self, id: NodeId, wanted: &str, remedy: &str) {
        let reason = format!("this takes {wanted}, and there is {}", self.document.node(id).value.type_name());
        let finding = self.finding(id, DiagnosticKind::WrongType, reason, remedy.to_owned());
        self.findings.error(finding);
    }

    fn finding(&self, id: NodeId, kind: DiagnosticKind, reason: String, remedy: String) -> Finding {
        let node = self.document.node(id);
        let value = self.shown(&node.value, node.at..node.end);
        Finding { kind, place: Some(self.place(id)), path: self.path.clone(), value, reason, remedy }
    }

    fn place(&self, id: NodeId) -> Place {
        self.text.place(self.document.node(id).at)
    }

    /// A scalar as people would recognise it; lists and mappings are only named by type.
    fn shown(&self, value: &Value, span: std::ops::Range<usize>) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(self.text.slice(span).to_owned()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }
}
