//! One family's nat table from pass to pass: looked at, put right, looked at again.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use masq::cidr::Family;
use nfnetlink::Generation;

use super::counted;
use super::desired::{Rule, without_random_fully};
use super::leftovers::{Leftovers, Scope};
use super::meaning::translates_everything;
use super::node::Node;
use super::plan::{Change, Plan};
use super::programs::{ProgramError, Tools};
use super::save::Observed;
use super::version::{Stack, Version};
use super::warning::Warning;
use crate::backend::Look;
use crate::backend::counts::Stand;

/// How often a table is put right in one pass, with a look after each time, because others change it meanwhile.
const ATTEMPTS: u32 = 4;

/// The nat table of a family, as far as it is ours.
#[derive(Debug)]
pub struct FamilyTable {
    family: Family,
    /// Of the family's programs, once they have been asked.
    version: Option<Version>,
    /// Whether the chain has held our rules since we started: whatever is in it then is drift and no stranger's chain.
    is_known: bool,
    /// Whether other generations' chains are still to be removed; later ones belong to a living agent.
    leftovers_due: bool,
    /// Whether the other stack is still to be looked at for what an earlier run left there.
    other_stack_due: bool,
    held: Option<Held>,
    /// What people should know, as of the last look.
    warnings: Vec<Warning>,
}

/// What the table is known to hold as long as nobody commits anything.
#[derive(Debug)]
struct Held {
    generation: Generation,
    rules: Vec<Rule>,
}

/// What a pass over one family came to.
#[derive(Debug, Default)]
pub struct Kept {
    /// What was found to differ and has been put right.
    pub changes: Vec<Change>,
    /// The generations that the pass made itself.
    pub made: Vec<Generation>,
}

impl FamilyTable {
    /// Nothing is known of it.
    pub fn new(family: Family) -> FamilyTable {
        FamilyTable {
            family,
            version: None,
            is_known: false,
            leftovers_due: true,
            other_stack_due: true,
            held: None,
            warnings: Vec::new(),
        }
    }

    /// Whose it is.
    pub fn family(&self) -> Family {
        self.family
    }

    /// What people should know, as of the last look.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Makes the table hold these rules in `chain`, and the jump to it, and writes nothing if it does. Calls `before_write` before that.
    ///
    /// # Errors
    /// The programs are missing, fail or refuse, the chain is a stranger's, or others change the table too fast.
    pub fn keep(
        &mut self,
        node: &mut Node,
        chain: &str,
        wanted: &[Rule],
        look: Look,
        before_write: &mut dyn FnMut(),
    ) -> Result<Kept> {
        let tools = node.programs.tools(self.family, node.stack())?;
        let version = match self.version.or(node.programs.version(self.family, node.stack())) {
            Some(version) => version,
            None => tools.version(&node.runner)?,
        };
        self.version = Some(version);
        let rules = if version.has_random_fully() { wanted.to_vec() } else { without_random_fully(wanted) };
        if look == Look::IfChanged && self.is_held(node, &rules) {
            return Ok(Kept::default());
        }
        let pass = Pass { tools: &tools, version, chain, rules: &rules };
        let mut kept = Kept::default();
        let observed = self.put_right(node, &pass, &mut kept, before_write)?;
        self.is_known = true;
        self.warnings.clear();
        if rules != wanted {
            self.warnings.push(Warning::NoRandomFully { family: self.family, version });
        }
        self.look_around(node, &pass, &observed, &mut kept);
        // Programs that lie about their stack have just put our rules into what passes for the other one.
        if node.has_nat_table(self.family, node.stack()) {
            self.leave_other_stack(node, chain, &mut kept);
        }
        Ok(kept)
    }

    /// The generation in which the table is known to have held what it should; `None` where nothing tells of changes.
    pub fn held_in(&self) -> Option<Generation> {
        self.held.as_ref().map(|held| held.generation)
    }

    /// A commit of ours that does not touch our chain in this family leaves it as it was.
    pub fn pass_over(&mut self, ours: Generation) {
        if let Some(held) = self.held.as_mut().filter(|held| ours.0 == held.generation.0.wrapping_add(1)) {
            held.generation = ours;
        }
    }

    fn is_held(&self, node: &mut Node, rules: &[Rule]) -> bool {
        let held = self.held.as_ref().filter(|held| held.rules == rules && !self.leftovers_due);
        held.is_some_and(|held| node.generation() == Some(held.generation))
    }

