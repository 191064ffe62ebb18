//! Changes of the config reach the kernel however the file is changed, and a bad file never weakens the node.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use ip_masq_agent::lab::daemon::{Daemon, arguments};
use ip_masq_agent::lab::namespace::Namespace;
use nix::sys::signal::Signal;

use crate::support::agent::{Agent, PATIENCE, program, wait_until};
use crate::support::directory::Directory;
use crate::support::ruleset::{exempt, nft, observe, table_text, wait_for_exempt};

const LINK_LOCAL: &str = "169.254.0.0-169.254.255.255";
const DEFAULTS: [&str; 4] =
    ["10.0.0.0-10.255.255.255", LINK_LOCAL, "172.16.0.0-172.31.255.255", "192.168.0.0-192.168.255.255"];
const ONE: &str = "nonMasqueradeCIDRs: [11.0.0.0/8]\n";
const ONE_IN_FORCE: [&str; 2] = ["11.0.0.0-11.255.255.255", LINK_LOCAL];
const TWO: &str = "nonMasqueradeCIDRs: [12.0.0.0/8]\n";
const TWO_IN_FORCE: [&str; 2] = ["12.0.0.0-12.255.255.255", LINK_LOCAL];
const BAD: &str = "nonMasqueradeCIDRs: [12.0.0.1/8]\n";

fn node() -> Namespace {
    Namespace::open("node").unwrap()
}

/// A daemon whose --config is a path that the test lays out itself.
fn start_with(node: &Namespace, path: &Path, directory: &Directory) -> Daemon {
    let mut daemon = Daemon::start(node, program(), &arguments::<&str>(path, []), directory.path()).unwrap();
    daemon.wait_until_ready(PATIENCE).unwrap();
    daemon
}

#[test]
fn a_file_rewritten_in_place_is_picked_up() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    wait_for_exempt(&node, &ONE_IN_FORCE);
    fs::write(agent.config_path(), TWO).unwrap();
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn a_file_renamed_into_place_is_picked_up() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    agent.write_config(TWO);
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn a_removed_file_means_the_defaults_and_is_logged_as_such() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    agent.remove_config();
    wait_for_exempt(&node, &DEFAULTS);
    agent.wait_for_line("No config file at");
    agent.write_config(TWO);
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn an_emptied_file_means_the_defaults_and_is_logged_as_such() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    fs::write(agent.config_path(), "").unwrap();
    wait_for_exempt(&node, &DEFAULTS);
    agent.wait_for_line("Config is empty");
}

#[test]
fn a_file_that_an_editor_moves_away_and_writes_anew_never_means_the_defaults() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    let generation = observe(&node).1;
    fs::rename(agent.config_path(), agent.config_path().with_extension("old")).unwrap();
    fs::write(agent.config_path(), TWO).unwrap();
    wait_for_exempt(&node, &TWO_IN_FORCE);
    assert_eq!(observe(&node).1, generation + 1, "one transaction, none for the moment without a file");
}

#[test]
fn a_file_that_is_still_being_written_is_not_read_half() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    let generation = observe(&node).1;
    let mut file = fs::File::create(agent.config_path()).unwrap();
    file.write_all(b"nonMasqueradeCIDRs:\n- 12.0.0.0/8\n").unwrap();
    // A stranger's commit wakes the agent while the file is half written.
    nft(&node, "add table ip theirs");
    file.write_all(b"- 13.0.0.0/8\n").unwrap();
    drop(file);
    wait_for_exempt(&node, &["12.0.0.0-13.255.255.255", LINK_LOCAL]);
    assert_eq!(observe(&node).1, generation + 2, "the stranger's transaction and one of ours");
}

#[test]
fn a_file_in_a_directory_that_appears_later_is_picked_up() {
    let node = node();
    let directory = Directory::new();
    let path = directory.join("etc").join("config").join("ip-masq-agent");
    let _daemon = start_with(&node, &path, &directory);
    wait_for_exempt(&node, &DEFAULTS);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, ONE).unwrap();
    wait_for_exempt(&node, &ONE_IN_FORCE);
    fs::remove_dir_all(directory.join("etc")).unwrap();
    wait_for_exempt(&node, &DEFAULTS);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, TWO).unwrap();
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

/// Lays a ConfigMap's content down as kubelet does: a new directory, and `..data` renamed over to point to it.
fn publish(volume: &Path, stamp: &str, content: &str) {
    let fresh = volume.join(stamp);
    fs::create_dir(&fresh).unwrap();
    fs::write(fresh.join("ip-masq-agent"), content).unwrap();
    symlink(stamp, volume.join("..data_tmp")).unwrap();
    let before = fs::read_link(volume.join("..data")).ok();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    match before {
        Some(before) => fs::remove_dir_all(volume.join(before)).unwrap(),
        None => symlink("..data/ip-masq-agent", volume.join("ip-masq-agent")).unwrap(),
    }
}

