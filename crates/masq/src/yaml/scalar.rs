//! YAML 1.1 scalars as go-yaml v2 resolves them: which plain text is a boolean, a number, nothing or a string.

use std::borrow::Cow;

use crate::value::Value;

/// The type that a scalar's tag asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    /// No tag on a plain scalar: its text decides.
    None,
    /// A tag that leaves the text alone: `!!str`, a tag of somebody's own, or quotes.
    String,
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Binary,
}

impl Tag {
    /// The tag with this full name, like `tag:yaml.org,2002:int`.
    pub fn named(name: &str) -> Tag {
        match name.strip_prefix("tag:yaml.org,2002:") {
            Some("bool") => Tag::Bool,
            Some("int") => Tag::Int,
            Some("float") => Tag::Float,
            Some("null") => Tag::Null,
            Some("timestamp") => Tag::Timestamp,
            Some("binary") => Tag::Binary,
            Some(_) | None => Tag::String,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Tag::None | Tag::String => "a string",
            Tag::Bool => "a boolean (!!bool)",
            Tag::Int => "an integer (!!int)",
            Tag::Float => "a number (!!float)",
            Tag::Null => "nothing (!!null)",
            Tag::Timestamp => "a date (!!timestamp)",
            Tag::Binary => "base64 (!!binary)",
        }
    }
}

/// Why a scalar cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScalarError {
    /// Its tag promises another type.
    Mismatch { tag: &'static str },
    /// Infinity or not-a-number, which the reference's way through JSON cannot carry.
    NotFinite,
}

/// Resolves a scalar.
///
/// # Errors
/// The text is not of the tag's type, or a number that is not finite.
pub(super) fn resolve(text: Cow<'_, str>, tag: Tag) -> Result<Value, ScalarError> {
    if tag == Tag::String {
        return Ok(Value::String(text.into()));
    }
    let mismatch = Err(ScalarError::Mismatch { tag: tag.describe() });
    match (tag, resolve_plain(&text)) {
        (Tag::Binary, _) => {
            decode_base64(&text).map_or(mismatch, |bytes| Ok(Value::String(String::from_utf8_lossy(&bytes).into())))
        }
        // A date stays the string that was written; the tag only checks it.
        (Tag::Timestamp, _) if is_timestamp(&text) => Ok(Value::String(text.into())),
        (Tag::Timestamp, _) => mismatch,
        (Tag::None | Tag::Float, Plain::Float(number)) if !number.is_finite() => Err(ScalarError::NotFinite),
        (Tag::None | Tag::Float, Plain::Float(number)) => Ok(Value::Number(as_integer(number))),
        (Tag::None | Tag::Int, Plain::Int(number)) => Ok(Value::Number(i64::try_from(number).ok())),
        (Tag::Float, Plain::Int(number)) if i64::try_from(number).is_ok() => {
            Ok(Value::Number(as_integer(number as f64)))
        }
        (Tag::None | Tag::Bool, Plain::Bool(value)) => Ok(Value::Bool(value)),
        (Tag::None | Tag::Null, Plain::Null) => Ok(Value::Null),
        (Tag::None | Tag::String, Plain::String) => Ok(Value::String(text.into())),
        (Tag::Bool | Tag::Int | Tag::Float | Tag::Null | Tag::String, _) => mismatch,
    }
}

/// What a text without a tag is.
enum Plain {
    Null,
    Bool(bool),
    /// Wide enough for every integer that go-yaml keeps exact: i64 and u64.
    Int(i128),
    Float(f64),
    String,
}

fn resolve_plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Plain::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Plain::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Plain::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Plain::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Plain::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes()[0] {
        // Here Go wants each underscore between digits; numbers that begin otherwise lose theirs wherever they stand.
        b'.' if separates_digits(text) => parse_float(&text.replace('_', "")).map_or(Plain::String, Plain::Float),
        b'0'..=b'9' | b'+' | b'-' => {
            let plain = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
            match (parse_integer(&plain), parse_float(&plain)) {
                (Some(number), _) => Plain::Int(number),
                (None, Some(number)) => Plain::Float(number),
                (None, None) => Plain::String,
            }
        }
        _ => Plain::String,
    }
}

/// Whether every underscore stands between two digits.
fn separates_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    text.match_indices('_').all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)))
}

/// Reads an integer as Go does with base 0: the prefixes 0x, 0o, 0b and a bare 0 for octal, in either case.
fn parse_integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => (-1, &text[1..]),
        [b'+', ..] => (1, &text[1..]),
        _ => (1, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let number = sign * i128::from_str_radix(digits, radix).ok()?;
    // Go reads a number without a sign as u64 if i64 is too narrow; beyond, it is no integer.
    let max = if text.starts_with(['+', '-']) { i128::from(i64::MAX) } else { i128::from(u64::MAX) };
    (i128::from(i64::MIN)..=max).contains(&number).then_some(number)
}

