//! The iptables backend: reads the nat table with the save programs, plans, and restores what differs.

pub mod adopt;
pub mod comment;
pub mod compare;
pub mod counted;
pub mod desired;
pub mod exec;
pub mod family;
pub mod leftovers;
pub mod lock;
pub mod meaning;
pub mod netlink;
pub mod node;
pub mod placement;
pub mod plan;
pub mod programs;
pub mod remedy;
pub mod render;
pub mod save;
pub mod sweep;
pub mod version;
pub mod warning;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use masq::cidr::Family;
use masq::policy::Policy;
use nfnetlink::Generation;

use self::desired::{Desired, Rule};
use self::exec::Runner;
use self::family::{FamilyTable, Kept};
use self::node::Node;
use self::plan::Change;
use self::programs::ProgramError;
use self::version::Stack;
use self::warning::Warning;
use super::Look;
use super::counts::Counts;
use super::detect::{Choice, Programs};

pub use self::render::render;

/// How long one program may take. The largest restore that anybody has measured took a second and a half.
const PROGRAM_LIMIT: Duration = Duration::from_secs(20);

/// How the backend is opened.
#[derive(Debug)]
pub struct Options {
    /// The chain's name, one that iptables takes.
    pub chain: String,
    /// Where the programs are looked for, as PATH has it.
    pub search_path: OsString,
    /// How long one program may take.
    pub limit: Duration,
    /// When this becomes readable, a running program is given up; `None` for never.
    pub interrupt: Option<OwnedFd>,
}

impl Options {
    /// A chain of this name, programs of this PATH, and all the time that they should need.
    pub fn new(chain: impl Into<String>, search_path: impl Into<OsString>) -> Options {
        Options { chain: chain.into(), search_path: search_path.into(), limit: PROGRAM_LIMIT, interrupt: None }
    }
}

/// The agent's hold on the nat tables of the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Iptables {
    chain: String,
    node: Node,
    desired: Option<Desired>,
    families: [FamilyTable; 2],
}

/// How a pass ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was found to differ and has been put right; in sync from the start if this and `failures` are empty.
    pub changes: Vec<Change>,
    /// What could not be put right: one family may fail where the other does not.
    pub failures: Vec<Error>,
    /// Generations of iptables-nft's ruleset that the pass surely made itself.
    pub made: Vec<Generation>,
    /// The generation in which both families held what is wanted; `None` where nothing tells of changes.
    pub generation: Option<Generation>,
}

impl Iptables {
    /// Looks at the node and chooses the stack; nothing is changed yet.
    ///
    /// # Errors
    /// There are no programs for IPv4, or they cannot be run.
    pub fn open(options: Options) -> Result<Iptables, ProgramError> {
        let runner = Runner { limit: options.limit, interrupt: options.interrupt };
        let programs = Programs::detect(options.search_path, &runner)?;
        Ok(Iptables {
            chain: options.chain,
            node: Node::new(programs, runner),
            desired: None,
            families: Family::ALL.map(FamilyTable::new),
        })
    }

    /// Adds what our rules count to these sums from now on.
    pub fn count_into(&mut self, counts: Arc<Counts>) {
        self.node.counts = counts;
    }

    /// The programs, and the stack that they are used on.
    pub fn programs(&self) -> &Programs {
        &self.node.programs
    }

    /// The stack in use, and why this one.
    pub fn stack(&self) -> &Choice<Stack> {
        &self.node.programs.stack
    }

    /// The chain's name.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// Takes a policy to keep in force from now on; answers whether that changes what the tables have to hold.
    pub fn want(&mut self, policy: &Policy) -> bool {
        let desired = Some(Desired::new(policy, &self.chain));
        let changed = self.desired != desired;
        self.desired = desired;
        changed
    }

    /// Takes what an earlier run left in the chain as what to keep in force; answers whether there is anything.
    ///
    /// # Errors
    /// The IPv4 table cannot be read.
    pub fn adopt(&mut self) -> Result<bool> {
        let Some(ipv4) = self.adopt_family(Family::Ipv4)? else { return Ok(false) };
        // Without its programs IPv6 had no rules either.
        let ipv6 = self.adopt_family(Family::Ipv6).unwrap_or(None);
        self.desired = Some(Desired { chain: self.chain.clone(), ipv4, ipv6 });
        Ok(true)
    }

    fn adopt_family(&mut self, family: Family) -> Result<Option<Vec<Rule>>> {
        let tools = self.node.programs.tools(family, self.node.stack())?;
        let observed = self.node.observe(&tools, &self.chain)?;
        Ok(observed.rules(&self.chain).and_then(|saved| adopt::adopt(family, saved)))
    }

    /// Makes both families' tables hold what is wanted, whatever the other one's comes to, and writes nothing if they do.
    pub fn reconcile(&mut self, look: Look) -> Outcome {
        self.reconcile_with(look, &mut || {})
    }

    /// As [`Iptables::reconcile`], and calls `before_write` before it changes our chain or the jump to it.
    pub fn reconcile_with(&mut self, look: Look, before_write: &mut dyn FnMut()) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(desired) = &self.desired else { return outcome };
        let told: Vec<String> = self.warnings().map(Warning::to_string).collect();
        for table in &mut self.families {
            let kept = match desired.rules(table.family()) {
                Some(rules) => table.keep(&mut self.node, &self.chain, rules, look, before_write),
                None => Ok(table.leave(&mut self.node, &self.chain)),
            };
            match kept.with_context(|| table.family().to_string()) {
                Ok(Kept { changes, made }) => {
                    outcome.changes.extend(changes);
                    outcome.made.extend(made);
                }
                Err(error) => outcome.failures.push(error),
            }
        }
        for &ours in &outcome.made {
            self.families.iter_mut().for_each(|table| table.pass_over(ours));
        }
        outcome.generation = self.held_in();
        for news in self.warnings().map(Warning::to_string).filter(|text| !told.contains(text)) {
            log::warn!("{news}");
        }
        outcome
    }

    /// The earliest generation of those in which the families were seen to be in order.
    fn held_in(&self) -> Option<Generation> {
        let desired = self.desired.as_ref()?;
        let kept = self.families.iter().filter(|table| desired.rules(table.family()).is_some());
        let held = kept.map(FamilyTable::held_in).collect::<Option<Vec<Generation>>>()?;
        // Numbers wrap around, so that the earliest is the one farthest behind the last.
        let last = held.last()?.0;
        held.into_iter().max_by_key(|generation| last.wrapping_sub(generation.0))
    }

    /// The generation that iptables-nft's ruleset is in now; `None` with iptables-legacy, which tells nobody of changes.
    pub fn generation(&mut self) -> Option<Generation> {
        self.node.generation()
    }

    /// What people should know, as of the last pass.
    pub fn warnings(&self) -> impl Iterator<Item = &Warning> {
        self.families.iter().flat_map(FamilyTable::warnings)
    }
}
