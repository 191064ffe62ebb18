//! Calendar time in UTC, which is what containers run on; a local offset would need a time zone database.

use std::time::{Duration, SystemTime};

/// A point in time as the calendar and the clock show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Utc {
    pub(super) year: u64,
    pub(super) month: u64,
    pub(super) day: u64,
    pub(super) hour: u64,
    pub(super) minute: u64,
    pub(super) second: u64,
    pub(super) micros: u32,
}

const SECONDS_PER_DAY: u64 = 86_400;

impl Utc {
    /// The calendar time of a point in time; anything before 1970 counts as its first moment.
    pub(super) fn of(at: SystemTime) -> Utc {
        let since_epoch = since_epoch(at);
        let (days, second) = (since_epoch.as_secs() / SECONDS_PER_DAY, since_epoch.as_secs() % SECONDS_PER_DAY);
        let (year, month, day) = date(days);
        Utc {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            micros: since_epoch.subsec_micros(),
        }
    }
}

/// How long after the start of 1970 a point in time is.
pub(super) fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Whole 400-year cycles first, so that no clock however wrong makes the search for the year long.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_PER_400_YEARS: u64 = 146_097;
    let mut year = 1970 + days_since_1970 / DAYS_PER_400_YEARS * 400;
    let mut day = days_since_1970 % DAYS_PER_400_YEARS;
    while day >= days_of(year) {
        day -= days_of(year);
        year += 1;
    }
    let mut month = 1;
    while day >= days_of_month(year, month) {
        day -= days_of_month(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

fn days_of(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(seconds: u64) -> String {
        let t = Utc::of(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        format!("{}-{:02}-{:02} {:02}:{:02}:{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second)
    }

    #[test]
    fn known_moments_have_their_known_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(utc(1_709_251_199), "2024-02-29 23:59:59");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59:59");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00:00");
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_day_before() {
        let mut previous = date(0);
        for day in 1..=146_097 {
            let next = date(day);
            let (year, month, day_of_month) = previous;
            let expected = [(year, month, day_of_month + 1), (year, month + 1, 1), (year + 1, 1, 1)];
            assert!(expected.contains(&next), "{previous:?} -> {next:?}");
            previous = next;
        }
        assert_eq!(previous, (2370, 1, 1));
        assert!(date(u64::MAX / SECONDS_PER_DAY).0 > 500_000_000_000);
    }

    #[test]
    fn a_clock_before_1970_gives_the_first_moment() {
        assert_eq!(Utc::of(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), Utc::of(SystemTime::UNIX_EPOCH));
    }
}
