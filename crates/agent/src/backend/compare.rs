//! A policy against the kernel, whichever backend carries it out: read only.

use anyhow::{Context, Result};
use masq::policy::Policy;
use nfnetlink::Refusal;
use nix::errno::Errno;

use super::detect::{self, Choice};
use super::difference::{Comparison, Group, Line};
use super::iptables::leftovers::Scope;
use super::iptables::version::Stack;
use super::iptables::{self, Iptables};
use super::nftables::{self, Nftables};
use super::{Backend, Engine};

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

    /// The backend and the reasons for it, as a sentence without an end.
    pub fn description(&self) -> String {
        let Choice { chosen, reason } = &self.choice;
        let stack = self.stack().map(|stack| format!(", with {} ({})", stack.chosen, stack.reason)).unwrap_or_default();
        format!("{} ({reason}){stack}", chosen.name())
    }

    /// Compares what the kernel holds of ours, with either backend, with what it should hold with this one. Nothing is changed.
    pub fn compare(&mut self, policy: &Policy) -> Comparison {
        match &mut self.engine {
            Engine::Nftables(table) => {
                let mut comparison = table.compare(policy).context("nftables").unwrap_or_else(Comparison::failed);
                comparison.append(self.compare_leftover_chains());
                comparison
            }
            Engine::Iptables(iptables) => {
                let mut comparison = iptables.compare(Some(policy));
                comparison.append(leftover_table().context("nftables").unwrap_or_else(Comparison::failed));
                comparison
            }
        }
    }

    fn compare_leftover_chains(&self) -> Comparison {
        if detect::backend(&super::search_path()).chosen == detect::Backend::Nftables {
            return iptables::netlink::compare(Scope::All(&self.options.chain));
        }
        let opened = self.options.iptables().and_then(|options| Ok(Iptables::open(options)?));
        match opened {
            Ok(mut iptables) => iptables.compare(None),
            Err(error) => Comparison::failed(error.context("iptables")),
        }
    }
}

fn leftover_table() -> Result<Comparison> {
    let place = format!("table inet {}", nftables::desired::TABLE);
    let lines = vec![Line::unwanted(format!("{place} (of the nftables backend)"))];
    let groups = if has_table()? { vec![Group { place, lines }] } else { Vec::new() };
    Ok(Comparison { groups, ..Comparison::default() })
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
