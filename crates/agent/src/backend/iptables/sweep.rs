//! Removing what is ours from every nat table, or telling what would be removed.

use anyhow::Error;
use masq::cidr::Family;

use super::family::FamilyTable;
use super::leftovers::{Leftovers, Scope};
use super::netlink;
use super::plan::{Change, Difference};
use super::programs::ProgramError;
use super::version::Stack;
use super::warning::Warning;
use super::{Iptables, Outcome};

/// Whether anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// What is found is removed.
    Real,
    /// It is only told.
    Dry,
}

/// What was found of ours in the nat tables.
#[derive(Debug, Default)]
pub struct Sweep {
    /// What is removed, or would be.
    pub removed: Vec<Swept>,
    /// Chains that are emptied and stay, with the rules of strangers that jump to them.
    pub kept: Vec<Warning>,
    /// Tables of iptables-legacy that are there, without programs to look into them.
    pub out_of_reach: Vec<(Family, Stack)>,
    /// What could not be looked at for another reason.
    pub unseen: Vec<Error>,
    /// What was found and could not be removed.
    pub failures: Vec<Error>,
}

/// One chain of ours, or jumps in our name to somebody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// On which stack.
    pub stack: Stack,
    /// What was there.
    pub change: Change,
    /// Whether the chain itself goes. If not, it is a stranger's, and only jumps to it that bear our comment go.
    pub is_chain_ours: bool,
}

impl Swept {
    /// How many rules the chain holds.
    pub fn rules(&self) -> usize {
        match self.change.difference {
            Difference::Leftover { rules } => rules,
            Difference::ChainMissing { .. }
            | Difference::RulesDiffer { .. }
            | Difference::JumpMissing
            | Difference::JumpBehind { .. }
            | Difference::JumpDoubled
            | Difference::JumpOutdated { .. }
            | Difference::JumpForeign { .. } => 0,
        }
    }
}

impl Iptables {
    /// Removes all of ours from both families and both stacks, and with `all_generations` also what other versions and chain names
    /// left. Strangers' rules stay, and so does a chain that they jump to, emptied.
    pub fn sweep(&mut self, all_generations: bool, removal: Removal) -> Sweep {
        let mut sweep = Sweep::default();
        let chain = self.chain.clone();
        let scope = if all_generations { Scope::All(&chain) } else { Scope::Chain(&chain) };
        for (stack, family) in Stack::ALL.into_iter().flat_map(|stack| Family::ALL.map(|family| (stack, family))) {
            let place = format!("{family} in {stack}");
            match self.node.find_leftovers(family, stack, scope) {
                Ok(leftovers) if leftovers.plan.is_in_sync() => {}
                Ok(leftovers) => match self.remove(family, stack, &leftovers, removal) {
                    Ok(()) => sweep.add(family, stack, leftovers),
                    Err(error) => sweep.failures.push(Error::new(error).context(place)),
                },
                Err(ProgramError::Missing { .. }) => match stack {
                    Stack::Nft => netlink::sweep(family, scope, removal, &mut sweep),
                    Stack::Legacy => sweep.out_of_reach.push((family, stack)),
                },
                Err(error) => sweep.unseen.push(Error::new(error).context(place)),
            }
        }
        if removal == Removal::Real {
            self.families.iter_mut().for_each(FamilyTable::forget);
        }
        sweep
    }

    fn remove(
        &mut self,
        family: Family,
        stack: Stack,
        leftovers: &Leftovers,
        removal: Removal,
    ) -> Result<(), ProgramError> {
        match removal {
            Removal::Real => self.node.remove(family, stack, &leftovers.plan),
            Removal::Dry => Ok(()),
        }
    }

    /// As [`Iptables::sweep`], as a pass of a daemon: the second list tells which chains are kept. A table that is there without
    /// programs is a failure only where the daemon would need them itself.
    pub fn cleanup(&mut self, all_generations: bool) -> (Outcome, Vec<Warning>) {
        let mut sweep = self.sweep(all_generations, Removal::Real);
        let out_of_reach = std::mem::take(&mut sweep.out_of_reach);
        let (mut outcome, kept) = sweep.into_outcome();
        let needed = (Family::Ipv4, self.node.stack());
        if out_of_reach.contains(&needed)
            && let Err(missing) = self.node.programs.tools(needed.0, needed.1)
        {
            outcome.failures.push(missing.into());
        }
        (outcome, kept)
    }
}

impl Sweep {
    /// As the outcome of a daemon's pass, and which chains are kept.
    pub fn into_outcome(self) -> (Outcome, Vec<Warning>) {
        let Sweep { removed, kept, out_of_reach: _, unseen, failures } = self;
        let mut outcome = Outcome { failures: unseen, ..Outcome::default() };
        outcome.failures.extend(failures);
        outcome.changes.extend(removed.into_iter().map(|swept| swept.change));
        (outcome, kept)
    }

    pub(super) fn add(&mut self, family: Family, stack: Stack, leftovers: Leftovers) {
        self.kept.extend(Warning::of_kept(family, &leftovers));
        let Leftovers { plan, emptied, .. } = leftovers;
        let swept = |change: Change| Swept { stack, is_chain_ours: emptied.contains(&change.chain), change };
        self.removed.extend(plan.into_changes().into_iter().map(swept));
    }
}
