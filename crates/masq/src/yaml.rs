//! YAML as go-yaml v2 reads it: the first document of a text, with every value's place.
//!
//! A maintained parser turns the text into events; the modules here add what YAML 1.1 and go-yaml do differently.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::value::characters::Characters;
use crate::value::text::Text;
use crate::value::{Document, Fault};

use builder::Builder;
use indent::Indented;
use prologue::FirstDocument;
use regions::Regions;

mod builder;
mod gaps;
mod indent;
mod prologue;
mod regions;
mod scalar;
mod syntax;

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
    let parsed = read_plainly(&written).or_else(|fault| {
        // The event parser wants brackets and quotes that span lines to be indented, and spaces where go-yaml takes a tab too.
        Indented::of(content).and_then(|indented| read_indented(&indented, &written)).ok_or(fault)
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

fn read_plainly(written: &Written<'_>) -> Result<Document, Fault> {
    read_events(written.text, written, |place| place, |_, _| {})
}

/// Reads the indented text; none if it is no document either, or if the event parser does not bear out what was added.
fn read_indented(indented: &Indented, written: &Written<'_>) -> Option<Document> {
    let characters = Characters::of(&indented.text);
    let mut regions = Regions::default();
    let note = |event: &Event<'_>, span| regions.note(event, span, &indented.text, &characters);
    let document = read_events(&indented.text, written, |place| indented.original(place), note).ok()?;
    indented.is_confirmed_by(&regions).then_some(document)
}

/// Feeds the event parser's events to the builder, up to the end of the document. `original` tells where a character of
/// `content` was written, and `note` sees every event first.
fn read_events(
    content: &str,
    written: &Written<'_>,
    original: impl Fn(usize) -> usize,
    mut note: impl FnMut(&Event<'_>, Span),
) -> Result<Document, Fault> {
    let mut builder = Builder::new(written.text, &written.characters, gaps::are_suspicious(written.text));
    let mut ignored_at = None;
    for event in Parser::new_from_str(content) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) if builder.is_complete() && syntax::is_about_what_follows(&error, content) => {
                ignored_at = Some(original(error.marker().index()));
                break;
            }
            Err(error) => return Err(syntax::syntax_fault(&error, content)),
        };
        note(&event, span);
        let (at, end) = (original(span.start.index()), original(span.end.index()));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};

    use super::*;

    const PIECES: [&str; 44] = [
        "\n", "\n", "\n ", "\n  ", "\n\n", "\r\n", "\t", " ", "  ", "- ", "? ", ": ", ":", "a: ", "b: ", "k", "[", "]",
        "{", "}", ", ", ",", "'", "\"", "''", "\\", "\\\\", "\\\"", "\\\n", "#", " # c\n", "&a ", "*a", "|\n", ">-\n ",
        "!!str ", "!", "<<: ", "1", "日", "\u{85}", "a: [", "b: {\n", "a: \"",
    ];

    /// Whether the indented text is a document too, which must then be the one that was written.
    fn indented_is_the_same(text: &str) -> bool {
        let written = Written { text, characters: Characters::of(text) };
        let Some(indented) = Indented::of(text) else { return false };
        let (Ok(plain), Some(other)) = (read_plainly(&written), read_indented(&indented, &written)) else {
            return false;
        };
        assert_eq!(format!("{plain:?}"), format!("{other:?}"), "{text:?} as {:?}", indented.text);
        true
    }

    proptest! {
        #[test]
        fn indenting_a_valid_text_does_not_change_its_document(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24),
        ) {
            indented_is_the_same(&pieces.concat());
        }
    }

    #[test]
    fn indented_texts_keep_their_values_and_places() {
        for text in [
            "a: [1,\n  2, # c\n\n  'b\n   c']\nd:\n  - {e: f,\n     g: \"h\\\n     i\\\\\"}\n",
            "a: [\n  b\n   c, &x 'd',\n  *x\n  ]\n",
            "? [a,\n  b]\n: c\n",
            "note: \"C:\\\\\" # share\na:\n- 1\nother: \"x\"\nmore: {\n a: 1\n }\n",
            "a: |\n  [\nb: [1,\n  2]\n",
            "a: {b: c, # }\n\n  # }\n  }\nd: {e,\n  }\n",
            "  a: 'b\n   c'\nd: [\n1]",
        ] {
            // A list is no key, but everything up to there is the same.
            assert!(indented_is_the_same(text) || text.starts_with('?'), "{text:?}");
        }
    }
}
