//! The nftables backend: observe the agent's table, plan, commit, over netlink alone.

pub mod desired;
pub mod observed;
pub mod plan;

use nfnetlink::{Batch, Error, Generation, ProtocolFamily, Socket, TableRef};

use masq::policy::Policy;

use self::desired::{Desired, TABLE};
use self::observed::Observed;
use self::plan::Plan;

const OUR_TABLE: TableRef<'static> = (ProtocolFamily::Inet, TABLE);

/// How often a table is read anew because somebody's transaction came in between, before the pass counts as failed.
const READ_ATTEMPTS: u32 = 16;

/// How often a plan is made anew because the ruleset changed between reading and committing.
const COMMIT_ATTEMPTS: u32 = 16;

/// Nobody without CAP_NET_ADMIN may change the ruleset, and nobody but the owner an owned table.
const EPERM: i32 = nix::errno::Errno::EPERM as i32;

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

/// How the table's present content is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It is read, whatever is known of it.
    Afresh,
    /// It is read unless nobody has committed anything since it was last known: with 100,000 elements reading takes longer than
    /// changing one.
    IfChanged,
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
        let mut refusal: Option<String> = None;
        let mut made = Vec::new();
        let mut attempt = 1;
        loop {
            let (observed, generation) = self.look(look)?;
            let plan = match refusal.take() {
                Some(why) => Plan::rebuild(desired, &observed, why),
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
                // Somebody's object in our table holds on to what has to go; the whole table goes more easily than its parts.
                Err(Error::Refused(why)) if plan.is_in_place() && why.errno != EPERM => refusal = Some(why.to_string()),
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

    /// Reads the agent's table.
    ///
    /// # Errors
    /// The kernel refuses, or others change the ruleset faster than it can be read.
    pub fn observe(&mut self) -> Result<(Observed, Generation), Error> {
        self.socket.snapshot(READ_ATTEMPTS, |socket| Observed::read(socket, OUR_TABLE))
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
        let mut generation = observed;
        for batch in plan.transactions() {
            generation = self.socket.commit(batch, Some(generation))?.unwrap_or(generation);
            made.push(generation);
        }
        Ok(generation)
    }
}

/// The policy as `nft -f` would read it.
pub fn render(policy: &Policy) -> String {
    let plan = Plan::new(&Desired::new(policy, false), &Observed::default());
    plan.transactions().map(Batch::to_string).collect()
}
