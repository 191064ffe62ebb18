//! The daemon with the iptables backend: what it does when programs fail, others interfere, and signals come in.

use std::fs;
use std::time::{Duration, Instant};

use ip_masq_agent::backend::iptables::version::Stack;
use masq::cidr::Family;
use nix::sys::signal::Signal;

use crate::support::agent::{PATIENCE, wait_until};
use crate::support::iptables::{CHAIN, Node, ruleset};

fn has_default_rules(node: &Node) -> bool {
    node.save(Family::Ipv4) == ruleset("save4-default")
}

#[test]
fn drift_in_iptables_nft_is_healed_at_once_and_its_author_named() {
    let node = Node::new(Stack::Nft);
    let mut daemon = node.start_daemon(&[], "");
    daemon.wait_until_ready(PATIENCE).unwrap();
    assert!(has_default_rules(&node));
    node.run(&["iptables", "-t", "nat", "-F", CHAIN]);
    wait_until("the rules to be back", || has_default_rules(&node));
    let line = daemon.wait_for_log(|line| line.contains("Drift healed"), PATIENCE).unwrap();
    assert!(
        line.contains("by iptables-nft[") && line.contains("0 rules in IPv4 chain IP-MASQ-AGENT instead of 5"),
        "{line}"
    );
}

#[test]
fn drift_in_iptables_legacy_is_healed_at_the_next_resync() {
    let node = Node::new(Stack::Legacy);
    let mut daemon = node.start_daemon(&[], "resyncInterval: 1s\n");
    daemon.wait_until_ready(PATIENCE).unwrap();
    node.run(&["iptables", "-t", "nat", "-F", "POSTROUTING"]);
    wait_until("the jump to be back", || has_default_rules(&node));
    daemon.wait_for_log(|line| line.contains("IPv4 jump to IP-MASQ-AGENT missing"), PATIENCE).unwrap();
}

#[test]
fn a_config_change_reaches_the_kernel_on_both_stacks() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let mut daemon = node.start_daemon(&[], "");
        daemon.wait_until_ready(PATIENCE).unwrap();
        fs::write(node.config_path(), "nonMasqueradeCIDRs: [1.0.0.0/8]\n").unwrap();
        wait_until("the new list to be in", || {
            node.save(Family::Ipv4).iter().any(|line| line.contains("-d 1.0.0.0/8"))
        });
    }
}

#[test]
fn failing_programs_are_tried_again_until_they_work() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let count = node.programs.join("count");
        let script = format!(
            "echo x >> {0}; [ $(/usr/bin/wc -l < {0}) -gt 3 ] || {{ echo resource busy >&2; exit 4; }}\nexec \"$REAL\" \"$@\"",
            count.display()
        );
        node.script("iptables-restore", &script);
        let mut daemon = node.start_daemon(&[], "");
        daemon.wait_until_ready(PATIENCE).unwrap();
        assert!(has_default_rules(&node));
        daemon.wait_for_log(|line| line.contains("resource busy"), PATIENCE).unwrap();
    }
}

#[test]
fn a_program_that_hangs_does_not_keep_the_daemon_from_ending() {
    let node = Node::new(Stack::Nft);
    let started = node.programs.join("started");
    node.script("iptables-restore", &format!("echo > {}; exec /bin/sleep 1000", started.display()));
    let mut daemon = node.start_daemon(&[], "");
    wait_until("the program to hang", || started.exists());
    let began = Instant::now();
    daemon.signal(Signal::SIGTERM).unwrap();
    let status = daemon.wait_for_exit(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}, and not at the program's time limit", began.elapsed());
}

#[test]
fn only_a_signal_that_ends_the_daemon_breaks_a_pass_off() {
    let node = Node::new(Stack::Nft);
    let (started, go) = (node.programs.join("started"), node.programs.join("go"));
    let wait = format!("for i in $(/usr/bin/seq 500); do [ ! -e {} ] || break; /bin/sleep 0.02; done", go.display());
    node.script("iptables-restore", &format!("echo > {}\n{wait}\nexec \"$REAL\" \"$@\"", started.display()));
    let mut daemon = node.start_daemon(&[], "");
    wait_until("the program to be at work", || started.exists());
    for signal in [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGWINCH] {
        daemon.signal(signal).unwrap();
    }
    fs::write(go, "").unwrap();
    daemon.wait_for_log(|line| line.contains("SIGHUP: reading config and kernel anew"), PATIENCE).unwrap();
    let log = daemon.log();
    assert!(!log.iter().any(|line| line.contains("Cannot program the kernel")), "{log:#?}");
    assert!(has_default_rules(&node));
}

