//! Brackets and quotes that span lines, written on one line, for an event parser that is strict about their indentation.

/// Replaces the line breaks and comments within brackets, the line breaks within quotes and the tabs between tokens by spaces,
/// one for one, so that every character keeps its index.
pub(super) fn unfold(content: &str) -> String {
    let mut unfolder = Unfolder { brackets: 0, inside: Inside::Nothing, before: '\n' };
    let mut unfolded = String::with_capacity(content.len());
    let mut characters = content.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied().unwrap_or('\n');
        unfolded.push(unfolder.step(c, next));
    }
    unfolded
}

/// What the current character is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Plain,
    Comment,
    Quotes(char),
}

struct Unfolder {
    brackets: usize,
    inside: Inside,
    before: char,
}

impl Unfolder {
    /// Goes on by one character and returns what stands in its place.
    fn step(&mut self, c: char, next: char) -> char {
        let is_break = matches!(c, '\n' | '\r');
        let shown = match self.inside {
            Inside::Quotes(_) if is_break => ' ',
            Inside::Comment if self.brackets > 0 => ' ',
            Inside::Nothing | Inside::Plain if is_break && self.brackets > 0 => ' ',
            _ => c,
        };
        let shown = match self.inside {
            Inside::Quotes(quote) => {
                self.step_quoted(c, quote);
                shown
            }
            Inside::Comment | Inside::Nothing | Inside::Plain if is_break => {
                self.inside = Inside::Nothing;
                shown
            }
            Inside::Comment => shown,
            Inside::Nothing | Inside::Plain => self.step_open(c, next, shown),
        };
        self.before = c;
        shown
    }

    fn step_quoted(&mut self, c: char, quote: char) {
        if c == '\\' && quote == '"' && self.before == '\\' {
            // An escaped backslash escapes nothing itself.
            self.before = ' ';
        } else if c == quote && !(quote == '"' && self.before == '\\') {
            self.inside = Inside::Nothing;
        }
    }

    fn step_open(&mut self, c: char, next: char, shown: char) -> char {
        let in_brackets = self.brackets > 0;
        match c {
            '#' if matches!(self.before, ' ' | '\t' | '\n' | '\r') => {
                self.inside = Inside::Comment;
                return if in_brackets { ' ' } else { '#' };
            }
            '"' | '\'' if self.inside == Inside::Nothing => self.inside = Inside::Quotes(c),
            '[' | '{' if in_brackets || self.inside == Inside::Nothing => {
                self.brackets += 1;
                self.inside = Inside::Nothing;
            }
            ']' | '}' if in_brackets => {
                self.brackets -= 1;
                self.inside = Inside::Nothing;
            }
            ',' if in_brackets => self.inside = Inside::Nothing,
            ':' | '-' | '?' if matches!(next, ' ' | '\t' | '\n' | '\r') => self.inside = Inside::Nothing,
            '\t' if self.inside == Inside::Nothing => return ' ',
            ' ' | '\t' => {}
            _ => self.inside = Inside::Plain,
        }
        shown
    }
}
