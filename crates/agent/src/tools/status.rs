//! `status`: one page about masquerading on this node, and what is wrong with it; nothing is changed.

mod json;
mod look;
mod page;

use std::path::Path;
use std::process::ExitCode;

use masq::diagnostic;
use masq::policy::Policy;
use serde_json::Value;

use self::look::Seen;
use super::node;
use super::output::{complain, finish};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT};
use crate::cli::{NodeOptions, OutputFormat};
use crate::config_file;
use crate::doctor::{Finding, Severity};
use crate::foreign::{Effect, ForeignRule};
use crate::snat::sampler::Sampler;

/// Exit status of a node on which the policy is not in force.
const STATUS_BROKEN: u8 = 2;

/// Looks at the node and prints the page, or its JSON.
///
/// Exit status: 0 nothing to report but notes; 1 warnings; 2 the policy is not in force; 3 not all could be looked at.
pub fn run(options: &NodeOptions) -> ExitCode {
    let reading = match node::read(options) {
        Ok(reading) => reading,
        Err(error) => {
            return match options.output {
                OutputFormat::Text => {
                    complain(&format!("status: {error:#}\n"));
                    ExitCode::from(STATUS_CANNOT_LOOK)
                }
                OutputFormat::Json => finish(&format!("{:#}\n", json::failure(&error)), STATUS_CANNOT_LOOK),
            };
        }
    };
    let seen = look::look(options, reading, &look::port_uses);
    let status = Status::new(&seen);
    let text = match options.output {
        OutputFormat::Text => page::text(&status),
        OutputFormat::Json => format!("{:#}\n", json::value(&status)),
    };
    finish(&text, status.exit_status())
}

/// What the tool prints.
#[derive(Debug)]
pub struct Page {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// The same for the daemon, to which a missing config is an empty one. What the sampler saw last is used in place of a look at all
/// connections, which is too dear for whoever asks a server again and again.
pub fn page(path: &Path, options: &NodeOptions, sampler: Option<&Sampler>) -> Page {
    let sampled = |_: &Policy| {
        let sample = sampler.and_then(Sampler::latest);
        Ok(sample.map_or_else(Vec::new, |sample| sample.busiest.clone()))
    };
    match config_file::read(path) {
        Ok(sources) => {
            let seen = look::look(options, node::parse(sources, options), &sampled);
            let status = Status::new(&seen);
            Page { text: page::text(&status), json: json::value(&status) }
        }
        Err(error) => Page { text: format!("{error}\n"), json: json::failure(&error.into()) },
    }
}

/// What was seen, and what follows.
struct Status<'s> {
    seen: &'s Seen,
    /// Other programs' rules that can change the source of what leaves, in the order of the kernel.
    foreign: Vec<ForeignRule>,
    /// The worst first.
    findings: Vec<Finding>,
}

impl<'s> Status<'s> {
    fn new(seen: &'s Seen) -> Status<'s> {
        let mut findings = seen.findings.clone();
        findings.extend(seen.diagnostics.iter().map(about_config));
        findings.extend(not_in_force(seen));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let mut foreign = seen.ruleset.foreign_rules();
        foreign.retain(|rule| rule.may_translate_what_leaves() || rule.effect == Effect::MayUntrack);
        Status { seen, foreign, findings }
    }

    fn exit_status(&self) -> u8 {
        match self.findings.first().map(|finding| finding.severity) {
            _ if !self.seen.unseen.is_empty() => STATUS_CANNOT_LOOK,
            Some(Severity::Broken) => STATUS_BROKEN,
            Some(Severity::Warning) => STATUS_TO_REPORT,
            Some(Severity::Note) | None => STATUS_FINE,
        }
    }

    /// The word for programs.
    fn verdict(&self) -> &'static str {
        match self.exit_status() {
            STATUS_FINE => "fine",
            STATUS_TO_REPORT => "warnings",
            STATUS_BROKEN => "broken",
            _ => "cannot-look",
        }
    }
}

fn about_config(found: &diagnostic::Diagnostic) -> Finding {
    let severity = match found.severity {
        diagnostic::Severity::Error => Severity::Broken,
        diagnostic::Severity::Warning => Severity::Warning,
    };
    let place = found.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    let path = if found.path.is_empty() { String::new() } else { format!("{}: ", found.path) };
    let sentence = format!("{place}{path}{}", found.reason);
    Finding { id: found.kind.name(), severity, sentence, remedy: found.remedy.clone() }
}

fn not_in_force(seen: &Seen) -> Option<Finding> {
    let groups = &seen.comparison.as_ref()?.groups;
    let lines: usize = groups.iter().map(|group| group.lines.len()).sum();
    let remedy = match seen.agents.as_slice() {
        [] => "start the agent; none is seen here",
        [_] => "see what differs with ip-masq-agent diff, and look into the agent's log",
        // Of several it is not known whose flags to take.
        [_, _, ..] => {
            "several agents run here: stop all but one, see what differs with ip-masq-agent diff, and look into the agent's log"
        }
    };
    (lines > 0).then(|| Finding {
        id: "not-in-force",
        severity: Severity::Broken,
        sentence: format!("the kernel differs from the policy in {lines} line{}", if lines == 1 { "" } else { "s" }),
        remedy: remedy.to_owned(),
    })
}
