//! Messages that come again and again: said once, then summed up.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use super::event::Place;
use super::options::Severity;

/// How many different messages are remembered; beyond it the oldest is summed up and forgotten.
const CAPACITY: usize = 64;
/// How much of a message its summary quotes, in bytes.
const EXCERPT: usize = 512;
/// How long a warning or error stays said.
const LONG_WINDOW: Duration = Duration::from_secs(600);
/// How long an event stays said: shorter, as an event that comes back later is news again.
const SHORT_WINDOW: Duration = Duration::from_secs(10);
/// How often an event is said in its window: two equal lines may tell of two changes, a dozen tell of a fight.
const EVENT_ALLOWANCE: u32 = 5;

/// What has been said lately, and how often it came again since. Bounded in memory; callers pass `now`.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    said: Vec<Said>,
}

#[derive(Debug)]
struct Said {
    severity: Severity,
    place: Place,
    excerpt: String,
    hash: u64,
    since: Instant,
    /// How often it was said in this window.
    told: u32,
    /// How often it came without being said.
    count: u64,
}

/// What is to be written now that a message came in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Admission {
    /// Summaries of earlier messages, to be written first.
    pub(super) summaries: Vec<Summary>,
    /// Whether the message itself is to be written.
    pub(super) say: bool,
}

/// One line in place of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) severity: Severity,
    pub(super) place: Place,
    pub(super) message: String,
}

impl Repeats {
    /// Takes note of a message and decides whether it is news.
    ///
    /// An event that is said lets all warnings and errors count as news again: something has changed since.
    pub(super) fn admit(&mut self, severity: Severity, place: Place, message: &str, now: Instant) -> Admission {
        let hash = hash(message);
        let same = |said: &&mut Said| said.hash == hash && said.place == place && said.severity == severity;
        if let Some(said) = self.said.iter_mut().find(same).filter(|said| said.is_enough(now)) {
            said.count += 1;
            // If its window is over, its summary tells this one too.
            return Admission { summaries: self.due(now), say: false };
        }
        let mut summaries = self.due(now);
        if let Some(said) = self.said.iter_mut().find(same) {
            said.told += 1;
        } else {
            if self.said.len() == CAPACITY {
                summaries.extend(self.said.remove(0).summary(now));
            }
            let excerpt = excerpt(message);
            self.said.push(Said { severity, place, excerpt, hash, since: now, told: 1, count: 0 });
        }
        if severity == Severity::INFO {
            let trouble = self.said.extract_if(.., |said| said.severity > Severity::INFO);
            summaries.extend(trouble.filter_map(|said| said.summary(now)));
        }
        Admission { summaries, say: true }
    }

    /// Everything not summed up yet, for the end of the process.
    pub(super) fn drain(&mut self, now: Instant) -> Vec<Summary> {
        self.said.drain(..).filter_map(|said| said.summary(now)).collect()
    }

    /// Sums up the messages whose window is over. One that came again starts a new window, as its summary has told it anew.
    fn due(&mut self, now: Instant) -> Vec<Summary> {
        let mut summaries = Vec::new();
        self.said.retain_mut(|said| {
            if !said.is_over(now) {
                return true;
            }
            let summary = said.summary(now);
            let came_again = summary.is_some();
            summaries.extend(summary);
            (said.since, said.count) = (now, 0);
            came_again
        });
        summaries
    }
}

impl Said {
    /// Whether it is to be counted only. What stayed away for a whole window is news again.
    fn is_enough(&self, now: Instant) -> bool {
        let allowance = if self.severity == Severity::INFO { EVENT_ALLOWANCE } else { 1 };
        self.told >= allowance && (self.count > 0 || !self.is_over(now))
    }

    fn is_over(&self, now: Instant) -> bool {
        let window = if self.severity == Severity::INFO { SHORT_WINDOW } else { LONG_WINDOW };
        now.saturating_duration_since(self.since) >= window
    }

    fn summary(&self, now: Instant) -> Option<Summary> {
        let times = match self.count {
            0 => return None,
            1 => "once more".to_owned(),
            n => format!("{n} times more"),
        };
        let elapsed = span(now.saturating_duration_since(self.since));
        let message = format!("{} (came {times} in the last {elapsed})", self.excerpt);
        Some(Summary { severity: self.severity, place: self.place, message })
    }
}

fn span(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        seconds @ 0..60 => format!("{}s", seconds.max(1)),
        seconds => format!("{}m", seconds / 60),
    }
}

fn excerpt(message: &str) -> String {
    if message.len() <= EXCERPT {
        return message.to_owned();
    }
    let end = (0..=EXCERPT).rfind(|&at| message.is_char_boundary(at)).unwrap_or(0);
    format!("{}...", &message[..end])
}

