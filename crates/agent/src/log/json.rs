//! The JSON line format of Kubernetes components, with the severity added.

use super::clock::since_epoch;
use super::event::Event;
use super::options::{LogOptions, Severity};

/// Prints one event as one JSON object and a line end.
///
/// `ts` is in milliseconds since 1970. Kubernetes' own lines tell errors from the rest only by the absence of `v`; `severity`
/// is the key that log collectors look for.
pub(super) fn line(event: &Event<'_>, options: &LogOptions) -> String {
    let micros = since_epoch(event.at).as_micros();
    let caller = format!("{}:{}", event.place.shown(options.dir_in_header), event.place.line);
    format!(
        "{{\"ts\":{}.{:03},\"caller\":{},\"msg\":{},\"v\":{},\"severity\":\"{}\"}}\n",
        micros / 1000,
        micros % 1000,
        string(&caller),
        string(event.message),
        event.verbosity,
        name(event.severity),
    )
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::WARNING => "WARNING",
        Severity::ERROR => "ERROR",
        Severity::FATAL => "FATAL",
        Severity(_) => "INFO",
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

    #[test]
    fn a_line_is_one_object_with_kubernetes_keys() {
        let event = Event {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_764_504_211_528_511),
            severity: Severity::WARNING,
            verbosity: 0,
            place: Place { file: "src/agent.rs", line: 128 },
            message: "a \"b\"\n\x1b\u{9b}",
        };
        let text = line(&event, &LogOptions::default());
        assert_eq!(
            text,
            "{\"ts\":1764504211528.511,\"caller\":\"agent.rs:128\",\"msg\":\"a \\\"b\\\"\\n\\u001b\\u009b\",\"v\":0,\"severity\":\"WARNING\"}\n"
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["msg"], event.message);
    }
}
