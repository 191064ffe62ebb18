//! How a policy gets into the kernel: what the loop has to know of a backend, whichever it is.

pub mod cidr_counts;
pub mod cleanup;
pub mod compare;
pub mod counts;
pub mod detect;
pub mod difference;
pub mod iptables;
pub mod nftables;
pub mod reader;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use masq::cidr::Family;
use masq::policy::Policy;
use nfnetlink::Generation;

use self::counts::Counts;
use self::detect::Choice;
use self::iptables::Iptables;
use self::iptables::leftovers::Scope;
use self::iptables::sweep::Removal;
use self::nftables::Nftables;
use self::nftables::ours::{Kept, OurTable};
use self::reader::Place;
use crate::cli::BackendChoice;

/// How long after a failure the other backend's leftovers are tried again, at the earliest.
const OTHER_AGAIN: Duration = Duration::from_secs(30);

/// The backend in use, and what it has to keep in force.
#[derive(Debug)]
pub struct Backend {
    engine: Engine,
    /// Why this one.
    choice: Choice<detect::Backend>,
    options: Options,
    /// When what an earlier run left with the other backend is to be removed; `None` once that is done.
    other_due: Option<Instant>,
}

#[derive(Debug)]
enum Engine {
    /// One table of our own, over netlink.
    Nftables(Box<OurTable>),
    /// A chain in the nat tables of iptables.
    Iptables(Box<Iptables>),
}

/// How a backend is opened.
#[derive(Debug)]
pub struct Options {
    /// Which one.
    pub choice: BackendChoice,
    /// The name of the iptables chain.
    pub chain: String,
    /// Whether other programs are to be kept from our nftables table.
    pub protect: bool,
    /// Whether connections are to be counted by CIDR, where that takes more than the rules have anyway.
    pub count_cidrs: bool,
    /// When this becomes readable, running programs are given up; `None` for never.
    pub interrupt: Option<OwnedFd>,
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

/// A change of the kernel that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Any change.
    Plain,
    /// The kernel would make so many notices of it for whoever listens that it takes several times as long.
    Loud,
}

