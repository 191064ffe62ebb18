//! The node as the backend reaches it: the programs of both stacks, and the notices' numbers.

use std::sync::Arc;
use std::time::Instant;

use masq::cidr::Family;
use nfnetlink::expr::{Expr, Verdict};
use nfnetlink::{Batch, Generation, ProtocolFamily, Rule, Socket};

use super::counted::RuleCounts;
use super::exec::Runner;
use super::leftovers::{Leftovers, Scope};
use super::plan::Plan;
use super::programs::{Glimpse, ProgramError, Tools};
use super::save::{Observed, POSTROUTING};
use super::version::Stack;
use crate::backend::counts::Counts;
use crate::backend::detect::{Programs, legacy_tables};

/// What every look at the kernel and every change of it goes through.
#[derive(Debug)]
pub struct Node {
    /// The programs, and the stack they are used on.
    pub programs: Programs,
    /// How they are run.
    pub runner: Runner,
    /// The sums of what our rules count.
    pub counts: Arc<Counts>,
    /// Only to ask what can be asked without starting a program; a kernel may have no nf_tables.
    socket: Option<Socket>,
}

impl Node {
    /// Opens a netlink socket, if the kernel has nf_tables.
    pub fn new(programs: Programs, runner: Runner) -> Node {
        Node { programs, runner, counts: Arc::default(), socket: Socket::open().ok() }
    }

    /// The stack in use.
    pub fn stack(&self) -> Stack {
        self.programs.stack.chosen
    }

    /// The generation of the ruleset that iptables-nft writes to; `None` where nothing tells of changes, as with iptables-legacy.
    pub fn generation(&mut self) -> Option<Generation> {
        match self.stack() {
            Stack::Nft => self.socket.as_mut()?.generation().ok(),
            Stack::Legacy => None,
        }
    }

    /// Adds what our chain has counted until now to the sums, where that takes no program.
    pub fn count(&mut self, family: Family, chain: &str) {
        let (Stack::Nft, Some(socket)) = (self.programs.stack.chosen, &mut self.socket) else { return };
        let began = Instant::now();
        // What cannot be read is as old as the last look, some milliseconds.
        if let Ok(RuleCounts { stand: Some(stand), .. }) = RuleCounts::ask(socket, family, chain) {
            self.counts.record(began, &[stand]);
        }
    }

    /// Whether a stack has a nat table in a family. Found out without any program, for most nodes use one stack, and to ask
    /// iptables-legacy for a table makes it. Where it cannot be told, the stack in use is taken to have one.
    pub fn has_nat_table(&mut self, family: Family, stack: Stack) -> bool {
        match stack {
            Stack::Legacy => match legacy_tables(family) {
                Some(tables) => tables.iter().any(|table| table == "nat"),
                None => self.stack() == Stack::Legacy,
            },
            Stack::Nft => {
                let Some(socket) = &mut self.socket else { return false };
                let tables = socket.tables(protocol_family(family));
                tables.map_or(true, |dump| dump.items.iter().any(|table| table.name == "nat"))
            }
        }
    }

    /// Reads the nat table, without any program where there is none; of `chain` and POSTROUTING as much as can be told by any means.
    ///
    /// # Errors
    /// The programs cannot be run or refuse.
    pub fn observe(&mut self, tools: &Tools, chain: &str) -> Result<Observed, ProgramError> {
        // A program may lie about its stack, as wrappers do that imitate an old version.
        if !Stack::ALL.into_iter().any(|stack| self.has_nat_table(tools.family(), stack)) {
            return Ok(Observed::default());
        }
        let observed = tools.observe(&self.runner)?;
        if !observed.is_incomplete {
            return Ok(observed);
        }
        let family = tools.family();
        let glimpse = self.glimpse(family, chain).map_err(|source| ProgramError::Unreadable { family, source })?;
        tools.observe_piecemeal(&self.runner, chain, glimpse)
    }

    fn glimpse(&mut self, family: Family, chain: &str) -> Result<Glimpse, nfnetlink::Error> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(Socket::open()?),
        };
        let table = (protocol_family(family), "nat");
        let has_chain = socket.chains(table)?.items.iter().any(|found| found.name == chain);
        let jump = Expr::Verdict(Verdict::Jump(chain.to_owned()));
        let is_jump = |rule: &&Rule| rule.chain == POSTROUTING && rule.expressions.contains(&jump);
        let jumps = socket.rules(table)?.items.iter().filter(is_jump).count();
        Ok(Glimpse { has_chain, jumps })
    }

    /// Deletes `chain` with whatever it holds if somebody made it a base chain, which no iptables program can use or even see; answers
    /// whether that was so. Only for a chain that is ours beyond doubt.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn delete_base_chain(&mut self, family: Family, chain: &str) -> Result<bool, nfnetlink::Error> {
        let (Stack::Nft, Some(socket)) = (self.programs.stack.chosen, &mut self.socket) else { return Ok(false) };
        let table = (protocol_family(family), "nat");
        let chains = socket.chains(table)?.items;
        if !chains.iter().any(|found| found.name == chain && found.base.is_some()) {
            return Ok(false);
        }
        let mut batch = Batch::new();
        batch.flush_chain(table, chain);
        batch.delete_chain(table, chain);
        socket.commit(&batch, None)?;
        Ok(true)
    }

    /// Removes leftovers of a family on a stack and returns what they were.
    ///
    /// # Errors
    /// The programs are missing, cannot be run, or refuse.
    pub fn remove_leftovers(
        &mut self,
        family: Family,
        stack: Stack,
        scope: Scope<'_>,
    ) -> Result<Leftovers, ProgramError> {
        let leftovers = self.find_leftovers(family, stack, scope)?;
        if !leftovers.plan.is_in_sync() {
            self.remove(family, stack, &leftovers.plan)?;
        }
        Ok(leftovers)
    }

    /// Looks for leftovers of a family on a stack.
    ///
    /// # Errors
    /// The programs are missing, cannot be run, or refuse.
    pub fn find_leftovers(
        &mut self,
        family: Family,
        stack: Stack,
        scope: Scope<'_>,
    ) -> Result<Leftovers, ProgramError> {
        if !self.has_nat_table(family, stack) {
            return Ok(Leftovers::default());
        }
        let tools = self.programs.tools(family, stack)?;
        Ok(Leftovers::find(family, &self.observe(&tools, scope.chain())?, scope))
    }

    /// Carries out a removal.
    ///
    /// # Errors
    /// The programs are missing, cannot be run, or refuse.
    pub fn remove(&mut self, family: Family, stack: Stack, removal: &Plan) -> Result<(), ProgramError> {
        let tools = self.programs.tools(family, stack)?;
        let version = tools.version(&self.runner)?;
        tools.restore(&self.runner, version, &removal.restore_text())
    }
}

/// The family as netlink numbers it.
pub(crate) fn protocol_family(family: Family) -> ProtocolFamily {
    match family {
        Family::Ipv4 => ProtocolFamily::Ipv4,
        Family::Ipv6 => ProtocolFamily::Ipv6,
    }
}
