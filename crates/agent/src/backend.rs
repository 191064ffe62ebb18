//! How a policy gets into the kernel: what the loop has to know of a backend, whichever it is.

pub mod detect;
pub mod iptables;
pub mod nftables;

use std::fmt;

use anyhow::{Context, Error, Result};
use masq::policy::Policy;
use nfnetlink::Generation;

use self::nftables::ours::{Kept, OurTable};

/// The backend in use and what it has to keep in force.
#[derive(Debug)]
pub enum Backend {
    /// One table of our own, over netlink.
    Nftables(OurTable),
}

/// How the kernel's present state is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It is read, whatever is known of it.
    Afresh,
    /// It is read unless nobody has committed anything since it was last known: with 100,000 elements reading takes longer than
    /// changing one.
    IfChanged,
}

/// One difference between what should be in the kernel and what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The kind of object it is about: the value of the label `kind` where drift is counted.
    pub kind: &'static str,
    /// What was found.
    pub text: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How a pass ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was found to differ and has been put right.
    pub changes: Vec<Change>,
    /// What could not be put right. One family may fail where the other does not, if they have nothing in common.
    pub failures: Vec<Error>,
    /// The generations that the pass has made itself.
    pub made: Vec<Generation>,
    /// The generation in which the kernel held what is wanted, where generations tell of every change.
    pub generation: Option<Generation>,
}

impl Backend {
    /// Opens the backend; nothing is read or changed yet. `protect` asks for the flags of `--protect-table`.
    ///
    /// # Errors
    /// The kernel has no nf_tables.
    pub fn open(protect: bool) -> Result<Backend> {
        Ok(Backend::Nftables(OurTable::open(protect).context("nftables")?))
    }

    /// What the log calls it.
    pub fn place(&self) -> String {
        match self {
            Backend::Nftables(_) => format!("table inet {}", nftables::desired::TABLE),
        }
    }

    /// Takes a policy to keep in force from the next pass on; answers whether that changes what has to be in the kernel.
    pub fn want(&mut self, policy: &Policy) -> bool {
        match self {
            Backend::Nftables(table) => table.want(policy),
        }
    }

    /// Takes what an earlier run left in the kernel as what to keep in force; answers whether there is anything.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn adopt(&mut self) -> Result<bool> {
        match self {
            Backend::Nftables(table) => table.adopt().context("nftables"),
        }
    }

    /// Makes the kernel hold what is wanted, and writes nothing if it does. Calls `stop_listening` before a transaction of which the
    /// kernel would make too many notices.
    pub fn reconcile(&mut self, look: Look, stop_listening: impl FnMut()) -> Outcome {
        match self {
            Backend::Nftables(table) => Outcome::of_table(table.reconcile(look, stop_listening)),
        }
    }

    /// The generation the ruleset is in now, where generations tell of every change.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn generation(&mut self) -> Result<Option<Generation>> {
        match self {
            Backend::Nftables(table) => table.generation().map(Some).context("nftables"),
        }
    }

    /// Removes everything of ours from the kernel.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cleanup(&mut self) -> Result<()> {
        match self {
            Backend::Nftables(table) => table.cleanup().context("nftables"),
        }
    }
}

impl Outcome {
    fn of_table(kept: Kept) -> Outcome {
        let changes = kept.outcome.iter().flat_map(|outcome| outcome.plan.changes());
        Outcome {
            changes: changes.map(|change| Change { kind: change.kind(), text: change.to_string() }).collect(),
            failures: kept.failure.map(|error| Error::new(error).context("nftables")).into_iter().collect(),
            generation: kept.outcome.map(|outcome| outcome.generation),
            made: kept.made,
        }
    }
}
