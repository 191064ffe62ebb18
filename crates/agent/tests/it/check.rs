//! `check` and `render` of the built program: exit statuses, places and stable JSON.

use std::fs;
use std::process::Stdio;

use ip_masq_agent::lab::namespace::Namespace;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::support::agent::{Agent, PATIENCE};
use crate::support::directory::Directory;
use crate::support::program::{Run, run, run_with};
use crate::support::ruleset::{nft, table_text};

/// Runs a tool on a config that comes in on standard input.
fn tool(args: &[&str], config: &str) -> Run {
    run_with(&[args, &["--config", "-"]].concat(), config, |_| {})
}

fn json(args: &[&str], config: &str) -> (Run, Value) {
    let run = tool(&[args, &["-o", "json"]].concat(), config);
    let value = serde_json::from_str(&run.stdout).unwrap();
    (run, value)
}

#[test]
fn an_error_is_shown_with_place_line_mark_and_remedy_on_standard_output() {
    let run = tool(&["check"], "nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - 10.0.0.1/8\n");
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.is_empty());
    for part in ["error: ", "<stdin>:3:5", "- 10.0.0.1/8", "    ^", "write 10.0.0.0/8", "1 error, 0 warnings."] {
        assert!(run.stdout.contains(part), "{part:?} in {}", run.stdout);
    }
}

#[test]
fn warnings_alone_are_fine_unless_strict() {
    let config = "nonMasqueradeCIDRs:\nmasqLinkLocl: true\n";
    let loose = tool(&["check"], config);
    assert_eq!(loose.status, Some(0));
    assert!(
        loose.stdout.contains("warning: ") && loose.stdout.contains("did you mean masqLinkLocal?"),
        "{}",
        loose.stdout
    );
    let strict = tool(&["check", "--strict"], config);
    assert_eq!(strict.status, Some(1));
    assert!(strict.stdout.contains("error: masqLinkLocl"), "{}", strict.stdout);
    assert_eq!(tool(&["check", "--strict"], "nonMasqueradeCIDRs:\n").status, Some(1));
    assert_eq!(tool(&["check", "--strict"], "cidrLimit: 5\n").status, Some(0));
}

#[test]
fn a_good_config_is_told_as_the_policy_it_makes() {
    let run = tool(
        &["check", "--to-ports=1024-2047", "--random-fully=false"],
        "nonMasqueradeCIDRs: [10.1.0.0/16]\nmasqLinkLocal: true\n",
    );
    assert_eq!(run.status, Some(0));
    for part in ["10.1.0.0/16", "<stdin>:1:22", "IPv6: left alone", "kept where free, from 1024-2047", "every 1m0s"] {
        assert!(run.stdout.contains(part), "{part:?} in {}", run.stdout);
    }
    assert!(!run.stdout.contains("169.254.0.0/16"));
    let both = tool(&["check", "--enable-ipv6"], "nonMasqueradeCIDRs: [fd00::/8]\n");
    assert!(both.stdout.contains("fd00::/8") && both.stdout.contains("fe80::/10"), "{}", both.stdout);
}

#[test]
fn json_keeps_its_keys() {
    let (run, value) = json(&["check"], "nonMasqueradeCIDRs: [10.0.0.0/8]\nfoo: 1\n");
    assert_eq!(run.status, Some(0));
    assert_eq!(value["verdict"], "valid");
    assert_eq!(value["files"], serde_json::json!(["<stdin>"]));
    let finding = &value["findings"][0];
    assert_eq!((finding["severity"].as_str(), finding["kind"].as_str()), (Some("warning"), Some("unknown-key")));
    assert_eq!(
        (finding["file"].as_str(), finding["line"].as_u64(), finding["column"].as_u64()),
        (Some("<stdin>"), Some(2), Some(1))
    );
    assert!(finding["reason"].is_string() && finding["remedy"].is_string() && finding["path"] == "foo");
    assert_eq!(
        value["effective"],
        serde_json::json!({
            "nonMasqueradeCIDRs": [{ "cidr": "10.0.0.0/8", "origin": "<stdin>:1:22" }],
            "cidrLimit": 64,
            "masqLinkLocal": false,
            "masqLinkLocalIPv6": false,
            "resyncInterval": "1m0s",
            "enableIPv6": false,
            "randomFully": true,
            "toPorts": "",
        })
    );
    let (run, value) = json(&["check"], "[");
    assert_eq!(run.status, Some(1));
    assert_eq!((&value["verdict"], &value["effective"]), (&Value::from("invalid"), &Value::Null));
}

