//! The daemon as a process: its start and end, --once, and its silence while nothing happens.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ip_masq_agent::lab::namespace::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::agent::{Agent, PATIENCE, program, wait_until};
use crate::support::ruleset::{nft, observe, table_text, wait_for_exempt};

fn node() -> Namespace {
    Namespace::open("node").unwrap()
}

#[test]
fn sigterm_and_sigint_end_it_with_status_0_and_the_rules_stay() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let node = node();
        let mut agent = Agent::start_ready(&node, &[], None);
        let before = table_text(&node);
        agent.signal(signal).unwrap();
        assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
        assert_eq!(table_text(&node), before);
    }
}

#[test]
fn signals_that_the_reference_ignores_do_not_end_it() {
    let node = node();
    let mut agent = Agent::start_ready(&node, &[], None);
    for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGPIPE, Signal::SIGWINCH] {
        agent.signal(signal).unwrap();
    }
    nft(&node, "flush ruleset");
    agent.wait_for_line("Drift healed");
    assert!(agent.exited().unwrap().is_none());
}

#[test]
fn cleanup_on_exit_leaves_no_table() {
    let node = node();
    let mut agent = Agent::start_ready(&node, &["--cleanup-on-exit"], None);
    agent.signal(Signal::SIGTERM).unwrap();
    assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
    assert!(observe(&node).0.table.is_none());
}

#[test]
fn once_ends_with_status_0_when_the_kernel_holds_the_policy() {
    let node = node();
    let mut agent = Agent::start(&node, &["--once"], Some("nonMasqueradeCIDRs: [11.0.0.0/8]\n"));
    assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
    wait_for_exempt(&node, &["11.0.0.0-11.255.255.255", "169.254.0.0-169.254.255.255"]);
}

#[test]
fn once_with_a_bad_file_puts_the_defaults_in_force_and_ends_with_status_1() {
    let node = node();
    let mut agent = Agent::start(&node, &["--once"], Some("nonMasqueradeCIDRs: 5\n"));
    assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(1));
    assert!(observe(&node).0.table.is_some());
}

#[test]
fn a_second_start_over_the_same_policy_writes_nothing() {
    let node = node();
    let args = ["--enable-ipv6", "--to-ports=1024-29999,32768-65535"];
    let mut first = Agent::start_ready(&node, &args, None);
    first.signal(Signal::SIGTERM).unwrap();
    first.wait_for_exit(PATIENCE).unwrap();
    let generation = observe(&node).1;
    let _second = Agent::start_ready(&node, &args, None);
    assert_eq!(observe(&node).1, generation);
}

#[test]
fn while_nothing_happens_nothing_is_written_nor_started_nor_said() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some("resyncInterval: 1s\n"));
    agent.wait_for_line("Kernel updated");
    let said = agent.log().len();
    let generation = observe(&node).1;
    let switches = switches(agent.pid());
    let began = Instant::now();
    wait_until("three resyncs to pass", || began.elapsed() > Duration::from_millis(3_500));
    assert_eq!(observe(&node).1, generation, "no transaction");
    assert_eq!(agent.log().len(), said, "no line of log");
    let woken = self::switches(agent.pid()) - switches;
    assert!(woken <= 12, "{woken} wake-ups in three resyncs");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", agent.pid())).unwrap();
    assert_eq!(children, "", "no process started");
}

/// How often a process gave the CPU up by itself: once for each time it went to sleep.
fn switches(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn a_strangers_transactions_elsewhere_make_the_agent_write_nothing() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], None);
    let generation = observe(&node).1;
    for _ in 0..20 {
        nft(&node, "add table ip theirs; delete table ip theirs");
    }
    // What is healed afterwards shows that the agent has seen all that came before.
    nft(&node, "flush chain inet ip-masq-agent postrouting");
    let line = agent.wait_for_line("Drift healed");
    assert!(line.contains("drifts so far: 1)"), "{line}");
    wait_until("the table to be healed", || observe(&node).1 >= generation + 22);
    assert_eq!(observe(&node).1, generation + 22, "20 of theirs, the flush, and its healing");
}

#[test]
fn as_pid_1_of_a_container_it_answers_the_same_signals() {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--pid", "--fork"]).arg(program());
    command.args(["--backend=nftables", "--config=/nowhere/ip-masq-agent"]).stderr(Stdio::piped());
    let mut unshare = command.spawn().unwrap();
    let mut log = BufReader::new(unshare.stderr.take().unwrap()).lines();
    let mut wait_for =
        |text: &str| log.by_ref().map(Result::unwrap).find(|line| line.contains(text)).expect("a line of log");
    wait_for("Kernel updated");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", unshare.id())).unwrap();
    let agent = Pid::from_raw(children.trim().parse().unwrap());
    kill(agent, Signal::SIGHUP).unwrap();
    wait_for("SIGHUP: reading config and kernel anew");
    kill(agent, Signal::SIGTERM).unwrap();
    wait_for("SIGTERM: ending");
    assert_eq!(unshare.wait().unwrap().code(), Some(0));
}
