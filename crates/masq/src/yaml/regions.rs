//! Where the event parser saw brackets, quotes and plain text, to hold against it what was added to a text.

use std::ops::Range;

use saphyr_parser::{Event, ScalarStyle, Span};

use crate::value::characters::Characters;

/// Where the event parser saw brackets and quotes; each region ends behind the blanks and the comment that follow it in its line.
#[derive(Default)]
pub(super) struct Regions {
    open: Vec<usize>,
    /// Apart from each other and in order: a region within brackets is part of theirs.
    closed: Vec<Range<usize>>,
    /// Scalars of the other kinds.
    texts: Vec<Range<usize>>,
    /// How far the document goes.
    reached: usize,
}

impl Regions {
    /// Takes note of an event of the text that was parsed.
    pub fn note(&mut self, event: &Event<'_>, span: Span, text: &str, characters: &Characters) {
        let (start, end) = (span.start.index(), span.end.index());
        self.reached = self.reached.max(end);
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => self.open.push(start),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(opened) = self.open.pop() else { return };
                let behind = |character| &text[characters.byte(text, character)..];
                // Only brackets end with a character of their own, for which the parser gives the comma that may precede a brace.
                match behind(start).chars().next().filter(|_| start < end) {
                    Some(']' | '}') => self.close(opened..end),
                    Some(',') => self.close(opened..end + blanks_and_comments(behind(end)) + 1),
                    Some(_) | None => {}
                }
            }
            Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..) => self.close(start..end),
            Event::Scalar(..) => self.texts.push(start..end),
            Event::Alias(_)
            | Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
    }

    /// Whether a character belongs to the document, and not to what is behind it and ignored.
    pub fn reach(&self, character: usize) -> bool {
        character <= self.reached
    }

    /// Whether there are brackets or quotes around a character.
    pub fn surround(&self, character: usize) -> bool {
        is_within(&self.closed, character)
    }

    /// Whether a character is part of a scalar without quotes.
    pub fn have_text_at(&self, character: usize) -> bool {
        is_within(&self.texts, character)
    }

    fn close(&mut self, region: Range<usize>) {
        self.reached = self.reached.max(region.end);
        while self.closed.last().is_some_and(|inner| inner.start >= region.start) {
            self.closed.pop();
        }
        self.closed.push(region);
    }
}

/// How many characters there are before the next token.
fn blanks_and_comments(text: &str) -> usize {
    let mut is_in_comment = false;
    let is_skipped = |&c: &char| {
        is_in_comment = c == '#' || is_in_comment && !is_break(c);
        is_in_comment || is_blank_or_break(c)
    };
    text.chars().take_while(is_skipped).count()
}

/// Whether the character is in one of the ranges, which are in order, but not its first.
fn is_within(ranges: &[Range<usize>], character: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= character);
    ranges.get(next).is_some_and(|range| range.start < character)
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

pub(super) fn is_blank_or_break(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}
