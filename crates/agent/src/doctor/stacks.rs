//! Rules of other programs in both iptables stacks at once.

use masq::cidr::Family;

use super::{Finding, Severity};
use crate::backend::iptables::comment;
use crate::backend::iptables::node::protocol_family;
use crate::foreign::{Rule, Ruleset, Stack};

/// The finding for one family.
pub(super) fn finding(ruleset: &Ruleset, family: Family) -> Option<Finding> {
    let protocol_family = protocol_family(family);
    let rules = |stack: Stack| -> usize {
        let tables = ruleset
            .tables
            .iter()
            .filter(|table| (table.stack, table.family, table.name.as_str()) == (stack, protocol_family, "nat"));
        tables
            .flat_map(|table| &table.chains)
            .flat_map(|chain| &chain.rules)
            .filter(|rule| !is_of_an_agent(rule))
            .count()
    };
    let (nft, legacy) = (rules(Stack::Nft), rules(Stack::Legacy));
    (nft > 0 && legacy > 0).then(|| Finding {
        id: "stacks-split",
        severity: Severity::Warning,
        sentence: format!(
            "{family} NAT rules of other programs are split over iptables-nft ({nft}) and iptables-legacy ({legacy}); the kernel asks \
             both, so that what one exempts the other may masquerade"
        ),
        remedy: "let all programs of the node use one stack (update-alternatives --config iptables), then flush the other".to_owned(),
    })
}

fn is_of_an_agent(rule: &Rule) -> bool {
    let text = rule.comment.as_deref();
    text.is_some_and(|text| comment::is_of_a_generation(text) || comment::names_chain(text).is_some())
}
