//! The agent's table and what it has to hold: what the backend carries from pass to pass.

use std::sync::Arc;

use masq::policy::Policy;
use nfnetlink::object::TableFlags;
use nfnetlink::{Error, Generation, Refusal};
use nix::errno::Errno;

use super::desired::Desired;
use super::plan::Plan;
use super::{Nftables, Outcome};
use crate::backend::counts::Counts;
use crate::backend::difference::Comparison;
use crate::backend::{Look, Write};

/// A transaction with more elements than this is committed without listening: the kernel makes a notice of each element for whoever
/// listens, which takes several times as long as the rest.
const ELEMENTS_LISTENED_TO: usize = 4096;

/// The agent's table.
#[derive(Debug)]
pub struct OurTable {
    nftables: Nftables,
    desired: Option<Desired>,
    /// Whether the table is to have the flags that keep other programs' hands off it.
    protect: bool,
    /// Whether connections are to be counted by CIDR.
    count_cidrs: bool,
}

/// How a pass ended.
#[derive(Debug, Default)]
pub struct Kept {
    /// What was done, if the kernel now holds what is wanted, or its IPv4 part.
    pub outcome: Option<Outcome>,
    /// What could not be done.
    pub failure: Option<Error>,
    /// The generations that the pass has made itself.
    pub made: Vec<Generation>,
}

impl OurTable {
    /// Opens the netlink socket; nothing is read or changed yet.
    ///
    /// # Errors
    /// The kernel has no nf_tables.
    pub fn open(protect: bool, count_cidrs: bool) -> Result<OurTable, Error> {
        Ok(OurTable { nftables: Nftables::open()?, desired: None, protect, count_cidrs })
    }

    /// Adds what the table's counters count to these sums from now on.
    pub fn count_into(&mut self, counts: Arc<Counts>) {
        self.nftables.count_into(counts);
    }

    /// Takes a policy to keep in force from now on; answers whether that changes what the table has to hold.
    pub fn want(&mut self, policy: &Policy) -> bool {
        let desired = Desired::new(policy, self.protect);
        let desired = Some(if self.count_cidrs { desired.with_cidr_counters(policy) } else { desired });
        let changed = self.desired != desired;
        self.desired = desired;
        changed
    }

    /// Takes what an earlier run left as what to keep in force; answers whether there is anything.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn adopt(&mut self) -> Result<bool, Error> {
        self.desired = self.nftables.observe()?.0.adopt();
        Ok(self.desired.is_some())
    }

    /// Makes the table hold what is wanted, if anything is. Calls `before_write` before it changes anything.
    ///
    /// A kernel that refuses the whole for its IPv6 part gets the IPv4 part, and the refusal is told; one that refuses counters for CIDRs gets the
    /// rest.
    pub fn reconcile(&mut self, look: Look, mut before_write: impl FnMut(Write)) -> Kept {
        let mut kept = Kept::default();
        let Some(desired) = &self.desired else { return kept };
        let mut before_commit = |plan: &Plan| {
            before_write(if plan.elements() > ELEMENTS_LISTENED_TO { Write::Loud } else { Write::Plain });
        };
        let mut result = self.nftables.reconcile_with(desired, look, &mut before_commit);
        let refusal = match &result {
            Err(Error::Refused(refusal)) => Some(refusal.to_string()),
            Ok(_) | Err(_) => None,
        };
        // Whatever it is refused for: the policy comes first, and then the counters that were asked for besides.
        let bare = refusal.as_ref().and_then(|_| desired.without_cidr_counters());
        if let Some(bare) = &bare {
            result = self.nftables.reconcile_with(bare, Look::Afresh, &mut before_commit);
        }
        if let Err(Error::Refused(_)) = &result
            && let Some(ipv4) = bare.as_ref().unwrap_or(desired).without_ipv6()
            && let Ok(outcome) = self.nftables.reconcile_with(&ipv4, Look::Afresh, &mut before_commit)
        {
            kept.failure = std::mem::replace(&mut result, Ok(outcome)).err();
        }
        if let (Some(refusal), Some(bare), Ok(_)) = (refusal, bare, &result) {
            log::warn!("--cidr-metrics has no effect on this kernel, it takes Linux 5.12: {refusal}");
            self.count_cidrs = false;
            self.desired = Some(bare);
        }
        match result {
            Ok(outcome) => kept.outcome = Some(outcome),
            Err(error) => {
                self.mend(&error);
                kept.failure = Some(error);
            }
        }
        kept.made = self.nftables.take_made();
        kept
    }

    /// Compares the table with a policy; nothing is changed.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn compare(&mut self, policy: &Policy) -> Result<Comparison, Error> {
        self.nftables.compare(policy)
    }

    /// The generation the ruleset is in now.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn generation(&mut self) -> Result<Generation, Error> {
        self.nftables.generation()
    }

    /// Deletes the table; answers whether it was there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cleanup(&mut self) -> Result<bool, Error> {
        self.nftables.cleanup()
    }

    /// Makes the next pass fare better, where that is possible.
    fn mend(&mut self, error: &Error) {
        match error {
            Error::Refused(refusal) => self.protect_no_more(refusal),
            Error::TimedOut { .. } | Error::Malformed { .. } | Error::UnknownOutcome => {
                if let Err(error) = self.nftables.reopen() {
                    log::warn!("Going on with a netlink socket that may hold old answers: {error}");
                }
            }
            _ => {}
        }
    }

    /// A kernel that does not know the flags of a protected table gets an unprotected one: the policy comes first.
    fn protect_no_more(&mut self, refusal: &Refusal) {
        if !self.protect || Errno::from_raw(refusal.errno) != Errno::EOPNOTSUPP {
            return;
        }
        log::warn!("--protect-table has no effect on this kernel, it takes Linux 6.9: {refusal}");
        self.protect = false;
        if let Some(desired) = &mut self.desired {
            desired.table.flags = TableFlags::default();
        }
    }
}