/// Reads a decimal number with a point, an exponent or both; none where it is not one or is beyond an `f64`.
fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = is_digits(whole)
        && is_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|digits| !digits.is_empty() && is_digits(digits));
    if is_number { text.parse::<f64>().ok().filter(|number| number.is_finite()) } else { None }
}

/// The integer that the shortest decimal form of a number spells, which is what the reference's way through JSON sees.
fn as_integer(number: f64) -> Option<i64> {
    number.to_string().parse().ok()
}

/// Decodes standard base64 with padding; line breaks are skipped, as Go skips them.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let symbols: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let content = symbols.strip_suffix(b"==").or_else(|| symbols.strip_suffix(b"=")).unwrap_or(&symbols);
    if !symbols.len().is_multiple_of(4)
        || content.len() % 4 == 1
        || symbols.len() - content.len() != (4 - content.len() % 4) % 4
    {
        return None;
    }
    let mut bytes = Vec::with_capacity(content.len() / 4 * 3);
    let (mut bits, mut pending) = (0_u32, 0);
    for &symbol in content {
        let six = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(six)) & 0xFFFF;
        pending += 6;
        if pending >= 8 {
            pending -= 8;
            bytes.push((bits >> pending & 0xFF) as u8);
        }
    }
    Some(bytes)
}

/// Whether Go reads the text as a date, with or without a time of day.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at..])),
        None => (text, None),
    };
    let parts: Vec<&str> = date.splitn(4, '-').collect();
    let [year, month, day] = parts[..] else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4..=4), digits(month, 1..=2), digits(day, 1..=2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last_day = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=last_day).contains(&day) && time.is_none_or(is_time_of_day)
}

/// Whether the text is `Th:m:s` with a zone, or ` h:m:s` without one; a fraction of a second may follow the seconds.
fn is_time_of_day(text: &str) -> bool {
    let zone_at = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text[1..].split_at(zone_at - 1);
    let zone_fits = match (text.starts_with(' '), zone) {
        (true, zone) => zone.is_empty(),
        (false, "Z") => true,
        (false, zone) => zone.get(1..).and_then(|zone| zone.split_once(':')).is_some_and(|(hours, minutes)| {
            digits(hours, 2..=2).is_some_and(|h| h <= 24) && digits(minutes, 2..=2).is_some_and(|m| m < 60)
        }),
    };
    let parts: Vec<&str> = clock.splitn(4, ':').collect();
    let [hours, minutes, seconds] = parts[..] else { return false };
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    zone_fits
        && digits(hours, 1..=2).is_some_and(|h| h < 24)
        && digits(minutes, 1..=2).is_some_and(|m| m < 60)
        && digits(seconds, 1..=2).is_some_and(|s| s < 60)
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number that this many digits spell.
fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let fits = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(text: &str) -> Option<i64> {
        match resolve(Cow::Borrowed(text), Tag::None) {
            Ok(Value::Number(integer)) => integer,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn integers_come_in_every_base_of_go() {
        for (text, value) in [
            ("0x1F", 31),
            ("-0o17", -15),
            ("0b101", 5),
            ("0100", 64),
            ("08", 8),
            ("1_000", 1_000),
            ("64.0", 64),
            (".5e1", 5),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text), Some(value), "{text}");
        }
    }

    #[test]
    fn numbers_that_are_no_integers_of_64_bits_stay_numbers() {
        for text in ["1.5", "9223372036854775808", "18446744073709551616", "1e30", "-1e-9"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_nearly_a_number_is_a_string() {
        for text in ["0o8", "0xG", "_1", "1e400", "1:30", "+", ".", "1e", "0x", "._5", "١"] {
            let value = resolve(Cow::Borrowed(text), Tag::None);
            assert!(matches!(value, Ok(Value::String(_))), "{text} is {value:?}");
        }
    }

    #[test]
    fn a_date_must_be_one_that_exists() {
        for text in ["2001-01-01", "2001-1-1", "2024-02-29", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43"] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in ["2001-02-29", "2001-13-01", "01-01-01", "2001-1-1T1:2:3", "2001-1-1 1:2", "x", "2001-1-1 1:2:3Z"] {
            assert!(!is_timestamp(text), "{text}");
        }
    }

    #[test]
    fn base64_needs_its_padding() {
        assert_eq!(decode_base64("MS4wLjAuMC84").as_deref(), Some(&b"1.0.0.0/8"[..]));
        assert_eq!(decode_base64("aGk=").as_deref(), Some(&b"hi"[..]));
        assert_eq!(decode_base64("aA=\n=").as_deref(), Some(&b"h"[..]));
        for text in ["aGk", "aGk==", "a===", "***=", "=", "aGk=aGk="] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }
}
