//! Errors and warnings, for people and for programs.

use masq::config::Source;
use masq::diagnostic::{Diagnostic, Severity};
use serde_json::{Value, json};

/// Each finding with the line of the file that it is about, and a count at the end.
pub(super) fn to_text(findings: &[Diagnostic], sources: &[Source]) -> String {
    let mut text = String::new();
    for finding in findings {
        let file = finding.place.as_ref().and_then(|place| sources.iter().find(|source| *source.name == *place.file));
        let shown = finding.render_with_source(file.map_or(&[], |source| source.bytes.as_slice()));
        text.push_str(shown.trim_end_matches('\n'));
        text.push_str("\n\n");
    }
    if !findings.is_empty() {
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        text.push_str(&format!("{}, {}.\n", counted(errors, "error"), counted(findings.len() - errors, "warning")));
    }
    text
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The keys are an interface: they stay as they are.
pub(super) fn to_json(findings: &[Diagnostic]) -> Vec<Value> {
    let one = |finding: &Diagnostic| {
        let place = finding.place.as_ref();
        json!({
            "severity": finding.severity.to_string(),
            "kind": finding.kind.name(),
            "file": place.map(|place| place.file.as_ref()),
            "line": place.map(|place| place.line),
            "column": place.map(|place| place.column),
            "path": finding.path,
            "value": finding.value,
            "reason": finding.reason,
            "remedy": finding.remedy,
        })
    };
    findings.iter().map(one).collect()
}
