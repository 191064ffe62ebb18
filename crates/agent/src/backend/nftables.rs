//! The nftables backend: observe the agent's table, plan, commit, over netlink alone.

pub mod desired;
pub mod observed;
pub mod ours;
pub mod plan;

use nfnetlink::{Batch, Error, Generation, ProtocolFamily, Refusal, Socket, TableRef};
use nix::errno::Errno;

use masq::policy::Policy;

use self::desired::{Desired, TABLE};
use self::observed::Observed;
use self::plan::Plan;
use super::Look;

const OUR_TABLE: TableRef<'static> = (ProtocolFamily::Inet, TABLE);

/// How often a table is read anew because somebody's transaction came in between, before the pass counts as failed.
const READ_ATTEMPTS: u32 = 16;

/// How often a plan is made anew because the ruleset changed between reading and committing.
const COMMIT_ATTEMPTS: u32 = 16;

/// The agent's hold on nf_tables in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
    held: Option<Held>,
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
    /// The generations that this pass has made itself.
    pub made: Vec<Generation>,
}

impl Nftables {
    /// Opens the netlink socket; nothing is read or changed yet.
    ///
    /// # Errors
    /// The kernel has no nf_tables.
    pub fn open() -> Result<Nftables, Error> {
        Ok(Nftables { socket: Socket::open()?, held: None })
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
        let mut first: Option<Plan> = None;
        let mut refusals: Vec<String> = Vec::new();
        let mut made = Vec::new();
        let mut attempt = 1;
        loop {
            let (observed, generation) = self.look(look)?;
            // One refusal may come from a reading that others' transactions made wrong. At two, somebody's object in our table holds
            // on to what has to go: the whole table goes more easily than its parts.
            let plan = match refusals.get(1) {
                Some(why) => Plan::rebuild(desired, &observed, why.clone()),
                None => Plan::new(desired, &observed),
            };
            if !plan.is_in_sync() {
                before_commit(&plan);
            }
            match self.commit(&plan, generation, &mut made) {
                Ok(generation) => {
                    self.held = Some(Held { desired: desired.clone(), generation });
                    return Ok(Outcome { plan: first.unwrap_or(plan), generation, made });
                }
                Err(Error::StaleGeneration { .. }) if attempt < COMMIT_ATTEMPTS => {}
                Err(Error::Refused(why)) if plan.is_in_place() && is_in_the_way(&why) => refusals.push(why.to_string()),
                Err(error) => return Err(error),
            }
            attempt += 1;
            look = Look::Afresh;
            // A later plan may lack what the first one's earlier transactions have done already.
            first.get_or_insert(plan);
        }
    }

    fn look(&mut self, look: Look) -> Result<(Observed, Generation), Error> {
        if let (Look::IfChanged, Some(held)) = (look, self.held.take())
            && self.socket.generation()? == held.generation
        {
            return Ok((Observed::holding(&held.desired), held.generation));
        }
        self.held = None;
        self.observe()
    }

    /// Reads the agent's table. Does not wait for others' transactions: their notice says when to look again.
    ///
    /// # Errors
    /// The kernel refuses, or others change the ruleset faster than it can be read.
    pub fn observe(&mut self) -> Result<(Observed, Generation), Error> {
        self.socket.glance(READ_ATTEMPTS, |socket| Observed::read(socket, OUR_TABLE))
    }

    /// The generation the ruleset is in now.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn generation(&mut self) -> Result<Generation, Error> {
        self.socket.generation()
    }

    /// Deletes the agent's table, if it is there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cleanup(&mut self) -> Result<(), Error> {
        if self.socket.table(OUR_TABLE)?.is_none() {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.delete_table(OUR_TABLE);
        self.socket.commit(&batch, None).map(|_| ())
    }

    fn commit(&mut self, plan: &Plan, observed: Generation, made: &mut Vec<Generation>) -> Result<Generation, Error> {
        let mut last = observed;
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
