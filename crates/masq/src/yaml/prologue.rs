//! What go-yaml settles on characters and lines before it parses: encoding, line breaks, directives, the first document's end.

use std::borrow::Cow;

use crate::diagnostic::{DiagnosticKind, excerpt};
use crate::value::text::Text;
use crate::value::{Fault, MAX_VALUES};

/// The part of a text that go-yaml reads.
#[derive(Debug)]
pub(super) struct FirstDocument<'text> {
    /// From the start of the text to the end of its first document.
    pub content: &'text str,
    /// The character where ignored content begins, if there is any.
    pub ignored_at: Option<usize>,
}

/// The first character that go-yaml's reader refuses wherever it stands.
pub(super) fn first_forbidden_character(text: &Text) -> Option<Fault> {
    let control = text.as_str().chars().enumerate().find(|&(_, c)| !is_printable(c));
    let fault = |at, value: Option<String>, reason: &str, remedy: &str| Fault {
        kind: DiagnosticKind::YamlSyntax,
        at,
        value,
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    };
    match (text.undecodable(), control) {
        (Some(at), control) if control.is_none_or(|(other, _)| at <= other) => {
            Some(fault(at, None, "the bytes here are not UTF-8 text", "save the file as UTF-8"))
        }
        (_, Some((at, c))) => Some(fault(
            at,
            Some(c.to_string()),
            "a control character cannot stand in YAML, not even in a comment",
            "remove it, or write it as an escape in double quotes",
        )),
        (_, None) => None,
    }
}

fn is_printable(c: char) -> bool {
    matches!(c,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..='\u{10ffff}')
}

/// The text with some characters exchanged, one for one, that the event parser takes otherwise: YAML 1.1's other line breaks
/// become line feeds, and NUL and a byte order mark behind the start become plain characters.
pub(super) fn with_plain_breaks(text: &str) -> Cow<'_, str> {
    const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    const OTHERS: [char; 2] = ['\0', '\u{feff}'];
    let has_none =
        if text.is_ascii() { !text.contains('\0') } else { !text.contains(BREAKS) && !text.contains(OTHERS) };
    if has_none {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(BREAKS, "\n").replace(OTHERS, "\u{fffd}"))
}

/// Finds the end of the first document by its markers, which count in the first column wherever they stand.
///
/// # Errors
/// A directive other than `%YAML 1.1` and `%TAG`, or `...` before anything else.
pub(super) fn first_document(text: &str) -> Result<FirstDocument<'_>, Fault> {
    let (mut has_started, mut byte) = (false, 0);
    for line in text.split_inclusive(['\n', '\r']) {
        let at = |byte: usize| text[..byte].chars().count();
        match Line::of(line) {
            Line::Start if !has_started => has_started = true,
            Line::Start => return Ok(FirstDocument { content: &text[..byte], ignored_at: content_behind(text, byte) }),
            Line::End if !has_started => {
                return Err(line_fault(
                    at(byte),
                    line,
                    "the file begins with the mark of a document's end",
                    "remove the line",
                ));
            }
            Line::End => {
                return Ok(FirstDocument { content: &text[..byte], ignored_at: content_behind(text, byte + 3) });
            }
            Line::Directive if !has_started => check_directive(line, || at(byte))?,
            Line::Blank => {}
            Line::Directive | Line::Content => has_started = true,
        }
        byte += line.len();
    }
    Ok(FirstDocument { content: text, ignored_at: None })
}

/// Bounds the tokens of a text before there are any: the event parser keeps all those of a bracket that may be a key.
///
/// # Errors
/// There are more signs that set off a token than there may be values.
pub(super) fn check_signs(content: &str) -> Result<(), Fault> {
    let (mut signs, mut byte) = (0, 0);
    for line in content.split_inclusive(['\n', '\r']) {
        let is_comment = line.trim_start_matches(BLANKS).starts_with('#');
        signs += if is_comment { 0 } else { count_signs(line.as_bytes()) };
        if signs > MAX_VALUES {
            return Err(line_fault(
                content[..byte].chars().count(),
                line,
                "with this line the file has more than some 250,000 commas, brackets, colons and other signs of YAML's",
                "make it smaller",
            ));
        }
        byte += line.len();
    }
    Ok(())
}

/// Counts the signs in a line that can set off tokens, rather some more than one less.
fn count_signs(line: &[u8]) -> usize {
    /// A key, a value and the mapping around them.
    const OF_A_COLON: usize = 3;
    let is_end = |byte: Option<&u8>| byte.is_none_or(|byte| b" \t\n\r,[]{}".contains(byte));
    let before = |at: usize| at.checked_sub(1).map(|before| &line[before]);
    let signs_at = |at: usize| match line[at] {
        b',' | b'[' | b']' | b'{' | b'}' => 1,
        b'?' | b'*' | b'&' | b'!' | b'"' | b'\'' if is_end(before(at)) => 1,
        b':' if is_end(line.get(at + 1)) || before(at).is_some_and(|byte| b"\"']}".contains(byte)) => OF_A_COLON,
        _ => 0,
    };
    (0..line.len()).map(signs_at).sum()
}

/// What a line is for the structure of documents.
enum Line {
    Blank,
    Directive,
    Start,
    End,
    Content,
}

impl Line {
    fn of(line: &str) -> Line {
        let is_marker =
            |marker| line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(BLANKS));
        if is_marker("---") {
            Line::Start
        } else if is_marker("...") {
            Line::End
        } else if line.starts_with('%') {
            Line::Directive
        } else if matches!(line.trim_start_matches(BLANKS).chars().next(), None | Some('#')) {
            Line::Blank
        } else {
            Line::Content
        }
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// The character where something other than blanks, comments and markers begins.
fn content_behind(text: &str, byte: usize) -> Option<usize> {
    let mut start = byte;
    for line in text[byte..].split_inclusive(['\n', '\r']) {
        match Line::of(line) {
            Line::Blank => {}
            Line::Start | Line::End if line[3..].trim_matches(BLANKS).is_empty() => {}
            Line::Start | Line::End | Line::Directive | Line::Content => return Some(text[..start].chars().count()),
        }
        start += line.len();
    }
    None
}

/// The longest `%TAG` line, in bytes.
const LONGEST_TAG: usize = 1024;

fn check_directive(line: &str, at: impl Fn() -> usize) -> Result<(), Fault> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        // Each tag repeats what stands here.
        (Some("%TAG"), _) if line.len() > LONGEST_TAG => {
            Err(line_fault(at(), line, "this directive is longer than 1,024 bytes", "shorten it"))
        }
        (Some("%TAG"), _) | (Some("%YAML"), Some("1.1")) => Ok(()),
        (Some("%YAML"), _) => {
            Err(line_fault(at(), line, "only YAML 1.1 is read here", "write %YAML 1.1, or remove the line"))
        }
        _ => Err(line_fault(
            at(),
            line,
            "a line that begins with % is a directive, and this one is unknown",
            "remove the line",
        )),
    }
}

fn line_fault(at: usize, line: &str, reason: &str, remedy: &str) -> Fault {
    Fault {
        kind: DiagnosticKind::YamlSyntax,
        at,
        value: Some(excerpt(line.trim_end())),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    }
}
