//! `explain`: what becomes of the first packet of a connection on this node, and why; nothing is changed.

mod json;
mod look;
mod outcome;
mod port;
mod story;

use std::process::ExitCode;

use masq::config::{Config, Parsed, Rejected};
use masq::policy::Policy;

use self::look::{Look, Seen};
use self::outcome::Outcome;
use super::output::{complain, finish};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT, STATUS_WRONG_USAGE, input};
use crate::cli::{ExplainOptions, OutputFormat};
use crate::foreign::sets::SetLookup;

/// Looks at the node and tells the way of the packet, step by step. Remarks on the config go to standard error.
///
/// Exit status: 0 the packet leaves as the policy says; 1 something contradicts the policy, or the config is refused; 2 the packet
/// cannot be one of this node; 3 not all could be looked at.
pub fn run(options: &ExplainOptions) -> ExitCode {
    let sources = match input::read(options.config_path.as_deref()) {
        Ok(sources) => sources,
        Err(error) => return failed(&format!("{error:#}"), STATUS_CANNOT_LOOK, options.output),
    };
    let (config, findings) = match Config::parse(&sources, &options.policy) {
        Ok(Parsed { config, warnings }) => (Some(config), warnings),
        Err(Rejected { errors, warnings }) => (None, errors.into_iter().chain(warnings).collect()),
    };
    findings.iter().for_each(|finding| complain(&format!("{finding}\n")));
    let Some(config) = config else {
        let reason =
            "the config is refused, so there is no policy to explain; a running daemon keeps its last good one";
        return failed(reason, STATUS_TO_REPORT, options.output);
    };
    let policy = Policy::new(&config);
    let seen = match look::look(options) {
        Ok(Look::Seen(seen)) => seen,
        Ok(Look::Impossible(reason)) => return failed(&reason, STATUS_WRONG_USAGE, options.output),
        Err(error) => return failed(&format!("{error:#}"), STATUS_CANNOT_LOOK, options.output),
    };
    explain(options, &policy, &seen)
}

fn explain(options: &ExplainOptions, policy: &Policy, seen: &Seen) -> ExitCode {
    let mut sets = SetLookup::open();
    let outcome =
        Outcome::new(&options.question, policy, seen, &mut |table, set, address| sets.has(table, set, address));
    let text = match options.output {
        OutputFormat::Text => story::tell(&options.question, seen, &outcome),
        OutputFormat::Json => format!("{:#}\n", json::value(&options.question, seen, &outcome)),
    };
    let status = match (seen.unseen.is_empty(), outcome.findings.is_empty()) {
        (false, _) => STATUS_CANNOT_LOOK,
        (true, false) => STATUS_TO_REPORT,
        (true, true) => STATUS_FINE,
    };
    finish(&text, status)
}

fn failed(reason: &str, status: u8, output: OutputFormat) -> ExitCode {
    match output {
        OutputFormat::Text => {
            complain(&format!("explain: {reason}\n"));
            ExitCode::from(status)
        }
        OutputFormat::Json => finish(&format!("{:#}\n", json::failure(reason)), status),
    }
}
