//! The whole way from the reference to this agent and back, with traffic running: no packet is treated wrongly, and nothing is left over.

use std::path::PathBuf;
use std::process::Command;

use ip_masq_agent::backend::iptables::render::jump;
use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::Lab;
use masq::cidr::{Cidr, Family};
use nix::sys::signal::Signal;

use crate::support::agent::{Agent, PATIENCE};
use crate::support::directory::Directory;
use crate::support::flood::{Class, Flood};
use crate::support::iptables::{CHAIN, agent_with_programs, agent_without_programs, real, reduce, ruleset};
use crate::support::random::thousand_cidrs;

/// A node that the reference serves on one of the stacks.
struct Node {
    lab: Lab,
    stack: Stack,
    /// Holds the lock that iptables-legacy takes.
    directory: Directory,
}

impl Node {
    fn with_reference(stack: Stack) -> Node {
        let node = Node { lab: Lab::open().unwrap(), stack, directory: Directory::new() };
        node.reference_runs();
        node
    }

    /// What the reference does at its start and at each resync: the chain, the jump if there is none, then all rules in one restore.
    fn reference_runs(&self) {
        let (iptables, restore) = (real("iptables", self.stack, ""), real("iptables", self.stack, "-restore"));
        let (iptables, restore) = (iptables.display(), restore.display());
        let (jump, rules) = (jump(CHAIN), ruleset("restore4-default").join("\n"));
        self.run(
            "/bin/sh",
            &[
                "-ec",
                &format!(
                    "{iptables} -t nat -N {CHAIN} 2>/dev/null || true\n\
                     {iptables} -t nat -C POSTROUTING {jump} 2>/dev/null || {iptables} -t nat -A POSTROUTING {jump}\n\
                     {restore} --noflush <<'END'\n{rules}\nEND\n"
                ),
            ],
        );
    }

    /// This agent in the reference's place, until `in_place` holds of what the kernel has; then it is stopped.
    fn ours_runs(
        &self,
        prepare: fn(&Directory, Stack) -> PathBuf,
        args: &[&str],
        flood: &Flood,
        in_place: impl Fn(&[String], &str) -> bool,
    ) {
        let stack = self.stack;
        let mut agent = Agent::start_as(&self.lab.node, |directory| prepare(directory, stack), args, None);
        agent.wait_until_ready(PATIENCE).unwrap();
        agent.wait_until("ours to be in place, and only ours", || in_place(&self.chains(), &self.tables()));
        flood.wait_for_more(2000);
        agent.signal(Signal::SIGTERM).unwrap();
        assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0), "{}", agent.log_tail());
    }

    /// The way back from the nftables backend: our own iptables backend makes the reference's rules before the table goes.
    fn ours_steps_aside(&self) {
        let stack = self.stack;
        let args = ["--backend=iptables", "--once"];
        let mut agent = Agent::start_as(&self.lab.node, |directory| agent_with_programs(directory, stack), &args, None);
        assert_eq!(agent.wait_for_exit(PATIENCE).unwrap().code(), Some(0), "{}", agent.log_tail());
    }

    fn chains(&self) -> Vec<String> {
        reduce(&self.run(real("iptables", self.stack, "-save").to_str().unwrap(), &["-t", "nat"]))
    }

    fn tables(&self) -> String {
        self.run("nft", &["list", "tables", "inet"])
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(args).env("XTABLES_LOCKFILE", self.directory.join("lock"));
        let output = self.lab.node.run(move || command.output().unwrap());
        assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A flood to destinations in the default list and to others, through all that follows.
    fn flood(&self) -> Flood {
        // All of 172.16.0.0/13 is exempt by the default list, nothing of 11.0.0.0/8 is.
        let outside = (0..250).map(|block| Cidr::new(Family::Ipv4.address((11 << 24) + (block << 8)), 24).unwrap());
        let flood = Flood::start(&self.lab, thousand_cidrs(), outside.collect());
        flood.wait_for_more(1000);
        flood
    }

    /// The reference serves the node again as it did in the beginning, and no packet was treated otherwise on the way.
    fn assert_as_in_the_beginning(&self, flood: &Flood) {
        self.reference_runs();
        flood.wait_for_more(2000);
        assert_eq!(self.chains(), ruleset("save4-default"));
        assert!(!self.tables().contains("ip-masq-agent"), "{}", self.tables());
        for class in [Class::Exempt, Class::Masqueraded] {
            let count = flood.count(class, |_| true);
            assert!(count.wrong == 0 && count.right > 2000, "{} {class:?}: {count:?}", self.stack);
        }
    }
}

#[test]
fn to_the_iptables_backend_and_back_is_a_change_of_programs() {
    for stack in Stack::ALL {
        let node = Node::with_reference(stack);
        let flood = node.flood();
        let same =
            |chains: &[String], tables: &str| chains == ruleset("save4-default") && !tables.contains("ip-masq-agent");
        node.ours_runs(agent_with_programs, &["--backend=iptables"], &flood, same);
        node.assert_as_in_the_beginning(&flood);
    }
}

#[test]
fn to_the_nftables_backend_and_back_nothing_is_left_on_either_side() {
    for (stack, prepare) in [
        // An image without programs, as most run it, and one with them, which iptables-legacy takes.
        (Stack::Nft, (|directory, _| agent_without_programs(directory)) as fn(&Directory, Stack) -> PathBuf),
        (Stack::Nft, agent_with_programs),
        (Stack::Legacy, agent_with_programs),
    ] {
        let node = Node::with_reference(stack);
        let flood = node.flood();
        let ours = |chains: &[String], tables: &str| chains == ruleset("none") && tables.contains("ip-masq-agent");
        node.ours_runs(prepare, &["--backend=nftables"], &flood, ours);
        node.ours_steps_aside();
        node.assert_as_in_the_beginning(&flood);
    }
}
