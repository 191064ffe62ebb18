//! What the folder deploy/monitoring holds, as values.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// An alert as its rule has it.
#[derive(Debug)]
pub struct Alert {
    pub name: String,
    pub expression: String,
    pub severity: String,
    pub runbook: String,
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A file of deploy/monitoring.
pub fn monitoring(name: &str) -> PathBuf {
    repository().join("deploy/monitoring").join(name)
}

/// The alerts in the order of the file, each of whose values stands on a line of its own.
pub fn alerts() -> Vec<Alert> {
    let text = fs::read_to_string(monitoring("alerts.yaml")).unwrap();
    let found: Vec<Alert> = text.split("- alert: ").skip(1).map(alert).collect();
    assert!(found.len() > 10, "{found:?}");
    found
}

fn alert(text: &str) -> Alert {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "));
        lines.next().unwrap_or_else(|| panic!("no {key}: {text}")).to_owned()
    };
    let name = text.lines().next().unwrap().to_owned();
    Alert { name, expression: value("expr"), severity: value("severity"), runbook: value("runbook_url") }
}

/// All expressions of the dashboard: those of its panels, and those of its annotations.
pub fn dashboard_expressions() -> Vec<String> {
    let text = fs::read_to_string(monitoring("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let targets = list(&dashboard["panels"]).iter().flat_map(|panel| list(&panel["targets"])).collect::<Vec<_>>();
    let with_expression = targets.into_iter().chain(list(&dashboard["annotations"]["list"]));
    let found: Vec<String> = with_expression.filter_map(|one| one["expr"].as_str().map(str::to_owned)).collect();
    assert!(found.len() > 20, "{found:?}");
    found
}
