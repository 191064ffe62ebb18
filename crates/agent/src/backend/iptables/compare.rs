//! The nat tables against what they should hold, line by line, as a save program prints them.

use anyhow::Error;
use masq::cidr::Family;
use masq::policy::Policy;

use super::counted::counted;
use super::desired::{Desired, Rule, without_random_fully};
use super::leftovers::{Leftovers, Scope};
use super::meaning::is_printed_as;
use super::plan::{Difference, Plan};
use super::programs::ProgramError;
use super::render;
use super::save::{Observed, POSTROUTING};
use super::version::Stack;
use super::{Iptables, comment};
use crate::backend::difference::{Comparison, Group, Line, Side, align};

impl Iptables {
    /// Compares both families on both stacks with a policy; without one, all that is ours is unwanted. Nothing is changed.
    pub fn compare(&mut self, policy: Option<&Policy>) -> Comparison {
        let desired = policy.map(|policy| Desired::new(policy, &self.chain));
        let mut comparison = Comparison::default();
        let in_use = self.node.stack();
        for stack in [in_use, in_use.other()] {
            for family in Family::ALL {
                let rules = desired.as_ref().and_then(|desired| desired.rules(family)).filter(|_| stack == in_use);
                match self.compare_table(family, stack, rules) {
                    Ok(found) => {
                        comparison.too_old = comparison.too_old.take().or(found.too_old.clone());
                        comparison.append(found);
                    }
                    // Where nothing of ours is to be, the daemon gets along without programs, too.
                    Err(error) if rules.is_none() && is_missing(&error) => {}
                    Err(error) => {
                        comparison.failures.push(error.context(format!("iptables: {family} in {stack}")));
                    }
                }
            }
        }
        comparison
    }

    fn compare_table(&mut self, family: Family, stack: Stack, rules: Option<&[Rule]>) -> Result<Comparison, Error> {
        if rules.is_none() && !self.node.has_nat_table(family, stack) {
            return Ok(Comparison::default());
        }
        let tools = self.node.programs.tools(family, stack)?;
        let observed = self.node.observe(&tools, &self.chain)?;
        let place = Place { family, stack };
        let Some(wanted) = rules else {
            let groups = place.leftovers(&observed, Scope::All(&self.chain));
            return Ok(Comparison { groups, legacy: place.legacy(observed), ..Comparison::default() });
        };
        let version = match self.node.programs.version(family, stack) {
            Some(version) => version,
            None => tools.version(&self.node.runner)?,
        };
        let rules = if version.has_random_fully() { wanted.to_vec() } else { without_random_fully(wanted) };
        let mut groups = place.chain(&self.chain, &rules, &observed)?;
        groups.extend(place.leftovers(&observed, Scope::AllBut(&self.chain)));
        let too_old = (rules != wanted).then(|| version.to_string());
        let counted = counted(family, &self.chain, &observed).into_iter().collect();
        Ok(Comparison { groups, counted, too_old, legacy: place.legacy(observed), ..Comparison::default() })
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(ProgramError::Missing { .. }))
}

/// Chains and jumps of a nat table that are to go.
pub(super) fn leftover_groups(family: Family, stack: Stack, observed: &Observed, scope: Scope<'_>) -> Vec<Group> {
    Place { family, stack }.leftovers(observed, scope)
}

/// A nat table.
#[derive(Debug, Clone, Copy)]
struct Place {
    family: Family,
    stack: Stack,
}

impl Place {
    fn group(self, chain: &str, lines: Vec<Line>) -> Option<Group> {
        let Place { family, stack } = self;
        (!lines.is_empty()).then(|| Group { place: format!("{family} nat table of {stack}, chain {chain}"), lines })
    }

    /// The table, if it is one of iptables-legacy and was there to be read.
    fn legacy(self, observed: Observed) -> Vec<(Family, Observed)> {
        let is_legacy = self.stack == Stack::Legacy && !observed.chains.is_empty();
        is_legacy.then_some((self.family, observed)).into_iter().collect()
    }

