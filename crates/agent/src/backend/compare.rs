//! A policy against the kernel, whichever backend carries it out: read only.

use anyhow::{Context, Error, Result};
use masq::policy::Policy;
use nfnetlink::Refusal;
use nix::errno::Errno;

use super::detect::{self, Choice};
use super::difference::{Group, Line};
use super::iptables::Iptables;
use super::iptables::version::Stack;
use super::nftables::{self, Nftables};
use super::{Backend, Engine};

/// How the kernel differs from a policy.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The differences; none if the kernel holds the policy, and nothing else of ours.
    pub groups: Vec<Group>,
    /// What could not be compared.
    pub failures: Vec<Error>,
}

impl Backend {
    /// The backend in use, and why this one.
    pub fn choice(&self) -> &Choice<detect::Backend> {
        &self.choice
    }

    /// The iptables stack in use, and why this one; `None` with the nftables backend.
    pub fn stack(&self) -> Option<&Choice<Stack>> {
        match &self.engine {
            Engine::Nftables(_) => None,
            Engine::Iptables(iptables) => Some(iptables.stack()),
        }
    }

    /// Compares what the kernel holds of ours, with either backend, with what it should hold with this one. Nothing is changed.
    pub fn compare(&mut self, policy: &Policy) -> Comparison {
        let mut comparison = Comparison::default();
        match &mut self.engine {
            Engine::Nftables(table) => {
                comparison.add(table.compare(policy).context("nftables"));
                comparison.add_chains(self.compare_leftover_chains());
            }
            Engine::Iptables(iptables) => {
                comparison.add_chains(iptables.compare(Some(policy)));
                comparison.add(leftover_table().context("nftables"));
            }
        }
        comparison
    }

    fn compare_leftover_chains(&self) -> (Vec<Group>, Vec<Error>) {
        if detect::backend(&super::search_path()).chosen == detect::Backend::Nftables {
            return (Vec::new(), Vec::new());
        }
        let opened = self.options.iptables().and_then(|options| Ok(Iptables::open(options)?));
        match opened {
            Ok(mut iptables) => iptables.compare(None),
            Err(error) => (Vec::new(), vec![error.context("iptables")]),
        }
    }
}

impl Comparison {
    fn add(&mut self, groups: Result<Vec<Group>>) {
        match groups {
            Ok(groups) => self.groups.extend(groups),
            Err(error) => self.failures.push(error),
        }
    }

    fn add_chains(&mut self, (groups, failures): (Vec<Group>, Vec<Error>)) {
        self.groups.extend(groups);
        self.failures.extend(failures);
    }
}

fn leftover_table() -> Result<Vec<Group>> {
    let place = format!("table inet {}", nftables::desired::TABLE);
    let lines = vec![Line::unwanted(format!("{place} (of the nftables backend)"))];
    Ok(if has_table()? { vec![Group { place, lines }] } else { Vec::new() })
}

/// Whether there is a table of the nftables backend. A kernel without nf_tables holds none.
pub(super) fn has_table() -> Result<bool, nfnetlink::Error> {
    match Nftables::open().and_then(|mut nftables| nftables.has_table()) {
        Err(nfnetlink::Error::Refused(refusal)) if has_no_nf_tables(&refusal) => Ok(false),
        answer => answer,
    }
}

fn has_no_nf_tables(refusal: &Refusal) -> bool {
    matches!(Errno::from_raw(refusal.errno), Errno::EINVAL | Errno::EOPNOTSUPP)
}
