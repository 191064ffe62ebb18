//! `demo`: for root and for ordinary users, without any program, and without leaving anything behind.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;

use crate::support::agent::{program, wait_until};
use crate::support::directory::Directory;

/// The user and group that own nothing.
const NOBODY: u32 = 65534;

fn demo(args: &[&str]) -> Output {
    // No PATH and nothing else either: the demo needs no program but itself.
    Command::new(program()).arg("demo").args(args).env_clear().output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn assert_fine(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(output), stderr(output));
    assert_eq!(stderr(output), "");
    stdout(output)
}

#[test]
fn the_built_in_config_is_shown_with_every_packet_as_decided() {
    let page = assert_fine(&demo(&[]));
    assert!(page.contains("packets were treated as the policy says."), "{page}");
    assert!(page.contains("in 192.168.0.0/16 (ip-masq-agent:3:5)"), "{page}");
    for change in ["to the config: in force ", "behind the agent's back: in force "] {
        assert!(page.contains(change), "{page}");
    }
}

#[test]
fn json_tells_every_packet_and_every_change() {
    let json: Value = serde_json::from_str(&assert_fine(&demo(&["-o", "json", "--enable-ipv6"]))).unwrap();
    assert_eq!(json["ok"], true);
    let packets = json["packets"].as_array().unwrap();
    let to = |destination: &str| packets.iter().find(|packet| packet["destination"] == destination).unwrap();
    assert_eq!(to("10.127.255.255")["expected"], "exempt");
    assert_eq!(to("10.127.255.255")["sourceSeen"], to("10.127.255.255")["sentFrom"]);
    assert_eq!(to("203.0.113.80")["expected"], "masquerade, port random");
    assert!(to("203.0.113.80")["sourceSeen"].as_str().unwrap().starts_with("198.51.100.1:"));
    for change in json["changes"].as_array().unwrap() {
        assert!(change["inForceAfterMilliseconds"].as_f64().unwrap() > 0.0, "{change}");
    }
}

#[test]
fn the_users_config_decides_with_its_own_lines_and_stays_as_it_is() {
    let directory = Directory::new();
    let text = "# mine\nnonMasqueradeCIDRs: [203.0.113.0/24]\nmasqLinkLocal: true\n";
    let path = directory.join("mine.yaml");
    fs::write(&path, text).unwrap();
    let page = assert_fine(&demo(&["--config", path.to_str().unwrap(), "--to-ports=20000-20999"]));
    assert!(page.contains(&format!("in 203.0.113.0/24 ({}:2:22)", path.display())), "{page}");
    assert!(page.contains("masquerade, port within 20000-20999"), "{page}");
    assert_eq!(fs::read_to_string(path).unwrap(), text);
}

#[test]
fn a_directory_of_config_files_is_shown_whole() {
    let directory = Directory::new();
    fs::write(directory.join("ip-masq-agent-a"), "nonMasqueradeCIDRs: [203.0.113.0/24]\n").unwrap();
    fs::write(directory.join("ip-masq-agent-b"), "nonMasqueradeCIDRs: [8.8.8.0/24]\n").unwrap();
    let page = assert_fine(&demo(&["--config", directory.path().to_str().unwrap()]));
    for cidr in ["203.0.113.0/24", "8.8.8.0/24"] {
        assert!(page.contains(&format!("in {cidr} (")), "{page}");
    }
}

#[test]
fn a_policy_that_exempts_everything_is_shown_without_the_changes() {
    let directory = Directory::new();
    let path = directory.join("all");
    fs::write(&path, "nonMasqueradeCIDRs: [0.0.0.0/0]\n").unwrap();
    let page = assert_fine(&demo(&["--config", path.to_str().unwrap()]));
    assert!(page.contains("All is exempt"), "{page}");
}

#[test]
fn a_refused_config_is_shown_with_its_line() {
    let directory = Directory::new();
    let path = directory.join("bad");
    fs::write(&path, "nonMasqueradeCIDRs:\n- 10.0.0.1/8\n").unwrap();
    let output = demo(&["--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let errors = stderr(&output);
    assert!(errors.contains(&format!("{}:2:3", path.display())) && errors.contains("- 10.0.0.1/8"), "{errors}");
}

#[test]
fn a_config_that_is_not_there_cannot_be_shown() {
    let output = demo(&["--config", "/nonexistent/config"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("/nonexistent/config"), "{}", stderr(&output));
}

#[test]
fn where_namespaces_are_forbidden_the_sysctl_is_named() {
    // A limit of a user namespace made for this: the machine's own limits stay.
    let script = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$0\" demo";
    let output = Command::new("unshare").args(["-r", "sh", "-c", script]).arg(program()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("the sysctl user.max_net_namespaces is 0"), "{}", stderr(&output));
}

/// A copy of the program that every user may run, wherever it was built.
fn program_for_all(directory: &Directory) -> PathBuf {
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.join("ip-masq-agent");
    fs::copy(program(), &copy).unwrap();
    copy
}

/// Whether this process could become another user: in a user namespace with one user it cannot, and is an ordinary user already.
fn can_become_nobody() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    let holds_nobody = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(NOBODY)))
    };
    geteuid().is_root() && map.lines().any(holds_nobody)
}

#[test]
fn an_ordinary_user_may_run_it() {
    let directory = Directory::new();
    let mut command = Command::new(program_for_all(&directory));
    command.arg("demo").env_clear();
    if can_become_nobody() {
        command.uid(NOBODY).gid(NOBODY);
    }
    assert_fine(&command.output().unwrap());
}

/// The processes whose parent is `pid`, by its threads.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

/// Whether a process is gone, or dead and not yet buried by its new parent.
fn is_gone(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('Z'))
}

/// Starts a demo and stops it dead as soon as its daemon is there; its daemon's process id. None where it was too quick.
fn stopped_midway() -> Option<(Child, u32)> {
    let mut demo = Command::new(program()).arg("demo").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    loop {
        if let Some(&daemon) = children(demo.id()).first() {
            // A stopped demo cannot end its daemon itself.
            kill(pid(demo.id()), Signal::SIGSTOP).unwrap();
            if !is_gone(daemon) {
                return Some((demo, daemon));
            }
        }
        if demo.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::yield_now();
    }
}

fn pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap())
}

/// The mounts of the kind that the demo makes, in the places where it makes them.
fn memory_mounts() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_like_ours = |line: &&str| {
        line.contains(" - tmpfs ")
            && line.split(' ').nth(4).is_some_and(|place| ["/mnt", "/media", "/run"].contains(&place))
    };
    mounts.lines().filter(is_like_ours).map(str::to_owned).collect()
}

#[test]
fn nothing_is_left_when_it_is_killed_midway() {
    let mounts = memory_mounts();
    for signal in [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM] {
        let (mut demo, daemon) = (0..100).find_map(|_| stopped_midway()).expect("the demo is not always too quick");
        kill(pid(demo.id()), signal).unwrap();
        kill(pid(demo.id()), Signal::SIGCONT).unwrap();
        demo.wait().unwrap();
        wait_until("the daemon to die with the demo", || is_gone(daemon));
        let mut complaints = String::new();
        demo.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
        assert_eq!(complaints, "", "{signal}");
    }
    assert_eq!(memory_mounts(), mounts);
}

#[test]
fn too_few_ports_for_the_demo_are_said_to_be_too_few() {
    let output = Command::new(program()).args(["demo", "--to-ports=1000-1009"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("--to-ports 1000-1009 holds 10 ports"), "{complaint}");
}
