//! What holds for every tool that looks: it changes nothing, reads nothing twice, and says what it may not see.

use std::collections::BTreeSet;
use std::fs;

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::cli::Topic;
use ip_masq_agent::lab::namespace::Namespace;
use masq::cidr::Family;

use crate::support::applied::{Applied, DEFAULTS};
use crate::support::directory::Directory;
use crate::support::iptables::Node;
use crate::support::program::{run_by, run_in, run_powerless};
use crate::support::ruleset::{nft, observe};

/// How a tool is asked to look.
struct Look {
    words: &'static [&'static str],
    /// Whether it is told which backend to take.
    takes_backend: bool,
    /// Whether what it looks at takes the power to look.
    takes_power: bool,
}

/// `None` for what is no look at the node or the config.
fn look(tool: Topic) -> Option<Look> {
    let look = |words, takes_backend, takes_power| Some(Look { words, takes_backend, takes_power });
    match tool {
        Topic::Check => look(&["check"], false, false),
        Topic::Render => look(&["render"], true, false),
        Topic::Diff => look(&["diff"], true, true),
        Topic::Status => look(&["status"], true, true),
        Topic::Explain => look(&["explain", "10.244.0.2", "8.8.8.8"], true, true),
        Topic::Top => look(&["top", "--once", "--interval=1"], false, true),
        Topic::Cleanup => look(&["cleanup", "--dry-run", "--all-generations"], false, true),
        Topic::Daemon | Topic::Demo | Topic::Completion => None,
    }
}

fn looks() -> impl Iterator<Item = Look> {
    Topic::TOOLS.into_iter().filter_map(look)
}

/// Everything that a look might change: the rules of everybody, the number of changes, and which tables iptables-legacy has.
fn kernel(node: &Node) -> String {
    let tables = ["ip_tables_names", "ip6_tables_names"].map(|name| {
        let path = format!("/proc/thread-self/net/{name}");
        node.namespace.run(|| fs::read_to_string(path).unwrap_or_default())
    });
    let saved = ["iptables-save", "ip6tables-save"].map(|program| node.try_run_on(Stack::Legacy, &[program]).unwrap());
    let saved = saved.concat().lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let (_, generation) = observe(&node.namespace);
    format!("{}{}{saved}{generation}", nft(&node.namespace, "list ruleset"), tables.concat())
}

#[test]
fn no_tool_that_looks_changes_the_kernel() {
    for backend in ["--backend=nftables", "--backend=iptables"] {
        for stack in Stack::ALL {
            let bare = Node::with_both_stacks(stack);
            let applied = Applied::on(Node::with_both_stacks(stack), backend, &[], DEFAULTS);
            for place in Stack::ALL {
                applied.node.load(place, Family::Ipv4, "-A POSTROUTING -s 10.244.0.0/16 -j MASQUERADE\n");
                applied.node.load(place, Family::Ipv6, ":THEIRS - [0:0]\n");
            }
            for node in [&bare, &applied.node] {
                let before = kernel(node);
                for Look { words, takes_backend, .. } in looks() {
                    let args: Vec<&str> = words.iter().copied().chain(takes_backend.then_some(backend)).collect();
                    let run = run_in(&node.namespace, &args, "", |command| {
                        command.env("PATH", node.programs.path());
                    });
                    assert!(run.status.is_some_and(|status| status < 3), "{args:?} {run:?}");
                    assert_eq!(kernel(node), before, "{args:?} on {stack}");
                }
            }
        }
    }
}

#[test]
fn without_power_over_the_node_each_tool_says_what_it_could_not_see() {
    let node = Namespace::open("node").unwrap();
    nft(&node, "add table inet ip-masq-agent");
    for Look { words, takes_power, .. } in looks() {
        let run = run_powerless(&node, words);
        let is_told = run.stdout.contains("CAP_NET_ADMIN") || run.stderr.contains("CAP_NET_ADMIN");
        let wanted = (Some(if takes_power { 3 } else { 0 }), takes_power);
        assert_eq!((run.status, is_told), wanted, "{words:?} {run:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success_and_a_reader_who_has_gone_is_no_failure() {
    let node = Namespace::open("node").unwrap();
    let into = |target: &str, words: &[&str]| {
        let script = format!("exec \"$@\" {target}");
        run_by(&["sh", "-c", &script, "sh"], &node, words, "")
    };
    let others = [&["completion", "bash"][..], &["--version"], &["status", "--help"]];
    for words in looks().map(|look| look.words).chain(others) {
        let full = into(">/dev/full", words);
        assert_eq!(full.status, Some(3), "{words:?} {full:?}");
        assert!(full.stderr.contains("cannot write to standard output: No space left"), "{words:?} {full:?}");
        // The reader has ended before the program begins to write.
        let script = "exec 3> >(true); wait $!; \"$@\" >&3; echo $? >&2";
        let gone = run_by(&["bash", "-c", script, "bash"], &node, words, "");
        assert!(!gone.stderr.contains("cannot write") && !gone.stderr.ends_with("3\n"), "{words:?} {gone:?}");
    }
}

/// The dumps of rules that a run of `status` asks the kernel for, and the programs that it runs, as strace tells them.
fn readings(applied: &Applied) -> Vec<String> {
    let directory = Directory::new();
    let trace = directory.join("trace");
    let strace = ["strace", "--follow-forks", "--trace=execve,sendto,sendmsg", "--output", trace.to_str().unwrap()];
    let run = applied.run_by(&strace, &[]);
    assert!(run.status.is_some_and(|status| status < 2), "{run:?}");
    let text = fs::read_to_string(trace).unwrap();
    // Programs have process ids of their own, and ask for what they please.
    let agent = text.split_whitespace().next().unwrap();
    let reading = |line: &str| match line.split_once("execve(\"") {
        Some((_, rest)) => rest.ends_with(" = 0").then(|| rest.split('"').next().unwrap().to_owned()),
        None if !line.starts_with(agent) || !line.contains("NFT_MSG_GETRULE") => None,
        None if line.contains("nlmsg_len=20,") => Some(EVERYTHING.to_owned()),
        None => Some("one table".to_owned()),
    };
    let mut readings: Vec<String> = text.lines().filter_map(reading).collect();
    readings.sort();
    readings
}

/// A dump of all rules of all tables: a request without a single attribute.
const EVERYTHING: &str = "everything";

#[test]
fn status_reads_everybodys_rules_once_however_many_there_are() {
    for applied in Applied::everywhere(&[], DEFAULTS) {
        let rule =
            |n: usize| format!("-A POSTROUTING -s 10.{}.{}.0/24 -d 203.0.113.7 -j MASQUERADE\n", n / 256, n % 256);
        let few = readings(applied.load(&rule(0)));
        // In parts, for without power over the machine a program's socket takes no more at once.
        for part in 1..10 {
            applied.load(&(200 * part..200 * (part + 1)).map(rule).collect::<String>());
        }
        let many = readings(&applied);
        assert_eq!(many, few, "{} {}", applied.backend, applied.node.stack);
        assert_eq!(many.iter().filter(|reading| *reading == EVERYTHING).count(), 1, "{many:?}");
        let distinct: BTreeSet<&String> = many.iter().collect();
        assert_eq!(distinct.len(), many.len(), "{many:?}");
    }
}
