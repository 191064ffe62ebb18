//! A strict JSON parser that keeps places and reads as Go's `encoding/json` does.

use crate::diagnostic::DiagnosticKind;
use crate::value::text::Text;
use crate::value::{Document, Fault, MAX_DEPTH, Member, Node, NodeId, Nodes, Order, Value};

/// Reads the one JSON value that makes up the text.
///
/// # Errors
/// The text is not JSON, is nested deeper than 10,000 levels or goes on behind the value.
pub(crate) fn parse(text: &Text) -> Result<Document, Fault> {
    let mut parser =
        Parser { text: text.as_str(), byte: 0, counted: (0, 0), nodes: Nodes::default(), open: Vec::new() };
    let root = parser.document()?;
    Ok(parser.nodes.into_document(root, Order::Written))
}

struct Parser<'text> {
    text: &'text str,
    /// The byte to read next.
    byte: usize,
    /// A byte and the number of characters before it, so that each character is counted once.
    counted: (usize, usize),
    nodes: Nodes,
    /// The lists and objects around the current place; a stack of our own cannot overflow.
    open: Vec<Open>,
}

/// A list or an object whose end has not been read.
enum Open {
    List { at: usize, items: Vec<NodeId> },
    Object { at: usize, members: Vec<Member>, key: String, key_at: usize },
}

