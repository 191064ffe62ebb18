//! Programs that are missing, too old, crash or hang, and a lock that somebody else holds.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use ip_masq_agent::backend::iptables::exec::ExecError;
use ip_masq_agent::backend::iptables::programs::ProgramError;
use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::backend::iptables::{Iptables, Options};
use masq::cidr::Family;
use masq::config::{Config, Flags};
use masq::policy::Policy;
use nix::fcntl::{Flock, FlockArg};

use crate::support::agent::{PATIENCE, wait_until};
use crate::support::iptables::{CHAIN, Node, VECTORS, case, ruleset};

fn policy(enable_ipv6: bool) -> Policy {
    Policy::new(&Config::default_for(&Flags { enable_ipv6, ..Flags::default() }))
}

#[test]
fn missing_programs_are_named() {
    let node = Node::without_programs(Stack::Nft);
    let options = node.options(CHAIN);
    let error = node.namespace.run(|| Iptables::open(options).unwrap_err().to_string());
    assert!(error.contains("there is no program iptables on PATH"), "{error}");
    assert!(error.contains("--backend=nftables"), "{error}");
}

#[test]
fn missing_ip6tables_matter_to_ipv6_alone_and_only_while_it_is_on() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        for program in ["ip6tables", "ip6tables-save", "ip6tables-restore"] {
            fs::remove_file(node.programs.join(program)).unwrap();
        }
        let mut opened = node.open(CHAIN);
        opened.want(&policy(false)).changes();
        assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
        node.run(&["iptables", "-t", "nat", "-F"]);
        let failures = opened.want(&policy(true)).failures();
        assert!(failures.len() == 1 && failures[0].starts_with("IPv6: there is no program ip6tables"), "{failures:?}");
        assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
    }
}

#[test]
fn ipv6_programs_that_fail_do_not_keep_ipv4_from_its_rules() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        for program in ["ip6tables", "ip6tables-save", "ip6tables-restore"] {
            node.script(program, "echo no IPv6 here >&2; exit 3");
        }
        let mut opened = node.open(CHAIN);
        let failures = opened.want(&policy(true)).failures();
        assert!(failures.len() == 1 && failures[0].contains("no IPv6 here"), "{failures:?}");
        assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
    }
}

/// Makes the node's programs such as an older package's: no random-fully, no waiting for the lock.
fn make_old(node: &Node, version: &str) {
    for base in ["iptables", "ip6tables"] {
        let print = format!("[ \"$1\" = --version ] && {{ echo '{base} {version}'; exit 0; }}");
        let refuse = "case \"$*\" in *--random-fully*) echo 'unknown option \"--random-fully\"' >&2; exit 2;; esac";
        node.script(base, &format!("{print}\n{refuse}\nexec \"$REAL\" \"$@\""));
        node.script(
            &format!("{base}-restore"),
            "case \"$*\" in *-w*|*--version*) echo 'unknown option' >&2; exit 2;; esac\n\
             input=$(cat)\n\
             case \"$input\" in *--random-fully*) echo 'unknown option \"--random-fully\"' >&2; exit 2;; esac\n\
             printf '%s\\n' \"$input\" | \"$REAL\" \"$@\"",
        );
    }
}

#[test]
fn programs_too_old_for_random_fully_are_used_without_and_with_a_warning() {
    let mut held = 0;
    for recorded in VECTORS["cases"].as_array().unwrap() {
        let Some(version) = recorded["iptables"].as_str().filter(|version| version.starts_with('v')) else { continue };
        for stack in Stack::ALL {
            let node = Node::with_both_stacks(stack);
            make_old(&node, version);
            let case = case(recorded).unwrap();
            let mut opened = node.open(&case.chain);
            opened.want(&case.policy).changes();
            let name = |key: &str| ruleset(recorded["expect"][key].as_str().unwrap());
            assert_eq!(node.save(Family::Ipv4), name("save4"), "{}", recorded["name"]);
            assert_eq!(node.save(Family::Ipv6), name("save6"), "{}", recorded["name"]);
            let warnings = opened.warnings();
            assert!(
                warnings[0].contains("--random-fully has no effect on IPv4") && warnings[0].contains(&version[1..]),
                "{warnings:?}"
            );
            held += 1;
        }
    }
    assert_eq!(held, 6);
}

#[test]
fn a_change_of_random_fully_leaves_one_last_rule() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        node.open(CHAIN).want(&policy(false)).changes();
        let flags = Flags { random_fully: false, ..Flags::default() };
        node.open(CHAIN).want(&Policy::new(&Config::default_for(&flags))).changes();
        let saved = node.save(Family::Ipv4);
        let masquerading: Vec<&String> = saved.iter().filter(|line| line.contains("-j MASQUERADE")).collect();
        assert!(masquerading.len() == 1 && !masquerading[0].contains("random-fully"), "{saved:#?}");
    }
}

#[test]
fn a_refused_restore_is_tried_again_with_the_next_pass() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let mut opened = node.open(CHAIN);
        node.script("iptables-restore", "echo resource busy >&2; exit 4");
        for _ in 0..3 {
            let failures = opened.want(&policy(false)).failures();
            assert!(failures[0].contains("exited with status 4: resource busy"), "{failures:?}");
        }
        assert_eq!(node.save(Family::Ipv4), ruleset("none"));
        node.script("iptables-restore", "exec \"$REAL\" \"$@\"");
        opened.changes();
        assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
    }
}

