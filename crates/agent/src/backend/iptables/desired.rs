//! A policy as rules of the nat table: what the agent's chain is to hold in each family, written down as values.

use std::fmt;

use masq::cidr::{Cidr, Family};
use masq::config::ListedCidr;
use masq::partition::{Entry, Partition};
use masq::policy::{Masquerade, Policy};
use masq::ports::Share;

/// What the nat tables are to hold: the chain with these rules, and one jump to it from POSTROUTING.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The chain's name.
    pub chain: String,
    /// Its rules for IPv4, in order.
    pub ipv4: Vec<Rule>,
    /// Its rules for IPv6, in order; `None` while IPv6 is off.
    pub ipv6: Option<Vec<Rule>>,
}

/// A rule of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Leaves the chain: the destination is exempt.
    Return(Destination),
    /// Masquerades.
    Masquerade {
        /// For which destinations; `None` for all.
        destination: Option<Destination>,
        /// For which connections and to which ports; `None` for all, to any port.
        ports: Option<Ports>,
        /// Whether the kernel picks the port at random instead of keeping the pod's where it is free.
        random_fully: bool,
    },
}

/// A block of destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The block.
    pub cidr: Cidr,
    /// The block as the config's writer wrote it.
    pub text: String,
}

/// The part of a protocol's connections that get their source ports from one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The protocol.
    pub protocol: Protocol,
    /// The range and its part of the connections that reach the rule.
    pub share: Share,
}

impl Ports {
    /// The probability with which a connection that reaches the rule is taken by it; `None` where it always is.
    pub fn probability(&self) -> Option<f64> {
        // The division is the reference's: the text of its result is part of what users compare.
        (u64::from(self.share.size) < self.share.remaining)
            .then(|| f64::from(self.share.size) / self.share.remaining as f64)
    }
}

/// A protocol whose source ports can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// All of them, in the order of the reference's rules.
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

    /// Its name for `-p`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Desired {
    /// The rules that carry a policy out in a chain of this name.
    pub fn new(policy: &Policy, chain: &str) -> Desired {
        let family = |partition: &Partition| rules(partition, &policy.masquerade);
        Desired { chain: chain.to_owned(), ipv4: family(&policy.ipv4), ipv6: policy.ipv6.as_ref().map(family) }
    }

    /// The rules of a family; `None` where the family is left untouched.
    pub fn rules(&self, family: Family) -> Option<&[Rule]> {
        match family {
            Family::Ipv4 => Some(&self.ipv4),
            Family::Ipv6 => self.ipv6.as_deref(),
        }
    }
}

/// The same rules for programs that do not know `--random-fully`.
pub fn without_random_fully(rules: &[Rule]) -> Vec<Rule> {
    let mut rules = rules.to_vec();
    for rule in &mut rules {
        if let Rule::Masquerade { random_fully, .. } = rule {
            *random_fully = false;
        }
    }
    rules
}

/// The rules of one family.
pub fn rules(partition: &Partition, masquerade: &Masquerade) -> Vec<Rule> {
    let mut entries: Vec<&Entry> = partition.entries().iter().collect();
    if entries.iter().any(|entry| !entry.list.is_exempt()) {
        // A chain's first match decides, so the more specific block has to stand before the wider one around it. Exempt blocks
        // alone keep the file's order, for which of them matches makes no difference.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.listed.cidr.prefix_len()));
    }
    let mut rules = Vec::new();
    for Entry { listed, list } in entries {
        if list.is_exempt() {
            rules.push(Rule::Return(destination(listed)));
        } else {
            rules.extend(masquerade_rules(Some(&destination(listed)), masquerade));
        }
    }
    rules.extend(masquerade_rules(None, masquerade));
    rules
}

fn masquerade_rules(destination: Option<&Destination>, masquerade: &Masquerade) -> Vec<Rule> {
    let with =
        |ports| Rule::Masquerade { destination: destination.cloned(), ports, random_fully: masquerade.random_fully };
    let mut rules = Vec::new();
    if !masquerade.to_ports.is_empty() {
        for protocol in Protocol::ALL {
            rules.extend(masquerade.to_ports.shares().map(|share| with(Some(Ports { protocol, share }))));
        }
    }
    rules.push(with(None));
    rules
}

fn destination(listed: &ListedCidr) -> Destination {
    Destination { cidr: listed.cidr, text: listed.text.clone() }
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags, Origin};
    use masq::partition::List;

    use super::*;

    fn entry(text: &str, list: List) -> Entry {
        let listed = ListedCidr { cidr: text.parse().unwrap(), text: text.to_owned(), origin: Origin::Default };
        Entry { listed, list }
    }

    #[test]
    fn ipv6_has_no_rules_while_it_is_off() {
        let off = Policy::new(&Config::default_for(&Flags::default()));
        assert_eq!(Desired::new(&off, "C").rules(Family::Ipv6), None);
        let on = Policy::new(&Config::default_for(&Flags { enable_ipv6: true, ..Flags::default() }));
        assert_eq!(Desired::new(&on, "C").rules(Family::Ipv6).map(<[Rule]>::len), Some(2));
    }

    #[test]
    fn exempt_blocks_keep_the_order_of_the_file() {
        let list = |text| entry(text, List::NonMasquerade);
        let partition = Partition::new(Family::Ipv4, ["10.0.0.0/8", "10.1.0.0/16", "9.0.0.0/8"].map(list));
        let policy = Policy::new(&Config::default_for(&Flags::default()));
        let rules = rules(&partition, &policy.masquerade);
        let texts: Vec<&str> = rules
            .iter()
            .filter_map(|rule| match rule {
                Rule::Return(destination) => Some(destination.text.as_str()),
                Rule::Masquerade { .. } => None,
            })
            .collect();
        assert_eq!(texts, ["10.0.0.0/8", "10.1.0.0/16", "9.0.0.0/8"]);
    }

    #[test]
    fn a_masqueraded_block_inside_an_exempt_one_stands_before_it() {
        let entries = [entry("10.0.0.0/8", List::NonMasquerade), entry("10.1.0.0/16", List::Masquerade)];
        let policy = Policy::new(&Config::default_for(&Flags::default()));
        let rules = rules(&Partition::new(Family::Ipv4, entries), &policy.masquerade);
        assert!(matches!(&rules[0], Rule::Masquerade { destination: Some(inner), .. } if inner.text == "10.1.0.0/16"));
        assert!(matches!(&rules[1], Rule::Return(outer) if outer.text == "10.0.0.0/8"));
    }

    #[test]
    fn the_last_range_of_ports_takes_all_that_is_left() {
        let flags = Flags { to_ports: "1-1,2-2".parse().unwrap(), ..Flags::default() };
        let desired = Desired::new(&Policy::new(&Config::default_for(&flags)), "C");
        let probabilities: Vec<Option<f64>> = desired
            .ipv4
            .iter()
            .filter_map(|rule| match rule {
                Rule::Masquerade { ports: Some(ports), .. } => Some(ports.probability()),
                Rule::Masquerade { .. } | Rule::Return(_) => None,
            })
            .collect();
        assert_eq!(probabilities, [Some(0.5), None].repeat(3));
    }
}
