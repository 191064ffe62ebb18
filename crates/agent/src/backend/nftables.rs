//! The nftables backend: observe the agent's table, plan, commit, over netlink alone.

pub mod compare;
pub mod counted;
pub mod desired;
pub mod observed;
pub mod ours;
pub mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use nfnetlink::{Batch, Error, Generation, ProtocolFamily, Refusal, Socket, TableFlags, TableRef};
use nix::errno::Errno;

use masq::policy::Policy;

use self::desired::{Desired, PROTECTED, TABLE};
use self::observed::Observed;
use self::plan::{By, Plan};
use super::Look;
use super::counts::Counts;
use super::difference::Comparison;

pub(super) const OUR_TABLE: TableRef<'static> = (ProtocolFamily::Inet, TABLE);

/// How long a pass tries to keep up with others who change the ruleset, before it counts as failed and others get their turn.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a comparison begins anew because others change the ruleset meanwhile.
const READINGS: u32 = 20;

/// The agent's hold on nf_tables in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
    held: Option<Held>,
    made: Vec<Generation>,
    counts: Arc<Counts>,
}

/// What the kernel is known to hold as long as nobody commits anything.
#[derive(Debug)]
struct Held {
    desired: Desired,
    generation: Generation,
}

/// How a pass ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was found to differ and has been put right; in sync from the start if empty.
    pub plan: Plan,
    /// The generation in which the kernel held the desired table.
    pub generation: Generation,
}

impl Nftables {
    /// Opens the netlink socket; nothing is read or changed yet.
    ///
    /// # Errors
    /// The kernel has no nf_tables.
    pub fn open() -> Result<Nftables, Error> {
        Ok(Nftables { socket: Socket::open()?, held: None, made: Vec::new(), counts: Arc::default() })
    }

    /// Adds what the table's counters count to these sums from now on.
    pub fn count_into(&mut self, counts: Arc<Counts>) {
        self.counts = counts;
    }

    /// Makes the kernel hold the desired table, whatever it holds now. Writes nothing if it holds it already.
    ///
    /// # Errors
    /// The kernel refuses, or others change the ruleset too fast to keep up with. What was committed by then is right in itself.
    pub fn reconcile(&mut self, desired: &Desired) -> Result<Outcome, Error> {
        self.reconcile_with(desired, Look::Afresh, |_| {})
    }

    /// As [`Nftables::reconcile`], with a choice of how to look, and telling `before_commit` what it is about to write.
    ///
    /// # Errors
    /// As [`Nftables::reconcile`].
    pub fn reconcile_with(
        &mut self,
        desired: &Desired,
        mut look: Look,
        mut before_commit: impl FnMut(&Plan),
    ) -> Result<Outcome, Error> {
        let deadline = Instant::now() + PATIENCE;
        let mut first: Option<Plan> = None;
        let mut refusals: Vec<String> = Vec::new();
        loop {
            let (observed, generation) = self.look(look, deadline)?;
            let plan = match &refusals[..] {
                [] => Plan::new(desired, &observed),
                // It may come of a reading that others' transactions made wrong, or of elements that cannot be deleted.
                [_] => Plan::with(desired, &observed, By::Refill),
                // Somebody's object in our table holds on to what has to go: the whole table goes more easily than its parts.
                [_, why, ..] => Plan::rebuild(desired, &observed, why.clone()),
            };
            if !plan.is_in_sync() {
                before_commit(&plan);
            }
            match self.commit_counting(&plan, generation) {
                Ok(generation) => {
                    self.held = Some(Held { desired: desired.clone(), generation });
                    return Ok(Outcome { plan: first.unwrap_or(plan), generation });
                }
                Err(Error::StaleGeneration { .. }) if Instant::now() < deadline => {}
                Err(Error::Refused(why)) if plan.is_in_place() && (refusals.is_empty() || is_in_the_way(&why)) => {
                    refusals.push(why.to_string());
                }
                Err(error) => return Err(error),
            }
            look = Look::Afresh;
            // A later plan may lack what the first one's earlier transactions have done already.
            first.get_or_insert(plan);
        }
    }

    fn look(&mut self, look: Look, deadline: Instant) -> Result<(Observed, Generation), Error> {
        if let (Look::IfChanged, Some(held)) = (look, self.held.take())
            && self.socket.generation()? == held.generation
        {
            return Ok((Observed::holding(&held.desired), held.generation));
        }
        self.held = None;
        self.observe_until(deadline)
    }

