//! Brackets and quotes that span lines, indented by added blanks for an event parser that is strict about it.

use crate::yaml::regions::{Regions, is_blank_or_break, is_break};

/// A text with blanks added, which mean nothing to go-yaml: at the start of lines within brackets and quotes, before a comment
/// that follows a token at once, and between a colon and a tab.
pub(super) struct Indented {
    /// The text for the event parser.
    pub text: String,
    /// The blanks that were added, in order.
    added: Vec<Added>,
}

/// Blanks that were added at one place.
struct Added {
    /// The character of the new text where they begin.
    at: usize,
    count: usize,
    /// How many were added before.
    before: usize,
    /// Whether they follow a colon, elsewhere than within brackets or quotes.
    follow_colon: bool,
}

impl Indented {
    /// Indents the text; none if there is nothing to do, or so much that a hostile text could ask for any amount of memory.
    pub fn of(content: &str) -> Option<Indented> {
        let mut indenter = Indenter::default();
        let most = 4 * content.len() + 4096;
        let mut characters = content.chars().peekable();
        while let Some(c) = characters.next() {
            indenter.step(c, characters.peek().copied().unwrap_or('\n'));
            if indenter.text.len() > most {
                return None;
            }
        }
        let Indenter { text, added, .. } = indenter;
        (!added.is_empty()).then_some(Indented { text, added })
    }

    /// The character of the original text that a character of the new one stands for.
    pub fn original(&self, character: usize) -> usize {
        let known = self.added.partition_point(|added| added.at <= character);
        let Some(&Added { at, count, before, .. }) = known.checked_sub(1).map(|last| &self.added[last]) else {
            return character;
        };
        character.max(at + count) - count - before
    }

    /// Whether all blanks were added where the event parser, too, saw brackets or quotes, or a colon that is no part of a text.
    /// By induction from the first to the last, they then change nothing but the space between tokens and lines, however the
    /// places were found.
    pub fn is_confirmed_by(&self, regions: &Regions) -> bool {
        let is_confirmed = |added: &Added| match added.follow_colon {
            false => regions.surround(added.at),
            true => !regions.have_text_at(added.at),
        };
        self.added.iter().take_while(|added| regions.reach(added.at)).all(is_confirmed)
    }
}

/// What the current character is part of.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Inside {
    #[default]
    Nothing,
    /// An anchor, an alias or a tag.
    Name,
    Plain,
    /// A quoted scalar; `true` behind a backslash that escapes the next character.
    Quotes(char, bool),
    Comment,
    /// A block scalar, whose lines are indented deeper than this column; without one it is taken to go on to the end.
    Block(Option<usize>),
}

/// Follows a text character by character, no closer than it takes to find its brackets, quotes and comments.
#[derive(Default)]
struct Indenter {
    text: String,
    /// The characters of `text`.
    written: usize,
    added: Vec<Added>,
    added_count: usize,
    inside: Inside,
    brackets: usize,
    /// How far lines within the current brackets or quotes are indented.
    margin: usize,
    before: Option<char>,
    column: usize,
    /// The column of the last token in this line; names and the colon behind a key are none.
    token: Option<usize>,
}

impl Indenter {
    fn step(&mut self, c: char, next: char) {
        if is_break(c) {
            self.step_break(c, next);
            return;
        }
        if let Inside::Block(parent) = self.inside
            && self.token.is_none()
            && c != ' '
        {
            let is_over = parent.is_some_and(|parent| self.column <= parent);
            (self.inside, self.token) =
                if is_over { (Inside::Nothing, None) } else { (self.inside, Some(self.column)) };
        }
        match self.inside {
            Inside::Comment | Inside::Block(_) => self.push(c),
            Inside::Quotes(quote, is_escaped) => {
                self.inside = inside_quotes(c, quote, is_escaped);
                self.push(c);
            }
            Inside::Nothing | Inside::Name | Inside::Plain => self.step_open(c, next),
        }
        self.before = Some(c);
        self.column += 1;
    }

    fn step_break(&mut self, c: char, next: char) {
        self.push(c);
        (self.before, self.column, self.token) = (Some(c), 0, None);
        self.inside = match self.inside {
            Inside::Quotes(quote, _) => Inside::Quotes(quote, false),
            Inside::Block(parent) => Inside::Block(parent),
            Inside::Plain if self.brackets > 0 => Inside::Plain,
            Inside::Nothing | Inside::Name | Inside::Plain | Inside::Comment => Inside::Nothing,
        };
        let is_in_region = self.brackets > 0 || matches!(self.inside, Inside::Quotes(..));
        // An empty line needs none, and between the two characters of a line break there can be none.
        if is_in_region && !is_break(next) {
            self.add_blanks(self.margin);
        }
    }

