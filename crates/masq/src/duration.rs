//! Durations in the syntax of Go's `time.ParseDuration`, printed as Go prints them.

use std::fmt;
use std::str::FromStr;

/// A signed span of time in nanoseconds, about 292 years at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The magnitude of the lowest `i64`, which a negative duration may reach.
const LIMIT: u64 = i64::MIN.unsigned_abs();

impl FromStr for GoDuration {
    type Err = DurationError;

    /// Reads an optional sign and then numbers with units, like `1h30m` or `1.5s`; a bare `0` needs no unit.
    fn from_str(text: &str) -> Result<GoDuration, DurationError> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(GoDuration(0));
        }
        if rest.is_empty() {
            return Err(DurationError::Empty);
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (nanoseconds, behind) = parse_component(rest)?;
            total = total.checked_add(nanoseconds).filter(|&sum| sum <= LIMIT).ok_or(DurationError::TooLong)?;
            rest = behind;
        }
        if negative {
            return Ok(GoDuration(total.wrapping_neg() as i64));
        }
        i64::try_from(total).map(GoDuration).map_err(|_| DurationError::TooLong)
    }
}

/// Reads one number with its unit; returns its nanoseconds and the text behind it.
fn parse_component(text: &str) -> Result<(u64, &str), DurationError> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::NotANumber { at: text.to_owned() });
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let scale = unit_nanoseconds(unit)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let nanoseconds = whole
        .checked_mul(scale)
        .and_then(|n| n.checked_add(fraction_nanoseconds(fraction, scale)))
        .filter(|&n| n <= LIMIT)
        .ok_or(DurationError::TooLong)?;
    Ok((nanoseconds, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanoseconds(unit: &str) -> Result<u64, DurationError> {
    match unit {
        "ns" => Ok(1),
        // The micro sign U+00B5 and the Greek letter U+03BC look alike; Go takes both.
        "us" | "\u{b5}s" | "\u{3bc}s" => Ok(MICROSECOND),
        "ms" => Ok(MILLISECOND),
        "s" => Ok(SECOND),
        "m" => Ok(MINUTE),
        "h" => Ok(HOUR),
        "" => Err(DurationError::NoUnit),
        _ => Err(DurationError::UnknownUnit { unit: unit.to_owned() }),
    }
}

/// The nanoseconds of the digits behind a decimal point, in floating point as Go does it, so that both truncate alike.
fn fraction_nanoseconds(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        // Digits that no longer fit are below a nanosecond whatever the unit.
        if value > (i64::MAX as u64) / 10 {
            break;
        }
        value = value * 10 + u64::from(digit - b'0');
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let n = self.0.unsigned_abs();
        match n {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{sign}{n}ns"),
            MICROSECOND..MILLISECOND => write!(f, "{sign}{}µs", Decimal { n, unit: MICROSECOND }),
            MILLISECOND..SECOND => write!(f, "{sign}{}ms", Decimal { n, unit: MILLISECOND }),
            SECOND..MINUTE => write!(f, "{sign}{}s", Decimal { n, unit: SECOND }),
            MINUTE.. => {
                let seconds = Decimal { n: n % MINUTE, unit: SECOND };
                let minutes = n / MINUTE % 60;
                match n / HOUR {
                    0 => write!(f, "{sign}{minutes}m{seconds}s"),
                    hours => write!(f, "{sign}{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// `n` in units, with as many decimals as it needs.
struct Decimal {
    n: u64,
    unit: u64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.n / self.unit)?;
        let fraction = self.n % self.unit;
        if fraction == 0 {
            return Ok(());
        }
        let width = self.unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(f, ".{}", digits.trim_end_matches('0'))
    }
}

/// Why a text is no duration. The message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}; {}", self.reason(), self.remedy())]
pub enum DurationError {
    /// Nothing, or a sign alone.
    Empty,
    /// Something else where a number must stand.
    NotANumber {
        /// The text from there on.
        at: String,
    },
    /// A number alone.
    NoUnit,
    /// A unit that Go does not know.
    UnknownUnit {
        /// The unit as written.
        unit: String,
    },
    /// Above 2^63 nanoseconds.
    TooLong,
}

impl DurationError {
    /// Why the text is not taken.
    pub fn reason(&self) -> String {
        match self {
            DurationError::Empty => "the duration is empty".to_owned(),
            DurationError::NotANumber { at } => format!("a number must stand at {at:?}"),
            DurationError::NoUnit => "the unit is missing".to_owned(),
            DurationError::UnknownUnit { unit } => format!("{unit:?} is not a unit"),
            DurationError::TooLong => "the duration is longer than 292 years, the most there is".to_owned(),
        }
    }

    /// What to write instead.
    pub fn remedy(&self) -> &'static str {
        match self {
            DurationError::Empty => "write a number with a unit, like 60s, or remove the key",
            DurationError::NotANumber { .. } => "write numbers with units and nothing between them, like 1m30s",
            DurationError::NoUnit => "write s for seconds, m for minutes or h for hours behind the number, like 60s",
            DurationError::UnknownUnit { .. } => "use h, m, s, ms, us or ns, in lower case and without blanks",
            DurationError::TooLong => "shorten it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<i64, DurationError> {
        text.parse::<GoDuration>().map(|duration| duration.0)
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_000, "1µs"),
            (1_100, "1.1µs"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (3_661_001_001_001, "1h1m1.001001001s"),
            (-5_000_000_000, "-5s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration(nanoseconds).to_string(), text);
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for nanoseconds in [1, 999, 1_001, 123_456_789, 59_999_999_999, 86_400_000_000_000, i64::MAX, i64::MIN] {
            assert_eq!(parse(&GoDuration(nanoseconds).to_string()), Ok(nanoseconds));
        }
    }

    #[test]
    fn both_letters_mu_are_taken() {
        assert_eq!(parse("1\u{b5}s"), Ok(1_000));
        assert_eq!(parse("1\u{3bc}s"), Ok(1_000));
    }

    #[test]
    fn a_fraction_below_a_nanosecond_is_dropped() {
        assert_eq!(parse("0.0000000001s"), Ok(0));
        assert_eq!(parse("1.00000000000000000000000000001s"), Ok(1_000_000_000));
    }

    #[test]
    fn each_mistake_is_told_apart() {
        assert_eq!(parse(""), Err(DurationError::Empty));
        assert_eq!(parse("+"), Err(DurationError::Empty));
        assert_eq!(parse("60"), Err(DurationError::NoUnit));
        assert_eq!(parse("1d"), Err(DurationError::UnknownUnit { unit: "d".to_owned() }));
        assert_eq!(parse("5 s"), Err(DurationError::UnknownUnit { unit: " s".to_owned() }));
        assert_eq!(parse("s"), Err(DurationError::NotANumber { at: "s".to_owned() }));
        assert_eq!(parse("9223372036854775808ns"), Err(DurationError::TooLong));
        assert_eq!(parse("99999999999999999999999h"), Err(DurationError::TooLong));
    }
}
