//! How a policy gets into the kernel: what the loop has to know of a backend, whichever it is.

pub mod detect;
pub mod iptables;
pub mod nftables;

use std::fmt;

use anyhow::{Context, Error, Result};
use masq::policy::Policy;
use nfnetlink::Generation;

use self::nftables::ours::OurTable;

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
    /// Whether somebody may have changed the kernel while nobody listened.
    pub look_again: bool,
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
            Backend::Nftables(table) => keep_table(table, look, stop_listening).unwrap_or_else(Outcome::of_failure),
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

fn keep_table(table: &mut OurTable, look: Look, stop_listening: impl FnMut()) -> Result<Outcome> {
    let Some(outcome) = table.reconcile(look, stop_listening).context("nftables")? else {
        return Ok(Outcome::default());
    };
    let changes = outcome.plan.changes().iter();
    Ok(Outcome {
        changes: changes.map(|change| Change { kind: change.kind(), text: change.to_string() }).collect(),
        failures: Vec::new(),
        // What others committed while nobody listened has left its trace in the generation.
        look_again: !table.is_unchanged_since(&outcome).context("nftables")?,
        made: outcome.made,
    })
}

impl Outcome {
    fn of_failure(error: Error) -> Outcome {
        Outcome { failures: vec![error], ..Outcome::default() }
    }
}