impl Parser<'_> {
    fn document(&mut self) -> Result<NodeId, Fault> {
        let root = loop {
            if let Some(value) = self.begin_value()?
                && let Some(root) = self.end_value(value)?
            {
                break root;
            }
        };
        self.skip_blanks();
        match self.peek() {
            None => Ok(root),
            Some(_) => Err(self.unexpected("nothing may follow the closing brace", "remove what follows it")),
        }
    }

    /// Reads a value; none if it was the beginning of a list or object that has elements.
    fn begin_value(&mut self) -> Result<Option<NodeId>, Fault> {
        self.skip_blanks();
        let at = self.position();
        match self.peek() {
            Some(b'[') => {
                self.enter(Open::List { at, items: Vec::new() })?;
                if self.skip_closing(b']') { self.close().map(Some) } else { Ok(None) }
            }
            Some(b'{') => {
                self.enter(Open::Object { at, members: Vec::new(), key: String::new(), key_at: at })?;
                if self.skip_closing(b'}') {
                    return self.close().map(Some);
                }
                self.read_key()?;
                Ok(None)
            }
            Some(b'"') => {
                let string = self.read_string()?;
                self.push(at, Value::String(string.into())).map(Some)
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = self.read_number()?;
                self.push(at, number).map(Some)
            }
            _ => {
                let literal = self.read_literal()?;
                self.push(at, literal).map(Some)
            }
        }
    }

    /// Puts a finished value into what is around it and closes what ends behind it; returns the value when nothing is around it.
    fn end_value(&mut self, mut value: NodeId) -> Result<Option<NodeId>, Fault> {
        loop {
            let closing = match self.open.last_mut() {
                None => return Ok(Some(value)),
                Some(Open::List { items, .. }) => {
                    items.push(value);
                    b']'
                }
                Some(Open::Object { members, key, key_at, .. }) => {
                    members.push(Member { key: std::mem::take(key).into(), key_at: *key_at, value, merge: false });
                    b'}'
                }
            };
            if self.skip_closing(closing) {
                value = self.close()?;
                continue;
            }
            if self.peek() != Some(b',') {
                let wanted = if closing == b']' {
                    "a comma or ] must follow a list element"
                } else {
                    "a comma or } must follow a value"
                };
                return Err(self.unexpected(wanted, "check for a missing comma, quote or bracket before this place"));
            }
            self.byte += 1;
            if closing == b'}' {
                self.skip_blanks();
                self.read_key()?;
            }
            return Ok(None);
        }
    }

    fn enter(&mut self, open: Open) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.fault("lists and objects are nested deeper than 10,000 levels", "remove the nesting"));
        }
        self.byte += 1;
        self.open.push(open);
        Ok(())
    }

    /// Skips blanks and the closing bracket if it is there.
    fn skip_closing(&mut self, bracket: u8) -> bool {
        self.skip_blanks();
        let is_there = self.peek() == Some(bracket);
        self.byte += usize::from(is_there);
        is_there
    }

    fn close(&mut self) -> Result<NodeId, Fault> {
        match self.open.pop() {
            Some(Open::List { at, items }) => self.push(at, Value::List(items.into())),
            Some(Open::Object { at, members, .. }) => self.push(at, Value::Map(members.into())),
            None => Err(self.unexpected("nothing is open here", "remove the bracket")),
        }
    }

    fn read_key(&mut self) -> Result<(), Fault> {
        let at = self.position();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected(
                "a key in double quotes must stand here",
                "write \"key\": value, without a comma behind the last one; without the outer braces the file would be read as YAML",
            ));
        }
        let name = self.read_string()?;
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("a colon must follow the key", "write \"key\": value"));
        }
        self.byte += 1;
        if let Some(Open::Object { key, key_at, .. }) = self.open.last_mut() {
            (*key, *key_at) = (name, at);
        }
        Ok(())
    }

    fn read_literal(&mut self) -> Result<Value, Fault> {
        for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            if self.text[self.byte..].starts_with(word) {
                self.byte += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected(
            "a value must stand here",
            "write a string in double quotes, a number, true, false, null, a list or an object",
        ))
    }

    fn read_number(&mut self) -> Result<Value, Fault> {
        let start = self.byte;
        self.byte += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.byte += 1,
            _ => self.read_digits()?,
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.byte += 1;
            self.read_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.byte += 1;
            self.byte += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.read_digits()?;
        }
        let integer = if is_integer { self.text[start..self.byte].parse().ok() } else { None };
        Ok(Value::Number(integer))
    }

    fn read_digits(&mut self) -> Result<(), Fault> {
        let start = self.byte;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.byte += 1;
        }
        if self.byte > start {
            return Ok(());
        }
        Err(self.unexpected("a digit must stand here", "write a decimal number, or put the text in double quotes"))
    }

    fn read_string(&mut self) -> Result<String, Fault> {
        let start = self.byte;
        self.byte += 1;
        let mut string = String::new();
        loop {
            let run = self.text[self.byte..].find(|c: char| c == '"' || c == '\\' || c < ' ');
            let Some(length) = run else {
                self.byte = start;
                return Err(self.fault("the string that begins here is not closed", "close it with a double quote"));
            };
            string.push_str(&self.text[self.byte..self.byte + length]);
            self.byte += length;
            match self.peek() {
                Some(b'"') => {
                    self.byte += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.read_escape()?),
                _ => {
                    return Err(self.unexpected(
                        "a control character cannot stand in a string",
                        "close the string in its line, or write the character as an escape like \\n",
                    ));
                }
            }
        }
    }

    fn read_escape(&mut self) -> Result<char, Fault> {
        let escape = self.text.as_bytes().get(self.byte + 1);
        let c = match escape {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.read_unicode_escape(),
            _ => return Err(self.fault("this escape does not exist in JSON", "write a backslash as \\\\")),
        };
        self.byte += 2;
        Ok(c)
    }

    fn read_unicode_escape(&mut self) -> Result<char, Fault> {
        let Some(first) = self.hex_at(self.byte) else {
            return Err(self.fault("four hexadecimal digits must follow \\u", "write the character itself"));
        };
        self.byte += 6;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        // Half of a surrogate pair alone becomes U+FFFD, as in Go.
        match self.hex_at(self.byte).map(|second| char::decode_utf16([first as u16, second as u16]).next()) {
            Some(Some(Ok(c))) => {
                self.byte += 6;
                Ok(c)
            }
            _ => Ok(char::REPLACEMENT_CHARACTER),
        }
    }

    /// The number of the escape at this byte, `\u` and four hexadecimal digits, if there is one.
    fn hex_at(&self, byte: usize) -> Option<u32> {
        let digits = self.text.get(byte..byte + 6)?.strip_prefix("\\u")?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if is_hex { u32::from_str_radix(digits, 16).ok() } else { None }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.byte).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.byte += 1;
        }
    }

    fn push(&mut self, at: usize, value: Value) -> Result<NodeId, Fault> {
        let end = self.position();
        let id = self.nodes.push(Node::new(at..end, value));
        id.ok_or_else(|| self.fault("the file has more than 250,000 values", "make it smaller"))
    }

    /// The number of characters before the byte to read next.
    fn position(&mut self) -> usize {
        let (byte, character) = self.counted;
        if self.byte >= byte {
            self.counted = (self.byte, character + self.text[byte..self.byte].chars().count());
            return self.counted.1;
        }
        self.text[..self.byte].chars().count()
    }

    fn unexpected(&mut self, wanted: &str, remedy: &str) -> Fault {
        let found = self.text[self.byte..].chars().next();
        let reason = match found {
            Some(c) => format!("{wanted}, but there is {c:?}"),
            None => format!("{wanted}, but the file ends"),
        };
        self.fault(&reason, remedy)
    }

    fn fault(&mut self, reason: &str, remedy: &str) -> Fault {
        Fault {
            kind: DiagnosticKind::JsonSyntax,
            at: self.position(),
            value: None,
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}
