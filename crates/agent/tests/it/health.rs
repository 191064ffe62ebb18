//! `/livez` and `/readyz` in every state that the daemon can be in, from the first moment on.

use std::fs;
use std::path::PathBuf;

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::namespace::Namespace;

use crate::support::agent::{Agent, PATIENCE};
use crate::support::iptables::{CHAIN, Node};
use crate::support::scrape::{HTTP, Scraper};

const BAD: &str = "nonMasqueradeCIDRs: [10.0.0.1/8]\n";
const GOOD: &str = "nonMasqueradeCIDRs: [10.0.0.0/8]\n";

/// A node whose restore program can be made to wait or to fail.
struct Site {
    node: Node,
    go: PathBuf,
}

impl Site {
    fn new(stack: Stack) -> Site {
        let node = Node::new(stack);
        let go = node.programs.join("go");
        Site { node, go }
    }

    /// From now on the restore program waits until [`Site::go`] is called.
    fn hold(&self) {
        let _ = fs::remove_file(&self.go);
        let script = format!("while [ ! -e {} ]; do sleep 0.01; done\nexec \"$REAL\" \"$@\"", self.go.display());
        self.node.script("iptables-restore", &script);
    }

    fn go(&self) {
        fs::write(&self.go, "").unwrap();
    }

    fn flush(&self) {
        self.node.run(&["iptables", "-t", "nat", "-F", CHAIN]);
    }
}

#[test]
fn a_node_gets_ready_when_the_kernel_holds_the_first_policy() {
    let site = Site::new(Stack::Nft);
    site.hold();
    let daemon = site.node.start_daemon(&[HTTP], GOOD);
    daemon.wait_for_log(|line| line.contains("Serving /metrics"), PATIENCE).unwrap();
    let scraper = Scraper::new(&site.node.namespace);
    scraper.wait_for("/readyz", 503, "[+]config: good\n[-]kernel: does not hold a policy yet\nreadyz check failed\n");
    assert_eq!(scraper.value("in_sync"), Some(0.0));
    for path in ["/livez", "/healthz"] {
        scraper.wait_for(path, 200, "[+]loop: turns\n");
    }
    site.go();
    scraper.wait_for("/readyz", 200, "[+]config: good\n[+]kernel: holds the policy\nreadyz check passed\n");
    assert_eq!(scraper.value("in_sync"), Some(1.0));
}

#[test]
fn a_bad_first_file_keeps_the_node_from_being_ready_and_a_later_one_does_not() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &[HTTP], Some(BAD));
    let scraper = Scraper::new(&node);
    scraper.wait_for("/readyz", 503, "[-]config: bad, the defaults are in force: ");
    scraper.wait_for("/readyz", 503, "10.0.0.1/8");
    scraper.wait_for("/readyz", 503, "[+]kernel: holds the policy\n");
    assert_eq!((scraper.value("config_valid"), scraper.value("in_sync")), (Some(0.0), Some(1.0)));
    agent.write_config(GOOD);
    scraper.wait_for("/readyz", 200, "[+]config: good\n");
    assert_eq!(scraper.value("config_valid"), Some(1.0));
    agent.write_config(BAD);
    scraper.wait_for("/readyz", 200, "[+]config: bad, the last good one stays in force: ");
    assert_eq!(scraper.value("config_valid"), Some(0.0));
    scraper.wait_for("/livez", 200, "livez check passed\n");
}

#[test]
fn rules_of_an_earlier_run_do_not_make_up_for_a_bad_first_file() {
    let node = Namespace::open("node").unwrap();
    drop(Agent::start_ready(&node, &[], Some(GOOD)));
    let _agent = Agent::start_ready(&node, &[HTTP], Some(BAD));
    let scraper = Scraper::new(&node);
    scraper.wait_for("/readyz", 503, "[-]config: bad, the rules of an earlier run stay in force: ");
    assert!(!scraper.samples().keys().any(|name| name.contains("_cidrs{")), "how many they are is not known");
}

#[test]
fn a_node_is_not_ready_between_a_change_by_others_and_its_healing() {
    let site = Site::new(Stack::Nft);
    let mut daemon = site.node.start_daemon(&[HTTP], GOOD);
    daemon.wait_until_ready(PATIENCE).unwrap();
    let scraper = Scraper::new(&site.node.namespace);
    site.hold();
    site.flush();
    scraper.wait_for("/readyz", 503, "[-]kernel: differs from the policy and is being put right\n");
    assert_eq!(scraper.value("in_sync"), Some(0.0));
    scraper.wait_for("/livez", 200, "[+]loop: turns\n");
    site.go();
    scraper.wait_for("/readyz", 200, "[+]kernel: holds the policy\n");
    assert_eq!((scraper.value("in_sync"), scraper.value("drifts_total{kind=\"rule\"}")), (Some(1.0), Some(1.0)));
}

#[test]
fn a_node_is_not_ready_while_the_kernel_refuses() {
    let site = Site::new(Stack::Nft);
    let mut daemon = site.node.start_daemon(&[HTTP], GOOD);
    daemon.wait_until_ready(PATIENCE).unwrap();
    let scraper = Scraper::new(&site.node.namespace);
    site.node.script("iptables-restore", "echo 'not today' >&2; exit 2");
    site.flush();
    scraper.wait_for("/readyz", 503, "[-]kernel: cannot be programmed, trying again: ");
    scraper.wait_for("/readyz", 503, "not today");
    assert!(scraper.value("syncs_total{result=\"failed\"}") >= Some(1.0));
    site.node.script("iptables-restore", "exec \"$REAL\" \"$@\"");
    scraper.wait_for("/readyz", 200, "[+]kernel: holds the policy\n");
}

#[test]
fn a_lock_that_somebody_holds_is_counted_and_named() {
    let site = Site::new(Stack::Legacy);
    let mut daemon = site.node.start_daemon(&[HTTP], GOOD);
    daemon.wait_until_ready(PATIENCE).unwrap();
    let scraper = Scraper::new(&site.node.namespace);
    assert_eq!(scraper.value("lock_refusals_total"), Some(0.0));
    site.flush();
    let lock = site.node.programs.join("lock");
    let held = site.go.display();
    let mut holder =
        site.node.spawn(&format!("exec flock {} sh -c 'while [ ! -e {held} ]; do sleep 0.01; done'", lock.display()));
    site.node.shell(&format!("while flock -n {} true; do sleep 0.01; done", lock.display()));
    daemon.signal(nix::sys::signal::Signal::SIGHUP).unwrap();
    scraper.wait_for("/readyz", 503, "holds the xtables lock");
    assert!(scraper.value("lock_refusals_total") >= Some(1.0));
    site.go();
    assert!(holder.wait().unwrap().success());
    scraper.wait_for("/readyz", 200, "[+]kernel: holds the policy\n");
}