#[test]
fn a_config_map_volume_is_followed_through_its_swaps() {
    let node = node();
    let directory = Directory::new();
    let volume = directory.join("config");
    fs::create_dir(&volume).unwrap();
    let _daemon = start_with(&node, &volume.join("ip-masq-agent"), &directory);
    wait_for_exempt(&node, &DEFAULTS);
    for round in 0..5 {
        publish(&volume, &format!("..2026_a{round}"), ONE);
        wait_for_exempt(&node, &ONE_IN_FORCE);
        publish(&volume, &format!("..2026_b{round}"), TWO);
        wait_for_exempt(&node, &TWO_IN_FORCE);
    }
    fs::remove_file(volume.join("ip-masq-agent")).unwrap();
    wait_for_exempt(&node, &DEFAULTS);
}

#[test]
fn a_file_behind_a_symbolic_link_to_another_directory_is_watched_there() {
    let node = node();
    let directory = Directory::new();
    fs::create_dir(directory.join("elsewhere")).unwrap();
    let real = directory.join("elsewhere").join("masq.yaml");
    fs::write(&real, ONE).unwrap();
    symlink(&real, directory.join("ip-masq-agent")).unwrap();
    let _daemon = start_with(&node, &directory.join("ip-masq-agent"), &directory);
    wait_for_exempt(&node, &ONE_IN_FORCE);
    fs::write(&real, TWO).unwrap();
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn a_directory_of_files_is_merged_and_watched() {
    let node = node();
    let directory = Directory::new();
    let config = directory.join("config");
    fs::create_dir(&config).unwrap();
    fs::write(config.join("ip-masq-a"), ONE).unwrap();
    fs::write(config.join("other"), TWO).unwrap();
    let _daemon = start_with(&node, &config, &directory);
    wait_for_exempt(&node, &ONE_IN_FORCE);
    fs::write(config.join("ip-masq-b"), TWO).unwrap();
    wait_for_exempt(&node, &["11.0.0.0-12.255.255.255", LINK_LOCAL]);
    fs::remove_file(config.join("ip-masq-a")).unwrap();
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn a_bad_file_later_leaves_the_last_good_config_in_force_and_healed() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    agent.write_config(BAD);
    let line = agent.wait_for_line("Bad config");
    assert!(line.contains("12.0.0.1/8") && line.contains("ip-masq-agent:1:"), "value and place: {line}");
    wait_for_exempt(&node, &ONE_IN_FORCE);
    nft(&node, "flush ruleset");
    wait_for_exempt(&node, &ONE_IN_FORCE);
    agent.write_config(TWO);
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn a_bad_file_at_the_first_start_puts_the_defaults_in_force() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(BAD));
    wait_for_exempt(&node, &DEFAULTS);
    agent.wait_for_line("Bad config");
    agent.write_config(TWO);
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn a_bad_file_at_a_later_start_keeps_and_heals_what_the_earlier_run_left() {
    let node = node();
    let mut first = Agent::start_ready(&node, &["--enable-ipv6", "--to-ports=2000-3000,5000"], Some(ONE));
    first.signal(Signal::SIGTERM).unwrap();
    first.wait_for_exit(PATIENCE).unwrap();
    let (before, generation) = (table_text(&node), observe(&node).1);
    let second = Agent::start_ready(&node, &[], Some(BAD));
    second.wait_for_line("rules of an earlier run stay");
    assert_eq!((table_text(&node), observe(&node).1), (before.clone(), generation));
    nft(&node, "flush ruleset");
    wait_until("the rules of the earlier run to be back", || table_text(&node) == before);
    second.write_config(TWO);
    wait_for_exempt(&node, &TWO_IN_FORCE);
    assert_eq!(exempt(&node, masq::cidr::Family::Ipv6), None, "IPv6 is off in the second run");
}

#[test]
fn strict_makes_an_unknown_key_a_bad_config() {
    let node = node();
    let agent = Agent::start_ready(&node, &["--strict"], Some("nonMasqueradeCIDR: [11.0.0.0/8]\n"));
    agent.wait_for_line("Bad config");
    wait_for_exempt(&node, &DEFAULTS);
}

#[test]
fn a_fifo_in_place_of_the_file_is_a_bad_config_and_healing_goes_on() {
    let node = node();
    let agent = Agent::start_ready(&node, &[], Some(ONE));
    agent.remove_config();
    nix::unistd::mkfifo(&agent.config_path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    agent.wait_for_line("Bad config");
    nft(&node, "flush ruleset");
    wait_for_exempt(&node, &ONE_IN_FORCE);
}

#[test]
fn sighup_is_answered_and_ends_nothing() {
    let node = node();
    let mut agent = Agent::start_ready(&node, &[], Some(ONE));
    agent.signal(Signal::SIGHUP).unwrap();
    agent.wait_for_line("SIGHUP: reading config and kernel anew");
    assert!(agent.exited().unwrap().is_none());
    agent.write_config(TWO);
    wait_for_exempt(&node, &TWO_IN_FORCE);
}

#[test]
fn without_inotify_the_agent_does_its_work_and_says_what_is_missing() {
    let directory = Directory::new();
    let path = directory.join("ip-masq-agent");
    fs::write(&path, ONE).unwrap();
    // A user namespace of its own has limits of its own.
    let script = "echo 0 >/proc/sys/user/max_inotify_instances && exec \"$0\" --once --config \"$1\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", script]).arg(program()).arg(&path);
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(log.contains("only be seen at the next resync") && log.contains("Kernel updated"), "{log}");
}
