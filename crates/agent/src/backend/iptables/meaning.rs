//! What a saved rule amounts to: whether it is the wanted one, whose it is, and whether packets get past it.

use std::collections::BTreeMap;

use masq::cidr::Cidr;
use masq::ports::PortRange;

use super::comment;
use super::desired::{Destination, Ports, Rule};
use super::save::{Match, Observed, SavedRule, Target};

/// The kernel keeps probabilities as multiples of this.
const PROBABILITY_STEP: f64 = 1.0 / (1_u64 << 31) as f64;

/// Targets of nat POSTROUTING behind which no other rule of the chain is asked.
const FINAL_TARGETS: [&str; 9] =
    ["ACCEPT", "DROP", "QUEUE", "NFQUEUE", "RETURN", "MASQUERADE", "SNAT", "NETMAP", "SAME"];

/// The final targets that set up a translation.
const TRANSLATING_TARGETS: [&str; 4] = ["MASQUERADE", "SNAT", "NETMAP", "SAME"];

/// Whether a save printed exactly this rule, by what it means and in the order of conditions in which users see it.
pub fn is_printed_as(rule: &Rule, saved: &SavedRule) -> bool {
    match rule {
        Rule::Return(destination) => {
            saved.destination == printed(Some(destination))
                && saved.protocol.is_none()
                && saved.matches == [Match::Comment(comment::EXEMPT.to_owned())]
                && is_plain_jump(&saved.target, "RETURN")
                && saved.target.options.is_empty()
        }
        Rule::Masquerade { destination, ports, random_fully } => {
            saved.destination == printed(destination.as_ref())
                && saved.protocol.as_deref() == ports.map(|ports| ports.protocol.name())
                && are_masquerade_matches(&saved.matches, ports.as_ref())
                && is_plain_jump(&saved.target, "MASQUERADE")
                && masquerade_options(&saved.target.options)
                    == Some((ports.map(|ports| ports.share.range), *random_fully))
        }
    }
}

/// A block of all addresses is no condition.
fn printed(destination: Option<&Destination>) -> Option<Cidr> {
    destination.map(|destination| destination.cidr).filter(|cidr| cidr.prefix_len() > 0)
}

fn is_plain_jump(target: &Target, name: &str) -> bool {
    target.name.as_deref() == Some(name) && !target.is_goto
}

fn are_masquerade_matches(matches: &[Match], ports: Option<&Ports>) -> bool {
    let [Match::Comment(text), rest @ ..] = matches else { return false };
    let probability = ports.and_then(Ports::probability);
    text == comment::MASQUERADE
        && match (rest, probability) {
            ([], None) => true,
            ([Match::Probability(found)], Some(wanted)) => (found - wanted).abs() <= PROBABILITY_STEP,
            (_, _) => false,
        }
}

/// The ports and whether they are drawn at random; `None` where there is any other option.
fn masquerade_options(options: &[String]) -> Option<(Option<PortRange>, bool)> {
    let (mut ports, mut random_fully) = (None, false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--random-fully" => random_fully = true,
            "--to-ports" => ports = Some(options.next()?.parse().ok()?),
            _ => return None,
        }
    }
    Some((ports, random_fully))
}

/// Whether this is the one jump to `chain` that the agent wants: its comment, then its condition, and nothing else.
pub fn is_todays_jump(rule: &SavedRule, chain: &str) -> bool {
    rule.destination.is_none()
        && rule.protocol.is_none()
        && rule.matches == [Match::Comment(comment::jump(chain)), Match::DestinationNotLocal]
        && is_plain_jump(&rule.target, chain)
        && rule.target.options.is_empty()
}

/// Whether this is a jump of any generation to the chain that its comment names.
pub fn is_jump_of_a_generation(rule: &SavedRule) -> bool {
    let named = rule.comment().and_then(comment::names_chain);
    named.is_some_and(|chain| rule.leads_to(chain))
}

/// Whether a rule inside a chain bears the comment of any generation.
pub fn is_of_a_generation(rule: &SavedRule) -> bool {
    rule.comment().is_some_and(comment::is_of_a_generation)
}

