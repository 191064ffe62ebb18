//! `diff`: how the kernel differs from the policy, line by line; nothing is changed.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use masq::policy::Policy;
use serde_json::{Value, json};

use super::node;
use super::output::{complain, finish, printable};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT};
use crate::backend::Backend;
use crate::backend::difference::{Comparison, Group, Line, Side};
use crate::cli::{NodeOptions, OutputFormat};

/// More lines of one place than this are counted instead of shown; `-o json` has them all.
const SHOWN: usize = 40;

const LEGEND: &str = "\n+ the policy asks for it, and the kernel does not hold it; - the other way round\n";

/// Compares the kernel with the policy; remarks on the config go to standard error.
///
/// Exit status: 0 in sync; 1 the kernel differs, or the config is refused; 3 not all could be looked at.
pub fn run(options: &NodeOptions) -> ExitCode {
    let reading = match node::read(options) {
        Ok(reading) => reading,
        Err(error) => return cannot_look(&error, options.output),
    };
    reading.findings.iter().for_each(|finding| complain(&format!("{finding}\n")));
    let Some(config) = reading.config else {
        return refused(options.output);
    };
    let mut backend = match node::open(options) {
        Ok(backend) => backend,
        Err(error) => return cannot_look(&error, options.output),
    };
    let comparison = backend.compare(&Policy::new(&config));
    let verdict = Verdict::of(&comparison);
    match options.output {
        OutputFormat::Text => {
            let no_color = env::var_os("NO_COLOR");
            let colour = wants_colour(io::stdout().is_terminal(), no_color.as_deref());
            let status = finish(&to_text(&backend, &comparison, colour), verdict.status());
            comparison.failures.iter().for_each(|error| complain(&format!("diff: {error:#}\n")));
            status
        }
        OutputFormat::Json => {
            let backend = node::backend_json(&backend);
            finish(&document(verdict, failures(&comparison), backend, &comparison.groups), verdict.status())
        }
    }
}

/// What a run comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    InSync,
    Differs,
    /// There is no policy to compare with.
    Refused,
    /// Not all could be looked at.
    CannotLook,
}

impl Verdict {
    fn of(comparison: &Comparison) -> Verdict {
        match (comparison.failures.is_empty(), comparison.groups.is_empty()) {
            (false, _) => Verdict::CannotLook,
            (true, false) => Verdict::Differs,
            (true, true) => Verdict::InSync,
        }
    }

    fn status(self) -> u8 {
        match self {
            Verdict::InSync => STATUS_FINE,
            Verdict::Differs | Verdict::Refused => STATUS_TO_REPORT,
            Verdict::CannotLook => STATUS_CANNOT_LOOK,
        }
    }

    /// The word for programs.
    fn word(self) -> &'static str {
        match self {
            Verdict::InSync => "in-sync",
            Verdict::Differs => "differs",
            Verdict::Refused => "refused",
            Verdict::CannotLook => "cannot-look",
        }
    }
}

fn cannot_look(error: &anyhow::Error, output: OutputFormat) -> ExitCode {
    failed(Verdict::CannotLook, &format!("{error:#}"), output)
}

fn refused(output: OutputFormat) -> ExitCode {
    let reason =
        "this config is refused, so there is no policy to compare with; a running daemon keeps its last good one";
    failed(Verdict::Refused, reason, output)
}

fn failed(verdict: Verdict, reason: &str, output: OutputFormat) -> ExitCode {
    match output {
        OutputFormat::Text => {
            complain(&format!("diff: {reason}\n"));
            ExitCode::from(verdict.status())
        }
        OutputFormat::Json => finish(&document(verdict, vec![reason.to_owned()], Value::Null, &[]), verdict.status()),
    }
}

fn failures(comparison: &Comparison) -> Vec<String> {
    comparison.failures.iter().map(|error| format!("{error:#}")).collect()
}

