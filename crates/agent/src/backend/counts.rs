//! Connections counted since the start of the process, whatever becomes of the counters in the kernel meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use masq::cidr::Family;

use super::difference::Counted;

/// The sums. They are fed by the loop, which reads our rules anyway before it changes them, and by whoever wants to show the sums;
/// nobody holds them while the kernel is asked, so nobody waits.
#[derive(Debug, Default)]
pub struct Counts {
    series: Mutex<[Series; 2]>,
}

/// What the two counters of a family stand at, those that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stand {
    /// Their family.
    pub family: Family,
    /// The counter of exempt connections.
    pub exempt: Option<u64>,
    /// The counter of masqueraded connections.
    pub masqueraded: Option<u64>,
}

/// Both verdicts of one family.
#[derive(Debug, Default)]
struct Series {
    /// The sums so far.
    total: [u64; 2],
    /// What the kernel's counters stood at when they were last read; `None` until then. What they had counted by the first time was not
    /// in our time.
    last: Option<[u64; 2]>,
    /// When that was. A reading that began before it is older than what is known, and says nothing.
    as_of: Option<Instant>,
    /// Whether there ever were counters.
    exists: bool,
    /// The loop is about to set the counters in the kernel to other values, so nobody's reading can be told from before or after.
    is_paused: bool,
}

impl Counts {
    /// Takes note of what the counters in the kernel stand at, by a reading that began at `began`. Those that are not there will begin
    /// with zero.
    pub fn record(&self, began: Instant, found: &[Stand]) {
        let now = Instant::now();
        let mut all = self.series();
        for stand in found {
            let series = &mut all[place(stand.family)];
            if !series.is_paused && series.as_of.is_none_or(|as_of| began >= as_of) {
                series.read(values(stand));
                series.as_of = Some(now);
            }
        }
    }

    /// No reading counts from now on: counters are about to be made anew.
    pub fn pause(&self) {
        self.series().iter_mut().for_each(|series| series.is_paused = true);
    }

    /// Readings that begin from now on count again. The counters in `remade` have just been made, and began with these values.
    pub fn resume(&self, remade: &[Stand]) {
        let now = Instant::now();
        let mut all = self.series();
        for stand in remade {
            let series = &mut all[place(stand.family)];
            for (last, began_with) in series.last.get_or_insert_default().iter_mut().zip(values(stand)) {
                *last = began_with.unwrap_or(*last);
            }
            series.exists |= values(stand) != [None; 2];
        }
        for series in all.iter_mut() {
            series.is_paused = false;
            series.as_of = Some(now);
        }
    }

    /// The sums of each family that has had counters.
    pub fn totals(&self) -> Vec<Counted> {
        let all = self.series();
        let of = |family: Family| {
            let Series { total: [exempt, masqueraded], exists, .. } = all[place(family)];
            exists.then_some(Counted { family, exempt, masqueraded })
        };
        Family::ALL.into_iter().filter_map(of).collect()
    }

    fn series(&self) -> MutexGuard<'_, [Series; 2]> {
        // Numbers alone are changed, so a panic elsewhere cannot leave anything half done.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Series {
    /// A counter that stands lower than before was made anew by somebody else, and has counted all it shows since.
    fn read(&mut self, found: [Option<u64>; 2]) {
        self.exists |= found != [None; 2];
        let found = found.map(Option::unwrap_or_default);
        let last = self.last.replace(found).unwrap_or(found);
        for ((total, last), found) in self.total.iter_mut().zip(last).zip(found) {
            *total += found.checked_sub(last).unwrap_or(found);
        }
    }
}

fn values(stand: &Stand) -> [Option<u64>; 2] {
    [stand.exempt, stand.masqueraded]
}

fn place(family: Family) -> usize {
    match family {
        Family::Ipv4 => 0,
        Family::Ipv6 => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(exempt: u64, masqueraded: u64) -> Counted {
        Counted { family: Family::Ipv4, exempt, masqueraded }
    }

    fn stand(exempt: impl Into<Option<u64>>, masqueraded: impl Into<Option<u64>>) -> Stand {
        Stand { family: Family::Ipv4, exempt: exempt.into(), masqueraded: masqueraded.into() }
    }

    fn read(counts: &Counts, exempt: impl Into<Option<u64>>, masqueraded: impl Into<Option<u64>>) {
        counts.record(Instant::now(), &[stand(exempt, masqueraded)]);
    }

    #[test]
    fn what_was_counted_before_the_first_reading_is_not_ours() {
        let counts = Counts::default();
        assert_eq!(counts.totals(), []);
        read(&counts, 10, 20);
        assert_eq!(counts.totals(), [v4(0, 0)]);
        read(&counts, 11, 25);
        assert_eq!(counts.totals(), [v4(1, 5)]);
    }

    #[test]
    fn counters_that_others_delete_or_reset_go_on_from_what_is_known() {
        let counts = Counts::default();
        read(&counts, None, None);
        assert_eq!(counts.totals(), []);
        read(&counts, 7, 10);
        read(&counts, None, None);
        read(&counts, 9, 3);
        assert_eq!(counts.totals(), [v4(16, 13)], "made anew, and seen missing meanwhile");
        read(&counts, 1, 4);
        assert_eq!(counts.totals(), [v4(17, 14)], "one of them reset, the other not");
        read(&counts, 1, None);
        counts.pause();
        counts.resume(&[stand(None, 0)]);
        read(&counts, 2, 1);
        assert_eq!(counts.totals(), [v4(18, 15)], "one of them deleted, the other not");
    }

    #[test]
    fn counters_that_the_loop_makes_anew_go_on_however_far_they_get_before_the_next_reading() {
        let counts = Counts::default();
        read(&counts, None, None);
        read(&counts, 5, 5);
        counts.pause();
        read(&counts, 6, 6);
        counts.resume(&[stand(0, 4)]);
        read(&counts, 100, 104);
        assert_eq!(counts.totals(), [v4(105, 105)]);
    }

    #[test]
    fn a_pause_after_which_nothing_is_remade_changes_nothing() {
        let counts = Counts::default();
        read(&counts, None, None);
        counts.pause();
        counts.resume(&[]);
        read(&counts, 2, 3);
        assert_eq!(counts.totals(), [v4(2, 3)]);
    }

    #[test]
    fn a_reading_that_began_before_what_is_known_says_nothing() {
        let counts = Counts::default();
        read(&counts, None, None);
        let early = Instant::now();
        read(&counts, 8, 8);
        counts.record(early, &[stand(5, 5)]);
        assert_eq!(counts.totals(), [v4(8, 8)]);
        let before_remaking = Instant::now();
        counts.pause();
        counts.resume(&[stand(0, 0)]);
        counts.record(before_remaking, &[stand(9, 9)]);
        read(&counts, 1, 1);
        assert_eq!(counts.totals(), [v4(9, 9)]);
    }
}
