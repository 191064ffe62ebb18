//! The known name that a mistyped one probably meant.

/// The name among `known` that differs from `word` by separators and case alone, or by at most a third of its letters.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Bounds the work on a hostile word; the longest flag has 32 letters.
    if word.len() > 64 {
        return None;
    }
    let wanted = bare(word);
    let tolerated = (wanted.len() / 3).min(2);
    known
        .map(|name| (distance(&wanted, &bare(name)), name))
        .filter(|(d, _)| *d <= tolerated)
        .min()
        .map(|(_, name)| name)
}

/// The letters that tell names apart: klog's underscores and our dashes are the first thing people mix up.
fn bare(name: &str) -> Vec<char> {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// The number of letters to insert, delete or replace.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["v", "log_file", "masq-chain", "random-fully"];

    #[test]
    fn separators_and_case_do_not_count() {
        assert_eq!(nearest("Log-File", KNOWN.into_iter()), Some("log_file"));
        assert_eq!(nearest("masqchain", KNOWN.into_iter()), Some("masq-chain"));
    }

    #[test]
    fn one_or_two_wrong_letters_are_forgiven_in_a_long_word_only() {
        assert_eq!(nearest("random-fuly", KNOWN.into_iter()), Some("random-fully"));
        assert_eq!(nearest("random", KNOWN.into_iter()), None);
        assert_eq!(nearest("w", KNOWN.into_iter()), None);
    }
}
