//! The event parser's errors: what they mean for the first document, and what they say to people.
//!
//! The parser tells its errors apart by nothing but their texts, so the texts are held by tests.

use saphyr_parser::ScanError;

use crate::diagnostic::DiagnosticKind;
use crate::value::Fault;

/// Whether the error is about text behind the document, at which go-yaml does not look but for the name of a directive.
pub(super) fn is_about_what_follows(error: &ScanError, content: &str) -> bool {
    let message = error.info();
    if message.contains("missing explicit document end marker before directive") {
        let line: String = content.chars().skip(error.marker().index()).take_while(|c| !c.is_whitespace()).collect();
        return matches!(line.as_str(), "%YAML" | "%TAG");
    }
    message.contains("did not find expected <document start>") || message.contains("misplaced bracket")
}

/// The error as it is told, in words for people where there are some for it.
pub(super) fn syntax_fault(error: &ScanError, content: &str) -> Fault {
    let message = error.info();
    let explanation = EXPLANATIONS.iter().find(|(part, ..)| message.contains(part));
    let (reason, remedy) = match explanation {
        Some((_, reason, remedy)) => ((*reason).to_owned(), *remedy),
        None => (
            format!("this is not valid YAML: {message}"),
            "check the indentation, quotes and brackets here and in the line before",
        ),
    };
    let mark = error.marker().index();
    // That a line is no key shows only behind it.
    let at = if message.contains("simple key") { last_line_before(content, mark) } else { mark };
    Fault { kind: DiagnosticKind::YamlSyntax, at, value: None, reason, remedy: remedy.to_owned() }
}

/// The first character of the last line that is not blank before a character.
fn last_line_before(content: &str, mark: usize) -> usize {
    let end = content.char_indices().nth(mark).map_or(content.len(), |(byte, _)| byte);
    let before = content[..end].trim_end();
    let start = before.rfind(['\n', '\r']).map_or(0, |line_break| line_break + 1);
    let line = before[start..].trim_start_matches([' ', '\t']);
    before[..before.len() - line.len()].chars().count()
}

/// Errors of the event parser in words for people, found by a part of its message.
const EXPLANATIONS: [Explanation; 15] = [
    ("tab", "a tab cannot indent in YAML", "indent with spaces"),
    (
        "mapping values are not allowed",
        "a colon with a blank behind it sets off a value, and none can stand here",
        "begin all keys in the same column, and put a text that holds a colon and a blank in quotes",
    ),
    (
        "illegal placement of ':'",
        "a key cannot begin in another line of the same brackets",
        "close the bracket before it",
    ),
    (
        "block sequence entries",
        "a list cannot begin in this line",
        "put its first dash on a line of its own below the key",
    ),
    (
        "unknown anchor",
        "no anchor of this name comes before",
        "define it with &, or put a text that begins with * in quotes",
    ),
    ("end of stream", "the quote that opens here is not closed", "close it"),
    (
        "simple key",
        "this line is neither \"key: value\" nor \"- element\"",
        "put a blank behind the colon or the dash, and indent a text that goes on from the line before",
    ),
    ("unexpected character", "a text cannot begin with this character", "put it in quotes"),
    ("unknown escape", "there is an escape that YAML does not have", "use single quotes, or double the backslash"),
    ("recursion limit", "brackets are nested deeper than 255 levels", "remove the nesting"),
    (
        "directive",
        "a line that begins with % is a directive, and none can stand here",
        "put a text that begins with % in quotes",
    ),
    ("handle", "the handle of this tag is not declared", "declare it in a %TAG line, or remove the tag"),
    ("expected key", "this line fits no mapping around it", "begin all keys of a mapping in the same column"),
    ("expected '-'", "this line fits no list around it", "begin all dashes of a list in the same column"),
    (
        "',' or",
        "a comma or the closing bracket is missing",
        "separate what stands within brackets by commas, and close them",
    ),
];

/// A part of the event parser's message, the reason and the remedy.
type Explanation = (&'static str, &'static str, &'static str);

#[cfg(test)]
mod tests {
    use saphyr_parser::Parser;

    use super::*;

    /// The first error of the event parser, unchanged.
    fn error(text: &str) -> ScanError {
        Parser::new_from_str(text).find_map(Result::err).expect("the text is refused")
    }

    /// A parser that words an error otherwise changes what people are told, or even what is taken.
    #[test]
    fn the_event_parser_words_its_errors_as_expected() {
        let brackets = format!("a: {}", "[".repeat(300));
        let expected = [
            ("a: x\n\ty", "while scanning a plain scalar, found a tab"),
            ("a: |\n\tx", "a block scalar content cannot start with a tab"),
            ("? \ta", "tabs disallowed in this context"),
            ("a: b: c", "mapping values are not allowed in this context"),
            ("[a\n: b]", "illegal placement of ':' indicator"),
            ("a: - b", "block sequence entries are not allowed in this context"),
            ("a: *b", "while parsing node, found unknown anchor"),
            ("a: \"b", "while scanning a quoted scalar, found unexpected end of stream"),
            ("a: 1\nb\n", "simple key expect ':'"),
            ("a: 1\nb", "simple key expected"),
            ("a: @x", "unexpected character: `@'"),
            ("a: \"\\q\"", "while parsing a quoted scalar, found unknown escape character"),
            (brackets.as_str(), "recursion limit exceeded"),
            ("%YAML 1.1\n%YAML 1.1\n---\na", "duplicate version directive"),
            ("a: 1\n%YAML 1.1\n---\n", "missing explicit document end marker before directive"),
            ("a: !e!x b", "the handle wasn't declared"),
            ("a: 1\n- b", "while parsing a block mapping, did not find expected key"),
            ("- a\nb: 1", "while parsing a block collection, did not find expected '-' indicator"),
            ("a: [1 2\n", "while parsing a flow sequence, expected ',' or ']'"),
            ("a: {b: c", "while parsing a flow mapping, did not find expected ',' or '}'"),
            ("{a: 1}\n{b: 1}", "did not find expected <document start>"),
            ("--- {a: 1}}", "misplaced bracket"),
        ];
        for (text, message) in expected {
            assert_eq!(error(text).info(), message, "{text:?}");
        }
        for (part, ..) in EXPLANATIONS {
            assert!(expected.iter().any(|(_, message)| message.contains(part)), "{part} is in none of the messages");
        }
    }

    #[test]
    fn only_what_stands_behind_a_whole_document_is_no_fault_of_it() {
        for (text, is_behind) in [
            ("--- {a: 1}}", true),
            ("{a: 1}\n{b: 1}", true),
            ("a: 1\n%YAML 1.1\n---\n", true),
            ("a: 1\n%FOO\n---\n", false),
            ("a: 1\nb\n", false),
        ] {
            assert_eq!(is_about_what_follows(&error(text), text), is_behind, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_key_is_pointed_at_where_it_begins() {
        for (text, at) in [("a: 1\n  \n b\n\n ", 9), ("a: 1\nb", 5), ("é: 1\n b \n", 6)] {
            assert_eq!(last_line_before(text, text.chars().count()), at, "{text:?}");
        }
    }
}