/// Kinds of differences that can be drift, by either backend: a series of the metric for each is there from the start.
pub const DRIFT_KINDS: [&str; 9] =
    ["chain", "counter", "element", "foreign", "jump", "leftover", "rule", "set", "table"];

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
    /// Opens the backend that suits the node; nothing is changed yet.
    ///
    /// # Errors
    /// The kernel has no nf_tables, or there are no iptables programs.
    pub fn open(options: Options) -> Result<Backend> {
        let choice = choose(options.choice);
        let engine = match choice.chosen {
            detect::Backend::Nftables => {
                Engine::Nftables(Box::new(OurTable::open(options.protect, options.count_cidrs).context("nftables")?))
            }
            detect::Backend::Iptables => {
                Engine::Iptables(Box::new(Iptables::open(options.iptables()?).context("iptables")?))
            }
        };
        Ok(Backend { engine, choice, options, other_due: Some(Instant::now()) })
    }

    /// Adds what our rules count to these sums from now on.
    pub fn count_into(&mut self, counts: Arc<Counts>) {
        match &mut self.engine {
            Engine::Nftables(table) => table.count_into(counts),
            Engine::Iptables(iptables) => iptables.count_into(counts),
        }
    }

    /// Where our rules are to be found beside the loop.
    pub fn rules_at(&self) -> Place {
        match &self.engine {
            Engine::Nftables(_) => Place::Table,
            Engine::Iptables(iptables) => {
                Place::Chain { chain: iptables.chain().to_owned(), programs: iptables.programs().clone() }
            }
        }
    }

    /// Whether the backend works where the kernel has no nf_tables, and so tells nobody of changes.
    pub fn does_without_notices(&self) -> bool {
        match &self.engine {
            Engine::Nftables(_) => false,
            Engine::Iptables(_) => true,
        }
    }

    /// What the log calls the place of our rules.
    pub fn place(&self) -> String {
        match &self.engine {
            Engine::Nftables(_) => format!("table inet {}", nftables::desired::TABLE),
            Engine::Iptables(iptables) => format!("{} chain {}", iptables.stack().chosen, iptables.chain()),
        }
    }

    /// Takes a policy to keep in force from the next pass on; answers whether that changes what has to be in the kernel.
    pub fn want(&mut self, policy: &Policy) -> bool {
        match &mut self.engine {
            Engine::Nftables(table) => table.want(policy),
            Engine::Iptables(iptables) => iptables.want(policy),
        }
    }

    /// Takes what an earlier run left in the kernel as what to keep in force; answers whether there is anything.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn adopt(&mut self) -> Result<bool> {
        match &mut self.engine {
            Engine::Nftables(table) => table.adopt().context("nftables"),
            Engine::Iptables(iptables) => iptables.adopt().context("iptables"),
        }
    }

    /// Makes the kernel hold what is wanted, and writes nothing if it does. Calls `before_write` before it changes
    /// anything. Once our rules are in place, those that an earlier run left with the other backend go.
    pub fn reconcile(&mut self, look: Look, mut before_write: impl FnMut(Write)) -> Outcome {
        let mut outcome = match &mut self.engine {
            Engine::Nftables(table) => Outcome::of_table(table.reconcile(look, before_write)),
            Engine::Iptables(iptables) => {
                Outcome::of_chains(iptables.reconcile_with(look, &mut || before_write(Write::Plain)))
            }
        };
        if outcome.failures.is_empty() && self.other_due.is_some_and(|due| due <= Instant::now()) {
            outcome.changes.extend(self.leave_other());
        }
        outcome
    }

    /// Failing is no reason to call our own rules not in force, but one to come back to it: the rules of both backends apply at once.
    fn leave_other(&mut self) -> Vec<Change> {
        match self.remove_other() {
            Ok(removed) => {
                self.other_due = None;
                removed
            }
            Err(error) => {
                self.other_due = Some(Instant::now() + OTHER_AGAIN);
                log::warn!(
                    "Cannot remove what an earlier run left with the other backend, trying again later: {error:#}"
                );
                Vec::new()
            }
        }
    }

    /// The generation the ruleset is in now, where generations tell of every change.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn generation(&mut self) -> Result<Option<Generation>> {
        match &mut self.engine {
            Engine::Nftables(table) => table.generation().map(Some).context("nftables"),
            Engine::Iptables(iptables) => Ok(iptables.generation()),
        }
    }

    /// Removes everything of ours from the kernel.
    ///
    /// # Errors
    /// The kernel or a program refuses.
    pub fn cleanup(&mut self) -> Result<()> {
        match &mut self.engine {
            Engine::Nftables(table) => table.cleanup().map(|_| ()).context("nftables"),
            Engine::Iptables(iptables) => {
                let (outcome, kept) = iptables.cleanup(false);
                kept.iter().for_each(|kept| log::warn!("{kept}"));
                outcome.failures.into_iter().next().map_or(Ok(()), |error| Err(error.context("iptables")))
            }
        }
    }

    fn remove_other(&self) -> Result<Vec<Change>> {
        match &self.engine {
            Engine::Iptables(_) => {
                // A kernel without nf_tables holds nothing of the nftables backend.
                let Ok(mut nftables) = Nftables::open() else { return Ok(Vec::new()) };
                let text = format!("table inet {} of the nftables backend left over", nftables::desired::TABLE);
                Ok(nftables.cleanup()?.then_some(Change { kind: "leftover", text }).into_iter().collect())
            }
            Engine::Nftables(_) => {
                let (outcome, kept) = match detect::backend(&search_path()).chosen {
                    detect::Backend::Nftables => {
                        warn_of_legacy_tables();
                        iptables::netlink::sweep_all(Scope::All(&self.options.chain), Removal::Real).into_outcome()
                    }
                    detect::Backend::Iptables => Iptables::open(self.options.iptables()?)?.cleanup(true),
                };
                kept.iter().for_each(|kept| log::warn!("{kept}"));
                let Outcome { changes, failures, .. } = Outcome::of_chains(outcome);
                failures.into_iter().next().map_or(Ok(changes), Err)
            }
        }
    }
}

impl Options {
    fn iptables(&self) -> Result<iptables::Options> {
        let interrupt = self.interrupt.as_ref().map(OwnedFd::try_clone).transpose();
        let interrupt = interrupt.context("cannot duplicate a descriptor")?;
        Ok(iptables::Options { interrupt, ..iptables::Options::new(&self.chain, search_path()) })
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

    fn of_chains(outcome: iptables::Outcome) -> Outcome {
        let changes = outcome.changes.iter();
        Outcome {
            changes: changes.map(|change| Change { kind: change.kind(), text: change.to_string() }).collect(),
            failures: outcome.failures.into_iter().map(|error| error.context("iptables")).collect(),
            generation: outcome.generation,
            made: outcome.made,
        }
    }
}

/// What stands in the tables of iptables-legacy can neither be seen nor removed without its programs.
fn warn_of_legacy_tables() {
    for family in Family::ALL {
        if detect::legacy_tables(family).is_some_and(|tables| tables.iter().any(|table| table == "nat")) {
            log::warn!(
                "iptables-legacy has an {family} nat table, and there is no program to look into it: if an earlier agent left rules \
                 there, they stay in force beside ours; run ip-masq-agent cleanup where iptables-legacy is installed"
            );
        }
    }
}

fn choose(choice: BackendChoice) -> Choice<detect::Backend> {
    let asked = |chosen| Choice { chosen, reason: "--backend asks for it".to_owned() };
    match choice {
        BackendChoice::Auto => detect::backend(&search_path()),
        BackendChoice::Nftables => asked(detect::Backend::Nftables),
        BackendChoice::Iptables => asked(detect::Backend::Iptables),
    }
}

/// PATH; without one nothing is found, as a shell would have it.
pub(crate) fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