#[test]
fn the_daemon_leaves_no_zombies_and_starts_nothing_while_nothing_happens() {
    let node = Node::new(Stack::Nft);
    node.note_calls();
    let mut daemon = node.start_daemon(&["--enable-ipv6"], "");
    daemon.wait_until_ready(PATIENCE).unwrap();
    node.run(&["iptables", "-t", "nat", "-F", CHAIN]);
    wait_until("the rules to be back", || has_default_rules(&node));
    daemon.wait_for_log(|line| line.contains("Drift healed"), PATIENCE).unwrap();
    node.take_calls();
    let children = format!("/proc/{0}/task/{0}/children", daemon.pid());
    let quiet = Instant::now() + Duration::from_secs(2);
    while Instant::now() < quiet {
        assert_eq!(fs::read_to_string(&children).unwrap().trim(), "");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(node.take_calls(), Vec::<String>::new());
}

#[test]
fn a_change_of_backend_leaves_the_rules_of_the_new_one_alone() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.start_daemon(&["--backend=nftables"], "").wait_until_ready(PATIENCE).unwrap();
        assert!(node.run(&["nft", "list", "tables"]).contains("inet ip-masq-agent"));
        node.start_daemon(&[], "").wait_until_ready(PATIENCE).unwrap();
        assert!(has_default_rules(&node));
        assert!(!node.run(&["nft", "list", "tables"]).contains("inet ip-masq-agent"));
        node.start_daemon(&["--backend=nftables"], "").wait_until_ready(PATIENCE).unwrap();
        assert!(node.run(&["nft", "list", "tables"]).contains("inet ip-masq-agent"));
        assert_eq!(node.save(Family::Ipv4), ruleset("none"));
    }
}

#[test]
fn a_bad_config_at_the_start_leaves_what_an_earlier_run_left_in_force() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.start_daemon(&["--once"], "nonMasqueradeCIDRs: [1.0.0.0/8]\n").wait_for_exit(PATIENCE).unwrap();
        let before = node.save(Family::Ipv4);
        assert!(before.iter().any(|line| line.contains("-d 1.0.0.0/8")), "{before:#?}");
        let daemon = node.start_daemon(&[], "nonMasqueradeCIDRs: [bad]\nresyncInterval: 1s\n");
        daemon.wait_for_log(|line| line.contains("rules of an earlier run stay in force"), PATIENCE).unwrap();
        node.run(&["iptables", "-t", "nat", "-F"]);
        wait_until("the flush to be healed", || node.save(Family::Ipv4) == before || stack == Stack::Legacy);
    }
}

#[test]
fn cleanup_on_exit_takes_the_rules_of_both_families_along() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let mut daemon = node.start_daemon(&["--cleanup-on-exit", "--enable-ipv6"], "");
        daemon.wait_until_ready(PATIENCE).unwrap();
        daemon.signal(Signal::SIGTERM).unwrap();
        assert_eq!(daemon.wait_for_exit(PATIENCE).unwrap().code(), Some(0));
        assert_eq!(Family::ALL.map(|family| node.save(family)), [ruleset("none"), ruleset("none")]);
    }
}

#[test]
fn a_bad_file_leaves_the_last_good_rules_in_force_and_healed_on_both_stacks() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let mut daemon = node.start_daemon(&[], "nonMasqueradeCIDRs: [1.0.0.0/8]\nresyncInterval: 1s\n");
        daemon.wait_until_ready(PATIENCE).unwrap();
        let good = node.save(Family::Ipv4);
        assert!(good.iter().any(|line| line.contains("-d 1.0.0.0/8")), "{good:?}");
        fs::write(node.config_path(), "nonMasqueradeCIDRs: [not-a-cidr]\nresyncInterval: 1s\n").unwrap();
        daemon.wait_for_log(|line| line.contains("Bad config"), PATIENCE).unwrap();
        node.run(&["iptables", "-t", "nat", "-F", CHAIN]);
        wait_until("the last good rules to be back", || node.save(Family::Ipv4) == good);
        fs::write(node.config_path(), "nonMasqueradeCIDRs: [2.0.0.0/8]\n").unwrap();
        wait_until("the repaired list to be in", || {
            node.save(Family::Ipv4).iter().any(|line| line.contains("-d 2.0.0.0/8"))
        });
    }
}

#[test]
fn leftovers_in_iptables_that_cannot_be_removed_yet_do_not_keep_the_nftables_backend_from_being_ready() {
    let node = Node::new(Stack::Nft);
    node.start_daemon(&[], "").wait_until_ready(PATIENCE).unwrap();
    node.script("iptables-restore", "echo resource busy >&2; exit 4");
    let mut daemon = node.start_daemon(&["--backend=nftables"], "");
    daemon.wait_until_ready(PATIENCE).unwrap();
    let line = daemon.wait_for_log(|line| line.contains("trying again later"), PATIENCE).unwrap();
    assert!(line.contains("resource busy"), "{line}");
    assert!(node.run(&["nft", "list", "tables"]).contains("inet ip-masq-agent"));
}
