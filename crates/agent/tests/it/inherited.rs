//! Tools asked beside a running agent: they go by its flags and read the file that it reads.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use ip_masq_agent::lab::namespace::Namespace;

use crate::support::agent::{Agent, PATIENCE, program, wait_until};
use crate::support::program::run_in;

const FLAGS: [&str; 3] = ["--backend=nftables", "--enable-ipv6", "--to-ports=1024-29999"];

#[test]
fn a_tool_takes_the_flags_of_the_agent_and_its_own_win() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &FLAGS, Some("nonMasqueradeCIDRs: [10.0.0.0/8, 'fd00::/8']\n"));
    let run = run_in(&node, &["status"], "", |_| {});
    assert_eq!(run.status, Some(0), "{run:?}");
    assert!(run.stdout.contains("its flags hold here, too"), "{run:?}");
    assert!(run.stdout.contains(&agent.config_path().display().to_string()), "{run:?}");
    assert_eq!(run_in(&node, &["diff"], "", |_| {}).status, Some(0));
    let explained = run_in(&node, &["explain", "fd01::1", "2001:db8::1"], "", |_| {});
    assert!(!explained.stdout.contains("IPv6 is off"), "{explained:?}");
    assert_eq!(run_in(&node, &["diff", "--to-ports="], "", |_| {}).status, Some(1), "another policy");
}

#[test]
fn of_several_agents_no_flags_are_taken() {
    let node = Namespace::open("node").unwrap();
    let _agents = [(); 2].map(|()| Agent::start_ready(&node, &FLAGS, None));
    let run = run_in(&node, &["status", "--backend=nftables"], "", |_| {});
    assert_eq!(run.status, Some(2), "the policy without their flags is not in force: {run:?}");
}

#[test]
fn a_process_that_only_bears_the_name_is_not_heeded() {
    let node = Namespace::open("node").unwrap();
    let _agent = Agent::start_ready(&node, &FLAGS, None);
    let mut impostor = Command::new("setpriv");
    impostor.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]).arg(program());
    impostor.args(["--backend=iptables", "--config=/nonexistent/ip-masq-agent"]).stderr(Stdio::null());
    let mut impostor = node.run(move || impostor.spawn()).unwrap();
    let pid = impostor.id().to_string();
    wait_until("the impostor to be there", || {
        run_in(&node, &["status", "-o", "json"], "", |_| {}).stdout.contains(&format!("\"pid\": {pid}"))
    });
    let run = run_in(&node, &["status"], "", |_| {});
    impostor.kill().unwrap();
    impostor.wait().unwrap();
    assert_eq!(run.status, Some(1), "in force by the agent's flags, with its warnings: {run:?}");
    assert!(run.stdout.contains("in sync with the policy"), "{run:?}");
}

#[test]
fn the_config_of_an_agent_in_a_container_is_read_where_the_agent_sees_it() {
    let node = Namespace::open("node").unwrap();
    // In its own mount namespace, another folder lies over that of the config.
    let mut agent = Agent::start_as(
        &node,
        |directory| {
            let inner = directory.join("inner");
            fs::create_dir(&inner).unwrap();
            fs::write(inner.join("ip-masq-agent"), "nonMasqueradeCIDRs: [100.64.0.0/10]\n").unwrap();
            let script = directory.join("contained");
            let (place, program) = (directory.path().display(), program().display());
            let inside = format!("mount --bind {place}/inner {place}/config && exec {program} \\\"\\$@\\\"");
            fs::write(&script, format!("#!/bin/sh\nexec unshare --mount sh -c \"{inside}\" agent \"$@\"\n")).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            script
        },
        &["--backend=nftables"],
        Some("nonMasqueradeCIDRs: [10.0.0.0/8]\n"),
    );
    agent.wait_until_ready(PATIENCE).unwrap();
    let run = run_in(&node, &["status"], "", |_| {});
    assert_eq!(run.status, Some(0), "{run:?}");
    assert!(run.stdout.contains("in sync with the policy") && run.stdout.contains("/root/"), "{run:?}");
    let path = agent.config_path();
    let run = run_in(&node, &["diff", "--config", path.to_str().unwrap()], "", |_| {});
    assert_eq!(run.status, Some(1), "the node's own file says something else: {run:?}");
}
