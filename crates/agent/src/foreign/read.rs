//! Reading the tables of both stacks: one dump of all chains and one of all rules, and a save program where iptables-legacy is in use.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use masq::cidr::Family;
use nfnetlink::{Located, ProtocolFamily, Socket, TableFlags};

use super::{Action, Base, Chain, Hook, Kind, Rule, Ruleset, Stack, Table, native, saved};
use crate::backend::detect::legacy_tables;
use crate::backend::iptables::comment;
use crate::backend::iptables::exec::Runner;
use crate::backend::iptables::node::protocol_family;
use crate::backend::iptables::programs::{Tools, Variant};
use crate::backend::iptables::save::{Observed, SavedRule};
use crate::backend::iptables::version;

/// How often a reading is begun anew because others change the ruleset meanwhile. One takes some milliseconds.
const ATTEMPTS: u32 = 20;

/// How long a save program may take.
const PROGRAM_LIMIT: Duration = Duration::from_secs(10);

/// `NF_IP_PRI_CONNTRACK`: chains with a lower priority see packets before their connection is looked up.
const TRACKING: i32 = -200;

/// `NF_IP_PRI_RAW`.
const RAW: i32 = -300;

/// What could be seen of the node's tables.
#[derive(Debug, Default)]
pub struct Reading {
    /// The tables.
    pub ruleset: Ruleset,
    /// What could not be seen.
    pub unseen: Vec<Unseen>,
}

/// Tables that could not be read.
#[derive(Debug)]
pub struct Unseen {
    /// The family whose packets they see; `None` if packets of both may come upon them.
    pub family: Option<Family>,
    /// Why not.
    pub error: anyhow::Error,
}

impl Unseen {
    /// Whether packets of this family may come upon them.
    pub fn concerns(&self, family: Family) -> bool {
        self.family.is_none_or(|own| own == family)
    }
}

/// Reads the tables that can translate addresses or keep packets untracked, of the calling thread's network namespace. `our_chain` is
/// the name of the chain that the iptables backend uses, and `known` are nat tables of iptables-legacy that were read already. Nothing is
/// changed: where iptables-legacy has no table, none is asked for.
pub fn read(search_path: &OsStr, our_chain: &str, mut known: Vec<(Family, Observed)>) -> Reading {
    let mut reading = Reading::default();
    for family in Family::ALL {
        let known = known.extract_if(.., |(of, _)| *of == family).next().map(|(_, nat)| nat);
        match legacy(family, search_path, known) {
            Ok(tables) => reading.ruleset.tables.extend(tables),
            Err(error) => {
                let error = error.context(format!("{family} tables of iptables-legacy"));
                reading.unseen.push(Unseen { family: Some(family), error });
            }
        }
    }
    match nf_tables() {
        Ok(tables) => reading.ruleset.tables.extend(tables),
        Err(error) => reading.unseen.push(Unseen { family: None, error: error.context("nftables") }),
    }
    reading.ruleset.tables.iter_mut().for_each(|table| mark_ours(table, our_chain));
    reading
}

fn nf_tables() -> Result<Vec<Table>> {
    let mut socket = Socket::open()?;
    let ((tables, chains, rules), _) = socket.glance(ATTEMPTS, |socket| {
        let tables = socket.tables(ProtocolFamily::Unspec)?.items;
        let chains = socket.all_chains()?.items;
        let entered: BTreeSet<(u8, &str)> = chains
            .iter()
            .filter(|chain| base(&chain.item).is_some())
            .map(|chain| key(chain.family, &chain.table))
            .collect();
        let rules = socket.all_rules(|(family, table), _| entered.contains(&key(family, table)))?.items;
        Ok((tables, chains, rules))
    })?;
    let mut kept = assemble(&chains, &rules);
    for table in tables.iter().filter(|table| table.flags.contains(TableFlags::DORMANT)) {
        let dormant = kept.iter_mut().filter(|kept| (kept.family, &kept.name) == (table.family, &table.name));
        dormant.for_each(|kept| kept.is_dormant = true);
    }
    Ok(kept)
}

fn key(family: ProtocolFamily, table: &str) -> (u8, &str) {
    (family.number(), table)
}

/// The base of a chain that can translate, or keep packets untracked.
fn base(chain: &nfnetlink::Chain) -> Option<Base> {
    let base = chain.base.as_ref()?;
    let hook = Hook::from_number(base.hook)?;
    let kind = match (base.kind.as_str(), hook) {
        ("nat", _) => Kind::Nat,
        ("filter", Hook::Prerouting | Hook::Output) | ("route", Hook::Output) if base.priority < TRACKING => {
            Kind::BeforeTracking
        }
        _ => return None,
    };
    Some(Base { kind, hook, priority: base.priority })
}

/// Tables, with their chains and rules in the order of the dumps.
fn assemble(chains: &[Located<nfnetlink::Chain>], rules: &[Located<nfnetlink::Rule>]) -> Vec<Table> {
    let mut rules_of: BTreeMap<(u8, &str, &str), Vec<&nfnetlink::Rule>> = BTreeMap::new();
    for rule in rules {
        rules_of.entry((rule.family.number(), &rule.table, &rule.item.chain)).or_default().push(&rule.item);
    }
    let mut order: Vec<(ProtocolFamily, &str)> = Vec::new();
    let mut chains_of: BTreeMap<(u8, &str), Vec<Chain>> = BTreeMap::new();
    let is_of_iptables = tables_of_iptables(chains);
    for Located { family, table, item } in chains {
        let chains = chains_of.entry(key(*family, table)).or_insert_with(|| {
            order.push((*family, table));
            Vec::new()
        });
        let of_iptables = is_of_iptables.contains(&key(*family, table));
        let rules = rules_of.get(&(family.number(), table, &item.name)).map(Vec::as_slice).unwrap_or_default();
        let rules = rules.iter().map(|rule| native::rule(*family, of_iptables, rule)).collect();
        chains.push(Chain { name: item.name.clone(), base: base(item), rules, is_ours: false });
    }
    let tables = order.into_iter().map(|(family, name)| {
        let chains = chains_of.remove(&key(family, name)).unwrap_or_default();
        Table::new(Stack::Nft, family, name, chains)
    });
    tables.filter(|table| table.chains.iter().any(|chain| chain.base.is_some())).collect()
}

