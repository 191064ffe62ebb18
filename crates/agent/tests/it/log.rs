//! Where the built program's log goes, and in which form.

use std::fs;
use std::process::Stdio;

use ip_masq_agent::lab::namespace::Namespace;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::agent::Agent;
use crate::support::directory::Directory;
use crate::support::program::{Run, run, run_with};

const ONCE: [&str; 2] = ["--once", "--config=/nonexistent/ip-masq-agent"];

/// A run that logs at start and then ends.
fn once(args: &[&str]) -> Run {
    let run = run(&[&ONCE, args].concat());
    assert_eq!(run.status, Some(0), "{run:?}");
    run
}

/// Whether a line has klog's header, character by character.
fn is_klog_line(line: &str) -> bool {
    let Some((header, _)) = line.split_once("] ") else { return false };
    let bytes = header.as_bytes();
    let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
    bytes.len() > 31
        && b"IWEF".contains(&bytes[0])
        && digits(1..5)
        && digits(6..8)
        && digits(9..11)
        && digits(12..14)
        && digits(15..21)
        && (bytes[5], bytes[8], bytes[11], bytes[14], bytes[21], bytes[29]) == (b' ', b':', b':', b'.', b' ', b' ')
        && bytes[22..29].trim_ascii().iter().all(u8::is_ascii_digit)
        && header[30..].split_once(".rs:").is_some_and(|(_, line)| line.parse::<u32>().is_ok())
}

#[test]
fn every_line_is_klog_s_on_standard_error() {
    let run = once(&[]);
    assert!(run.stdout.is_empty());
    assert!(run.stderr.lines().count() > 25);
    assert_eq!(run.stderr.lines().find(|line| !is_klog_line(line)), None);
}

#[test]
fn json_lines_have_kubernetes_keys() {
    let run = once(&["--log-format=json", "stray"]);
    for line in run.stderr.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["ts"].as_f64().unwrap() > 1.6e12 && value["v"] == 0, "{line}");
        assert!(value["caller"].as_str().unwrap().contains(".rs:") && value["msg"].is_string(), "{line}");
    }
    let warning = run.stderr.lines().find(|line| line.contains("stray")).unwrap();
    assert!(warning.contains("\"level\":\"warn\"") && warning.contains("\"severity\":\"WARNING\""), "{warning}");
}

#[test]
fn a_json_line_about_a_failure_has_its_cause_under_err() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &["--log-format=json"], Some("cidrLimit: x\n"));
    let line = agent.wait_for_line("\"msg\":\"Bad config\"");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((value["level"].as_str(), value.get("v")), (Some("error"), None), "{line}");
    assert!(value["err"].as_str().unwrap().contains("cidrLimit"), "{line}");
}

#[test]
fn gke_s_flags_log_to_standard_output_after_klog_s_preamble() {
    let run = once(&["--v=2", "--logtostderr=false", "--log_file=/dev/stdout", "--log_file_max_size=0", "stray"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("Log file created at: 2"));
    assert!(lines[1].starts_with("Running on machine: "));
    assert!(lines[2].starts_with("Binary: "));
    assert_eq!(lines[3], "Log line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg");
    assert!(lines[4].ends_with("] ip-masq-agent version: 0.1.0"));
    assert_eq!(lines[4..].iter().find(|line| !is_klog_line(line)), None);
    assert!(run.stderr.is_empty(), "{}", run.stderr);
}

#[test]
fn the_preamble_can_be_left_out_and_json_never_has_one() {
    for flag in ["--skip_log_headers", "--log-format=json"] {
        let run = once(&["--logtostderr=false", "--log_file=/dev/stdout", flag]);
        assert!(run.stdout.lines().next().unwrap().contains("ip-masq-agent version"), "{}", run.stdout);
    }
}

#[test]
fn with_a_file_errors_go_to_standard_error_as_well() {
    let run = run(&["--logtostderr=false", "--log_file=/dev/stdout", "--to-ports=x"]);
    assert_eq!(run.status, Some(1));
    assert_eq!(run.stderr.lines().count(), 1);
    assert!(run.stderr.starts_with('F') && run.stdout.ends_with(&run.stderr));
}

#[test]
fn headers_can_be_left_out_or_hold_the_directory() {
    assert!(once(&["--skip_headers"]).stderr.starts_with("ip-masq-agent version: 0.1.0\nFLAG: "));
    assert!(once(&["--add_dir_header"]).stderr.lines().next().unwrap().contains(" src/main.rs:"));
}

#[test]
fn the_modern_threshold_holds_standard_error_to_errors() {
    let run = run(&["--legacy_stderr_threshold_behavior=false", "--to-ports=x"]);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn a_log_file_is_appended_to() {
    let directory = Directory::new();
    let path = directory.join("log");
    fs::write(&path, "before\n").unwrap();
    let run = once(&["--logtostderr=false", "--log_file", path.to_str().unwrap()]);
    assert!(run.stderr.is_empty());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\nLog file created at: "), "{text}");
    assert!(text.contains("] ip-masq-agent version: 0.1.0\n"));
}

#[test]
fn a_log_directory_gets_one_file_per_severity_and_links_to_them() {
    let directory = Directory::new();
    let log_dir = format!("--log_dir={}", directory.path().display());
    let run = run(&["--logtostderr=false", &log_dir, "--to-ports=x"]);
    assert_eq!(run.status, Some(1));
    for (severity, letters) in [("INFO", "IF"), ("WARNING", "F"), ("ERROR", "F"), ("FATAL", "F")] {
        let link = directory.join(&format!("ip-masq-agent.{severity}"));
        let target = fs::read_link(&link).unwrap();
        let name = target.to_str().unwrap();
        assert!(name.starts_with("ip-masq-agent.") && name.contains(&format!(".log.{severity}.2")), "{name}");
        let text = fs::read_to_string(&link).unwrap();
        let mut found: Vec<char> =
            text.lines().filter(|line| is_klog_line(line)).filter_map(|l| l.chars().next()).collect();
        found.dedup();
        assert_eq!(found.iter().collect::<String>(), letters, "{severity}");
    }
}

#[test]
fn a_log_file_that_cannot_be_opened_ends_the_start_with_2_at_once() {
    let directory = Directory::new();
    let fifo = directory.join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    for path in ["/nonexistent/log", "/", fifo.to_str().unwrap()] {
        let run = run(&["--logtostderr=false", "--log_file", path]);
        assert_eq!(run.status, Some(2), "{path}");
        assert!(run.stderr.contains(&format!("cannot log to {path:?}")), "{}", run.stderr);
    }
}

#[test]
fn a_full_disk_or_a_reader_that_is_gone_does_not_stop_the_agent() {
    once(&["--logtostderr=false", "--log_file=/dev/full"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = run_with(&ONCE, "", |command| {
        command.stderr(Stdio::from(writer));
    });
    assert_eq!(run.status, Some(0));
}
