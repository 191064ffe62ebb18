//! A finding as several lines for a terminal: the source line around its place, with a mark below.

use std::fmt::Write as _;

use crate::diagnostic::{Diagnostic, Escaped, Place, Summary, is_harmless};
use crate::value::text::Text;

/// How many characters of a line are shown before and behind the place.
const BEFORE: usize = 40;
const BEHIND: usize = 80;

/// Renders the finding; a place outside of `source` is told without a line.
pub(super) fn render(finding: &Diagnostic, source: &[u8]) -> String {
    let mut out = format!("{}\n", Summary(finding));
    let margin = finding.place.as_ref().map_or(1, |place| place.line.to_string().len());
    if let Some(place) = &finding.place {
        write_source(&mut out, place, finding.value.as_deref(), source, margin);
    }
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{:margin$} = {}", "", Escaped(&finding.remedy));
    out
}

fn write_source(out: &mut String, place: &Place, value: Option<&str>, source: &[u8], margin: usize) {
    let text = Text::decode(place.file.clone(), source);
    let line = text.line(place.line);
    let skipped = place.column.saturating_sub(1 + BEFORE);
    let shown: Vec<char> = line.chars().skip(skipped).take(BEFORE + BEHIND).collect();
    let before = place.column.saturating_sub(1 + skipped).min(shown.len());
    let is_cut = line.chars().nth(skipped + shown.len()).is_some();
    let start = if skipped > 0 { "..." } else { "" };
    let end = if is_cut { "..." } else { "" };
    let content: String = shown.iter().copied().map(visible).collect();
    let indent: usize = start.len() + shown[..before].iter().copied().map(visible).map(width).sum::<usize>();
    let mark = "^".repeat(marked_width(&shown[before..], value));
    let _ = write!(
        out,
        "{:margin$}--> {place}\n{:margin$} |\n{} | {start}{content}{end}\n{:margin$} | {:indent$}{mark}\n",
        "", "", place.line, "", ""
    );
}

/// The columns of the value if the line shows it as it is, else one.
fn marked_width(rest: &[char], value: Option<&str>) -> usize {
    let value: Vec<char> = value.unwrap_or_default().chars().take(rest.len()).collect();
    if rest.starts_with(&value) { value.into_iter().map(visible).map(width).sum::<usize>().max(1) } else { 1 }
}

/// A character as it may be shown in a source line, one for one.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if is_harmless(c) => c,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// The columns a character takes in a terminal, by the blocks of wide and combining characters.
fn width(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}
