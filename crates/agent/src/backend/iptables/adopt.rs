//! Rules that an earlier run left, taken as what to keep in force.

use masq::cidr::{Cidr, Family};
use masq::config::{ListedCidr, Origin};
use masq::partition::{Entry, List, Partition};
use masq::policy::Masquerade;
use masq::ports::PortRanges;

use super::comment;
use super::desired::{Protocol, Rule, rules};
use super::meaning::is_printed_as;
use super::save::SavedRule;

/// The rules that a saved chain holds, if they are such as this agent writes: then they print exactly as they were found.
pub fn adopt(family: Family, saved: &[SavedRule]) -> Option<Vec<Rule>> {
    let exempt = saved.iter().take_while(|rule| rule.comment() == Some(comment::EXEMPT));
    let entries = exempt.map(|rule| entry(family, rule.destination)).collect::<Option<Vec<Entry>>>()?;
    let options = &saved.last()?.target.options;
    let masquerade = Masquerade {
        to_ports: PortRanges(saved.iter().filter_map(ports_of_first_protocol).collect()),
        random_fully: options.iter().any(|option| option == "--random-fully"),
    };
    let rules = rules(&Partition::new(family, entries), &masquerade);
    let same = rules.len() == saved.len() && rules.iter().zip(saved).all(|(rule, saved)| is_printed_as(rule, saved));
    same.then_some(rules)
}

fn entry(family: Family, destination: Option<Cidr>) -> Option<Entry> {
    let everything = Cidr::new(family.address(0), 0).ok()?;
    let cidr = destination.unwrap_or(everything);
    let listed = ListedCidr { cidr, text: cidr.to_string(), origin: Origin::Default };
    Some(Entry { listed, list: List::NonMasquerade })
}

/// Every protocol has the same ranges in the same order.
fn ports_of_first_protocol(rule: &SavedRule) -> Option<masq::ports::PortRange> {
    let first = Protocol::ALL[0].name();
    let mut options = rule.target.options.iter().skip_while(|option| *option != "--to-ports");
    let ports = options.nth(1)?;
    rule.protocol.as_deref().filter(|protocol| *protocol == first).and(ports.parse().ok())
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags};
    use masq::policy::Policy;
    use serde_json::Value;

    use super::super::desired::Desired;
    use super::super::save::Observed;
    use super::*;

    fn adopted(family: Family, name: &str, chain: &str) -> Option<Vec<Rule>> {
        let vectors: Value = serde_json::from_str(include_str!("../../../../masq/tests/vectors.json")).unwrap();
        let lines = vectors["rulesets"][name].as_array().unwrap().iter();
        let text: String = lines.map(|line| format!("{}\n", line.as_str().unwrap())).collect();
        let observed = Observed::parse(&format!("*nat\n{text}COMMIT\n"));
        adopt(family, observed.rules(chain).unwrap())
    }

    #[test]
    fn the_default_rules_are_adopted_as_what_they_are() {
        let desired = Desired::new(&Policy::new(&Config::default_for(&Flags::default())), "IP-MASQ-AGENT");
        assert_eq!(adopted(Family::Ipv4, "save4-default", "IP-MASQ-AGENT"), Some(desired.ipv4));
    }

    #[test]
    fn rules_with_ports_and_a_block_of_all_addresses_are_adopted() {
        assert_eq!(adopted(Family::Ipv4, "04ea7ae34b", "CUSTOM").map(|rules| rules.len()), Some(11 + 3 + 1));
        let everything = adopted(Family::Ipv6, "47cab249b9", "IP-MASQ-AGENT").unwrap();
        assert!(everything.iter().any(|rule| matches!(rule, Rule::Return(all) if all.cidr.prefix_len() == 0)));
    }

    #[test]
    fn a_chain_with_anything_else_in_it_is_not_adopted() {
        let mut observed = Observed::default();
        observed.read_listing("-A C -j MASQUERADE\n");
        assert_eq!(adopt(Family::Ipv4, observed.rules("C").unwrap()), None);
        assert_eq!(adopt(Family::Ipv4, &[]), None);
    }
}
