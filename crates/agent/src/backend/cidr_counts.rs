//! Connections counted for each CIDR since the start of the process, whatever becomes of the counters in the kernel meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The sums, by the CIDR as the config writes it.
#[derive(Debug, Default)]
pub struct CidrCounts {
    sums: Mutex<Sums>,
}

/// What one counter in the kernel stands at. A CIDR may have several, one for each part of it that no other CIDR decides about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CidrStand {
    /// The CIDR.
    pub cidr: String,
    /// The first and the last address of the part, as numbers.
    pub part: (u128, u128),
    /// Connections.
    pub packets: u64,
}

/// A CIDR and the first and last address of a part of it.
type Part = (String, (u128, u128));

#[derive(Debug, Default)]
struct Sums {
    totals: BTreeMap<String, u64>,
    /// What each counter stood at when it was last read; `None` before the first time. What had been counted by then was not in our
    /// time.
    last: Option<BTreeMap<Part, u64>>,
    as_of: Option<Instant>,
    /// The rules of one policy are being replaced by those of another, so nobody's reading can be told from before or after.
    is_paused: bool,
}

impl CidrCounts {
    /// Takes note of a reading that began at `began`. `cidrs` are all that there are: those that are gone are forgotten, and what has
    /// no counter yet counts from zero.
    pub fn record(&self, began: Instant, cidrs: BTreeSet<String>, found: Vec<CidrStand>) {
        let mut sums = self.lock();
        // A reading that began before the last one ended is older than what is known.
        if sums.is_paused || sums.as_of.is_some_and(|as_of| began < as_of) {
            return;
        }
        sums.totals.retain(|cidr, _| cidrs.contains(cidr));
        for cidr in cidrs {
            sums.totals.entry(cidr).or_default();
        }
        let known = sums.last.take();
        let mut last = BTreeMap::new();
        for CidrStand { cidr, part, packets } in found {
            let key = (cidr, part);
            let new = known.as_ref().map_or(0, |known| {
                let before = known.get(&key).copied().unwrap_or_default();
                packets.checked_sub(before).unwrap_or(packets)
            });
            if let Some(total) = sums.totals.get_mut(&key.0) {
                *total += new;
            }
            last.insert(key, packets);
        }
        sums.last = Some(last);
        sums.as_of = Some(Instant::now());
    }

    /// No reading counts from now on: the rules are about to be those of another policy.
    pub fn pause(&self) {
        self.lock().is_paused = true;
    }

    /// Readings that begin from now on count again.
    pub fn resume(&self) {
        let mut sums = self.lock();
        if std::mem::take(&mut sums.is_paused) {
            sums.as_of = Some(Instant::now());
        }
    }

    /// The sums.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        self.lock().totals.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        // A sum that is not finished is too small, which the next reading does not make worse.
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(counts: &CidrCounts, cidrs: &[&str], found: &[(&str, u128, u64)]) -> Vec<u64> {
        let cidrs = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
        let stand = |&(cidr, first, packets): &(&str, u128, u64)| CidrStand {
            cidr: cidr.to_owned(),
            part: (first, first),
            packets,
        };
        counts.record(Instant::now(), cidrs, found.iter().map(stand).collect());
        counts.totals().into_values().collect()
    }

    #[test]
    fn parts_of_a_cidr_are_added_up_and_what_was_counted_before_is_not() {
        let counts = CidrCounts::default();
        assert_eq!(read(&counts, &["a", "b"], &[("a", 1, 100), ("a", 2, 50)]), [0, 0]);
        assert_eq!(read(&counts, &["a", "b"], &[("a", 1, 103), ("a", 2, 51), ("b", 3, 7)]), [4, 7]);
    }

    #[test]
    fn counters_that_are_made_anew_go_on() {
        let counts = CidrCounts::default();
        read(&counts, &["a"], &[]);
        assert_eq!(read(&counts, &["a"], &[("a", 1, 10)]), [10]);
        assert_eq!(read(&counts, &["a"], &[("a", 1, 2)]), [12]);
        assert_eq!(read(&counts, &["a"], &[]), [12]);
        assert_eq!(read(&counts, &["a"], &[("a", 1, 20)]), [32]);
        assert_eq!(read(&counts, &["b"], &[("b", 1, 1)]), [1], "a CIDR that is gone is forgotten");
    }

    #[test]
    fn what_is_read_while_the_policy_changes_says_nothing() {
        let counts = CidrCounts::default();
        read(&counts, &["a"], &[("a", 1, 0)]);
        let early = Instant::now();
        counts.pause();
        assert_eq!(read(&counts, &["b"], &[("b", 1, 1_000)]), [0], "the rule is still that of a");
        counts.resume();
        counts.record(
            early,
            ["b".to_owned()].into(),
            vec![CidrStand { cidr: "b".to_owned(), part: (1, 1), packets: 9 }],
        );
        assert_eq!(read(&counts, &["b"], &[("b", 1, 2)]), [2]);
    }
}
