//! The known name that a mistyped one probably meant, for "did you mean".

/// The known name that `name` is most like, if at most a third of its letters differ; the first of several alike.
///
/// Only ASCII letters and digits count, in either case: separators are the first thing people mix up.
pub fn nearest<'known>(name: &str, known: impl IntoIterator<Item = &'known str>) -> Option<&'known str> {
    /// Longer names are not compared: the comparison takes time by the product of the lengths.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let name = bare(name);
    known
        .into_iter()
        .map(|candidate| (candidate, bare(candidate)))
        .map(|(candidate, letters)| (distance(&name, &letters), letters.len() / 3, candidate))
        .filter(|&(distance, allowed, _)| distance <= allowed)
        .min_by_key(|&(distance, ..)| distance)
        .map(|(.., candidate)| candidate)
}

fn bare(name: &str) -> Vec<u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The number of letters to insert, remove or change to turn one name into the other.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_case_do_not_count() {
        let known = ["log_file", "masq-chain", "masqLinkLocal"];
        assert_eq!(nearest("Log-File", known), Some("log_file"));
        assert_eq!(nearest("masqchain", known), Some("masq-chain"));
        assert_eq!(nearest("masq-link-local", known), Some("masqLinkLocal"));
    }

    #[test]
    fn a_third_of_the_letters_may_differ_and_no_more() {
        let known = ["v", "random-fully", "cidrLimit"];
        assert_eq!(nearest("random-fuly", known), Some("random-fully"));
        assert_eq!(nearest("random", known), None);
        assert_eq!(nearest("w", known), None);
        assert_eq!(nearest("cidrMinim", known), Some("cidrLimit"));
        assert_eq!(nearest("cideMinim", known), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn the_closest_wins_and_of_several_the_first() {
        assert_eq!(nearest("abcdeg", ["abcdxf", "abcdef"]), Some("abcdef"));
        assert_eq!(nearest("abcdef", ["abcdxf", "abcdyf"]), Some("abcdxf"));
    }

    #[test]
    fn an_endless_name_is_like_none() {
        assert_eq!(nearest(&"cidrLimit".repeat(1_000_000), ["cidrLimit"]), None);
    }
}
