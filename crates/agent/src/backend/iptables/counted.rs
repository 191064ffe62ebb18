//! What the rules of our chain say of connections: the nat table sees each of them once.

use masq::cidr::Family;
use nfnetlink::expr::Verdict;
use nfnetlink::{Expr, ExtensionKind};

use super::save::Observed;
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

/// What the kernel says of the rules that iptables-nft has put into our chain; no rules are no chain.
pub fn stand_of(family: Family, rules: &[nfnetlink::Rule]) -> Stand {
    let mut stand = Stand { family, exempt: None, masqueraded: None };
    if !rules.is_empty() {
        (stand.exempt, stand.masqueraded) = (Some(0), Some(0));
    }
    for rule in rules {
        let packets = rule.expressions.iter().find_map(packets).unwrap_or_default();
        let sum = match rule.expressions.last() {
            Some(Expr::Verdict(Verdict::Return)) => &mut stand.exempt,
            Some(target) if masquerades(target) => &mut stand.masqueraded,
            Some(_) | None => continue,
        };
        *sum = sum.map(|sum| sum + packets);
    }
    stand
}

fn packets(expression: &Expr) -> Option<u64> {
    match expression {
        Expr::Counter { packets, .. } => Some(*packets),
        _ => None,
    }
}

/// Some versions of iptables write nf_tables' own expression, others the target of iptables.
fn masquerades(expression: &Expr) -> bool {
    let is_masquerade = |kind, name: &str| kind == ExtensionKind::Target && name == "MASQUERADE";
    matches!(expression, Expr::Masquerade { .. })
        || expression.extension().is_some_and(|extension| is_masquerade(extension.kind, &extension.name))
}
