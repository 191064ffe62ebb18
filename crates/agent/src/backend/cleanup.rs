//! Removing all of ours, whichever backend put it there.

use anyhow::Error;
use masq::cidr::Family;

use super::compare::has_table;
use super::detect::legacy_tables;
use super::iptables::leftovers::Scope;
use super::iptables::netlink;
use super::iptables::programs::ProgramError;
use super::iptables::sweep::{Removal, Sweep};
use super::iptables::version::Stack;
use super::iptables::{self, Iptables};
use super::nftables::Nftables;

/// What was found of ours, and what became of it.
#[derive(Debug, Default)]
pub struct Cleanup {
    /// Whether the table of the nftables backend is removed, or would be.
    pub table: bool,
    /// The same of the iptables backend, and what could not be done.
    pub chains: Sweep,
}

/// Removes the table of the nftables backend, and the chain of the iptables backend with its jumps from both families and stacks; with
/// `all_generations` also the chains that other versions and chain names left. Nothing of anybody else is touched.
pub fn cleanup(chain: &str, all_generations: bool, removal: Removal) -> Cleanup {
    let mut cleanup = Cleanup { chains: sweep(chain, all_generations, removal), ..Cleanup::default() };
    match has_table() {
        Err(error) => cleanup.chains.unseen.push(Error::new(error).context("nftables")),
        Ok(true) if removal == Removal::Real => match Nftables::open().and_then(|mut nftables| nftables.cleanup()) {
            Ok(was_there) => cleanup.table = was_there,
            Err(error) => cleanup.chains.failures.push(Error::new(error).context("nftables")),
        },
        Ok(is_there) => cleanup.table = is_there,
    }
    cleanup
}

fn sweep(chain: &str, all_generations: bool, removal: Removal) -> Sweep {
    match Iptables::open(iptables::Options::new(chain, super::search_path())) {
        Ok(mut iptables) => iptables.sweep(all_generations, removal),
        Err(ProgramError::Missing { .. }) => {
            let scope = if all_generations { Scope::All(chain) } else { Scope::Chain(chain) };
            let mut sweep = netlink::sweep_all(scope, removal);
            let legacy = Family::ALL.map(|family| (family, Stack::Legacy));
            sweep.out_of_reach.extend(legacy.into_iter().filter(|(family, _)| may_hold_rules(*family)));
            sweep
        }
        Err(error) => Sweep { unseen: vec![Error::new(error).context("iptables")], ..Sweep::default() },
    }
}

/// Which tables of iptables-legacy there are is known without its programs, but not what they hold.
fn may_hold_rules(family: Family) -> bool {
    legacy_tables(family).is_none_or(|tables| tables.iter().any(|table| table == "nat"))
}
