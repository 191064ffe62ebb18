//! The tabs that go-yaml refuses: those before the first token of a line, or of what follows a dash, outside of brackets.

use std::ops::Range;

use crate::diagnostic::DiagnosticKind;
use crate::value::Fault;

/// Looks at the text between the scalars, up to the character `end` if given.
///
/// # Errors
/// A tab stands where a new key could begin, so that go-yaml does not skip it.
pub(super) fn check(content: &str, scalars: &[Range<usize>], end: Option<usize>) -> Result<(), Fault> {
    if !content.contains('\t') {
        return Ok(());
    }
    let mut gap = Gap { brackets: 0, may_begin_key: true, is_separated: true, is_comment: false };
    let mut scalars = scalars.iter().peekable();
    let mut characters = content.chars().enumerate().take(end.unwrap_or(usize::MAX)).peekable();
    while let Some((at, c)) = characters.next() {
        while scalars.next_if(|scalar| scalar.end <= at).is_some() {}
        if scalars.peek().is_some_and(|scalar| scalar.start <= at) {
            gap = Gap { may_begin_key: false, is_separated: false, is_comment: false, ..gap };
            continue;
        }
        let next = characters.peek().map_or('\n', |&(_, next)| next);
        if !gap.step(c, next) {
            return Err(Fault {
                kind: DiagnosticKind::YamlSyntax,
                at,
                value: None,
                reason: "a tab cannot indent in YAML".to_owned(),
                remedy: "indent with spaces, and put one space behind a dash".to_owned(),
            });
        }
    }
    Ok(())
}

/// What is known between two scalars.
struct Gap {
    brackets: usize,
    /// Whether a key could begin here, go-yaml's condition for taking a tab as an error.
    may_begin_key: bool,
    is_separated: bool,
    is_comment: bool,
}

impl Gap {
    /// Goes on by one character; false at a tab that must not be there.
    fn step(&mut self, c: char, next: char) -> bool {
        if matches!(c, '\n' | '\r') {
            *self = Gap { brackets: self.brackets, may_begin_key: true, is_separated: true, is_comment: false };
            return true;
        }
        if self.is_comment {
            return true;
        }
        let is_indicator = matches!(next, ' ' | '\t' | '\n' | '\r');
        match c {
            '\t' if self.brackets == 0 && self.may_begin_key => return false,
            ' ' | '\t' => {
                self.is_separated = true;
                return true;
            }
            '#' if self.is_separated => self.is_comment = true,
            '-' | '?' | ':' if is_indicator => {}
            _ => self.may_begin_key = false,
        }
        match c {
            '[' | '{' => self.brackets += 1,
            ']' | '}' => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.is_separated = false;
        true
    }
}
