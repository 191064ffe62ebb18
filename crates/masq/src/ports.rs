//! Source port ranges of `--to-ports`, and the share of connections that each range gets.

use std::fmt;
use std::str::FromStr;

/// The ports from `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    /// The lowest port, 0 to 65535; the kernel takes 0 too.
    pub first: u16,
    /// The highest port, not below `first` in a range that was parsed.
    pub last: u16,
}

impl PortRange {
    /// How many ports the range holds: 1 to 65536, or 0 where `last` is below `first`.
    pub fn size(self) -> u32 {
        (u32::from(self.last) + 1).saturating_sub(u32::from(self.first))
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// The ranges of `--to-ports` in the order given; overlaps and duplicates are kept. Empty means that ports are not restricted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PortRanges(pub Vec<PortRange>);

impl PortRanges {
    /// Whether no range is given, so that the kernel chooses ports as it likes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ports all ranges hold together; a port that two ranges hold counts twice.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|range| u64::from(range.size())).sum()
    }

    /// Whether one of the ranges holds a port.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| (range.first..=range.last).contains(&port))
    }

    /// How many different ports the ranges hold: 0 to 65536.
    pub fn distinct(&self) -> u32 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let (mut count, mut next) = (0, 0);
        for PortRange { first, last } in sorted {
            let (first, end) = (u32::from(first).max(next), u32::from(last) + 1);
            count += end.saturating_sub(first);
            next = next.max(end);
        }
        count
    }

    /// Each range with the share of connections it takes from those that no earlier range took.
    pub fn shares(&self) -> impl Iterator<Item = Share> {
        let mut remaining = self.size();
        self.0.iter().map(move |&range| {
            let share = Share { range, size: range.size(), remaining };
            remaining -= u64::from(share.size);
            share
        })
    }
}

/// The part of the remaining connections that one range takes: exactly `size` out of `remaining`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The range.
    pub range: PortRange,
    /// The ports of this range.
    pub size: u32,
    /// The ports of this and all later ranges; equal to `size` for the last one.
    pub remaining: u64,
}

impl fmt::Display for PortRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for PortRanges {
    type Err = PortsError;

    /// Reads `N` and `N-N` separated by commas, without blanks; the empty text is the empty list.
    fn from_str(text: &str) -> Result<PortRanges, PortsError> {
        if text.is_empty() {
            return Ok(PortRanges::default());
        }
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(PortRanges)
    }
}

impl FromStr for PortRange {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<PortRange, PortsError> {
        let mut ends = text.split('-');
        let (first, last) = match (ends.next(), ends.next(), ends.next()) {
            (Some(only), None, _) => (only, only),
            (Some(first), Some(last), None) => (first, last),
            _ => return Err(PortsError::TooManyDashes { range: text.to_owned() }),
        };
        let range = PortRange { first: parse_port(first, text)?, last: parse_port(last, text)? };
        if range.first > range.last {
            return Err(PortsError::Descending { range: text.to_owned() });
        }
        Ok(range)
    }
}

/// Reads a port as Go's `strconv.Atoi` does: one plus sign and leading zeros pass, other bases and `_` do not.
fn parse_port(text: &str, range: &str) -> Result<u16, PortsError> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PortsError::NotANumber { port: text.to_owned(), range: range.to_owned() });
    }
    digits.parse().map_err(|_| PortsError::AboveMax { port: text.to_owned(), range: range.to_owned() })
}

/// Why a text is no list of port ranges. The message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortsError {
    /// An end of a range is empty or holds something else than digits.
    #[error("{port:?} in {range:?} is not a port; write decimal ports like 1024-29999,32768-65535, without blanks")]
    NotANumber {
        /// The end that is no number.
        port: String,
        /// The range it stands in.
        range: String,
    },
    /// More than one dash.
    #[error("{range:?} has more than one dash; write a range as FIRST-LAST and separate ranges by commas")]
    TooManyDashes {
        /// The range as written.
        range: String,
    },
    /// The first port is above the last one.
    #[error("in {range:?} the first port is above the last; write the lower port first")]
    Descending {
        /// The range as written.
        range: String,
    },
    /// The reference takes such a port and then fails at every sync.
    #[error("{port:?} in {range:?} is above 65535, the highest port there is; lower it")]
    AboveMax {
        /// The port as written.
        port: String,
        /// The range it stands in.
        range: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plus_sign_and_leading_zeros_pass_and_are_not_printed() {
        let ranges: PortRanges = "+0080-00088,5000".parse().unwrap();
        assert_eq!(ranges.to_string(), "80-88,5000");
    }

    #[test]
    fn the_shares_of_all_ranges_use_up_what_remains() {
        let ranges: PortRanges = "1-10,20-24,30".parse().unwrap();
        let shares: Vec<_> = ranges.shares().map(|share| (share.size, share.remaining)).collect();
        assert_eq!(shares, [(10, 16), (5, 6), (1, 1)]);
    }

    #[test]
    fn the_whole_space_of_ports_is_one_range() {
        let ranges: PortRanges = "0-65535".parse().unwrap();
        assert_eq!(ranges.size(), 65_536);
    }

    #[test]
    fn a_port_that_two_ranges_hold_is_one_port() {
        for (text, distinct) in [("1-10,5-20,7", 20), ("0-65535,80", 65_536), ("30,1-2", 3), ("", 0)] {
            assert_eq!(text.parse::<PortRanges>().unwrap().distinct(), distinct, "{text}");
        }
        let ranges: PortRanges = "1-10,30".parse().unwrap();
        assert_eq!([0, 1, 10, 11, 30].map(|port| ranges.contains(port)), [false, true, true, false, true]);
    }

    #[test]
    fn the_empty_text_restricts_nothing() {
        assert!("".parse::<PortRanges>().unwrap().is_empty());
    }

    #[test]
    fn each_mistake_is_named_with_the_range_it_is_in() {
        for (text, part) in [
            ("80,65536", "\"65536\" in \"65536\" is above 65535"),
            ("80,9-8", "\"9-8\""),
            ("1-2-3", "more than one dash"),
            ("80,", "\"\" in \"\" is not a port"),
            ("-", "is not a port"),
            ("++1", "is not a port"),
        ] {
            let message = text.parse::<PortRanges>().unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
