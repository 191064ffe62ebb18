//! A node on which a policy is in force, and what `status` of the built program finds there.

use ip_masq_agent::backend::iptables::version::Stack;
use masq::cidr::Family;
use serde_json::Value;

use super::agent::PATIENCE;
use super::iptables::Node;
use super::program::{Run, run_by};

/// The reference's default list, written out.
pub const DEFAULTS: &str = "nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16]\n";

/// A node on which the policy is in force with one of the backends.
pub struct Applied {
    pub node: Node,
    pub backend: &'static str,
    pub flags: Vec<&'static str>,
    pub config: &'static str,
}

impl Applied {
    pub fn new(stack: Stack, backend: &'static str, flags: &[&'static str], config: &'static str) -> Applied {
        Applied::on(Node::new(stack), backend, flags, config)
    }

    pub fn on(node: Node, backend: &'static str, flags: &[&'static str], config: &'static str) -> Applied {
        let applied = Applied { node, backend, flags: flags.to_vec(), config };
        applied.apply();
        applied
    }

    /// On each of the three ways to program the kernel.
    pub fn everywhere(flags: &[&'static str], config: &'static str) -> [Applied; 3] {
        [(Stack::Nft, "--backend=nftables"), (Stack::Nft, "--backend=iptables"), (Stack::Legacy, "--backend=iptables")]
            .map(|(stack, backend)| Applied::new(stack, backend, flags, config))
    }

    fn apply(&self) {
        let args = [&[self.backend, "--once"], self.flags.as_slice()].concat();
        let mut daemon = self.node.start_daemon(&args, self.config);
        assert_eq!(daemon.wait_for_exit(PATIENCE).unwrap().code(), Some(0), "{}", daemon.log_tail());
    }

    pub fn load(&self, lines: &str) -> &Applied {
        self.node.load(self.node.stack, Family::Ipv4, lines);
        self
    }

    pub fn run(&self, more: &[&str]) -> Run {
        self.run_by(&[], more)
    }

    /// As [`Applied::run`], by a program that takes these words and then a command.
    pub fn run_by(&self, runner: &[&str], more: &[&str]) -> Run {
        let args = [&["status", self.backend, "--config", "-"], self.flags.as_slice(), more].concat();
        let set = [("PATH", self.node.programs.path()), ("XTABLES_LOCKFILE", &self.node.programs.join("lock"))];
        let set = set.map(|(name, path)| format!("{name}={}", path.display()));
        let runner = [runner, &["env"], &set.each_ref().map(String::as_str)].concat();
        run_by(&runner, &self.node.namespace, &args, self.config)
    }

    /// The exit status and the findings.
    pub fn look(&self) -> (Option<i32>, Vec<Value>) {
        let run = self.run(&["-o", "json"]);
        let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        (run.status, value["findings"].as_array().unwrap().clone())
    }

    pub fn expect(&self, status: i32, ids: &[&str]) -> Vec<Value> {
        let (found, findings) = self.look();
        let found_ids: Vec<&str> = findings.iter().map(|finding| finding["id"].as_str().unwrap()).collect();
        assert_eq!(
            (found, found_ids.as_slice()),
            (Some(status), ids),
            "{} {}: {findings:#?}",
            self.node.stack,
            self.backend
        );
        findings
    }
}

pub fn sentence(finding: &Value) -> &str {
    finding["sentence"].as_str().unwrap()
}