/// Tables that iptables-nft made: by name, and by the chains' names in capitals.
fn tables_of_iptables(chains: &[Located<nfnetlink::Chain>]) -> BTreeSet<(u8, &str)> {
    let is_iptables = |chain: &&Located<nfnetlink::Chain>| {
        let family = matches!(chain.family, ProtocolFamily::Ipv4 | ProtocolFamily::Ipv6);
        let base = chain.item.base.is_some() && chain.item.name.bytes().all(|byte| byte.is_ascii_uppercase());
        family && base && matches!(chain.table.as_str(), "nat" | "raw")
    };
    chains.iter().filter(is_iptables).map(|chain| key(chain.family, &chain.table)).collect()
}

/// The nat and raw tables of iptables-legacy in a family. The kernel makes a table when it is asked for, so only those are read that
/// are there, and the nat table only if it is not `known`.
fn legacy(family: Family, search_path: &OsStr, known: Option<Observed>) -> Result<Vec<Table>> {
    let Some(present) = legacy_tables(family) else {
        return Err(anyhow!("this process may not read which there are; it takes CAP_NET_ADMIN"));
    };
    let is_wanted = |name: &&str| present.iter().any(|table| table == name) && (*name == "raw" || known.is_none());
    let wanted: Vec<&str> = ["raw", "nat"].into_iter().filter(is_wanted).collect();
    let known = known.map(|nat| legacy_table(family, "nat", &nat));
    if wanted.is_empty() {
        return Ok(known.into_iter().collect());
    }
    let runner = Runner { limit: PROGRAM_LIMIT, interrupt: None };
    let tools = legacy_tools(family, search_path, &runner)?;
    let table = known.as_ref().and(Some("raw"));
    let text = tools.save_existing(&runner, table).context("cannot be read")?;
    let read = wanted.into_iter().map(|name| legacy_table(family, name, &Observed::parse_table(&text, name)));
    Ok(read.chain(known).collect())
}

fn legacy_tools(family: Family, search_path: &OsStr, runner: &Runner) -> Result<Tools> {
    if let Ok(tools) = Tools::find(family, Variant::Named(version::Stack::Legacy), search_path) {
        return Ok(tools);
    }
    let plain = Tools::find(family, Variant::Plain, search_path).ok();
    let is_legacy = |tools: &Tools| tools.version(runner).is_ok_and(|version| version.stack == version::Stack::Legacy);
    plain
        .filter(is_legacy)
        .ok_or_else(|| anyhow!("there are some, but no iptables-legacy-save on PATH to read them with"))
}

pub(super) fn legacy_table(family: Family, name: &str, observed: &Observed) -> Table {
    let is_chain = |word: &str| observed.chains.contains_key(word);
    let one = |(chain, rules): (&String, &Vec<SavedRule>)| Chain {
        name: chain.clone(),
        base: legacy_base(name, chain),
        rules: rules.iter().map(|rule| saved::rule(chain, rule, is_chain)).collect(),
        is_ours: false,
    };
    Table::new(Stack::Legacy, protocol_family(family), name, observed.chains.iter().map(one).collect())
}

fn legacy_base(table: &str, chain: &str) -> Option<Base> {
    /// `NF_IP_PRI_NAT_DST` and `NF_IP_PRI_NAT_SRC`.
    const DESTINATION: i32 = -100;
    const SOURCE: i32 = 100;
    let (kind, hook, priority) = match (table, chain) {
        ("raw", "PREROUTING") => (Kind::BeforeTracking, Hook::Prerouting, RAW),
        ("raw", "OUTPUT") => (Kind::BeforeTracking, Hook::Output, RAW),
        ("nat", "PREROUTING") => (Kind::Nat, Hook::Prerouting, DESTINATION),
        ("nat", "INPUT") => (Kind::Nat, Hook::Input, SOURCE),
        ("nat", "OUTPUT") => (Kind::Nat, Hook::Output, DESTINATION),
        ("nat", "POSTROUTING") => (Kind::Nat, Hook::Postrouting, SOURCE),
        _ => return None,
    };
    Some(Base { kind, hook, priority })
}

/// Our own table, and the jumps to our chain that bear our comment.
pub(super) fn mark_ours(table: &mut Table, our_chain: &str) {
    let is_our_table = table.is_of_our_nftables();
    let is_our_jump = |rule: &Rule| {
        let leads_there = matches!(&rule.action, Action::Jump(chain) if chain == our_chain);
        leads_there && rule.comment.as_deref().and_then(comment::names_chain) == Some(our_chain)
    };
    let mut has_our_jump = false;
    for chain in &mut table.chains {
        let is_entry = chain.base.is_some_and(|base| (base.kind, base.hook) == (Kind::Nat, Hook::Postrouting));
        for rule in chain.rules.iter_mut().filter(|_| is_entry) {
            rule.is_ours = is_our_table || is_our_jump(rule);
            has_our_jump |= rule.is_ours;
        }
    }
    for chain in &mut table.chains {
        chain.is_ours = is_our_table || has_our_jump && chain.name == our_chain;
    }
}
