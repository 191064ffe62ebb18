//! Durations, counted by size.

use std::time::Duration;

/// The upper limits of the buckets in seconds, for what takes a netlink round trip as for what waits for programs.
pub const LIMITS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How many durations were of which size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    /// By the smallest limit that holds them; the last one is for what is longer than all limits.
    counts: [u64; LIMITS.len() + 1],
    sum: Duration,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = LIMITS.iter().position(|limit| seconds <= *limit).unwrap_or(LIMITS.len());
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// How many are above the limit before, and not above their own.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them one after the other.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}
