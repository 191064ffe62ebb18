//! The text of a config file: bytes decoded as the reference decodes them, and where its lines begin.

use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::Place;
use crate::value::characters::Characters;

/// A decoded file. Positions are counted in characters from its start, as the YAML parser counts them.
#[derive(Debug)]
pub(crate) struct Text {
    name: Arc<str>,
    content: String,
    characters: Characters,
    /// The character with which each line begins; narrow, since a text may be made of line breaks.
    lines: Vec<u32>,
    has_byte_order_mark: bool,
    /// The first place where the bytes are no text.
    undecodable: Option<usize>,
}

impl Text {
    /// Decodes UTF-8, or UTF-16 after a byte order mark. What cannot be decoded becomes U+FFFD and is remembered.
    pub fn decode(name: Arc<str>, bytes: &[u8]) -> Text {
        let (content, undecodable, has_byte_order_mark) = match bytes {
            [0xFF, 0xFE, rest @ ..] => decode_utf16(rest, u16::from_le_bytes, true),
            [0xFE, 0xFF, rest @ ..] => decode_utf16(rest, u16::from_be_bytes, true),
            [0xEF, 0xBB, 0xBF, rest @ ..] => decode_utf8(rest, true),
            plain => decode_utf8(plain, false),
        };
        let (characters, lines) = (Characters::of(&content), line_starts(&content));
        Text { name, content, characters, lines, has_byte_order_mark, undecodable }
    }

    pub fn as_str(&self) -> &str {
        &self.content
    }

    /// The first character that stands for bytes which are no text, if any.
    pub fn undecodable(&self) -> Option<usize> {
        self.undecodable
    }

    /// Whether the reference hands this text to its JSON parser: a brace comes first, but for what Unicode calls blank.
    pub fn is_json(&self) -> bool {
        !self.has_byte_order_mark && self.content.trim_start().starts_with('{')
    }

    /// The place of a character.
    pub fn place(&self, character: usize) -> Place {
        let line = self.lines.partition_point(|&start| start as usize <= character);
        let start = line.checked_sub(1).map_or(0, |index| self.lines[index] as usize);
        Place { file: Arc::clone(&self.name), line, column: character - start + 1 }
    }

    /// The text between two characters.
    pub fn slice(&self, characters: Range<usize>) -> &str {
        self.characters.slice(&self.content, characters)
    }

    /// The line with this number, from 1, without its line break; empty behind the last one.
    pub fn line(&self, number: usize) -> &str {
        let Some(&start) = number.checked_sub(1).and_then(|index| self.lines.get(index)) else { return "" };
        let end = self.lines.get(number).map_or(usize::MAX, |&next| next as usize);
        self.slice(start as usize..end).trim_end_matches(['\n', '\r'])
    }
}

fn decode_utf8(bytes: &[u8], marked: bool) -> (String, Option<usize>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None, marked),
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            (String::from_utf8_lossy(bytes).into_owned(), Some(valid.chars().count()), marked)
        }
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, marked: bool) -> (String, Option<usize>, bool) {
    let pairs = bytes.chunks_exact(2);
    let is_cut_short = !pairs.remainder().is_empty();
    let mut undecodable = None;
    let mut content = String::with_capacity(bytes.len() / 2);
    let mut count = 0;
    for decoded in char::decode_utf16(pairs.map(|pair| unit([pair[0], pair[1]]))) {
        if decoded.is_err() {
            undecodable.get_or_insert(count);
        }
        content.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
        count += 1;
    }
    if is_cut_short {
        undecodable.get_or_insert(count);
        content.push(char::REPLACEMENT_CHARACTER);
    }
    (content, undecodable, marked)
}

/// Lines as editors count them: ended by LF, CR LF or CR.
fn line_starts(content: &str) -> Vec<u32> {
    let mut starts = vec![0];
    let mut characters = 0_u32;
    let mut rest = content.chars().peekable();
    while let Some(c) = rest.next() {
        // Lines behind four billion characters would count as one.
        characters = characters.saturating_add(1);
        if c == '\n' || (c == '\r' && rest.peek() != Some(&'\n')) {
            starts.push(characters);
        }
    }
    starts
}
