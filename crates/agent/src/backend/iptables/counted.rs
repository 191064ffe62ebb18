//! What the rules of our chain say of connections: the nat table sees each of them once.

use std::collections::BTreeMap;

use masq::cidr::Family;
use masq::partition::Partition;
use masq::policy::Policy;
use nfnetlink::expr::Verdict;
use nfnetlink::{Expr, Extension, ExtensionKind, Socket};

use super::desired::{self, Rule};
use super::node::protocol_family;
use super::save::Observed;
use crate::backend::cidr_counts::CidrStand;
use crate::backend::counts::Stand;
use crate::backend::difference::Counted;

/// What a save says; `None` where our chain could not be read, or was printed without its counters.
pub fn stand(family: Family, chain: &str, observed: &Observed) -> Option<Stand> {
    if observed.unreadable.contains(chain) {
        return None;
    }
    let Some(rules) = observed.rules(chain) else { return Some(Stand { family, exempt: None, masqueraded: None }) };
    let of = |target: &str| rules.iter().filter(|rule| rule.leads_to(target)).map(|rule| rule.packets).sum();
    let (exempt, masqueraded): (Option<u64>, Option<u64>) = (of("RETURN"), of("MASQUERADE"));
    Some(Stand { family, exempt: Some(exempt?), masqueraded: Some(masqueraded?) })
}

/// The same where both are known.
pub fn counted(family: Family, chain: &str, observed: &Observed) -> Option<Counted> {
    let Stand { exempt, masqueraded, .. } = stand(family, chain, observed)?;
    Some(Counted { family, exempt: exempt?, masqueraded: masqueraded? })
}

/// What the rules of our chain in one family have counted.
#[derive(Debug)]
pub struct RuleCounts {
    /// What they come to; `None` where that is not known.
    pub stand: Option<Stand>,
    /// Those of each rule, in order; `None` for one that was printed without its counter.
    packets: Vec<Option<u64>>,
}

impl RuleCounts {
    /// What the kernel says of the rules that iptables-nft has put there.
    ///
    /// # Errors
    /// The kernel refuses, or the chain changes meanwhile.
    pub fn ask(socket: &mut Socket, family: Family, chain: &str) -> Result<RuleCounts, nfnetlink::Error> {
        let table = (protocol_family(family), "nat");
        let rules = socket.rules_of(table, chain, |rule| (effect(&rule), packets(&rule)))?.items;
        let of = |wanted| rules.iter().filter(|(effect, _)| *effect == Some(wanted)).map(|(_, packets)| packets).sum();
        // No rules are no chain of ours.
        let of = |wanted| (!rules.is_empty()).then(|| of(wanted));
        let stand = Stand { family, exempt: of(Effect::Return), masqueraded: of(Effect::Masquerade) };
        Ok(RuleCounts { stand: Some(stand), packets: rules.iter().map(|(_, packets)| Some(*packets)).collect() })
    }

    /// What a save says.
    pub fn of_save(family: Family, chain: &str, observed: &Observed) -> RuleCounts {
        let packets = observed.rules(chain).unwrap_or_default().iter().map(|rule| rule.packets).collect();
        RuleCounts { stand: stand(family, chain, observed), packets }
    }

    /// What each CIDR's rule has counted; nothing while the chain holds other rules.
    pub fn by_cidr(&self, partition: &Partition, policy: &Policy) -> Vec<CidrStand> {
        by_cidr(partition, policy, &self.packets)
    }
}

/// The rules stand in the order in which they are wanted; of a CIDR that has several, one for each range of ports, the numbers are added.
fn by_cidr(partition: &Partition, policy: &Policy, packets: &[Option<u64>]) -> Vec<CidrStand> {
    let wanted = desired::rules(partition, &policy.masquerade);
    if wanted.len() != packets.len() {
        return Vec::new();
    }
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (rule, packets) in wanted.iter().zip(packets) {
        let destination = match rule {
            Rule::Return(destination) => Some(destination),
            Rule::Masquerade { destination, .. } => destination.as_ref(),
        };
        if let (Some(destination), Some(packets)) = (destination, packets) {
            *sums.entry(&destination.text).or_default() += packets;
        }
    }
    let stand = |(cidr, packets): (&str, u64)| CidrStand { cidr: cidr.to_owned(), part: (0, 0), packets };
    sums.into_iter().map(stand).collect()
}

/// What becomes of packets that a rule of ours matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Return,
    Masquerade,
}

/// Some versions of iptables write nf_tables' own masquerade expression, others the target of iptables.
fn effect(rule: &nfnetlink::Rule) -> Option<Effect> {
    let is_target =
        |extension: Extension<'_>| extension.kind == ExtensionKind::Target && extension.name == "MASQUERADE";
    match rule.expressions.last()? {
        Expr::Verdict(Verdict::Return) => Some(Effect::Return),
        Expr::Masquerade { .. } => Some(Effect::Masquerade),
        other => other.extension().is_some_and(is_target).then_some(Effect::Masquerade),
    }
}

fn packets(rule: &nfnetlink::Rule) -> u64 {
    let counter = |expression: &Expr| match expression {
        Expr::Counter { packets, .. } => Some(*packets),
        _ => None,
    };
    rule.expressions.iter().find_map(counter).unwrap_or_default()
}