/// The keys are an interface: they stay as they are, and all of them are always there.
fn document(verdict: Verdict, reasons: Vec<String>, backend: Value, groups: &[Group]) -> String {
    let line = |line: &Line| json!({ "side": side_word(line.side), "text": line.text });
    let group =
        |group: &Group| json!({ "place": group.place, "lines": group.lines.iter().map(line).collect::<Vec<_>>() });
    let groups: Vec<Value> = groups.iter().map(group).collect();
    let report = json!({ "verdict": verdict.word(), "reasons": reasons, "backend": backend, "groups": groups });
    format!("{report:#}\n")
}

fn side_word(side: Side) -> &'static str {
    match side {
        Side::Missing => "missing",
        Side::Unwanted => "unwanted",
    }
}

fn to_text(backend: &Backend, comparison: &Comparison, colour: bool) -> String {
    let mut text = format!("Backend: {}\n", backend.description());
    match Verdict::of(comparison) {
        Verdict::InSync => text.push_str("In sync: the kernel holds what the policy asks for.\n"),
        Verdict::Differs | Verdict::CannotLook | Verdict::Refused => {
            text.push_str(&groups_text(&comparison.groups, colour));
        }
    }
    text
}

fn groups_text(groups: &[Group], colour: bool) -> String {
    let mut text = String::new();
    for Group { place, lines } in groups {
        text.push_str(&format!("\n{}\n", printable(place)));
        lines.iter().take(SHOWN).for_each(|line| text.push_str(&line_text(line, colour)));
        if lines.len() > SHOWN {
            text.push_str(&format!("    and {} more lines; -o json has them all\n", lines.len() - SHOWN));
        }
    }
    if !groups.is_empty() {
        text.push_str(LEGEND);
    }
    text
}

fn line_text(Line { side, text }: &Line, colour: bool) -> String {
    let (sign, paint) = match side {
        Side::Missing => ('+', "\x1b[32m"),
        Side::Unwanted => ('-', "\x1b[31m"),
    };
    let text = printable(text);
    if colour { format!("  {paint}{sign} {text}\x1b[0m\n") } else { format!("  {sign} {text}\n") }
}

/// As <https://no-color.org> has it: any value but the empty one turns colour off.
fn wants_colour(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(lines: usize) -> Vec<Group> {
        let lines = (0..lines).map(|n| Line::missing(format!("10.{n}.0.0/16"))).chain([Line::unwanted("\x1b[2J")]);
        vec![Group { place: "set s".to_owned(), lines: lines.collect() }]
    }

    #[test]
    fn colour_is_for_terminals_whose_user_does_not_mind() {
        assert!(wants_colour(true, None) && wants_colour(true, Some(OsStr::new(""))));
        assert!(!wants_colour(true, Some(OsStr::new("1"))) && !wants_colour(false, None));
        assert!(groups_text(&groups(1), true).contains("\x1b[32m+ 10.0.0.0/16\x1b[0m"));
    }

    #[test]
    fn nothing_that_is_quoted_reaches_the_terminal_raw() {
        assert!(!groups_text(&groups(1), false).contains('\x1b'));
        assert!(groups_text(&groups(1), true).contains("\x1b[31m- \\u{1b}[2J\x1b[0m"));
    }

    #[test]
    fn of_many_lines_the_rest_is_counted() {
        let text = groups_text(&groups(100), false);
        assert!(text.contains("and 61 more lines") && text.lines().count() < 50, "{text}");
    }

    #[test]
    fn what_could_not_be_seen_weighs_more_than_what_differs() {
        let failures = || vec![anyhow::anyhow!("no")];
        let verdict = |groups, failures| Verdict::of(&Comparison { groups, failures, ..Comparison::default() });
        assert_eq!(verdict(groups(1), failures()), Verdict::CannotLook);
        assert_eq!(verdict(groups(1), Vec::new()), Verdict::Differs);
        assert_eq!(verdict(Vec::new(), Vec::new()), Verdict::InSync);
    }
}
