//! What the kernel holds against what it should hold, line by line: for people, and without a word on how to get from one to the other.

use anyhow::Error;
use masq::cidr::Family;

use super::iptables::save::Observed;

/// Two lists whose lengths multiply to more than this are not aligned line by line, which would take that much memory.
const MOST_PAIRS: usize = 1 << 22;

/// How the kernel differs from a policy, and what else was seen on the way.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The differences; none if the kernel holds the policy, and nothing else of ours.
    pub groups: Vec<Group>,
    /// What could not be compared.
    pub failures: Vec<Error>,
    /// What our rules have counted.
    pub counted: Vec<Counted>,
    /// The version of iptables, if it is too old for the `--random-fully` that the policy asks for.
    pub too_old: Option<String>,
    /// The nat tables of iptables-legacy that were read for it, whole: to read them takes a program each.
    pub legacy: Vec<(Family, Observed)>,
}

/// Connections of one family by what became of them, since the counters of our rules were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Their family.
    pub family: Family,
    /// How many were exempt.
    pub exempt: u64,
    /// How many were masqueraded.
    pub masqueraded: u64,
}

/// Differences in one place, in the order in which they stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// A table, a chain or a set, in words.
    pub place: String,
    /// What differs; never empty.
    pub lines: Vec<Line>,
}

/// One thing that is on one side only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// On which.
    pub side: Side,
    /// What it is, in the words of the program that would show it.
    pub text: String,
}

/// The side that has what the other lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The policy asks for it, and the kernel does not hold it.
    Missing,
    /// The kernel holds it, and the policy does not ask for it.
    Unwanted,
}

impl Comparison {
    /// Nothing could be compared.
    pub fn failed(error: Error) -> Comparison {
        Comparison { failures: vec![error], ..Comparison::default() }
    }

    /// Adds the differences and failures of another place.
    pub fn append(&mut self, other: Comparison) {
        self.groups.extend(other.groups);
        self.failures.extend(other.failures);
        self.counted.extend(other.counted);
        self.legacy.extend(other.legacy);
    }
}

impl Line {
    /// The policy asks for it, and the kernel does not hold it.
    pub fn missing(text: impl Into<String>) -> Line {
        Line { side: Side::Missing, text: text.into() }
    }

    /// The kernel holds it, and the policy does not ask for it.
    pub fn unwanted(text: impl Into<String>) -> Line {
        Line { side: Side::Unwanted, text: text.into() }
    }
}

/// Aligns two lists, given their lengths and which of their members are the same, and answers the index of each member that has no
/// counterpart in the other one, in order. As few as possible are answered, unless the lists are very long.
pub fn align(wanted: usize, found: usize, same: impl Fn(usize, usize) -> bool) -> Vec<(Side, usize)> {
    let shorter = wanted.min(found);
    let head = (0..shorter).take_while(|&index| same(index, index)).count();
    let tail = (1..=shorter - head).take_while(|&back| same(wanted - back, found - back)).count();
    let (rows, columns) = (wanted - head - tail, found - head - tail);
    if rows.saturating_mul(columns) > MOST_PAIRS {
        let unwanted = (head..head + columns).map(|index| (Side::Unwanted, index));
        return unwanted.chain((head..head + rows).map(|index| (Side::Missing, index))).collect();
    }
    let same = |row: usize, column: usize| same(head + row, head + column);
    let common = common_lengths(rows, columns, same);
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    while row < rows || column < columns {
        let at = |row: usize, column: usize| common[row * (columns + 1) + column];
        if row < rows && column < columns && same(row, column) {
            (row, column) = (row + 1, column + 1);
        } else if row == rows || (column < columns && at(row, column + 1) >= at(row + 1, column)) {
            lines.push((Side::Unwanted, head + column));
            column += 1;
        } else {
            lines.push((Side::Missing, head + row));
            row += 1;
        }
    }
    lines
}

/// The length of the longest common subsequence of what is left from each pair of places on, row by row.
fn common_lengths(rows: usize, columns: usize, same: impl Fn(usize, usize) -> bool) -> Vec<u32> {
    let width = columns + 1;
    let mut common = vec![0_u32; (rows + 1) * width];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row * width + column] = if same(row, column) {
                common[(row + 1) * width + column + 1] + 1
            } else {
                common[(row + 1) * width + column].max(common[row * width + column + 1])
            };
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn aligned(wanted: &str, found: &str) -> String {
        let (wanted, found): (Vec<char>, Vec<char>) = (wanted.chars().collect(), found.chars().collect());
        let lines = align(wanted.len(), found.len(), |row, column| wanted[row] == found[column]);
        let text = |(side, index): (Side, usize)| match side {
            Side::Missing => format!("+{}", wanted[index]),
            Side::Unwanted => format!("-{}", found[index]),
        };
        lines.into_iter().map(text).collect()
    }

    #[test]
    fn equal_lists_have_no_difference() {
        assert_eq!(aligned("", ""), "");
        assert_eq!(aligned("abc", "abc"), "");
    }

    #[test]
    fn only_what_differs_is_told() {
        assert_eq!(aligned("abcd", "axcd"), "-x+b");
        assert_eq!(aligned("abcd", "acd"), "+b");
        assert_eq!(aligned("ab", "abab"), "-a-b");
        assert_eq!(aligned("abcdef", "bcdefa"), "+a-a", "a member that has moved");
        assert_eq!(aligned("", "ab"), "-a-b");
    }

    #[test]
    fn very_long_lists_without_anything_in_common_are_told_whole() {
        let lines = align(3_000, 3_000, |_, _| false);
        assert_eq!((lines.len(), lines[0], lines[5_999]), (6_000, (Side::Unwanted, 0), (Side::Missing, 2_999)));
    }

    proptest! {
        #[test]
        fn what_is_left_without_the_answered_members_is_the_same_on_both_sides(wanted in "[abc]{0,12}", found in "[abc]{0,12}") {
            let (wanted, found): (Vec<char>, Vec<char>) = (wanted.chars().collect(), found.chars().collect());
            let lines = align(wanted.len(), found.len(), |row, column| wanted[row] == found[column]);
            let rest = |members: &[char], side| -> String {
                let kept = members.iter().enumerate().filter(|(index, _)| !lines.contains(&(side, *index)));
                kept.map(|(_, member)| member).collect()
            };
            prop_assert_eq!(rest(&wanted, Side::Missing), rest(&found, Side::Unwanted));
        }
    }
}