    /// The chain in use and the jump to it.
    fn chain(self, chain: &str, rules: &[Rule], observed: &Observed) -> Result<Vec<Group>, Error> {
        let plan = Plan::new(self.family, chain, rules, observed, false)?;
        let (mut in_chain, mut jumps) = (Vec::new(), Vec::new());
        for change in plan.changes() {
            match &change.difference {
                Difference::ChainMissing { .. } | Difference::RulesDiffer { .. } => {
                    in_chain.extend(chain_lines(chain, rules, observed));
                }
                other => jumps.extend(jump_lines(chain, other)),
            }
        }
        Ok([self.group(chain, in_chain), self.group(POSTROUTING, jumps)].into_iter().flatten().collect())
    }

    /// Chains and jumps that are to go, by the lines of the restore that removes them.
    fn leftovers(self, observed: &Observed, scope: Scope<'_>) -> Vec<Group> {
        let Leftovers { plan, .. } = Leftovers::find(self.family, observed, scope);
        let text = plan.restore_text();
        let removed = |command: &str| text.lines().filter_map(|line| line.strip_prefix(command)).collect::<Vec<_>>();
        let jumps = removed("-D ").into_iter().map(|rule| Line::unwanted(format!("-A {rule}"))).collect();
        let chain = |chain: &str| {
            let rules = observed.rules(chain).unwrap_or_default();
            let rules = rules.iter().map(|rule| Line::unwanted(format!("-A {chain} {}", rule.text)));
            self.group(chain, [Line::unwanted(declaration(chain))].into_iter().chain(rules).collect())
        };
        self.group(POSTROUTING, jumps).into_iter().chain(removed("-F ").into_iter().filter_map(chain)).collect()
    }
}

fn chain_lines(chain: &str, rules: &[Rule], observed: &Observed) -> Vec<Line> {
    let missing = |rule: &Rule| Line::missing(format!("-A {chain} {}", as_saved(rule)));
    let Some(found) = observed.rules(chain).filter(|_| !observed.unreadable.contains(chain)) else {
        let known = observed.unreadable.contains(chain);
        let first =
            if known { Line::unwanted("rules that iptables cannot read") } else { Line::missing(declaration(chain)) };
        return [first].into_iter().chain(rules.iter().map(missing)).collect();
    };
    let line = |(side, index): (Side, usize)| match side {
        Side::Missing => missing(&rules[index]),
        Side::Unwanted => Line::unwanted(format!("-A {chain} {}", found[index].text)),
    };
    let same = |row: usize, column: usize| is_printed_as(&rules[row], &found[column]);
    align(rules.len(), found.len(), same).into_iter().map(line).collect()
}

fn jump_lines(chain: &str, difference: &Difference) -> Vec<Line> {
    let jump = format!("-A {POSTROUTING} {}", render::jump(chain));
    match difference {
        Difference::JumpMissing => vec![Line::missing(jump)],
        Difference::JumpBehind { rule } => vec![
            Line::unwanted(format!("{jump} (behind \"-A {POSTROUTING} {rule}\", which no packet gets past)")),
            Line::missing(format!("{jump} (before it)")),
        ],
        Difference::JumpDoubled => vec![Line::unwanted(format!("{jump} (once more)"))],
        Difference::JumpOutdated { rule } | Difference::JumpForeign { rule } => {
            vec![Line::unwanted(format!("-A {POSTROUTING} {rule}"))]
        }
        // About chains, not about jumps.
        Difference::ChainMissing { .. } | Difference::RulesDiffer { .. } | Difference::Leftover { .. } => Vec::new(),
    }
}

fn declaration(chain: &str) -> String {
    format!(":{chain} - [0:0]")
}

