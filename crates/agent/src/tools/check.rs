//! `check`: what is wrong with a config, or what it means; nothing is changed and no privilege is needed.

mod effective;
mod findings;

use std::process::ExitCode;

use masq::config::{Config, Parsed, Rejected, Source};
use masq::diagnostic::Diagnostic;
use serde_json::{Value, json};

use super::output::{complain, finish};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT, input};
use crate::cli::{CheckOptions, OutputFormat};

/// Reads the config as the daemon would and prints errors, warnings and, if it is taken, the policy in force.
///
/// Exit status: 0 fine or warnings only; 1 errors, and with `--strict` warnings; 3 the config could not be read.
pub fn run(options: &CheckOptions) -> ExitCode {
    let sources = match input::read(options.config_path.as_deref()) {
        Ok(sources) => sources,
        Err(error) => {
            return match options.output {
                OutputFormat::Text => {
                    complain(&format!("check: {error:#}\n"));
                    ExitCode::from(STATUS_CANNOT_LOOK)
                }
                OutputFormat::Json => finish(&document(&unreadable(&error)), STATUS_CANNOT_LOOK),
            };
        }
    };
    let report = Report::new(sources, options);
    let text = match options.output {
        OutputFormat::Text => report.to_text(),
        OutputFormat::Json => document(&report.to_json()),
    };
    let to_report = report.config.is_none() || (options.strict && !report.findings.is_empty());
    finish(&text, if to_report { STATUS_TO_REPORT } else { STATUS_FINE })
}

/// The keys of a report, so that a program need not tell the cases apart before it reads them, and the reason.
fn unreadable(error: &anyhow::Error) -> Value {
    json!({ "verdict": "unreadable", "reason": format!("{error:#}"), "files": [], "findings": [], "effective": null })
}

fn document(value: &Value) -> String {
    format!("{value:#}\n")
}

/// All there is to say about a config.
struct Report {
    sources: Vec<Source>,
    /// Errors first.
    findings: Vec<Diagnostic>,
    /// What the config means; `None` if it is refused.
    config: Option<Config>,
}

impl Report {
    fn new(sources: Vec<Source>, options: &CheckOptions) -> Report {
        let parsed = Config::parse(&sources, &options.policy);
        let parsed = if options.strict { parsed.and_then(Parsed::strict) } else { parsed };
        let (config, findings) = match parsed {
            Ok(Parsed { config, warnings }) => (Some(config), warnings),
            Err(Rejected { errors, warnings }) => (None, errors.into_iter().chain(warnings).collect()),
        };
        Report { sources, findings, config }
    }

    fn to_text(&self) -> String {
        let mut text = findings::to_text(&self.findings, &self.sources);
        match &self.config {
            None => text.push_str("This config is refused; a running daemon keeps its last good one.\n"),
            Some(config) => {
                if self.sources.is_empty() {
                    text.push_str("There is no config file: the defaults are in force.\n");
                }
                text.push_str(&effective::to_text(config));
            }
        }
        text
    }

    fn to_json(&self) -> Value {
        json!({
            "verdict": if self.config.is_some() { "valid" } else { "invalid" },
            "files": self.sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>(),
            "findings": findings::to_json(&self.findings),
            "effective": self.config.as_ref().map(effective::to_json),
        })
    }
}
