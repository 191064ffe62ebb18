//! YAML as go-yaml v2 reads it: the first document of a text, with every value's place.
//!
//! A maintained parser turns the text into events; the modules here add what YAML 1.1 and go-yaml do differently.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use crate::diagnostic::DiagnosticKind;
use crate::value::text::Text;
use crate::value::{Document, Fault};

use builder::Builder;
use prologue::FirstDocument;

mod builder;
mod gaps;
mod prologue;
mod scalar;
mod unfold;

/// Reads the first document; what follows it is ignored, as in the reference, but remembered.
///
/// # Errors
/// The first document is not YAML 1.1 as go-yaml v2 takes it, or needs more than a bounded effort.
pub(crate) fn parse(text: &Text) -> Result<Document, Fault> {
    let forbidden = prologue::first_forbidden_character(text);
    let prepared = prologue::with_plain_breaks(text.as_str());
    let FirstDocument { content, ignored_at } = prologue::first_document(&prepared)?;
    let parsed = read_events(content, content).or_else(|fault| {
        // The event parser wants brackets and quotes that span lines to be indented, and spaces where go-yaml takes a tab too.
        let unfolded = unfold::unfold(content).and_then(|unfolded| read_events(&unfolded, content).ok());
        unfolded.ok_or(fault)
    });
    let characters = content.chars().count();
    let reached = parsed.as_ref().map_or_else(|fault| fault.at, |_| characters);
    match forbidden {
        Some(forbidden) if forbidden.at <= reached => Err(forbidden),
        _ => parsed.map(|mut document| {
            document.ignored_at = document.ignored_at.or(ignored_at);
            document
        }),
    }
}

/// Feeds the event parser's events to the builder, up to the end of the document. `written` is the content before anything
/// was replaced, character for character.
fn read_events(content: &str, written: &str) -> Result<Document, Fault> {
    let mut builder = Builder::new(written);
    let mut ignored_at = None;
    for event in Parser::new_from_str(content) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) if builder.is_complete() && is_about_what_follows(&error, content) => {
                ignored_at = Some(error.marker().index());
                break;
            }
            Err(error) => return Err(syntax_fault(&error, content)),
        };
        let (at, end) = (span.start.index(), span.end.index());
        match event {
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::Alias(anchor) => builder.alias(anchor, at, end)?,
            Event::Scalar(value, style, anchor, tag) => {
                let tag = tag.map(|tag| Cow::Owned(format!("{}{}", tag.handle, tag.suffix)));
                builder.scalar(value, style != ScalarStyle::Plain, tag, anchor, at, end)?;
            }
            Event::SequenceStart(anchor, _) => builder.begin_list(anchor, at)?,
            Event::MappingStart(anchor, _) => builder.begin_map(anchor, at)?,
            Event::SequenceEnd | Event::MappingEnd => builder.end(end)?,
        }
    }
    gaps::check(written, builder.scalars(), ignored_at)?;
    let mut document = builder.finish()?;
    document.ignored_at = ignored_at;
    Ok(document)
}

/// Whether the error is about text behind the document, at which go-yaml does not look but for the name of a directive.
fn is_about_what_follows(error: &ScanError, content: &str) -> bool {
    let message = error.info();
    if message.contains("missing explicit document end marker before directive") {
        let line: String = content.chars().skip(error.marker().index()).take_while(|c| !c.is_whitespace()).collect();
        return matches!(line.as_str(), "%YAML" | "%TAG");
    }
    message.contains("did not find expected <document start>") || message.contains("misplaced bracket")
}

/// Errors of the event parser in words for people, found by a part of its message.
const EXPLANATIONS: [Explanation; 15] = [
    ("tab", "a tab cannot indent in YAML", "indent with spaces"),
    (
        "mapping values are not allowed",
        "a colon with a blank behind it sets off a value, and none can stand here",
        "begin all keys in the same column, and put a text that holds a colon and a blank in quotes",
    ),
    (
        "illegal placement of ':'",
        "a key cannot begin in another line of the same brackets",
        "close the bracket before it",
    ),
    (
        "block sequence entries",
        "a list cannot begin in this line",
        "put its first dash on a line of its own below the key",
    ),
    (
        "unknown anchor",
        "no anchor of this name comes before",
        "define it with &, or put a text that begins with * in quotes",
    ),
    ("end of stream", "the quote that opens here is not closed", "close it"),
    (
        "simple key",
        "this line is neither \"key: value\" nor \"- element\"",
        "put a blank behind the colon or the dash, and indent a text that goes on from the line before",
    ),
    ("unexpected character", "a text cannot begin with this character", "put it in quotes"),
    ("unknown escape", "there is an escape that YAML does not have", "use single quotes, or double the backslash"),
    ("recursion limit", "brackets are nested deeper than 255 levels", "remove the nesting"),
    (
        "directive",
        "a line that begins with % is a directive, and none can stand here",
        "put a text that begins with % in quotes",
    ),
    ("handle", "the handle of this tag is not declared", "declare it in a %TAG line, or remove the tag"),
    ("expected key", "this line fits no mapping around it", "begin all keys of a mapping in the same column"),
    ("expected '-'", "this line fits no list around it", "begin all dashes of a list in the same column"),
    (
        "',' or",
        "a comma or the closing bracket is missing",
        "separate what stands within brackets by commas, and close them",
    ),
];

/// A part of the event parser's message, the reason and the remedy.
type Explanation = (&'static str, &'static str, &'static str);

fn syntax_fault(error: &ScanError, content: &str) -> Fault {
    let message = error.info();
    let explanation = EXPLANATIONS.iter().find(|(part, ..)| message.contains(part));
    let (reason, remedy) = match explanation {
        Some((_, reason, remedy)) => ((*reason).to_owned(), *remedy),
        None => (
            format!("this is not valid YAML: {message}"),
            "check the indentation, quotes and brackets here and in the line before",
        ),
    };
    let mark = error.marker().index();
    // That a line is no key shows only behind it.
    let at = if message.contains("simple key") { last_line_before(content, mark) } else { mark };
    Fault { kind: DiagnosticKind::YamlSyntax, at, value: None, reason, remedy: remedy.to_owned() }
}

/// The first character of the last line that is not blank before a character.
fn last_line_before(content: &str, mark: usize) -> usize {
    let before: Vec<char> = content.chars().take(mark).collect();
    let end = before.iter().rposition(|c| !c.is_whitespace()).unwrap_or(0);
    let start = before[..end].iter().rposition(|c| matches!(c, '\n' | '\r')).map_or(0, |line_break| line_break + 1);
    start + before[start..].iter().take_while(|c| matches!(c, ' ' | '\t')).count()
}