    /// Reads the agent's table. Does not wait for others' transactions: their notice says when to look again.
    ///
    /// # Errors
    /// The kernel refuses, or others change the ruleset faster than it can be read.
    pub fn observe(&mut self) -> Result<(Observed, Generation), Error> {
        self.observe_until(Instant::now() + PATIENCE)
    }

    fn observe_until(&mut self, deadline: Instant) -> Result<(Observed, Generation), Error> {
        loop {
            let began = Instant::now();
            match self.socket.glance(1, |socket| Observed::read(socket, OUR_TABLE)) {
                Err(Error::Torn { .. }) if Instant::now() < deadline => {}
                Ok((observed, generation)) => {
                    self.counts.record(began, &counted::stands(&observed.counters));
                    return Ok((observed, generation));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the agent's table, between others' transactions, and compares it with a policy; nothing is changed. Whether the table is
    /// protected, or counts by CIDR, is no part of a policy.
    ///
    /// # Errors
    /// The kernel refuses, or others change the ruleset faster than it can be read.
    pub fn compare(&mut self, policy: &Policy) -> Result<Comparison, Error> {
        let (observed, _) = self.socket.snapshot(READINGS, |socket| Observed::read(socket, OUR_TABLE))?;
        let mut desired = Desired::new(policy, false);
        let found = observed.table.as_ref().map_or(desired.table.flags, |table| table.flags);
        desired.table.flags = TableFlags(found.0 & PROTECTED.0);
        if observed.counts_cidrs() {
            desired = desired.with_cidr_counters(policy);
        }
        Ok(Comparison {
            groups: compare::groups(&desired, &observed),
            counted: counted::counted(&observed.counters),
            ..Comparison::default()
        })
    }

    /// The generations made by this socket since the last call, failed passes included.
    pub fn take_made(&mut self) -> Vec<Generation> {
        std::mem::take(&mut self.made)
    }

    /// Opens a new socket after an error that leaves answers behind in the old one.
    ///
    /// # Errors
    /// None can be opened.
    pub fn reopen(&mut self) -> Result<(), Error> {
        self.socket = Socket::open()?;
        self.held = None;
        Ok(())
    }

    /// The generation the ruleset is in now.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn generation(&mut self) -> Result<Generation, Error> {
        self.socket.generation()
    }

    /// Whether there is an agent's table, whatever is in it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn has_table(&mut self) -> Result<bool, Error> {
        Ok(self.socket.table(OUR_TABLE)?.is_some())
    }

    /// Deletes the agent's table; answers whether it was there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cleanup(&mut self) -> Result<bool, Error> {
        if !self.has_table()? {
            return Ok(false);
        }
        let mut batch = Batch::new();
        batch.delete_table(OUR_TABLE);
        self.socket.commit(&batch, None).map(|_| true)
    }

    /// As [`Nftables::commit`]; counters that are made anew by it go on in our sums.
    fn commit_counting(&mut self, plan: &Plan, observed: Generation) -> Result<Generation, Error> {
        if plan.counters().is_empty() {
            return self.commit(plan, observed);
        }
        let made = self.made.len();
        self.counts.pause();
        let result = self.commit(plan, observed);
        // They are in the first transaction, and may be there even if a later one failed.
        let remade = counted::stands(plan.counters());
        self.counts.resume(if self.made.len() > made { &remade } else { &[] });
        result
    }

    fn commit(&mut self, plan: &Plan, observed: Generation) -> Result<Generation, Error> {
        let (mut last, made) = (observed, &mut self.made);
        self.socket.commit_in_turn(plan.transactions(), observed, |generation| {
            last = generation;
            made.push(generation);
        })?;
        Ok(last)
    }
}

/// Whether the kernel refuses because of what is in the table, not because of what it cannot do: only then a table made anew would
/// fare better. If it would not, the rules in force stay.
fn is_in_the_way(refusal: &Refusal) -> bool {
    matches!(Errno::from_raw(refusal.errno), Errno::EBUSY | Errno::EEXIST)
}

/// The policy as `nft -f` would read it.
pub fn render(policy: &Policy) -> String {
    let plan = Plan::new(&Desired::new(policy, false), &Observed::default());
    plan.transactions().map(Batch::to_string).collect()
}
