//! Booleans and numbers as Go's packages flag and strconv read them.

/// Reads a boolean flag's value: `1 t T true TRUE True` or `0 f F false FALSE False`, nothing else.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Reads a decimal 32-bit number with an optional sign, as klog reads verbosities and severities.
///
/// # Errors
/// A sentence part that says what is wrong and what to write.
pub(super) fn parse_i32(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| "write a decimal number of at most 32 bits, like 2".to_owned())
}

/// Reads a signed 64-bit number with an optional base prefix (`0x`, `0o`, `0b`, `0`).
///
/// # Errors
/// A sentence part that says what is wrong and what to write.
pub(super) fn parse_i64_any_base(text: &str) -> Result<i64, String> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let refusal = || "write a whole number of at most 64 bits, like 60 (no unit)".to_owned();
    let magnitude = i128::from(magnitude(digits).ok_or_else(refusal)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| refusal())
}

/// Reads an unsigned 64-bit number with an optional base prefix; a sign is refused.
///
/// # Errors
/// A sentence part that says what is wrong and what to write.
pub(super) fn parse_u64_any_base(text: &str) -> Result<u64, String> {
    magnitude(text).ok_or_else(|| "write a whole number from 0 to 2^64 - 1, like 1800".to_owned())
}

fn magnitude(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // Go lets an underscore separate digits, and stand between a base prefix and the first digit, but nowhere else.
    let after_prefix = digits.len() < lower.len();
    let separated = if after_prefix { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    let groups = || separated.split('_');
    if groups().any(|group| group.is_empty() || !group.chars().all(|c| c.is_digit(radix))) {
        return None;
    }
    u64::from_str_radix(&groups().collect::<String>(), radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_go_s_twelve_words() {
        for yes in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(yes), Some(true), "{yes}");
        }
        for no in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(no), Some(false), "{no}");
        }
        for neither in ["", "yes", "on", "tRUE", " true", "2", "y"] {
            assert_eq!(parse_bool(neither), None, "{neither}");
        }
    }

    #[test]
    fn verbosities_are_decimal_and_may_be_negative() {
        assert_eq!(parse_i32("2"), Ok(2));
        assert_eq!(parse_i32("+5"), Ok(5));
        assert_eq!(parse_i32("-5"), Ok(-5));
        assert_eq!(parse_i32("2147483647"), Ok(i32::MAX));
        for bad in ["x", "", "0x2", "2147483648", "1_0", " 1", "--1"] {
            assert!(parse_i32(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_take_go_s_base_prefixes_and_underscores() {
        for (text, value) in [
            ("0", 0),
            ("1800", 1800),
            ("0x10", 16),
            ("0X1_0", 16),
            ("0_7", 7),
            ("010", 8),
            ("0b11", 3),
            ("0o17", 15),
            ("1_000", 1000),
        ] {
            assert_eq!(parse_u64_any_base(text), Ok(value), "{text}");
        }
        for bad in ["", "-1", "+1", "_1", "1_", "1__0", "0x", "0x_", "09", "5s", "18446744073709551616"] {
            assert!(parse_u64_any_base(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn intervals_take_a_sign_and_reach_both_ends_of_64_bits() {
        assert_eq!(parse_i64_any_base("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_i64_any_base("9223372036854775807"), Ok(i64::MAX));
        assert_eq!(parse_i64_any_base("+60"), Ok(60));
        assert_eq!(parse_i64_any_base("-0x3c"), Ok(-60));
        for bad in ["9223372036854775808", "-9223372036854775809", "5s", "", "-", "+-1", "1.5"] {
            assert!(parse_i64_any_base(bad).is_err(), "{bad}");
        }
    }
}
