//! What stands between the scalars: the tabs and the names of anchors that go-yaml refuses there.

use std::ops::Range;

use crate::diagnostic::DiagnosticKind;
use crate::value::Fault;

/// Whether there can be anything to refuse at all.
pub(super) fn are_suspicious(content: &str) -> bool {
    content.contains(['\t', '&', '*'])
}

/// Looks at the text between the scalars, up to the character `end` if given.
///
/// # Errors
/// A tab stands where a new key could begin, so that go-yaml does not skip it, or an anchor's name has a character that is
/// neither a letter, a digit, `_` nor `-`.
pub(super) fn check(content: &str, scalars: &[Range<usize>], end: Option<usize>) -> Result<(), Fault> {
    let mut gap = Gap::at_line_start(0);
    // A scalar's place begins with its anchor and tag, which are still to be looked at.
    let mut is_in_scalar = false;
    let mut scalars = scalars.iter().peekable();
    let mut characters = content.chars().enumerate().take(end.unwrap_or(usize::MAX)).peekable();
    while let Some((at, c)) = characters.next() {
        while scalars.next_if(|scalar| scalar.end <= at).is_some() {
            is_in_scalar = false;
        }
        is_in_scalar |=
            scalars.peek().is_some_and(|scalar| scalar.start <= at && gap.may_begin_scalar(c, scalar.start == at));
        if is_in_scalar {
            gap = Gap { may_begin_key: false, state: State::Token, ..gap };
            continue;
        }
        let next = characters.peek().map_or('\n', |&(_, next)| next);
        if let Some(refused) = gap.step(c, next) {
            return Err(refused.at(at));
        }
    }
    Ok(())
}

/// What is known between two scalars.
struct Gap {
    brackets: usize,
    /// Whether a key could begin here, go-yaml's condition for taking a tab as an error.
    may_begin_key: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A new token may begin.
    Blank,
    /// Within or right behind a token.
    Token,
    /// Within the name of an anchor or alias, whose first character is still missing if `true`.
    Name(bool),
    Comment,
}

enum Refused {
    Tab,
    Name,
}

impl Refused {
    fn at(self, at: usize) -> Fault {
        let (reason, remedy) = match self {
            Refused::Tab => ("a tab cannot indent in YAML", "indent with spaces, and put one space behind a dash"),
            Refused::Name => (
                "the name of an anchor is made of ASCII letters, digits, _ and - only",
                "rename the anchor, or put a text that begins with & or * in quotes",
            ),
        };
        let kind = DiagnosticKind::YamlSyntax;
        Fault { kind, at, value: None, reason: reason.to_owned(), remedy: remedy.to_owned() }
    }
}

impl Gap {
    fn at_line_start(brackets: usize) -> Gap {
        Gap { brackets, may_begin_key: true, state: State::Blank }
    }

    /// Whether the character is a scalar's own first one, at or behind the start of its place.
    fn may_begin_scalar(&self, c: char, is_start: bool) -> bool {
        !matches!(c, ' ' | '\t' | '\n' | '\r' | '#' | '&' | '!') && (is_start || self.state == State::Blank)
    }

    /// Goes on by one character; tells what is refused there.
    fn step(&mut self, c: char, next: char) -> Option<Refused> {
        if let State::Name(is_empty) = self.state {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
                self.state = State::Name(false);
                return None;
            }
            let may_end = matches!(c, ' ' | '\t' | '\n' | '\r' | ',' | ']' | '}');
            if is_empty || !may_end {
                return Some(Refused::Name);
            }
            self.state = State::Token;
        }
        match c {
            '\n' | '\r' => *self = Gap::at_line_start(self.brackets),
            _ if self.state == State::Comment => {}
            '\t' if self.brackets == 0 && self.may_begin_key => return Some(Refused::Tab),
            ' ' | '\t' => self.state = State::Blank,
            '#' if self.state == State::Blank => self.state = State::Comment,
            c => self.step_token(c, next),
        }
        None
    }

    fn step_token(&mut self, c: char, next: char) {
        let is_indicator = matches!(c, '-' | '?' | ':') && matches!(next, ' ' | '\t' | '\n' | '\r');
        self.may_begin_key &= is_indicator;
        match c {
            '&' | '*' if self.state == State::Blank => {
                self.state = State::Name(true);
                return;
            }
            '[' | '{' => self.brackets += 1,
            ']' | '}' => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        // An anchor may follow a bracket or a comma at once.
        self.state = if matches!(c, '[' | '{' | ',') { State::Blank } else { State::Token };
    }
}
