//! The JSON line format of Kubernetes components, with the level and the severity added.

use super::clock::since_epoch;
use super::event::Event;
use super::options::{LogOptions, Severity};

/// Prints one event as one JSON object and a line end.
///
/// `ts` is in milliseconds since 1970. Kubernetes' own lines tell errors from the rest only by the absence of `v`, and what caused them
/// stands in `err`. `level` is for people, in the words of the library that Kubernetes logs with; `severity` is the key and the words
/// that the log collectors of clouds look for.
pub(super) fn line(event: &Event<'_>, options: &LogOptions) -> String {
    let micros = since_epoch(event.at).as_micros();
    let caller = format!("{}:{}", event.place.shown(options.dir_in_header), event.place.line);
    let (level, severity) = names(event.severity);
    let mut line = format!(
        "{{\"ts\":{}.{:03},\"level\":\"{level}\",\"caller\":{},\"msg\":{}",
        micros / 1000,
        micros % 1000,
        string(&caller),
        string(event.message),
    );
    if let Some(error) = event.error {
        line += &format!(",\"err\":{}", string(error));
    }
    if event.severity < Severity::ERROR {
        line += &format!(",\"v\":{}", event.verbosity);
    }
    line + &format!(",\"severity\":\"{severity}\"}}\n")
}

fn names(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::WARNING => ("warn", "WARNING"),
        Severity::ERROR => ("error", "ERROR"),
        Severity::FATAL => ("fatal", "FATAL"),
        Severity(_) => ("info", "INFO"),
    }
}

/// A JSON string in which no character is left that a terminal would act on; JSON itself asks for that only below U+0020.
fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    for c in serde_json::Value::from(text).to_string().chars() {
        if c.is_control() {
            quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            quoted.push(c);
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::super::event::Place;
    use super::*;

    fn event<'a>(severity: Severity, message: &'a str, error: Option<&'a str>) -> Event<'a> {
        Event {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_764_504_211_528_511),
            severity,
            verbosity: 0,
            place: Place { file: "src/agent.rs", line: 128 },
            message,
            error,
        }
    }

    #[test]
    fn a_line_is_one_object_with_kubernetes_keys() {
        let event = event(Severity::WARNING, "a \"b\"\n\x1b\u{9b}", None);
        let text = line(&event, &LogOptions::default());
        assert_eq!(
            text,
            "{\"ts\":1764504211528.511,\"level\":\"warn\",\"caller\":\"agent.rs:128\",\"msg\":\"a \\\"b\\\"\\n\\u001b\\u009b\",\"v\":0,\"severity\":\"WARNING\"}\n"
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["msg"], event.message);
    }

    #[test]
    fn an_error_has_its_cause_in_a_key_of_its_own_and_no_verbosity() {
        let text = line(&event(Severity::ERROR, "Cannot do it", Some("no \"it\"")), &LogOptions::default());
        assert_eq!(
            text,
            "{\"ts\":1764504211528.511,\"level\":\"error\",\"caller\":\"agent.rs:128\",\"msg\":\"Cannot do it\",\"err\":\"no \\\"it\\\"\",\"severity\":\"ERROR\"}\n"
        );
    }
}