fn hash(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = Place { file: "a.rs", line: 1 };

    struct Log {
        repeats: Repeats,
        start: Instant,
    }

    impl Log {
        fn new() -> Log {
            Log { repeats: Repeats::default(), start: Instant::now() }
        }

        /// The lines that a message at second `at` leads to.
        fn lines(&mut self, severity: Severity, message: &str, at: u64) -> Vec<String> {
            let admission = self.repeats.admit(severity, HERE, message, self.start + Duration::from_secs(at));
            let mut lines: Vec<String> = admission.summaries.into_iter().map(|summary| summary.message).collect();
            lines.extend(admission.say.then(|| message.to_owned()));
            lines
        }
    }

    #[test]
    fn a_repeated_error_is_said_once_and_summed_up_every_ten_minutes() {
        let mut log = Log::new();
        assert_eq!(log.lines(Severity::ERROR, "e", 0), ["e"]);
        for second in 1..=57 {
            assert!(log.lines(Severity::ERROR, "e", second).is_empty());
        }
        assert_eq!(log.lines(Severity::ERROR, "e", 600), ["e (came 58 times more in the last 10m)"]);
        assert!(log.lines(Severity::ERROR, "e", 700).is_empty());
        assert_eq!(log.lines(Severity::ERROR, "x", 1300), ["e (came once more in the last 11m)", "x"]);
        assert_eq!(log.lines(Severity::ERROR, "e", 20_000), ["e"]);
    }

    #[test]
    fn an_error_that_stayed_away_for_ten_minutes_is_news() {
        let mut log = Log::new();
        log.lines(Severity::ERROR, "e", 0);
        assert_eq!(log.lines(Severity::ERROR, "e", 601), ["e"]);
    }

    #[test]
    fn two_errors_in_turn_are_each_said_once() {
        let mut log = Log::new();
        let count: usize = (0..100).map(|i| log.lines(Severity::ERROR, ["v4", "v6"][i % 2], i as u64).len()).sum();
        assert_eq!(count, 2);
    }

    #[test]
    fn an_error_after_an_event_is_news() {
        let mut log = Log::new();
        log.lines(Severity::ERROR, "bad config", 0);
        assert!(log.lines(Severity::ERROR, "bad config", 1).is_empty());
        assert_eq!(
            log.lines(Severity::INFO, "good config", 2),
            ["bad config (came once more in the last 2s)", "good config"]
        );
        assert_eq!(log.lines(Severity::ERROR, "bad config", 3), ["bad config"]);
        assert_eq!(log.lines(Severity::INFO, "good config", 4), ["good config"]);
        assert_eq!(log.lines(Severity::ERROR, "bad config", 5), ["bad config"]);
    }

    #[test]
    fn an_event_is_said_a_few_times_before_it_is_summed_up() {
        let mut log = Log::new();
        let said = |log: &mut Log, at| (0..100).map(|_| log.lines(Severity::INFO, "i", at).len()).sum::<usize>();
        assert_eq!(said(&mut log, 0), 5);
        assert_eq!(log.lines(Severity::INFO, "x", 10), ["i (came 95 times more in the last 10s)", "x"]);
        // The summary stands for the first line of the window that begins with it.
        assert_eq!(said(&mut log, 11), 0);
        assert_eq!(said(&mut log, 40), 1);
    }

    #[test]
    fn severity_and_place_tell_equal_texts_apart() {
        let mut log = Log::new();
        log.lines(Severity::ERROR, "e", 0);
        assert_eq!(log.lines(Severity::WARNING, "e", 1), ["e"]);
        let there = Place { file: "a.rs", line: 2 };
        assert!(log.repeats.admit(Severity::ERROR, there, "e", log.start).say);
    }

    #[test]
    fn memory_is_bounded_in_messages_and_in_their_length() {
        let mut log = Log::new();
        for i in 0..10_000 {
            log.lines(Severity::ERROR, &format!("{i}{}", "é".repeat(2_000)), 0);
        }
        assert_eq!(log.repeats.said.len(), CAPACITY);
        assert!(log.repeats.said.iter().all(|said| said.excerpt.len() <= EXCERPT + 3));
    }

    #[test]
    fn what_is_left_is_summed_up_at_the_end() {
        let mut log = Log::new();
        log.lines(Severity::ERROR, "e", 0);
        log.lines(Severity::ERROR, "e", 1);
        let left = log.repeats.drain(log.start + Duration::from_secs(5));
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].message, "e (came once more in the last 5s)");
        assert!(log.repeats.drain(log.start).is_empty());
    }
}
