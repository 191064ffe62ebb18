//! When the daemon works: triggers, settling, resync, pacing and backoff, with the clock passed in.

use std::time::{Duration, Instant};

/// The first pause after a failed pass; each further failure doubles it.
pub const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// The longest pause after a failed pass, however often it failed and however long the resync interval is.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// The longest rest after a pass, however long the pass took.
pub const LONGEST_REST: Duration = Duration::from_secs(1);

/// The longest time that writing to a file can put its reading off.
pub const LONGEST_POSTPONEMENT: Duration = Duration::from_secs(10);

/// Longer resync intervals count as this one, about ten years: clocks overflow where people write "never" in nanoseconds.
const LONGEST_RESYNC: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// So many heals follow at once on what others do, one after the other.
const HEALS_AT_ONCE: u32 = 100;

/// The pause between heals beyond those: with another program that undoes each of them it would be a fight at full speed. One more heal
/// at once is earned back in each such time.
pub const FIGHTING_PAUSE: Duration = Duration::from_millis(500);

/// A pass is followed by a rest of this many times its own duration, so that a flood of kernel events costs a bounded share of
/// one CPU.
const REST_PER_WORK: u32 = 3;

/// What a pass is to look at. Each pass makes the kernel hold the policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Read the config anew.
    pub config: bool,
    /// Read the kernel anew, whatever is known of it.
    pub kernel: bool,
}

impl Work {
    /// Whether there is nothing to do.
    pub fn is_empty(self) -> bool {
        !self.config && !self.kernel
    }
}

/// The deadlines of the daemon's loop.
///
/// A trigger only says where to look; any number of them before a pass make one pass.
#[derive(Debug, Clone)]
pub struct Schedule {
    resync_interval: Duration,
    last_resync: Option<Instant>,
    config_due: Option<Instant>,
    postponed_since: Option<Instant>,
    kernel_due: Option<Instant>,
    /// No kernel-only pass before this: the rest after the last pass, or the backoff after a failure.
    rest_until: Option<Instant>,
    failures: u32,
    /// When the last failed pass began.
    failed_at: Option<Instant>,
    /// How many of the heals that may follow at once are used up, and since when they are earned back.
    heals: u32,
    heals_since: Option<Instant>,
}

impl Schedule {
    /// A schedule whose first pass, over config and kernel, is due at once.
    pub fn new(resync_interval: Duration) -> Schedule {
        Schedule {
            resync_interval: resync_interval.min(LONGEST_RESYNC),
            last_resync: None,
            config_due: None,
            postponed_since: None,
            kernel_due: None,
            rest_until: None,
            failures: 0,
            failed_at: None,
            heals: 0,
            heals_since: None,
        }
    }

    /// The config has to be read at `when`: at once for a finished change, later for one that may still be going on.
    ///
    /// The earliest of several wishes counts.
    pub fn trigger_config(&mut self, when: Instant) {
        self.config_due = Some(self.config_due.map_or(when, |due| due.min(when)));
    }

    /// Somebody has changed the kernel's ruleset. That may have removed what a pass failed for, so a backoff ends.
    pub fn trigger_kernel(&mut self, now: Instant) {
        self.kernel_due = Some(self.kernel_due.map_or(now, |due| due.min(now)));
        if let Some(failed_at) = self.failed_at {
            let earliest = failed_at + FIRST_BACKOFF;
            self.rest_until = self.rest_until.map(|rest| rest.min(earliest));
        }
    }

    /// Puts the reading of a file that is being written to off until it has been quiet for `quiet`, or a finished change asks
    /// for it, or [`LONGEST_POSTPONEMENT`] is over.
    pub fn postpone_config(&mut self, now: Instant, quiet: Duration) {
        let since = *self.postponed_since.get_or_insert(now);
        let until = (now + quiet).min(since + LONGEST_POSTPONEMENT);
        self.config_due = Some(self.config_due.map_or(until, |due| due.max(until)));
    }

