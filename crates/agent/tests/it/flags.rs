//! The command line of the built program: exit statuses, streams and the first lines of the log.

use ip_masq_agent::cli::Topic;
use serde::Deserialize;

use crate::support::program::run;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    flags: Vec<String>,
    expect: Expectation,
    ours: Option<Expectation>,
}

#[derive(Deserialize)]
struct Expectation {
    outcome: String,
    exit: Option<i32>,
    warn: Option<String>,
}

impl Case {
    fn wanted(&self) -> &Expectation {
        self.ours.as_ref().unwrap_or(&self.expect)
    }
}

fn cases() -> Vec<Case> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../masq/tests/vectors.json"));
    serde_json::from_str::<Vectors>(text).unwrap().cases
}

fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn what_the_reference_refuses_is_refused_with_its_status_and_what_no_kernel_takes_too() {
    let mut failures = Vec::new();
    let mut seen = 0;
    for case in cases() {
        let wanted = match case.wanted().outcome.as_str() {
            "exits" => case.wanted().exit.unwrap(),
            "flag-error" => 1,
            _ => continue,
        };
        seen += 1;
        let run = run(&case.flags);
        let told = match wanted {
            0 if case.flags == ["--version"] => run.stdout == "ip-masq-agent 0.1.0\n" && run.stderr.is_empty(),
            0 => run.stdout.is_empty() && run.stderr.starts_with("Usage of ip-masq-agent:\n"),
            1 => run.stderr.lines().last().is_some_and(|line| line.starts_with('F') && line.contains("] Invalid --")),
            _ => run.stderr.contains("\nUsage of ip-masq-agent:\n") && !run.stderr.contains("FLAG:"),
        };
        if run.status != Some(wanted) || !told {
            failures.push(format!("{}: {:?} should end with {wanted}: {run:?}", case.name, case.flags));
        }
    }
    assert!(seen > 25, "only {seen} cases");
    assert_none(&failures);
}

#[test]
fn what_the_reference_takes_is_taken_and_ignored_words_are_warned_about_one_by_one() {
    let mut failures = Vec::new();
    for case in cases().iter().filter(|case| case.name.starts_with("flag-") && case.wanted().outcome == "ok") {
        let mut args = vec!["--once", "--config=/nonexistent/ip-masq-agent"];
        args.extend(case.flags.iter().map(String::as_str));
        let run = run(&args);
        let wanted = match case.wanted().warn.as_deref() {
            Some(warn) if warn.starts_with("two words") => 2,
            Some(warn) if warn.starts_with("one word") => 1,
            _ => 0,
        };
        let ignored = run.stderr.lines().filter(|line| line.starts_with('W') && line.contains("\" is ignored")).count();
        if run.status != Some(0) || ignored != wanted || !run.stdout.is_empty() {
            failures.push(format!("{}: {:?}: {ignored} words ignored, {run:?}", case.name, case.flags));
        }
    }
    assert_none(&failures);
}

#[test]
fn a_mistyped_tool_starts_no_daemon() {
    for (word, meant) in [("statu", "status"), ("explian", "explain"), ("Check", "check"), ("stop", "top")] {
        let run = run(&[word]);
        assert_eq!(run.status, Some(2), "{run:?}");
        assert!(run.stderr.starts_with(&format!("there is no tool {word:?}; did you mean {meant}?")), "{run:?}");
    }
}

#[test]
fn help_and_version_may_be_asked_for_without_dashes() {
    assert!(run(&["help"]).stderr.starts_with("Usage of ip-masq-agent:\n"));
    assert!(run(&["help", "explain"]).stdout.starts_with("Usage of ip-masq-agent explain:\n"));
    assert_eq!(run(&["version"]).stdout, run(&["--version"]).stdout);
}

#[test]
fn the_log_begins_with_the_version_and_every_flag_in_order() {
    let run = run(&["--once", "--config=/nonexistent/ip-masq-agent", "--masq-chain=A\\B", "-v=1"]);
    let messages: Vec<&str> = run.stderr.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    assert_eq!(messages[0], "ip-masq-agent version: 0.1.0");
    let flags: Vec<&str> = messages[1..].iter().map_while(|message| message.strip_prefix("FLAG: --")).collect();
    assert!(flags.is_sorted(), "{flags:?}");
    assert!(flags.len() > 25);
    for flag in ["masq-chain=\"A\\\\B\"", "once=\"true\"", "v=\"1\"", "to-ports=\"\"", "stderrthreshold=\"2\""] {
        assert!(flags.contains(&flag), "{flag} in {flags:?}");
    }
}

#[test]
fn help_of_a_tool_goes_to_standard_output_with_an_example() {
    for tool in Topic::TOOLS.map(|tool| tool.word().unwrap()) {
        for word in ["--help", "-h"] {
            let run = run(&[tool, word]);
            assert_eq!(run.status, Some(0));
            assert!(run.stdout.starts_with(&format!("Usage of ip-masq-agent {tool}:\n")), "{run:?}");
            assert!(run.stdout.contains("\nExample:\n") && run.stderr.is_empty(), "{run:?}");
        }
    }
}

#[test]
fn a_tool_used_wrongly_tells_so_on_standard_error_and_ends_with_2() {
    for args in [
        &["check", "--nope"][..],
        &["check", "file"],
        &["check", "-o", "xml"],
        &["render", "--to-ports=x"],
        &["demo", "-v=2"],
    ] {
        let run = run(args);
        assert_eq!(run.status, Some(2), "{args:?}");
        assert!(
            run.stdout.is_empty() && run.stderr.contains(&format!("\nUsage of ip-masq-agent {}:", args[0])),
            "{run:?}"
        );
    }
}

#[test]
fn words_that_are_not_utf_8_are_an_error_or_a_path() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bad = |text: &'static [u8]| OsStr::from_bytes(text);
    assert_eq!(run(&[bad(b"--masq-chain=\xff")]).status, Some(2));
    assert_eq!(run(&[bad(b"--\xff")]).status, Some(2));
    assert_eq!(run(&[bad(b"--once"), bad(b"--config=/nonexistent/\xff"), bad(b"\xff")]).status, Some(0));
}