#[test]
fn a_program_that_crashes_is_named_with_its_signal() {
    let node = Node::new(Stack::Nft);
    let mut opened = node.open(CHAIN);
    node.script("iptables-save", "kill -SEGV $$");
    let failures = opened.want(&policy(false)).failures();
    assert!(failures[0].contains("iptables-save -t nat -c was killed by SIGSEGV"), "{failures:?}");
}

#[test]
fn a_program_that_hangs_is_given_up_within_the_limit() {
    let node = Node::new(Stack::Nft);
    let limit = Duration::from_millis(400);
    let mut opened = node.open_with(Options { limit, ..node.options(CHAIN) });
    node.script("iptables-restore", "sleep 1000");
    let began = Instant::now();
    let failures = opened.want(&policy(false)).failures();
    assert!(failures[0].contains("did not end within 400ms and was killed"), "{failures:?}");
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn programs_that_print_no_version_are_named() {
    let node = Node::new(Stack::Nft);
    node.script("iptables", "echo 'exec format error' >&2; exit 126");
    let options = node.options(CHAIN);
    let error = node.namespace.run(|| Iptables::open(options).unwrap_err().to_string());
    assert!(error.contains("exec format error") && error.contains("126"), "{error}");
}

#[test]
fn a_lock_that_is_held_for_ten_seconds_is_waited_out_and_its_holder_named() {
    const HELD: Duration = Duration::from_secs(10);
    let node = Node::new(Stack::Legacy);
    let mut opened = node.open(CHAIN);
    let lock = node
        .namespace
        .run(|| Flock::lock(File::create("/run/xtables.lock").unwrap(), FlockArg::LockExclusive).unwrap());
    let began = Instant::now();
    let mut lock = Some(lock);
    let mut refusals = 0;
    let pid = std::process::id();
    opened.want(&policy(false));
    wait_until("the rules to be in", || {
        if began.elapsed() >= HELD {
            lock = None;
        }
        let outcome = opened.pass();
        for failure in &outcome.failures {
            let held = failure.downcast_ref::<ProgramError>();
            assert!(matches!(held, Some(ProgramError::LockHeld { .. })), "{failure:#}");
            assert!(format!("{failure:#}").contains(&format!("[{pid}] holds the xtables lock")), "{failure:#}");
            refusals += 1;
        }
        outcome.failures.is_empty()
    });
    assert!(refusals >= 5, "each try gives up after a second: {refusals}");
    assert_eq!(node.save(Family::Ipv4), ruleset("save4-default"));
}

#[test]
fn a_lock_file_that_is_a_directory_is_named_with_the_remedy() {
    let node = Node::new(Stack::Legacy);
    node.namespace.run(|| fs::create_dir("/run/xtables.lock").unwrap());
    let failures = node.open(CHAIN).want(&policy(false)).failures();
    assert!(
        failures[0].contains("/run/xtables.lock: Is a directory; the lock file has to be a regular file"),
        "{failures:?}"
    );
}

#[test]
fn the_daemons_urgent_matters_interrupt_a_program() {
    let node = Node::new(Stack::Nft);
    let (urgent, sender) = std::io::pipe().unwrap();
    let mut opened = node.open_with(Options { interrupt: Some(urgent.into()), ..node.options(CHAIN) });
    node.script("iptables-save", "sleep 1000");
    // The other end of the pipe is closed, which wakes a reader as data would.
    drop(sender);
    opened.want(&policy(false));
    let outcome = opened.pass();
    let interrupted = outcome.failures[0].downcast_ref::<ProgramError>();
    assert!(matches!(interrupted, Some(ProgramError::Exec(ExecError::Interrupted { .. }))), "{:?}", outcome.failures);
}

#[test]
fn another_program_that_edits_the_table_all_the_while_keeps_its_rules_and_we_ours() {
    for stack in Stack::ALL {
        let node = Node::new(stack);
        let mut opened = node.open(CHAIN);
        let stop = node.programs.join("stop");
        let mut editor = node.spawn(&format!(
            "edit() {{ iptables -t nat -w 5 \"$1\" OUTPUT -d 203.0.113.77 -j RETURN; }}\n\
             edit -A; until [ -e {} ]; do edit -D; edit -A; done",
            stop.display()
        ));
        let mut config = Config::default_for(&Flags::default());
        for _ in 0..20 {
            config.masq_link_local = !config.masq_link_local;
            opened.want(&Policy::new(&config)).pass();
        }
        assert_eq!(editor.try_wait().unwrap(), None, "the other program edits all the while");
        fs::write(&stop, "").unwrap();
        assert!(editor.wait().unwrap().success());
        opened.want(&policy(false)).changes();
        let saved = node.save(Family::Ipv4);
        let (theirs, ours): (Vec<String>, Vec<String>) =
            saved.into_iter().partition(|line| line.contains("203.0.113.77"));
        assert_eq!(theirs, ["-A OUTPUT -d 203.0.113.77/32 -j RETURN"]);
        assert_eq!(ours, ruleset("save4-default"));
    }
}