/// A rule with its conditions in the order of the save programs, so that it looks like those it is compared with.
fn as_saved(rule: &Rule) -> String {
    let (destination, ports, text, target) = match rule {
        Rule::Return(destination) => (Some(destination), None, comment::EXEMPT, "RETURN"),
        Rule::Masquerade { destination, ports, .. } => {
            (destination.as_ref(), ports.as_ref(), comment::MASQUERADE, "MASQUERADE")
        }
    };
    let mut words = Vec::new();
    words.extend(
        destination.map(|block| block.cidr).filter(|cidr| cidr.prefix_len() > 0).map(|cidr| format!("-d {cidr}")),
    );
    words.extend(ports.map(|ports| format!("-p {}", ports.protocol)));
    words.push(render::comment_match(text));
    let probability = ports.and_then(|ports| ports.probability());
    words.extend(probability.map(|value| format!("-m statistic --mode random --probability {value:.11}")));
    words.push(format!("-j {target}"));
    words.extend(ports.map(|ports| format!("--to-ports {}", ports.share.range)));
    words.extend(matches!(rule, Rule::Masquerade { random_fully: true, .. }).then(|| "--random-fully".to_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags};

    use super::*;

    const PLACE: Place = Place { family: Family::Ipv4, stack: Stack::Nft };

    fn rules(to_ports: &str) -> Vec<Rule> {
        let flags = Flags { to_ports: to_ports.parse().unwrap(), ..Flags::default() };
        Desired::new(&Policy::new(&Config::default_for(&flags)), "C").ipv4
    }

    /// What a save prints when all is as it should be.
    fn saved(rules: &[Rule]) -> String {
        let lines: String = rules.iter().map(|rule| format!("-A C {}\n", as_saved(rule))).collect();
        format!(":C - [0:0]\n-A POSTROUTING {}\n{lines}", render::jump("C"))
    }

    fn differences(rules: &[Rule], lines: &str) -> Vec<String> {
        let observed = Observed::parse(&format!("*nat\n{lines}COMMIT\n"));
        let sign = |side| if side == Side::Missing { "+" } else { "-" };
        let groups = PLACE.chain("C", rules, &observed).unwrap();
        groups.iter().flat_map(|group| &group.lines).map(|line| format!("{} {}", sign(line.side), line.text)).collect()
    }

    #[test]
    fn rules_are_written_as_they_are_saved() {
        for ports in ["", "1024-2000,3000-4000"] {
            let rules = rules(ports);
            assert_eq!(differences(&rules, &saved(&rules)), Vec::<String>::new());
        }
    }

    #[test]
    fn one_rule_of_many_is_one_line() {
        let rules = rules("");
        let without = saved(&rules).replace(&format!("-A C {}\n", as_saved(&rules[2])), "");
        assert_eq!(differences(&rules, &without), [format!("+ -A C {}", as_saved(&rules[2]))]);
        let with = saved(&rules) + "-A C -j ACCEPT\n";
        assert_eq!(differences(&rules, &with), ["- -A C -j ACCEPT"]);
    }

    #[test]
    fn a_missing_chain_is_all_of_its_lines_and_the_jump() {
        let rules = rules("");
        let lines = differences(&rules, "");
        assert_eq!(lines.len(), 1 + rules.len() + 1);
        assert_eq!(lines[0], "+ :C - [0:0]");
        assert!(lines.iter().all(|line| line.starts_with('+')));
    }

    #[test]
    fn a_jump_that_no_packet_reaches_names_what_is_in_the_way() {
        let rules = rules("");
        let lines = differences(&rules, &("-A POSTROUTING -j ACCEPT\n".to_owned() + &saved(&rules)));
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("- ") && lines[0].contains("(behind \"-A POSTROUTING -j ACCEPT\""), "{lines:?}");
    }

    #[test]
    fn a_leftover_is_its_jump_and_its_rules() {
        let text = saved(&rules("")).replace(" C ", " OLD ").replace(":C ", ":OLD ").replace("-j C\n", "-j OLD\n");
        let observed = Observed::parse(&format!("*nat\n{text}COMMIT\n"));
        let groups = PLACE.leftovers(&observed, Scope::AllBut("C"));
        let places: Vec<&str> = groups.iter().map(|group| group.place.as_str()).collect();
        let table = "IPv4 nat table of iptables-nft, chain";
        assert_eq!(places, [format!("{table} POSTROUTING"), format!("{table} OLD")]);
        assert!(groups.iter().flat_map(|group| &group.lines).all(|line| line.side == Side::Unwanted));
        assert_eq!(groups[1].lines.len(), 1 + rules("").len());
    }

    #[test]
    fn a_strangers_chain_is_not_compared() {
        let observed = Observed::parse("*nat\n:C - [0:0]\n-A C -j ACCEPT\nCOMMIT\n");
        assert!(PLACE.chain("C", &rules(""), &observed).unwrap_err().to_string().contains("--masq-chain"));
    }
}