    /// Takes over the interval of a new config; the running interval is measured by it.
    pub fn set_resync_interval(&mut self, resync_interval: Duration) {
        self.resync_interval = resync_interval.min(LONGEST_RESYNC);
    }

    /// The pass that is due now, empty if none is.
    pub fn due(&self, now: Instant) -> Work {
        let resync = self.next_resync().is_none_or(|at| at <= now) && !self.is_backing_off(now);
        let config = self.config_due.map_or(resync, |at| at <= now);
        let kernel = resync || self.kernel_at().is_some_and(|at| at <= now);
        Work { config, kernel }
    }

    /// How long to wait until a pass is due, zero if one is.
    pub fn wait(&self, now: Instant) -> Duration {
        let resync = self.next_resync().map_or(now, |at| self.after_backoff(at));
        let next = [self.config_due, self.kernel_at()].into_iter().flatten().fold(resync, Instant::min);
        next.saturating_duration_since(now)
    }

    /// A pass that began at `began` ended well at `now`.
    pub fn succeeded(&mut self, work: Work, began: Instant, now: Instant) {
        self.answered(work, began);
        self.failures = 0;
        self.failed_at = None;
        let rest = now.saturating_duration_since(began).saturating_mul(REST_PER_WORK).min(LONGEST_REST);
        self.rest_until = Some(now + rest);
    }

