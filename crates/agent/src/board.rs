//! What the loop knows, put up for whoever asks: probes, metrics and the status page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use masq::cidr::Family;
use masq::partition::List;
use masq::policy::Policy;

use crate::backend::cidr_counts::CidrCounts;
use crate::backend::counts::Counts;
use crate::backend::reader::{Place, Reader};
use crate::metrics::histogram::Histogram;

/// One writer, the loop, and any number of readers, none of which keeps it waiting for longer than it takes to copy the facts.
#[derive(Debug, Default)]
pub struct Board {
    facts: Mutex<Facts>,
    counts: Arc<Counts>,
    cidr_counts: CidrCounts,
}

/// All that the loop tells.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// When the loop will have turned at the latest, if a pass takes no time; `None` before the first turn.
    pub turns_by: Option<Instant>,
    /// Where our rules are; `None` until the backend is open.
    pub rules_at: Option<Place>,
    /// The config as it was last read; `None` before that.
    pub config: Option<ConfigFacts>,
    /// Where that comes from which is kept in force.
    pub in_force: InForce,
    /// How many exempt CIDRs of each list are in force; empty where that is not known.
    pub cidrs: BTreeMap<(Family, List), usize>,
    /// The policy in force, where connections are counted by its CIDRs and it is known.
    pub counted_by: Option<Arc<Policy>>,
    /// Whether the kernel holds the policy.
    pub kernel: Kernel,
    /// Since when a change of the ruleset by somebody else has not been looked at.
    pub unseen_since: Option<Instant>,
    /// When the kernel was last known to hold the policy.
    pub last_sync: Option<SystemTime>,
    /// How the passes ended.
    pub syncs: Syncs,
    /// How long they took.
    pub sync_durations: Histogram,
    /// How long others' changes were in force.
    pub heal_durations: Histogram,
    /// How often each kind of drift was healed.
    pub drifts: BTreeMap<&'static str, u64>,
    /// How many passes failed because somebody else held the lock of iptables.
    pub lock_refusals: u64,
}

/// The counters of so many CIDRs are read while a scrape waits for them. With iptables-nft each has a rule of its own, and to tell ten
/// thousand of these takes the kernel, and us, some 40 ms.
const READ_AT_ONCE: usize = 2_000;

impl Facts {
    /// Whether to read the counters takes long, or a program: then they are read beside, and a scrape tells what was found for the one before.
    pub fn counters_take_long(&self) -> bool {
        let are_many = self.cidrs.values().sum::<usize>() > READ_AT_ONCE;
        match &self.rules_at {
            None => false,
            Some(Place::Table) => are_many && self.counted_by.is_some(),
            Some(place @ Place::Chain { .. }) => are_many || place.takes_programs(),
        }
    }
}

/// A config, good or bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFacts {
    /// The first thing that is wrong with it; `None` if it is good.
    pub problem: Option<String>,
    /// Of its content; `None` if it could not even be read.
    pub hash: Option<String>,
    /// How many warnings there are about it.
    pub warnings: usize,
    /// When it was first read.
    pub since: SystemTime,
}

/// Where what is kept in force comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InForce {
    /// Not decided yet.
    #[default]
    Nothing,
    /// The last good config.
    Config,
    /// The kernel, where an earlier run left it.
    EarlierRun,
    /// The defaults, for want of anything else.
    Defaults,
}

/// Whether the kernel holds what it should.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Kernel {
    /// It has not been made to yet.
    #[default]
    NotYet,
    /// It did when it was last looked at.
    InSync,
    /// Somebody has changed our rules, and they are being put right.
    Drifted,
    /// The last pass failed, and why.
    Failing(String),
}

/// Passes by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Syncs {
    /// There was nothing to do.
    pub in_sync: u64,
    /// What differed was put right.
    pub changed: u64,
    /// Something could not be put right.
    pub failed: u64,
}

impl Board {
    /// Changes what is told.
    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.lock());
    }

    /// What is told now.
    pub fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// The sums of what our rules count.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// The sums of what CIDRs count.
    pub fn cidr_counts(&self) -> &CidrCounts {
        &self.cidr_counts
    }

    /// From now on connections are counted by the CIDRs of this policy. Until now they were by those of the one before; and before the first
    /// one, what counters stand at was not counted in our time. Nothing is counted by CIDR until [`CidrCounts::resume`]: the rules that the
    /// kernel still holds could be taken for those of this policy.
    pub fn count_by(&self, policy: Arc<Policy>) {
        let is_first = self.facts().counted_by.is_none();
        let mut reader = Reader::default();
        if !is_first {
            self.count(&mut reader);
            self.cidr_counts.pause();
        }
        self.update(|facts| facts.counted_by = Some(policy));
        if is_first {
            self.count(&mut reader);
            self.cidr_counts.pause();
        }
    }

    /// Adds what our rules have counted since the last time to the sums, and by CIDR where that is asked for.
    pub fn count(&self, reader: &mut Reader) {
        let facts = self.facts();
        let Some(place) = &facts.rules_at else { return };
        // What cannot be read now stays as it was: a sum of less than there is, but never a wrong one.
        let by_cidr = facts.counted_by.as_deref().map(|policy| (policy, &self.cidr_counts));
        if let Err(error) = reader.read(place, &self.counts, by_cidr) {
            log::debug!("Cannot read what the rules have counted: {error:#}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        // Each fact is set on its own, so a panic elsewhere cannot leave half of one.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