    /// Goes on by one character that is in no quotes, comment or block scalar.
    fn step_open(&mut self, c: char, next: char) {
        let is_in_brackets = self.brackets > 0;
        if self.begins_comment(c) {
            // The event parser wants a blank between a token and a comment.
            self.add_blanks(usize::from(!self.before.is_none_or(is_blank_or_break)));
            self.inside = Inside::Comment;
            self.push(c);
            return;
        }
        if matches!(c, ' ' | '\t') {
            if c == '\t' && self.before == Some(':') && self.inside == Inside::Nothing {
                self.add_blanks(1);
            }
            self.push(c);
            self.inside = if self.inside == Inside::Name { Inside::Nothing } else { self.inside };
            return;
        }
        if self.inside == Inside::Nothing {
            if !is_in_brackets {
                self.margin = self.token.map_or(self.column, |token| token + 1);
            }
            let parent = self.token;
            // Three dashes are no parent either, nor is it worth the effort to tell them from a text that begins with a dash.
            let is_token = match c {
                '!' | '&' | '*' => false,
                '-' => is_blank_or_break(next),
                ':' => self.token.is_none(),
                _ => true,
            };
            self.token = if is_token { Some(self.column) } else { self.token };
            self.inside = self.begin_token(c, next, parent);
        } else if is_in_brackets || c == ':' {
            self.inside = self.go_on(c, next);
        }
        self.push(c);
    }

    /// A comment follows a blank, or a bracket, a comma or a quote at once.
    fn begins_comment(&self, c: char) -> bool {
        let is_behind_token =
            |before| self.inside == Inside::Nothing && matches!(before, '[' | ']' | '{' | '}' | ',' | '"' | '\'');
        c == '#' && self.before.is_none_or(|before| is_blank_or_break(before) || is_behind_token(before))
    }

    /// What the first character of a token leads into; `parent` is the column of the token before it in its line.
    fn begin_token(&mut self, c: char, next: char, parent: Option<usize>) -> Inside {
        let is_in_brackets = self.brackets > 0;
        let is_separated = is_blank_or_break(next);
        match c {
            '|' | '>' if !is_in_brackets => Inside::Block(parent),
            '"' | '\'' => Inside::Quotes(c, false),
            '!' | '&' | '*' => Inside::Name,
            '-' if is_separated => Inside::Nothing,
            ':' | '?' if is_separated || is_in_brackets => Inside::Nothing,
            '[' | '{' => {
                self.brackets += 1;
                Inside::Nothing
            }
            ']' | '}' | ',' if is_in_brackets => self.go_on(c, next),
            _ => Inside::Plain,
        }
    }

    /// What a later character leads into: a colon and a blank end a key, and brackets and commas end every token within brackets.
    fn go_on(&mut self, c: char, next: char) -> Inside {
        let is_in_brackets = self.brackets > 0;
        match c {
            ':' if is_blank_or_break(next) || is_in_brackets && matches!(next, ',' | '[' | ']' | '{' | '}') => {
                Inside::Nothing
            }
            '[' | '{' if is_in_brackets => {
                self.brackets += 1;
                Inside::Nothing
            }
            ']' | '}' if is_in_brackets => {
                self.brackets -= 1;
                Inside::Nothing
            }
            ',' if is_in_brackets => Inside::Nothing,
            _ => self.inside,
        }
    }

    fn add_blanks(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let follow_colon = self.before == Some(':') && self.brackets == 0;
        self.added.push(Added { at: self.written, count, before: self.added_count, follow_colon });
        self.text.extend(std::iter::repeat_n(' ', count));
        self.written += count;
        self.added_count += count;
    }

    fn push(&mut self, c: char) {
        self.text.push(c);
        self.written += 1;
    }
}

fn inside_quotes(c: char, quote: char, is_escaped: bool) -> Inside {
    match c {
        _ if is_escaped => Inside::Quotes(quote, false),
        '\\' if quote == '"' => Inside::Quotes(quote, true),
        // A doubled quote ends the scalar here and begins the next one at once, which comes to the same.
        c if c == quote => Inside::Nothing,
        _ => Inside::Quotes(quote, false),
    }
}

