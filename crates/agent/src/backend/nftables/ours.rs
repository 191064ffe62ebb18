//! The agent's table and what it has to hold: what the backend carries from pass to pass.

use masq::policy::Policy;
use nfnetlink::object::TableFlags;
use nfnetlink::{Error, Refusal};
use nix::errno::Errno;

use super::desired::Desired;
use super::{Nftables, Outcome};
use crate::backend::Look;

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
}

impl OurTable {
    /// Opens the netlink socket; nothing is read or changed yet.
    ///
    /// # Errors
    /// The kernel has no nf_tables.
    pub fn open(protect: bool) -> Result<OurTable, Error> {
        Ok(OurTable { nftables: Nftables::open()?, desired: None, protect })
    }

    /// Takes a policy to keep in force from now on; answers whether that changes what the table has to hold.
    pub fn want(&mut self, policy: &Policy) -> bool {
        let desired = Some(Desired::new(policy, self.protect));
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

    /// Makes the table hold what is wanted, if anything is; `None` if nothing is. Calls `stop_listening` before a transaction of which
    /// the kernel would make too many notices.
    ///
    /// # Errors
    /// As [`Nftables::reconcile`].
    pub fn reconcile(&mut self, look: Look, mut stop_listening: impl FnMut()) -> Result<Option<Outcome>, Error> {
        let Some(desired) = &self.desired else { return Ok(None) };
        let result = self.nftables.reconcile_with(desired, look, |plan| {
            if plan.elements() > ELEMENTS_LISTENED_TO {
                stop_listening();
            }
        });
        if let Err(Error::Refused(refusal)) = &result {
            self.protect_no_more(refusal);
        }
        result.map(Some)
    }

    /// Whether nobody has committed anything since a pass ended.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn is_unchanged_since(&mut self, outcome: &Outcome) -> Result<bool, Error> {
        Ok(self.nftables.generation()? == outcome.generation)
    }

    /// Deletes the table, if it is there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cleanup(&mut self) -> Result<(), Error> {
        self.nftables.cleanup()
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
