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
            Err(error) => return Err(syntax_fault(&error)),
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

/// What to do about an error of the event parser, found by a part of its message.
const REMEDIES: [(&str, &str); 12] = [
    ("tab", "indent with spaces; YAML does not allow tabs there"),
    (
        "mapping values are not allowed",
        "begin all keys in the same column, and put a text that holds a colon and a blank in quotes",
    ),
    ("block sequence entries", "put the first \"- \" on a line of its own below the key"),
    ("unknown anchor", "define the anchor with & before it is used with *, or put the text in quotes"),
    ("end of stream", "close the quote"),
    (
        "simple key",
        "write \"key: value\" or \"- element\", with a blank behind the colon or dash; keys hold at most 1,024 characters",
    ),
    ("unexpected character", "put a text that begins with this character in quotes"),
    ("escape", "use single quotes, in which a backslash is a plain character, or double the backslash"),
    ("recursion limit", "remove the nesting; 255 brackets around a value are the most"),
    ("directive", "put a text that begins with % in quotes; a line that begins with it is a directive"),
    ("handle", "declare the tag's handle with a %TAG line, or remove the tag"),
    ("expected key", "begin all keys of a mapping in the same column"),
];

fn syntax_fault(error: &ScanError) -> Fault {
    let message = error.info();
    let remedy = REMEDIES
        .iter()
        .find(|(part, _)| message.contains(part))
        .map_or("check the indentation, quotes and brackets here and in the line before", |(_, remedy)| remedy);
    Fault {
        kind: DiagnosticKind::YamlSyntax,
        at: error.marker().index(),
        value: None,
        reason: format!("this is not valid YAML: {message}"),
        remedy: remedy.to_owned(),
    }
}
