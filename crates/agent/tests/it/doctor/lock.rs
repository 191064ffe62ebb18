//! The lock file of iptables-legacy: one that cannot be used, one that is the container's own, and those that are in order.

use std::fs;
use std::path::Path;

use ip_masq_agent::backend::iptables::version::Stack;
use serde_json::Value;

use crate::support::applied::{Applied, DEFAULTS, sentence};
use crate::support::program::run_by;

/// A container on the node: a root of layers, everything of the node's but /run below it, and in that what `$1` does before the words
/// that follow are run. The process is its own first one.
const CONTAINER: &str = r#"
    mkdir /run/lower /run/upper /run/work /run/root /run/hosts
    mount -t tmpfs tmpfs /run/hosts
    touch /run/hosts/xtables.lock
    mount -t overlay overlay -o lowerdir=/run/lower,upperdir=/run/upper,workdir=/run/work /run/root
    for place in /*; do
        case $place in
            /run|/proc) mkdir /run/root$place ;;
            *) if [ -L $place ]; then cp -P $place /run/root$place
               elif [ -d $place ]; then mkdir /run/root$place; mount --rbind $place /run/root$place; fi ;;
        esac
    done
    mount -t proc proc /run/root/proc
    sh -ec "$1"
    shift
    exec chroot /run/root "$@"
"#;

/// Exit status and findings of `status` with the lock file where everybody has it, run by these words.
fn look(applied: &Applied, runner: &[&str]) -> (Option<i32>, Vec<Value>) {
    let path = format!("PATH={}", applied.node.programs.path().display());
    let runner = [runner, &["env", "--unset=XTABLES_LOCKFILE", &path]].concat();
    let args = ["status", applied.backend, "-o", "json", "--config", "-"];
    let run = run_by(&runner, &applied.node.namespace, &args, applied.config);
    let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    (run.status, value["findings"].as_array().unwrap().clone())
}

fn look_in_container(applied: &Applied, mounts: &str) -> (Option<i32>, Vec<Value>) {
    look(applied, &["unshare", "--mount", "--pid", "--fork", "sh", "-ec", CONTAINER, "container", mounts])
}

#[track_caller]
fn expect((status, findings): (Option<i32>, Vec<Value>), ids: &[&str]) -> Vec<Value> {
    let found: Vec<&str> = findings.iter().map(|finding| finding["id"].as_str().unwrap()).collect();
    assert_eq!((status, found.as_slice()), (Some(i32::from(!ids.is_empty())), ids), "{findings:#?}");
    findings
}

#[test]
fn a_lock_file_that_cannot_be_used_is_told() {
    let applied = Applied::new(Stack::Legacy, "--backend=iptables", &[], DEFAULTS);
    applied.node.namespace.run(|| fs::create_dir("/run/xtables.lock").unwrap());
    let findings = expect(look(&applied, &[]), &["lock-unusable"]);
    assert!(sentence(&findings[0]).contains("it is a directory"), "{findings:?}");
    assert!(findings[0]["remedy"].as_str().unwrap().contains("FileOrCreate"), "{findings:?}");
    applied.node.namespace.run(|| fs::remove_dir("/run/xtables.lock").unwrap());
    applied.node.shell("mount -o remount,ro /run");
    let findings = expect(look(&applied, &[]), &["lock-unusable"]);
    assert!(sentence(&findings[0]).contains("cannot be made in /run: Read-only file system"), "{findings:?}");
}

#[test]
fn a_lock_file_that_is_there_or_can_be_made_is_no_finding() {
    let applied = Applied::new(Stack::Legacy, "--backend=iptables", &[], DEFAULTS);
    expect(look(&applied, &[]), &[]);
    assert!(!applied.node.namespace.run(|| Path::new("/run/xtables.lock").exists()), "a look makes no file");
    applied.node.namespace.run(|| fs::write("/run/xtables.lock", "").unwrap());
    expect(look(&applied, &[]), &[]);
}

#[test]
fn the_stack_that_takes_no_lock_minds_none() {
    let applied = Applied::new(Stack::Nft, "--backend=iptables", &[], DEFAULTS);
    applied.node.namespace.run(|| fs::create_dir("/run/xtables.lock").unwrap());
    expect(look(&applied, &[]), &[]);
    expect(look_in_container(&applied, "true"), &[]);
}

#[test]
fn a_lock_file_of_the_containers_own_is_told() {
    let applied = Applied::new(Stack::Legacy, "--backend=iptables", &[], DEFAULTS);
    let findings = expect(look_in_container(&applied, "touch /run/root/run/xtables.lock"), &["lock-private"]);
    assert!(sentence(&findings[0]).contains("/run/xtables.lock lies in this container's own file system"));
}

#[test]
fn a_lock_file_that_is_mounted_from_the_node_is_no_finding() {
    let mounts = [
        "touch /run/root/run/xtables.lock; mount --bind /run/hosts/xtables.lock /run/root/run/xtables.lock",
        "mount --bind /run/hosts /run/root/run",
    ];
    for mount in mounts {
        let applied = Applied::new(Stack::Legacy, "--backend=iptables", &[], DEFAULTS);
        expect(look_in_container(&applied, mount), &[]);
    }
}