    /// Looks, writes what differs, and looks again until nothing does: what was written is believed only when it has been seen.
    fn put_right(
        &mut self,
        node: &mut Node,
        pass: &Pass<'_>,
        kept: &mut Kept,
        before_write: &mut dyn FnMut(),
    ) -> Result<Observed> {
        let mut earlier: Option<(Plan, ProgramError)> = None;
        let mut written = None;
        self.held = None;
        for _ in 0..ATTEMPTS {
            let (generation, began) = (node.generation(), Instant::now());
            let observed = node.observe(pass.tools, pass.chain)?;
            node.counts.record(began, counted::stand(self.family, pass.chain, &observed).as_slice());
            let known = self.is_known || written.is_some();
            let plan = Plan::new(self.family, pass.chain, pass.rules, &observed, known)?;
            if plan.is_in_sync() {
                self.held = generation.map(|generation| Held { generation, rules: pass.rules.to_vec() });
                return Ok(observed);
            }
            // A refusal may have come from a change of others between look and write. It is final if nothing has changed.
            if let Some((refused, error)) = earlier.take().filter(|(refused, _)| *refused == plan) {
                return Err(error).with_context(|| format!("cannot put right: {refused}"));
            }
            before_write();
            match pass.restore(node, &plan, &mut kept.made) {
                Ok(()) => {
                    kept.changes.extend_from_slice(plan.changes());
                    written = Some(plan);
                }
                Err(error @ ProgramError::Refused { .. }) => {
                    let freed = known && node.delete_base_chain(self.family, pass.chain)?;
                    earlier = Some((plan, error)).filter(|_| !freed);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let plan = written.unwrap_or_default();
        bail!("others change the nat table as fast as it is put right, or it does not take what is written: {plan}")
    }

    /// Removes what other generations left, the first time that our own rules are in place, and notes what defeats the policy.
    fn look_around(&mut self, node: &mut Node, pass: &Pass<'_>, observed: &Observed, kept: &mut Kept) {
        let family = self.family;
        let mut behind = observed.postrouting().iter().skip_while(|rule| !rule.leads_to(pass.chain));
        let overriding = behind.find(|rule| translates_everything(rule));
        self.warnings.extend(overriding.map(|rule| Warning::Overridden { family, rule: rule.text.clone() }));
        let leftovers = Leftovers::find(family, observed, Scope::AllBut(pass.chain));
        let living = |chain: &str| Warning::LivingAgent { family, chain: chain.to_owned() };
        if !self.leftovers_due {
            self.warnings.extend(leftovers.chains().into_iter().map(living));
            return;
        }
        if !leftovers.plan.is_in_sync()
            && let Err(error) = pass.restore(node, &leftovers.plan, &mut kept.made)
        {
            self.warnings.push(Warning::NotRemoved { family, stack: node.stack(), error: error.to_string() });
            return;
        }
        self.leftovers_due = observed.is_incomplete;
        self.warnings.extend(Warning::of_kept(family, &leftovers));
        kept.changes.extend(leftovers.plan.into_changes());
    }

    /// Removes what is ours from a family that is to be left untouched, once after each time that it was not.
    pub fn leave(&mut self, node: &mut Node, chain: &str) -> Kept {
        let mut kept = Kept::default();
        self.warnings.clear();
        self.held = None;
        if self.leftovers_due || self.is_known {
            self.is_known = false;
            self.leftovers_due = !self.remove_from(node, node.stack(), chain, &mut kept);
        }
        self.leave_other_stack(node, chain, &mut kept);
        kept
    }

    /// What an earlier run left on the other stack would masquerade what is exempt on this one, so it goes once our rules are in.
    fn leave_other_stack(&mut self, node: &mut Node, chain: &str, kept: &mut Kept) {
        if self.other_stack_due {
            self.other_stack_due = !self.remove_from(node, node.stack().other(), chain, kept);
        }
    }

    /// Removes all generations from a stack; answers whether that is done.
    fn remove_from(&mut self, node: &mut Node, stack: Stack, chain: &str, kept: &mut Kept) -> bool {
        let family = self.family;
        match node.remove_leftovers(family, stack, Scope::All(chain)) {
            Ok(leftovers) => {
                self.warnings.extend(Warning::of_kept(family, &leftovers));
                kept.changes.extend(leftovers.plan.into_changes());
                true
            }
            // Without its programs there is no telling whether anything is there, and nothing to be done.
            Err(ProgramError::Missing { .. }) => true,
            Err(error) => {
                self.warnings.push(Warning::NotRemoved { family, stack, error: error.to_string() });
                false
            }
        }
    }

    /// The chains that are removed are no longer known to be ours.
    pub fn forget(&mut self) {
        *self = FamilyTable { version: self.version, ..FamilyTable::new(self.family) };
    }
}

/// What stays the same during a pass.
struct Pass<'p> {
    tools: &'p Tools,
    version: Version,
    chain: &'p str,
    rules: &'p [Rule],
}

impl Pass<'_> {
    fn restore(&self, node: &mut Node, plan: &Plan, made: &mut Vec<Generation>) -> Result<(), ProgramError> {
        let before = node.generation();
        self.restore_counting(node, plan)?;
        // One step is surely our own; of several some may be others', which are better looked at than missed.
        if let (Some(before), Some(after)) = (before, node.generation())
            && after.0 == before.0.wrapping_add(1)
        {
            made.push(after);
        }
        Ok(())
    }

    /// Rules that are written anew begin to count with zero; our sums go on.
    fn restore_counting(&self, node: &mut Node, plan: &Plan) -> Result<(), ProgramError> {
        if !plan.writes_chain(self.chain) {
            return self.tools.restore(&node.runner, self.version, &plan.restore_text());
        }
        node.count(self.tools.family(), self.chain);
        node.counts.pause();
        let result = self.tools.restore(&node.runner, self.version, &plan.restore_text());
        let zero = Stand { family: self.tools.family(), exempt: Some(0), masqueraded: Some(0) };
        node.counts.resume(if result.is_ok() { std::slice::from_ref(&zero) } else { &[] });
        result
    }
}
