//! klog's line format.

use std::fmt::Write;

use super::clock::Utc;
use super::event::Event;
use super::options::{LogOptions, Severity};

/// Prints one event as one line, with its line end.
pub(super) fn line(event: &Event<'_>, pid: u32, options: &LogOptions) -> String {
    let mut line = String::with_capacity(event.message.len() + 80);
    if !options.skip_headers {
        let t = Utc::of(event.at);
        // Writing to a String cannot fail.
        let _ = write!(
            line,
            "{}{:02}{:02} {:02}:{:02}:{:02}.{:06} {pid:>7} {}:{}] ",
            letter(event.severity),
            t.month,
            t.day,
            t.hour,
            t.minute,
            t.second,
            t.micros,
            event.place.shown(options.dir_in_header),
            event.place.line,
        );
    }
    escape_into(event.message, &mut line);
    if let Some(error) = event.error {
        line.push_str(": ");
        escape_into(error, &mut line);
    }
    line.push('\n');
    line
}

fn letter(severity: Severity) -> char {
    match severity {
        Severity::WARNING => 'W',
        Severity::ERROR => 'E',
        Severity::FATAL => 'F',
        Severity(_) => 'I',
    }
}

/// Copies a message so that it stays one line and moves no cursor: it may quote a file, a flag or another program's name.
fn escape_into(message: &str, line: &mut String) {
    for c in message.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::super::event::Place;
    use super::*;

    fn event(severity: Severity, message: &str) -> Event<'_> {
        Event {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_764_504_211_528_511),
            severity,
            verbosity: 0,
            place: Place { file: "crates/agent/src/agent.rs", line: 128 },
            message,
            error: None,
        }
    }

    #[test]
    fn the_header_is_klog_s_to_the_column() {
        let options = LogOptions::default();
        let text = |severity| line(&event(severity, "hello"), 26917, &options);
        assert_eq!(text(Severity::INFO), "I1130 12:03:31.528511   26917 agent.rs:128] hello\n");
        assert!(text(Severity::WARNING).starts_with("W1130 "));
        assert!(text(Severity::ERROR).starts_with("E1130 "));
        assert!(text(Severity::FATAL).starts_with("F1130 "));
    }

    #[test]
    fn what_caused_a_failure_follows_the_message() {
        let bare = LogOptions { skip_headers: true, ..LogOptions::default() };
        let event = Event { error: Some("no\nluck"), ..event(Severity::ERROR, "Cannot do it") };
        assert_eq!(line(&event, 1, &bare), "Cannot do it: no\\nluck\n");
    }

    #[test]
    fn headers_can_be_left_out_or_name_the_directory() {
        let bare = LogOptions { skip_headers: true, ..LogOptions::default() };
        assert_eq!(line(&event(Severity::INFO, "hello"), 1, &bare), "hello\n");
        let long = LogOptions { dir_in_header: true, ..LogOptions::default() };
        assert_eq!(line(&event(Severity::INFO, "x"), 1, &long), "I1130 12:03:31.528511       1 src/agent.rs:128] x\n");
    }

    #[test]
    fn a_message_cannot_make_a_second_line_or_reach_the_terminal() {
        let bare = LogOptions { skip_headers: true, ..LogOptions::default() };
        let text = line(&event(Severity::INFO, "a\nE1130 b\r\t\x1b[2J\u{9b}\u{2028}é\\"), 1, &bare);
        assert_eq!(text, "a\\nE1130 b\\r\\t\\u{1b}[2J\\u{9b}\\u{2028}é\\\n");
    }
}