#[test]
fn a_file_and_a_directory_are_read_by_their_names() {
    let directory = Directory::new();
    fs::write(directory.join("ip-masq-b"), "cidrLimit: x\n").unwrap();
    fs::write(directory.join("ip-masq-a"), "masqLinkLocal: true\n").unwrap();
    fs::write(directory.join("other"), "[").unwrap();
    let of = |path: &str| run(&["check", "--config", path]);
    assert_eq!(of(directory.join("ip-masq-a").to_str().unwrap()).status, Some(0));
    let whole = of(directory.path().to_str().unwrap());
    assert_eq!(whole.status, Some(1));
    assert!(whole.stdout.contains("ip-masq-b:1:12") && !whole.stdout.contains("other"), "{}", whole.stdout);
}

#[test]
fn what_cannot_be_read_ends_with_3_and_a_reason() {
    let directory = Directory::new();
    let fifo = directory.join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    for (path, reason) in [
        ("/nonexistent/file", "there is no"),
        (directory.path().to_str().unwrap(), "starts with ip-masq"),
        (fifo.to_str().unwrap(), "it is a FIFO"),
        ("/dev/zero", "it is a device"),
    ] {
        for tool in ["check", "render"] {
            let run = run(&[tool, "--config", path]);
            assert_eq!(run.status, Some(3), "{tool} {path}");
            assert!(run.stdout.is_empty() && run.stderr.contains(reason), "{run:?}");
        }
        let json = run(&["check", "-o", "json", "--config", path]);
        let value: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((json.status, value["verdict"].as_str()), (Some(3), Some("unreadable")));
        assert!(value["reason"].as_str().unwrap().contains(reason));
    }
}

#[test]
fn hostile_configs_neither_reach_the_terminal_nor_take_long() {
    let escape = tool(&["check"], "\"a\\e[2J\": 1\nnonMasqueradeCIDRs: [\"\\e[2J\\u009b\"]\n");
    assert!(!escape.stdout.contains(|c: char| c.is_control() && c != '\n'), "{:?}", escape.stdout);
    assert_eq!(tool(&["check"], &"[".repeat(1_000_000)).status, Some(1));
    assert_eq!(tool(&["check"], &"x".repeat(1_000_000)).status, Some(1));
}

#[test]
fn a_reader_that_is_gone_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = run_with(&["check", "--config", "-"], "nonMasqueradeCIDRs: 5\n", |command| {
        command.stdout(Stdio::from(writer));
    });
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.is_empty(), "{}", run.stderr);
}

#[test]
fn render_prints_what_nft_reads_and_remarks_beside_it() {
    let run = tool(&["render", "--enable-ipv6"], "nonMasqueradeCIDRs: [10.1.0.0/16, fd00::/8]\nfoo: 1\n");
    assert_eq!(run.status, Some(0));
    assert!(run.stdout.contains("table inet ip-masq-agent") && run.stdout.contains("10.1.0.0/16"), "{}", run.stdout);
    assert!(run.stderr.contains("<stdin>:2:1: warning: foo"), "{}", run.stderr);
    let (run, value) = json(&["render"], "");
    assert_eq!((run.status, &value["backend"]), (Some(0), &Value::from("nftables")));
    assert!(value["text"].as_str().unwrap().contains("192.168.0.0/16"));
}

#[test]
fn what_render_prints_gives_through_nft_the_table_that_the_daemon_makes() {
    let config = "nonMasqueradeCIDRs: [10.1.0.0/16, 10.1.2.0/24, 0.0.0.0/1, fd00::/8]\n";
    for flags in [&["--enable-ipv6"][..], &["--enable-ipv6", "--random-fully=false"]] {
        let (ours, theirs) = (Namespace::open("ours").unwrap(), Namespace::open("theirs").unwrap());
        let mut agent = Agent::start(&ours, &[flags, &["--once"]].concat(), Some(config));
        assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
        nft(&theirs, &tool(&[&["render"], flags].concat(), config).stdout);
        let made = table_text(&ours);
        assert!(made.contains("fd00::/8"), "{made}");
        assert_eq!(table_text(&theirs), made);
    }
}

#[test]
fn render_prints_what_iptables_restore_reads_too() {
    let run = tool(&["render", "--backend=iptables", "--masq-chain=IP-MASQ"], "nonMasqueradeCIDRs: [10.1.0.0/16]\n");
    assert_eq!(run.status, Some(0));
    for words in
        ["# iptables-restore --noflush\n*nat\n:IP-MASQ - [0:0]\n", "-d 10.1.0.0/16 -j RETURN\n", "-j IP-MASQ\nCOMMIT\n"]
    {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("ip6tables"), "IPv6 is off: {}", run.stdout);
}

#[test]
fn render_prints_nothing_of_a_config_that_is_refused() {
    let run = tool(&["render"], "nonMasqueradeCIDRs: 5\n");
    assert_eq!(run.status, Some(1));
    assert!(run.stdout.is_empty() && run.stderr.contains("error: "), "{run:?}");
}