#[cfg(test)]
mod tests {
    use crate::value::characters::Characters;

    use super::*;

    fn indented(text: &str) -> String {
        Indented::of(text).map_or_else(|| text.to_owned(), |indented| indented.text)
    }

    #[test]
    fn lines_within_brackets_and_quotes_are_indented_behind_their_parent() {
        for (text, expected) in [
            ("a: [\n1\n]\nb: 2", "a: [\n 1\n ]\nb: 2"),
            ("- - a: {\n\nb: 1}", "- - a: {\n\n     b: 1}"),
            ("  a:\n    [x,\ny]", "  a:\n    [x,\n    y]"),
            ("a: 'x\r\ny'\r\nb: \"\\\nz\"", "a: 'x\r\n y'\r\nb: \"\\\n z\""),
            ("a: &x [1,\n2]", "a: &x [1,\n 2]"),
            ("{\na: 1}", "{\na: 1}"),
        ] {
            assert_eq!(indented(text), expected);
        }
    }

    #[test]
    fn quotes_end_where_they_end_in_yaml() {
        for text in [
            "a: \"C:\\\\\" # [\nb: 1",
            "a: \"\\\"[\" # '\nb: 1",
            "a: 'C:\\' # \"\nb: 1",
            "a: 'it''s [' # '\nb: 1",
            "a: it's [\nb: 1",
            "a: b \"c\nd: [e]",
            "a: b - \"c\nd: 1",
            "a: &b'\nc: 1",
            "# [ \" '\na: 1 # {\nb: 1",
        ] {
            assert_eq!(indented(text), text);
        }
        assert_eq!(indented("{\"a\":\"b\nc\"}\n"), "{\"a\":\"b\nc\"}\n");
        assert_eq!(indented("k: {\"a\":\"b\nc\"}\n"), "k: {\"a\":\"b\n c\"}\n");
    }

    #[test]
    fn block_scalars_are_left_alone_to_their_end() {
        let text = "a: |\n  [\n\n \"\n  - x: [\nb: 1";
        assert_eq!(indented(text), text);
        assert_eq!(indented("- a: >-\n   [\n  b: [\n1]"), "- a: >-\n   [\n  b: [\n   1]");
    }

    #[test]
    fn comments_are_set_apart_from_tokens_and_tabs_from_colons() {
        assert_eq!(indented("a: [1]# c\nb:\t\"2\"#\n"), "a: [1] # c\nb: \t\"2\" #\n");
        assert_eq!(indented("a: b#c\n\td: 'e#:\t'\t# :\t"), "a: b#c\n\td: 'e#:\t'\t# :\t");
    }

    #[test]
    fn every_character_is_found_again() {
        let text = "é: [\n1, # é\n'日\nb']# c\nd:\t2";
        let indented = Indented::of(text).expect("there is something to indent");
        let found: Vec<(usize, char)> =
            indented.text.chars().enumerate().map(|(at, c)| (indented.original(at), c)).collect();
        assert!(found.is_sorted_by_key(|&(place, _)| place));
        for (place, c) in text.chars().enumerate() {
            assert_eq!(found.iter().rfind(|found| found.0 == place), Some(&(place, c)));
        }
        assert_eq!(indented.original(indented.text.chars().count()), text.chars().count());
    }

    #[test]
    fn a_text_that_asks_for_endless_blanks_is_left_alone() {
        let text = format!("{}[{}]", " ".repeat(1_000), "\n1,".repeat(1_000));
        assert!(Indented::of(&text).is_none());
    }

    #[test]
    fn what_the_event_parser_does_not_bear_out_is_not_confirmed() {
        // Brackets within a plain scalar, for once taken for real ones.
        let indented = Indented {
            text: "a: b [\n 1]".to_owned(),
            added: vec![Added { at: 7, count: 1, before: 0, follow_colon: false }],
        };
        let characters = Characters::of(&indented.text);
        let mut regions = Regions::default();
        for event in saphyr_parser::Parser::new_from_str(&indented.text) {
            let (event, span) = event.expect("the text is YAML");
            regions.note(&event, span, &indented.text, &characters);
        }
        assert!(!indented.is_confirmed_by(&regions));
        assert!(Indented { added: Vec::new(), ..indented }.is_confirmed_by(&regions));
    }
}
