//! Brackets and quotes that span lines, written on one line, for an event parser that is strict about their indentation.

/// Replaces the line breaks and comments within brackets, the line breaks within quotes and the tabs between tokens by spaces,
/// one for one, so that every character keeps its index. None where that could change what the text means.
pub(super) fn unfold(content: &str) -> Option<String> {
    let mut unfolder =
        Unfolder { brackets: 0, inside: Inside::Nothing, before: '\n', line_has_token: false, has_ended_plain: false };
    let mut unfolded = String::with_capacity(content.len());
    let mut characters = content.chars().peekable();
    while let Some(c) = characters.next() {
        let next = characters.peek().copied().unwrap_or('\n');
        unfolded.push(unfolder.step(c, next)?);
    }
    Some(unfolded)
}

/// What the current character is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// An anchor, an alias or a tag.
    Name,
    Plain,
    Quotes(char),
    /// A comment, which is replaced if `true`.
    Comment(bool),
}

struct Unfolder {
    brackets: usize,
    inside: Inside,
    before: char,
    line_has_token: bool,
    /// Whether a comment has ended a plain scalar within brackets, which must not go on behind it.
    has_ended_plain: bool,
}

impl Unfolder {
    /// Goes on by one character and returns what stands in its place.
    fn step(&mut self, c: char, next: char) -> Option<char> {
        let is_break = matches!(c, '\n' | '\r');
        let shown = match self.inside {
            Inside::Quotes(quote) => {
                self.step_quoted(c, quote);
                if is_break { ' ' } else { c }
            }
            Inside::Comment(_) | Inside::Nothing | Inside::Name | Inside::Plain if is_break => {
                self.inside =
                    if self.inside == Inside::Plain && self.brackets > 0 { Inside::Plain } else { Inside::Nothing };
                if self.brackets > 0 { ' ' } else { c }
            }
            Inside::Comment(is_replaced) => {
                if is_replaced {
                    ' '
                } else {
                    c
                }
            }
            Inside::Nothing | Inside::Name | Inside::Plain => self.step_open(c, next)?,
        };
        self.line_has_token = !is_break && (self.line_has_token || !matches!(c, ' ' | '\t'));
        self.before = c;
        Some(shown)
    }

    fn step_quoted(&mut self, c: char, quote: char) {
        if c == '\\' && quote == '"' && self.before == '\\' {
            // An escaped backslash escapes nothing itself.
            self.before = ' ';
        } else if c == quote && !(quote == '"' && self.before == '\\') {
            self.inside = Inside::Nothing;
        }
    }

    fn step_open(&mut self, c: char, next: char) -> Option<char> {
        let in_brackets = self.brackets > 0;
        if self.begins_comment(c) {
            self.has_ended_plain |= in_brackets && self.inside == Inside::Plain;
            let may_join = matches!(self.before, ' ' | '\t' | '\n' | '\r');
            self.inside = Inside::Comment(in_brackets || !may_join);
            return Some(if in_brackets || !may_join { ' ' } else { c });
        }
        let is_blank = matches!(c, ' ' | '\t');
        if self.has_ended_plain && !is_blank {
            if !matches!(c, ',' | ']' | '}') {
                return None;
            }
            self.has_ended_plain = false;
        }
        let is_separator = matches!(next, ' ' | '\t' | '\n' | '\r');
        self.inside = match c {
            // Brackets and quotes mean nothing in a block scalar.
            '|' | '>' if self.inside == Inside::Nothing && !in_brackets => return None,
            '"' | '\'' if self.inside == Inside::Nothing => Inside::Quotes(c),
            '!' | '&' | '*' if self.inside == Inside::Nothing => Inside::Name,
            '[' | '{' if in_brackets || self.inside == Inside::Nothing => {
                self.brackets += 1;
                Inside::Nothing
            }
            ']' | '}' if in_brackets => {
                self.brackets -= 1;
                Inside::Nothing
            }
            ',' if in_brackets => Inside::Nothing,
            ':' | '-' | '?' if is_separator => Inside::Nothing,
            '\t' if self.inside == Inside::Nothing && (in_brackets || self.line_has_token) => return Some(' '),
            _ if is_blank && self.inside == Inside::Name => Inside::Nothing,
            _ if is_blank || self.inside == Inside::Name => self.inside,
            _ => Inside::Plain,
        };
        Some(c)
    }

    /// A comment follows a blank, or a bracket, a comma or a quote at once.
    fn begins_comment(&self, c: char) -> bool {
        let follows_token =
            self.inside == Inside::Nothing && matches!(self.before, '[' | ']' | '{' | '}' | ',' | '"' | '\'');
        c == '#' && (matches!(self.before, ' ' | '\t' | '\n' | '\r') || follows_token)
    }
}
