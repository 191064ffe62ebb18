//! Reading what our rules have counted, for whoever shows it: beside the loop, and without ever changing anything.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use masq::cidr::Family;
use masq::policy::Policy;
use nfnetlink::Socket;

use super::cidr_counts::CidrCounts;
use super::counts::{Counts, Stand};
use super::detect::{Programs, legacy_tables};
use super::iptables::counted::{cidrs_of, saved_cidrs, stand, stand_of};
use super::iptables::exec::Runner;
use super::iptables::save::Observed;
use super::iptables::version::Stack;
use super::nftables::{self, OUR_TABLE};

/// How long a save program may take.
const PROGRAM_LIMIT: Duration = Duration::from_secs(10);

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

/// Reads the counters in the network namespace of the thread that made it.
#[derive(Debug, Default)]
pub struct Reader {
    socket: Option<Socket>,
}

impl Reader {
    /// Adds what has been counted since the last time to the sums.
    ///
    /// # Errors
    /// The kernel or a program refuses, or others change the ruleset faster than it can be read.
    pub fn read(&mut self, place: &Place, counts: &Counts) -> Result<()> {
        let began = Instant::now();
        let stands = match place {
            Place::Table => {
                self.ask(|socket| Ok(nftables::counted::stands(&socket.counters(OUR_TABLE)?.items)))?.to_vec()
            }
            Place::Chain { chain, programs } => match programs.stack.chosen {
                Stack::Nft => {
                    self.ask(|socket| Family::ALL.map(|family| stand_of(socket, family, chain)).into_iter().collect())?
                }
                Stack::Legacy => saved(chain, programs)?,
            },
        };
        counts.record(began, &stands);
        Ok(())
    }

    /// The same for the counters of the CIDRs of a policy, where they are counted.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read_cidrs(&mut self, place: &Place, policy: &Policy, counts: &CidrCounts) -> Result<()> {
        let began = Instant::now();
        let (mut cidrs, mut found) = (BTreeSet::new(), Vec::new());
        for partition in policy.families() {
            cidrs.extend(partition.entries().iter().map(|entry| entry.listed.text.clone()));
            found.extend(match place {
                Place::Table => self.ask(|socket| nftables::counted::cidrs(socket, partition))?,
                Place::Chain { chain, programs } => match programs.stack.chosen {
                    Stack::Nft => self.ask(|socket| cidrs_of(socket, partition, policy, chain))?,
                    Stack::Legacy => match save(partition.family(), programs)? {
                        Some(observed) => saved_cidrs(partition, policy, chain, &observed),
                        None => Vec::new(),
                    },
                },
            });
        }
        counts.record(began, cidrs, found);
        Ok(())
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

fn saved(chain: &str, programs: &Programs) -> Result<Vec<Stand>> {
    let mut stands = Vec::new();
    for family in Family::ALL {
        stands.extend(save(family, programs)?.and_then(|observed| stand(family, chain, &observed)));
    }
    Ok(stands)
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
