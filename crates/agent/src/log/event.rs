//! One log line before it is written: what happened, when, where and how much it matters.

use std::time::SystemTime;

use super::options::Severity;
use super::repeats::Summary;

/// One event that the log tells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event<'a> {
    pub(super) at: SystemTime,
    pub(super) severity: Severity,
    /// The n of klog's `V(n)`: 0, 2 or 4.
    pub(super) verbosity: i32,
    pub(super) place: Place,
    pub(super) message: &'a str,
    /// What it happened for, where the message is about a failure.
    pub(super) error: Option<&'a str>,
}

impl Event<'_> {
    /// The line in place of messages that came again and again.
    pub(super) fn summary(summary: &Summary) -> Event<'_> {
        let Summary { severity, place, message } = summary;
        Event { at: SystemTime::now(), severity: *severity, verbosity: 0, place: *place, message, error: None }
    }
}

/// A call in our source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The path of the file as the compiler saw it.
    pub(super) file: &'static str,
    pub(super) line: u32,
}

impl Place {
    /// `agent.rs`, or `src/agent.rs` with its directory.
    pub(super) fn shown(self, with_dir: bool) -> &'static str {
        let mut slashes = self.file.rmatch_indices('/').map(|(at, _)| at + 1);
        let start = if with_dir { slashes.nth(1) } else { slashes.next() };
        &self.file[start.unwrap_or(0)..]
    }

    /// The name that `--vmodule` patterns are held against: `agent`.
    pub(super) fn module(self) -> &'static str {
        let name = self.shown(false);
        name.strip_suffix(".rs").unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_as_file_name_with_at_most_one_directory() {
        let place = Place { file: "crates/agent/src/agent.rs", line: 1 };
        assert_eq!((place.shown(false), place.shown(true), place.module()), ("agent.rs", "src/agent.rs", "agent"));
        let bare = Place { file: "agent.rs", line: 1 };
        assert_eq!((bare.shown(false), bare.shown(true)), ("agent.rs", "agent.rs"));
        assert_eq!(Place { file: "src/agent.rs", line: 1 }.shown(true), "src/agent.rs");
    }
}
