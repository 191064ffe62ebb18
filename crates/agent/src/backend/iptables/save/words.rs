//! A saved rule split into words as `iptables-restore` splits it.

/// The words of a line: split at blanks, except within double quotes, where a backslash protects the next character. A quote
/// that is never closed reaches to the end.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = line.chars();
    while let Some(next) = chars.next() {
        match next {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if quoted => word.get_or_insert_default().extend(chars.next()),
            ' ' | '\t' | '\n' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together_and_backslashes_protect_quotes() {
        assert_eq!(
            split(r#"-m comment --comment "a \"b\" \'c\\d" -j C"#),
            ["-m", "comment", "--comment", r#"a "b" 'c\d"#, "-j", "C"]
        );
        assert_eq!(split("  a   b "), ["a", "b"]);
        assert_eq!(split(r#"--comment "" -j A\B"#), ["--comment", "", "-j", r"A\B"]);
        assert_eq!(split(r#"--comment "never closed -j C"#), ["--comment", "never closed -j C"]);
        assert!(split("").is_empty());
    }
}