/// Which rules let no packet past them; remembers what it finds out about chains.
#[derive(Debug)]
pub struct Ends<'o> {
    observed: &'o Observed,
    /// By chain; `false` while it is being looked at, which ends loops that no kernel has but a text may.
    known: BTreeMap<&'o str, bool>,
}

impl<'o> Ends<'o> {
    /// Nothing is known yet.
    pub fn new(observed: &'o Observed) -> Ends<'o> {
        Ends { observed, known: BTreeMap::new() }
    }

    /// Whether no packet gets past this rule of POSTROUTING.
    pub fn every_packet(&mut self, rule: &'o SavedRule) -> bool {
        let Some(name) = rule.target.name.as_deref().filter(|_| rule.is_unconditional()) else { return false };
        rule.target.is_goto || FINAL_TARGETS.contains(&name) || self.in_chain(name)
    }

    /// Whether no packet comes back from this chain.
    fn in_chain(&mut self, chain: &'o str) -> bool {
        if let Some(&known) = self.known.get(chain) {
            return known;
        }
        self.known.insert(chain, false);
        let ends = self.walk(chain);
        self.known.insert(chain, ends);
        ends
    }

    fn walk(&mut self, chain: &'o str) -> bool {
        let observed = self.observed;
        for rule in observed.rules(chain).unwrap_or_default() {
            let Some(name) = rule.target.name.as_deref() else { continue };
            let ends = name != "RETURN" && (FINAL_TARGETS.contains(&name) || self.in_chain(name));
            match (rule.is_unconditional(), ends) {
                (true, true) => return true,
                // From here some packets go back to where they came from, unasked by the rules below.
                (_, false) if name == "RETURN" || rule.target.is_goto => return false,
                (true, false) | (false, _) => {}
            }
        }
        false
    }
}

/// Whether the rule translates every connection that reaches it.
pub fn translates_everything(rule: &SavedRule) -> bool {
    rule.is_unconditional() && rule.target.name.as_deref().is_some_and(|name| TRANSLATING_TARGETS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(text: &str) -> bool {
        let observed = Observed::parse(&format!("*nat\n{text}COMMIT\n"));
        let rule = &observed.postrouting()[0];
        Ends::new(&observed).every_packet(rule)
    }

    #[test]
    fn a_final_target_without_condition_lets_nothing_past() {
        for target in FINAL_TARGETS {
            assert!(ends(&format!("-A POSTROUTING -j {target}\n")), "{target}");
            assert!(!ends(&format!("-A POSTROUTING -o eth0 -j {target}\n")), "{target}");
        }
        assert!(!ends("-A POSTROUTING -j LOG --log-prefix x\n"));
        assert!(!ends("-A POSTROUTING -m comment --comment \"only counts\"\n"));
    }

    #[test]
    fn a_chain_that_ends_every_packet_lets_nothing_past() {
        assert!(ends("-A POSTROUTING -j A\n-A A -s 10.0.0.0/8 -j MASQUERADE\n-A A -j B\n-A B -j ACCEPT\n"));
        assert!(ends("-A POSTROUTING -g A\n-A A -s 10.0.0.0/8 -j ACCEPT\n"), "a base chain is never returned to");
    }

    #[test]
    fn a_chain_that_some_packets_come_back_from_lets_them_past() {
        assert!(!ends("-A POSTROUTING -j A\n"));
        assert!(!ends("-A POSTROUTING -j A\n-A A -j RETURN\n-A A -j ACCEPT\n"));
        // kube-proxy's chain.
        assert!(!ends("-A POSTROUTING -j A\n-A A -m mark ! --mark 0x4000/0x4000 -j RETURN\n-A A -j MASQUERADE\n"));
        assert!(!ends("-A POSTROUTING -j A\n-A A -s 10.0.0.0/8 -g B\n-A A -j ACCEPT\n-A B -p tcp -j ACCEPT\n"));
    }

    #[test]
    fn chains_that_jump_in_circles_are_looked_at_once() {
        assert!(!ends("-A POSTROUTING -j A\n-A A -j B\n-A B -j A\n"));
    }
}
