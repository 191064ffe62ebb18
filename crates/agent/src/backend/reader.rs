//! Reading what our rules have counted, for whoever shows it: beside the loop, and without ever changing anything.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use masq::cidr::Family;
use masq::partition::Partition;
use masq::policy::Policy;
use nfnetlink::Socket;

use super::cidr_counts::{CidrCounts, CidrStand};
use super::counts::{Counts, Stand};
use super::detect::{Programs, legacy_tables};
use super::iptables::counted::RuleCounts;
use super::iptables::exec::Runner;
use super::iptables::save::Observed;
use super::iptables::version::Stack;
use super::nftables::{self, OUR_TABLE};

/// How long a save program may take. The loop waits for it where a change of the policy would make counters anew, and a number is not worth
/// more.
const PROGRAM_LIMIT: Duration = Duration::from_secs(2);

/// How often a reading begins anew because others change the ruleset meanwhile.
const READINGS: u32 = 5;

/// Where our rules are, and so their counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In our table of nf_tables.
    Table,
    /// In our chain of the nat tables.
    Chain {
        /// The chain's name.
        chain: String,
        /// The programs of the stack in use.
        programs: Programs,
    },
}

impl Place {
    /// The backend as metrics call it.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Table => "nftables",
            Place::Chain { programs, .. } => match programs.stack.chosen {
                Stack::Nft => "iptables-nft",
                Stack::Legacy => "iptables-legacy",
            },
        }
    }

    /// Whether to read the counters takes starting a program.
    pub fn takes_programs(&self) -> bool {
        match self {
            Place::Table => false,
            Place::Chain { programs, .. } => programs.stack.chosen == Stack::Legacy,
        }
    }
}

/// What was found at one time.
struct Reading {
    stands: Vec<Stand>,
    cidrs: Result<Vec<CidrStand>>,
}

/// Reads the counters in the network namespace of the thread that made it.
#[derive(Debug, Default)]
pub struct Reader {
    socket: Option<Socket>,
}

impl Reader {
    /// Adds what has been counted since the last time to the sums, and where a policy is given, to those by its CIDRs.
    ///
    /// # Errors
    /// The kernel or a program refuses, or others change the ruleset faster than it can be read.
    pub fn read(&mut self, place: &Place, counts: &Counts, by_cidr: Option<(&Policy, &CidrCounts)>) -> Result<()> {
        let began = Instant::now();
        let policy = by_cidr.map(|(policy, _)| policy);
        let Reading { stands, cidrs } = match place {
            Place::Table => self.table(policy)?,
            Place::Chain { chain, programs } => self.chain(chain, programs, policy)?,
        };
        counts.record(began, &stands);
        if let Some((policy, counts)) = by_cidr {
            let entries = policy.families().flat_map(Partition::entries);
            counts.record(began, entries.map(|entry| entry.listed.text.clone()).collect(), cidrs?);
        }
        Ok(())
    }

    fn table(&mut self, policy: Option<&Policy>) -> Result<Reading> {
        let stands = self.ask(|socket| Ok(nftables::counted::stands(&socket.counters(OUR_TABLE)?.items)))?.to_vec();
        let partitions = policy.into_iter().flat_map(Policy::families);
        let parts = partitions.map(|partition| self.ask(|socket| nftables::counted::cidrs(socket, partition)));
        Ok(Reading { stands, cidrs: parts.collect::<Result<Vec<_>>>().map(|parts| parts.concat()) })
    }

    /// Both come from one look at the rules: of thousands of them the kernel takes its time to tell.
    fn chain(&mut self, chain: &str, programs: &Programs, policy: Option<&Policy>) -> Result<Reading> {
        let (mut stands, mut cidrs) = (Vec::new(), Vec::new());
        for family in Family::ALL {
            let rules = match programs.stack.chosen {
                Stack::Nft => Some(self.ask(|socket| RuleCounts::ask(socket, family, chain))?),
                Stack::Legacy => save(family, programs)?.map(|observed| RuleCounts::of_save(family, chain, &observed)),
            };
            let Some(rules) = rules else { continue };
            stands.extend(rules.stand);
            if let Some((policy, partition)) = policy.and_then(|policy| Some((policy, policy.family(family)?))) {
                cidrs.extend(rules.by_cidr(partition, policy));
            }
        }
        Ok(Reading { stands, cidrs: Ok(cidrs) })
    }

    fn ask<T>(&mut self, read: impl FnMut(&mut Socket) -> Result<T, nfnetlink::Error>) -> Result<T> {
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => Socket::open()?,
        };
        // A socket that has failed may still hold old answers, so it is not put back.
        let (found, _) = socket.glance(READINGS, read)?;
        self.socket = Some(socket);
        Ok(found)
    }
}

/// The nat table of iptables-legacy, if there is one: to ask for a table makes it.
fn save(family: Family, programs: &Programs) -> Result<Option<Observed>> {
    if legacy_tables(family).is_none_or(|tables| !tables.iter().any(|table| table == "nat")) {
        return Ok(None);
    }
    let runner = Runner { limit: PROGRAM_LIMIT, interrupt: None };
    let tools = programs.tools(family, Stack::Legacy)?;
    tools.observe(&runner).map(Some).with_context(|| family.to_string())
}
