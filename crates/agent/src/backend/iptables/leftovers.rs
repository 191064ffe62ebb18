//! Chains and jumps that the agent has no more use for: recognised by their comments, never by a name alone.

use std::collections::BTreeSet;

use masq::cidr::Family;

use super::meaning::{is_jump_of_a_generation, is_of_a_generation};
use super::plan::{Difference, Plan};
use super::save::{Observed, POSTROUTING, SavedRule};

/// Which leftovers are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'c> {
    /// Those of the chain with this name.
    Chain(&'c str),
    /// Those of every generation, but for the chain with this name, which is in use.
    AllBut(&'c str),
    /// Those of every generation; rules of strangers in the chain with this name are drift.
    All(&'c str),
}

impl<'c> Scope<'c> {
    /// The chain that is, or was, ours to use.
    pub fn chain(self) -> &'c str {
        match self {
            Scope::Chain(name) | Scope::AllBut(name) | Scope::All(name) => name,
        }
    }
}

/// What is to be removed, and what stays although it is ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// The removal as the programs take it: jumps first, then rules, then chains, all in one transaction.
    pub plan: Plan,
    /// The jumps that go, by their places in POSTROUTING.
    pub jumps: BTreeSet<usize>,
    /// The chains that are emptied.
    pub emptied: BTreeSet<String>,
    /// Chains that are emptied but stay, each with the stranger's rule that jumps to it.
    pub kept: Vec<(String, String)>,
}

impl Leftovers {
    /// The names of the chains concerned.
    pub fn chains(&self) -> BTreeSet<&str> {
        self.plan.changes().iter().map(|change| change.chain.as_str()).collect()
    }

    /// Looks for leftovers in one family's nat table.
    pub fn find(family: Family, observed: &Observed, scope: Scope<'_>) -> Leftovers {
        let mut leftovers = Leftovers::default();
        for (chain, rules) in observed.chains.iter().filter(|(chain, _)| is_meant(chain, scope)) {
            let ours = jumps_to(chain, observed);
            let is_ours = owns(chain, rules, scope) && !(rules.is_empty() && ours.is_empty());
            // A jump in our name to a chain that holds rules of others is touched only on request.
            if !is_ours && (ours.is_empty() || matches!(scope, Scope::AllBut(_))) {
                continue;
            }
            leftovers.jumps.extend(ours);
            let rules_removed = if is_ours { rules.len() } else { 0 };
            leftovers.plan.push(family, chain, Difference::Leftover { rules: rules_removed });
            if !is_ours {
                continue;
            }
            leftovers.emptied.insert(chain.clone());
            leftovers.kept.extend(strangers_jump(chain, observed).map(|jump| (chain.clone(), jump)));
        }
        let lines = leftovers.lines(observed);
        leftovers.plan.append_lines(&lines);
        leftovers
    }

    /// The chains that go altogether.
    pub fn deleted(&self) -> impl Iterator<Item = &str> {
        let is_kept = |chain: &str| self.kept.iter().any(|(kept, _)| kept == chain);
        self.emptied.iter().map(String::as_str).filter(move |chain| !is_kept(chain))
    }

    fn lines(&self, observed: &Observed) -> String {
        let jumps =
            self.jumps.iter().map(|&place| format!("-D {POSTROUTING} {}\n", observed.postrouting()[place].text));
        let flushes = self.emptied.iter().map(|chain| format!("-F {chain}\n"));
        let deletions = self.deleted().map(|chain| format!("-X {chain}\n"));
        jumps.chain(flushes).chain(deletions).collect()
    }
}

fn is_meant(chain: &str, scope: Scope<'_>) -> bool {
    let built_in = ["PREROUTING", "INPUT", "OUTPUT", POSTROUTING].contains(&chain);
    !built_in
        && match scope {
            Scope::Chain(name) => chain == name,
            Scope::AllBut(name) => chain != name,
            Scope::All(_) => true,
        }
}

/// In the chain that we use ourselves a stranger's rule among ours is drift; elsewhere it shows that the chain is not ours.
fn owns(chain: &str, rules: &[SavedRule], scope: Scope<'_>) -> bool {
    match scope {
        Scope::Chain(name) | Scope::All(name) if name == chain => {
            rules.is_empty() || rules.iter().any(is_of_a_generation)
        }
        Scope::Chain(_) | Scope::All(_) | Scope::AllBut(_) => rules.iter().all(is_of_a_generation),
    }
}

/// The places of the jumps to a chain that bear our comment.
fn jumps_to(chain: &str, observed: &Observed) -> Vec<usize> {
    let places = observed.postrouting().iter().enumerate();
    places.filter(|(_, rule)| rule.leads_to(chain) && is_jump_of_a_generation(rule)).map(|(place, _)| place).collect()
}