    /// A pass that began at `began` was refused by the kernel; it is due again after the backoff, which is returned.
    pub fn failed(&mut self, work: Work, began: Instant, now: Instant) -> Duration {
        self.answered(work, began);
        let pause = FIRST_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(LONGEST_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        self.rest_until = Some(now + pause);
        self.failed_at = Some(now);
        self.kernel_due = Some(now);
        pause
    }

    /// The pass that ended at `now` had to put right what somebody else had changed. Answers whether that happens so often that the
    /// next one has to wait.
    pub fn healed(&mut self, now: Instant) -> bool {
        let since = *self.heals_since.get_or_insert(now);
        let earned = now.saturating_duration_since(since).as_nanos() / FIGHTING_PAUSE.as_nanos();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        if earned > 0 {
            self.heals = self.heals.saturating_sub(earned);
            self.heals_since = Some(since + FIGHTING_PAUSE.saturating_mul(earned));
        }
        self.heals = (self.heals + 1).min(HEALS_AT_ONCE);
        let is_fight = self.heals == HEALS_AT_ONCE;
        if is_fight {
            self.rest_until = Some(now + FIGHTING_PAUSE);
        }
        is_fight
    }

    /// How many passes in a row have failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Forgets the wishes that the pass has answered. Those that came in while it ran stay: they are newer than its reads.
    fn answered(&mut self, work: Work, began: Instant) {
        if work.config {
            self.config_due = self.config_due.filter(|at| *at > began);
            self.postponed_since = None;
        }
        // A resync whose reading of the config is put off has looked at the kernel; the config has a deadline of its own.
        let is_resync = self.next_resync().is_none_or(|at| at <= began);
        if work.kernel && (work.config || is_resync) {
            self.last_resync = Some(began);
        }
        if work.kernel {
            self.kernel_due = self.kernel_due.filter(|at| *at > began);
        }
    }

    fn next_resync(&self) -> Option<Instant> {
        self.last_resync.map(|last| last + self.resync_interval)
    }

    fn kernel_at(&self) -> Option<Instant> {
        self.kernel_due.map(|due| self.rest_until.map_or(due, |rest| due.max(rest)))
    }

    fn is_backing_off(&self, now: Instant) -> bool {
        self.failures > 0 && self.rest_until.is_some_and(|rest| now < rest)
    }

    fn after_backoff(&self, at: Instant) -> Instant {
        match self.rest_until {
            Some(rest) if self.failures > 0 => at.max(rest),
            Some(_) | None => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESYNC: Work = Work { config: true, kernel: true };
    const CONFIG: Work = Work { config: true, kernel: false };
    const KERNEL: Work = Work { config: false, kernel: true };

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A moment to count from. It is never compared with the real clock.
    #[expect(clippy::disallowed_methods, reason = "std offers no other way to make an Instant")]
    fn start() -> Instant {
        Instant::now()
    }

    fn settled(t: Instant) -> Schedule {
        let mut schedule = Schedule::new(Duration::from_secs(60));
        schedule.succeeded(RESYNC, t, t);
        schedule
    }

    #[test]
    fn the_first_pass_is_due_at_once_and_looks_at_everything() {
        let schedule = Schedule::new(Duration::from_secs(60));
        assert_eq!(schedule.due(start()), RESYNC);
        assert_eq!(schedule.wait(start()), Duration::ZERO);
    }

    #[test]
    fn nothing_is_due_between_two_resyncs() {
        let t = start();
        let schedule = settled(t);
        assert!(schedule.due(t + ms(59_999)).is_empty());
        assert_eq!(schedule.wait(t), ms(60_000));
        assert_eq!(schedule.due(t + ms(60_000)), RESYNC);
    }

    #[test]
    fn an_interval_longer_than_any_clock_is_only_long() {
        let t = start();
        let mut schedule = Schedule::new(Duration::MAX);
        schedule.succeeded(RESYNC, t, t);
        assert_eq!(schedule.wait(t), LONGEST_RESYNC);
        schedule.set_resync_interval(Duration::MAX);
        assert!(schedule.due(t + ms(1)).is_empty());
    }

    #[test]
    fn a_new_interval_counts_from_the_last_resync() {
        let t = start();
        let mut schedule = settled(t);
        schedule.set_resync_interval(ms(1_000));
        assert_eq!(schedule.wait(t + ms(400)), ms(600));
        assert_eq!(schedule.due(t + ms(1_000)), RESYNC);
    }

    #[test]
    fn a_burst_of_kernel_events_is_one_pass_that_leaves_the_config_alone() {
        let t = start();
        let mut schedule = settled(t);
        for n in 0..100 {
            schedule.trigger_kernel(t + ms(n));
        }
        assert_eq!(schedule.due(t + ms(100)), KERNEL);
        schedule.succeeded(KERNEL, t + ms(100), t + ms(101));
        assert!(schedule.due(t + ms(200)).is_empty());
    }

    #[test]
    fn an_event_during_a_pass_is_answered_by_the_next_one() {
        let t = start();
        let mut schedule = settled(t);
        schedule.trigger_kernel(t + ms(10));
        schedule.trigger_config(t + ms(12));
        schedule.succeeded(KERNEL, t + ms(10), t + ms(11));
        assert_eq!(schedule.due(t + ms(12)), CONFIG);
    }

    #[test]
    fn kernel_events_wait_for_the_rest_after_a_long_pass_but_a_config_change_does_not() {
        let t = start();
        let mut schedule = settled(t);
        schedule.trigger_kernel(t);
        schedule.succeeded(KERNEL, t, t + ms(200));
        schedule.trigger_kernel(t + ms(201));
        assert!(schedule.due(t + ms(799)).is_empty());
        assert_eq!(schedule.wait(t + ms(700)), ms(100));
        schedule.trigger_config(t + ms(250));
        assert_eq!(schedule.due(t + ms(250)), CONFIG);
    }

    #[test]
    fn the_rest_after_a_pass_is_bounded() {
        let t = start();
        let mut schedule = settled(t);
        schedule.succeeded(KERNEL, t, t + ms(10_000));
        schedule.trigger_kernel(t + ms(10_000));
        assert_eq!(schedule.wait(t + ms(10_000)), LONGEST_REST);
    }

    #[test]
    fn backoff_begins_at_100_ms_doubles_and_is_bounded() {
        let t = start();
        let mut schedule = settled(t);
        let pauses: Vec<u64> = (0..12).map(|_| schedule.failed(KERNEL, t, t).as_millis() as u64).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000]);
        assert_eq!(schedule.failures(), 12);
        schedule.succeeded(RESYNC, t, t);
        assert_eq!(schedule.failed(KERNEL, t, t), FIRST_BACKOFF);
    }

    #[test]
    fn a_failed_pass_is_due_again_after_its_backoff_and_not_before() {
        let t = start();
        let mut schedule = settled(t);
        schedule.failed(KERNEL, t, t);
        schedule.trigger_kernel(t + ms(1));
        assert!(schedule.due(t + ms(99)).is_empty());
        assert_eq!(schedule.wait(t), ms(100));
        assert_eq!(schedule.due(t + ms(100)), KERNEL);
    }

    #[test]
    fn a_change_by_others_ends_a_long_backoff_but_not_the_first_pause() {
        let t = start();
        let mut schedule = settled(t);
        for _ in 0..8 {
            schedule.failed(KERNEL, t, t);
        }
        assert!(schedule.wait(t) > ms(10_000));
        schedule.trigger_kernel(t + ms(10));
        assert!(schedule.due(t + ms(99)).is_empty());
        assert_eq!(schedule.due(t + ms(100)), KERNEL);
    }

    #[test]
    fn a_hundred_heals_follow_at_once_and_a_fight_is_slowed_down() {
        let t = start();
        let mut schedule = settled(t);
        let at_once = (0..500).take_while(|_| !schedule.healed(t)).count();
        assert_eq!(at_once, 99);
        schedule.trigger_kernel(t);
        assert_eq!(schedule.wait(t), FIGHTING_PAUSE);
        assert!(schedule.healed(t + ms(400)));
        assert!(!schedule.healed(t + ms(60_000)), "peace has earned heals back");
        assert!((0..90).all(|_| !schedule.healed(t + ms(60_001))));
    }

    #[test]
    fn a_short_resync_interval_does_not_shorten_the_backoff() {
        let t = start();
        let mut schedule = Schedule::new(Duration::from_secs(1));
        for _ in 0..6 {
            schedule.failed(RESYNC, t, t);
        }
        assert!(schedule.due(t + ms(3_199)).is_empty());
        assert_eq!(schedule.wait(t + ms(3_000)), ms(200));
        assert!(schedule.due(t + ms(3_200)).kernel);
    }

    #[test]
    fn a_file_still_being_written_is_read_when_it_has_been_quiet() {
        let t = start();
        let mut schedule = settled(t);
        schedule.postpone_config(t, ms(1_000));
        schedule.postpone_config(t + ms(300), ms(1_000));
        assert!(schedule.due(t + ms(1_299)).is_empty());
        assert_eq!(schedule.due(t + ms(1_300)), CONFIG);
        schedule.trigger_config(t + ms(500));
        assert_eq!(schedule.due(t + ms(500)), CONFIG);
    }

    #[test]
    fn endless_writing_does_not_put_the_reading_off_for_ever() {
        let t = start();
        let mut schedule = settled(t);
        for n in 0..200 {
            schedule.postpone_config(t + ms(n * 100), ms(1_000));
        }
        assert_eq!(schedule.due(t + LONGEST_POSTPONEMENT), CONFIG);
    }

    #[test]
    fn a_resync_does_not_read_a_file_that_is_being_written_and_does_not_spin() {
        let t = start();
        let mut schedule = settled(t);
        schedule.postpone_config(t + ms(59_500), ms(1_000));
        assert_eq!(schedule.due(t + ms(60_000)), KERNEL);
        schedule.succeeded(KERNEL, t + ms(60_000), t + ms(60_001));
        assert!(schedule.due(t + ms(60_400)).is_empty());
        assert_eq!(schedule.wait(t + ms(60_400)), ms(100));
        assert_eq!(schedule.due(t + ms(60_500)), CONFIG);
    }
}
