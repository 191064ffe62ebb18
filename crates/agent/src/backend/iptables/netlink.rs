//! Leftovers in the tables of iptables-nft, found and removed over netlink: for images that hold no iptables programs.

use std::collections::BTreeMap;

use anyhow::Error;
use masq::cidr::Family;
use nfnetlink::expr::{Expr, Verdict};
use nfnetlink::{Batch, ExtensionKind, Generation, Socket, TableRef};

use super::compare::leftover_groups;
use super::leftovers::{Leftovers, Scope};
use super::node::protocol_family;
use super::save::{Observed, POSTROUTING, SavedRule};
use super::sweep::{Removal, Sweep};
use super::version::Stack;
use crate::backend::difference::Comparison;

/// How often a removal is worked out anew because others change the ruleset meanwhile.
const ATTEMPTS: u32 = 20;

/// As [`Iptables::sweep`](super::Iptables::sweep), in both families' tables of iptables-nft alone.
pub fn sweep_all(scope: Scope<'_>, removal: Removal) -> Sweep {
    let mut found = Sweep::default();
    Family::ALL.into_iter().for_each(|family| sweep(family, scope, removal, &mut found));
    found
}

/// One family's part of it, added to what else was found.
pub(super) fn sweep(family: Family, scope: Scope<'_>, removal: Removal, found: &mut Sweep) {
    match remove(family, scope, removal) {
        Ok(leftovers) => found.add(family, Stack::Nft, leftovers),
        Err(error) => found.failures.push(Error::new(error).context(format!("{family} in {}", Stack::Nft))),
    }
}

/// What there is of ours in the tables of iptables-nft, as differences from a policy that asks for nothing there.
pub fn compare(scope: Scope<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    for family in Family::ALL {
        let table = (protocol_family(family), "nat");
        match Socket::open().and_then(|mut socket| Nat::read(&mut socket, table)) {
            Ok(Some(nat)) => comparison.groups.extend(leftover_groups(family, Stack::Nft, &nat.observed, scope)),
            Ok(None) => {}
            Err(error) => comparison.failures.push(Error::new(error).context(format!("{family} in {}", Stack::Nft))),
        }
    }
    comparison
}

/// Removes, or only looks for, what is ours in one family; answers what that was.
fn remove(family: Family, scope: Scope<'_>, removal: Removal) -> Result<Leftovers, nfnetlink::Error> {
    let table = (protocol_family(family), "nat");
    let mut socket = Socket::open()?;
    for _ in 0..ATTEMPTS {
        let Some(nat) = Nat::read(&mut socket, table)? else { return Ok(Leftovers::default()) };
        let leftovers = Leftovers::find(family, &nat.observed, scope);
        if removal == Removal::Dry || leftovers.plan.is_in_sync() {
            return Ok(leftovers);
        }
        match socket.commit(&nat.batch(table, &leftovers), Some(nat.generation)) {
            Ok(_) => return Ok(leftovers),
            Err(nfnetlink::Error::StaleGeneration { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(nfnetlink::Error::Torn { subject: "the rules of iptables-nft" })
}

/// A nat table of iptables-nft as far as leftovers show in it: comments, and where rules lead.
struct Nat {
    observed: Observed,
    /// The kernel's numbers for the rules of POSTROUTING, in their order.
    handles: Vec<Option<u64>>,
    generation: Generation,
}

impl Nat {
    /// `None` where the family has no such table.
    fn read(socket: &mut Socket, table: TableRef<'_>) -> Result<Option<Nat>, nfnetlink::Error> {
        let (found, generation) = socket.glance(ATTEMPTS, |socket| {
            if socket.table(table)?.is_none() {
                return Ok(None);
            }
            Ok(Some((socket.chains(table)?.items, socket.rules(table)?.items)))
        })?;
        let Some((chains, rules)) = found else { return Ok(None) };
        let mut observed = Observed {
            chains: chains.into_iter().map(|chain| (chain.name, Vec::new())).collect::<BTreeMap<_, _>>(),
            ..Observed::default()
        };
        let mut handles = Vec::new();
        for rule in rules {
            if rule.chain == POSTROUTING {
                handles.push(rule.handle);
            }
            observed.chains.entry(rule.chain.clone()).or_default().push(saved(&rule));
        }
        Ok(Some(Nat { observed, handles, generation }))
    }

    /// The removal as one transaction.
    fn batch(&self, table: TableRef<'_>, leftovers: &Leftovers) -> Batch {
        let mut batch = Batch::new();
        for handle in leftovers.jumps.iter().filter_map(|&place| *self.handles.get(place)?) {
            batch.delete_rule(table, POSTROUTING, handle);
        }
        leftovers.emptied.iter().for_each(|chain| batch.flush_chain(table, chain));
        leftovers.deleted().for_each(|chain| batch.delete_chain(table, chain));
        batch
    }
}

/// The rule as a save would print what leftovers are known by; its other conditions are left out.
fn saved(rule: &nfnetlink::Rule) -> SavedRule {
    let mut words = String::new();
    if let Some(comment) = rule.comment.clone().or_else(|| comment(rule)) {
        words += &format!("-m comment --comment {comment:?} ");
    }
    words += &rule.expressions.iter().find_map(target).unwrap_or_default();
    SavedRule::parse(&words)
}

/// Where a rule leads, if it is to a chain.
fn target(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Verdict(Verdict::Jump(chain)) => Some(format!("-j {chain}")),
        Expr::Verdict(Verdict::Goto(chain)) => Some(format!("-g {chain}")),
        _ => None,
    }
}

fn comment(rule: &nfnetlink::Rule) -> Option<String> {
    rule.expressions.iter().find_map(|expr| {
        let extension = expr.extension().filter(|found| found.kind == ExtensionKind::Match && found.name == "comment");
        extension.map(|found| found.text())
    })
}