/// A rule that leads to the chain and stays, so that the kernel would refuse to delete the chain.
fn strangers_jump(chain: &str, observed: &Observed) -> Option<String> {
    observed
        .all_rules()
        .filter(|(holder, rule)| *holder != chain && rule.leads_to(chain))
        .find(|(holder, rule)| *holder != POSTROUTING || !is_jump_of_a_generation(rule))
        .map(|(holder, rule)| format!("-A {holder} {}", rule.text))
}

#[cfg(test)]
mod tests {
    use super::super::{comment, render};
    use super::*;

    const RULE: &str = "-m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\" -j RETURN";

    fn find(lines: &str, scope: Scope<'_>) -> Leftovers {
        Leftovers::find(Family::Ipv4, &Observed::parse(&format!("*nat\n{lines}COMMIT\n")), scope)
    }

    fn chain(name: &str) -> String {
        format!(":{name} - [0:0]\n-A POSTROUTING {}\n-A {name} {RULE}\n", render::jump(name))
    }

    #[test]
    fn a_chain_of_another_name_is_known_by_its_comments() {
        let leftovers = find(&(chain("OLD") + &chain("NEW")), Scope::AllBut("NEW"));
        assert_eq!(
            leftovers.plan.restore_text(),
            format!("*nat\n-D POSTROUTING {}\n-F OLD\n-X OLD\nCOMMIT\n", render::jump("OLD"))
        );
        assert_eq!(leftovers.plan.to_string(), "IPv4 chain OLD left over (1 rules)");
    }

    #[test]
    fn a_chain_with_one_rule_of_a_stranger_is_no_leftover() {
        let mixed = chain("OLD") + "-A OLD -j ACCEPT\n";
        assert!(find(&mixed, Scope::AllBut("NEW")).plan.is_in_sync());
        let removed = find(&mixed, Scope::All("NEW"));
        assert_eq!(removed.plan.restore_text(), format!("*nat\n-D POSTROUTING {}\nCOMMIT\n", render::jump("OLD")));
    }

    #[test]
    fn in_the_chain_in_use_a_strangers_rule_goes_with_the_chain() {
        let leftovers = find(&(chain("C") + "-A C -j ACCEPT\n"), Scope::Chain("C"));
        assert!(leftovers.plan.restore_text().contains("-F C\n-X C\n"));
    }

    #[test]
    fn a_strangers_chain_of_our_name_is_left_alone() {
        let theirs = ":C - [0:0]\n-A POSTROUTING -j C\n-A C -j MASQUERADE\n";
        assert!(find(theirs, Scope::All("C")).plan.is_in_sync());
        assert!(
            find(":C - [0:0]\n", Scope::All("C")).plan.is_in_sync(),
            "an empty chain that nothing of ours leads to"
        );
    }

    #[test]
    fn a_chain_that_a_stranger_jumps_to_is_emptied_and_kept() {
        let leftovers = find(&(chain("OLD") + ":THEIRS - [0:0]\n-A THEIRS -j OLD\n"), Scope::AllBut("NEW"));
        assert_eq!(leftovers.kept, [("OLD".to_owned(), "-A THEIRS -j OLD".to_owned())]);
        assert!(leftovers.plan.restore_text().contains("-F OLD\nCOMMIT"));
    }

    #[test]
    fn every_generation_is_recognised() {
        let quoted = comment::jump("QUOTED");
        let lines = format!(
            ":QUOTED - [0:0]\n:IP-MASQ - [0:0]\n:NON-MASQUERADE-DAEMON - [0:0]\n\
             -A POSTROUTING -m comment --comment \"\\\"{quoted}\\\"\" -m addrtype ! --dst-type LOCAL -j QUOTED\n\
             -A POSTROUTING -m comment --comment \"ip-masq: ensure nat POSTROUTING directs all non-LOCAL destination traffic to \
             our custom IP-MASQ chain\" -m addrtype ! --dst-type LOCAL -j IP-MASQ\n\
             -A POSTROUTING -m comment --comment \"non-masquerade-daemon: ensure nat POSTROUTING directs all non-LOCAL destination \
             traffic to our custom NON-MASQUERADE-DAEMON chain\" -j NON-MASQUERADE-DAEMON\n\
             -A QUOTED {RULE}\n\
             -A IP-MASQ -m comment --comment \"ip-masq: RFC 1918 reserved range is not subject to MASQUERADE\" -j RETURN\n\
             -A NON-MASQUERADE-DAEMON -m comment --comment \"non-masquerade-daemon: cluster-local traffic should not be subject to \
             MASQUERADE\" -m addrtype ! --dst-type LOCAL -j RETURN\n"
        );
        let leftovers = find(&lines, Scope::AllBut("C"));
        assert_eq!(leftovers.chains().into_iter().collect::<Vec<_>>(), ["IP-MASQ", "NON-MASQUERADE-DAEMON", "QUOTED"]);
        assert_eq!(leftovers.plan.restore_text().matches("-D POSTROUTING").count(), 3);
    }
}
