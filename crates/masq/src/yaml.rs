//! YAML as go-yaml v2 reads it: the first document of a text, with every value's place.
//!
//! A maintained parser turns the text into events; the modules here add what YAML 1.1 and go-yaml do differently.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::value::characters::Characters;
use crate::value::text::Text;
use crate::value::{Document, Fault};

use builder::Builder;
use prologue::FirstDocument;

mod builder;
mod gaps;
mod prologue;
mod scalar;
mod syntax;
mod unfold;

/// Reads the first document; what follows it is ignored, as in the reference, but remembered.
///
/// # Errors
/// The first document is not YAML 1.1 as go-yaml v2 takes it, or needs more than a bounded effort.
pub(crate) fn parse(text: &Text) -> Result<Document, Fault> {
    let forbidden = prologue::first_forbidden_character(text);
    let prepared = prologue::with_plain_breaks(text.as_str());
    let FirstDocument { content, ignored_at } = prologue::first_document(&prepared)?;
    prologue::check_signs(content)?;
    let written = Written { text: content, characters: Characters::of(content) };
    let parsed = read_events(content, &written).or_else(|fault| {
        // The event parser wants brackets and quotes that span lines to be indented, and spaces where go-yaml takes a tab too.
        let unfolded = unfold::unfold(content).and_then(|unfolded| read_events(&unfolded, &written).ok());
        unfolded.ok_or(fault)
    });
    let reached = parsed.as_ref().map_or_else(|fault| fault.at, |_| content.chars().count());
    match forbidden {
        Some(forbidden) if forbidden.at <= reached => Err(forbidden),
        _ => parsed.map(|mut document| {
            document.ignored_at = document.ignored_at.or(ignored_at);
            document
        }),
    }
}

/// The document as it was written, but for some characters that were exchanged one for one.
struct Written<'text> {
    text: &'text str,
    characters: Characters,
}

/// Feeds the event parser's events to the builder, up to the end of the document.
fn read_events(content: &str, written: &Written<'_>) -> Result<Document, Fault> {
    let mut builder = Builder::new(written.text, &written.characters, gaps::are_suspicious(written.text));
    let mut ignored_at = None;
    for event in Parser::new_from_str(content) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) if builder.is_complete() && syntax::is_about_what_follows(&error, content) => {
                ignored_at = Some(error.marker().index());
                break;
            }
            Err(error) => return Err(syntax::syntax_fault(&error, content)),
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
    if let Some(scalars) = builder.scalars() {
        gaps::check(written.text, scalars, ignored_at)?;
    }
    let mut document = builder.finish()?;
    document.ignored_at = ignored_at;
    Ok(document)
}
