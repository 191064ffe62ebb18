//! What `iptables-save -t nat` printed, read back: chains and their rules in order, each rule by what it means.

mod rule;
mod words;

use std::collections::{BTreeMap, BTreeSet};

pub use self::rule::{Match, SavedRule, Target};
use super::comment;

/// The chain of the nat table where source addresses are translated.
pub const POSTROUTING: &str = "POSTROUTING";

/// The nat table of one family as one of the programs printed it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// All chains by name, built-in ones included, with their rules in order.
    pub chains: BTreeMap<String, Vec<SavedRule>>,
    /// Whether the text breaks off, or says that there is more than it tells: `iptables-nft-save` gives up at the first native
    /// rule that it does not know.
    pub is_incomplete: bool,
    /// Chains that are there although no program can tell their rules.
    pub unreadable: BTreeSet<String>,
    /// Whether today's jump stands in POSTROUTING somewhere behind the rules that could be read.
    pub has_jump_beyond: bool,
}

impl Observed {
    /// Reads what a save program printed. Other tables than nat are passed over. Any text is taken: what is no line of a save
    /// means nothing.
    pub fn parse(text: &str) -> Observed {
        Observed::parse_table(text, "nat")
    }

    /// The same for a table of any name.
    pub fn parse_table(text: &str, wanted: &str) -> Observed {
        let mut observed = Observed::default();
        let mut within = Section::Outside;
        for line in lines(text) {
            match (line.split_at_checked(1), within) {
                (Some(("#", remark)), _) if is_incompatible(remark) => observed.is_incomplete = true,
                (Some(("*", table)), _) => within = if table == wanted { Section::Wanted } else { Section::Outside },
                (_, Section::Wanted) if line == "COMMIT" => within = Section::Outside,
                (Some((":", chain)), Section::Wanted) => {
                    let name = chain.split(' ').next().unwrap_or_default();
                    observed.chains.entry(name.to_owned()).or_default();
                }
                (_, Section::Wanted) => observed.read_rule(line),
                (_, Section::Outside) => {}
            }
        }
        observed.is_incomplete |= within == Section::Wanted;
        observed
    }

    /// Reads what `iptables -t nat -S CHAIN` printed, and adds it to what is known.
    pub fn read_listing(&mut self, listing: &str) {
        for line in lines(listing) {
            match line.strip_prefix("-P ").or_else(|| line.strip_prefix("-N ")) {
                Some(chain) => {
                    let name = chain.split(' ').next().unwrap_or_default();
                    self.chains.entry(name.to_owned()).or_default();
                }
                None => self.read_rule(line),
            }
        }
    }

    /// Reads `-A CHAIN ...`, perhaps behind `[packets:bytes]`.
    fn read_rule(&mut self, line: &str) {
        let (counters, line) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).unwrap_or(("", line));
        let Some(rest) = line.strip_prefix("-A ") else { return };
        let (chain, words) = rest.split_once(' ').unwrap_or((rest, ""));
        let packets = counters.split_once(':').and_then(|(packets, _bytes)| packets.parse().ok());
        let rule = SavedRule { packets, ..SavedRule::parse(words) };
        self.chains.entry(chain.to_owned()).or_default().push(rule);
    }

    /// The rules of a chain; `None` if there is no such chain.
    pub fn rules(&self, chain: &str) -> Option<&[SavedRule]> {
        self.chains.get(chain).map(Vec::as_slice)
    }

    /// The rules of POSTROUTING; none if there is no such chain yet.
    pub fn postrouting(&self) -> &[SavedRule] {
        self.rules(POSTROUTING).unwrap_or_default()
    }

    /// Every rule with the chain it stands in.
    pub fn all_rules(&self) -> impl Iterator<Item = (&str, &SavedRule)> {
        self.chains.iter().flat_map(|(chain, rules)| rules.iter().map(move |rule| (chain.as_str(), rule)))
    }
}

/// How many rules of others than the agent a save of any tables holds.
pub fn strangers_rules(text: &str) -> usize {
    let rules = lines(text).filter_map(|line| line.strip_prefix("-A ")?.split_once(' '));
    rules.filter(|(_, words)| !is_of_the_agent(&SavedRule::parse(words))).count()
}

/// The lines of a save. What stands in quotes may hold line breaks, as a comment with one does: it is a part of its line.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let lines = text.split(move |letter| {
        let ends = letter == '\n' && !is_quoted;
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends
    });
    // What follows the last line break is no line, if it is nothing.
    lines.filter(|line| !line.is_empty())
}

fn is_of_the_agent(rule: &SavedRule) -> bool {
    rule.comment().is_some_and(|text| comment::is_of_a_generation(text) || comment::names_chain(text).is_some())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Wanted,
    Outside,
}

/// ``# Table `nat' is incompatible, use 'nft' tool.``: the whole table is left out.
fn is_incompatible(remark: &str) -> bool {
    remark.contains(" is incompatible")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAVED: &str = "\
# Warning: iptables-legacy tables present, use iptables-legacy-save to see them
# Generated by iptables-nft-save v1.8.9 (nf_tables) on Mon Nov 30 15:52:41 2026
*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:IP-MASQ-AGENT - [0:0]
[5:500] -A POSTROUTING -j IP-MASQ-AGENT
-A IP-MASQ-AGENT -d 10.0.0.0/8 -j RETURN
COMMIT
# Completed on Mon Nov 30 15:52:41 2026
";

    #[test]
    fn chains_and_rules_of_the_nat_table_alone_are_read() {
        let observed = Observed::parse(SAVED);
        assert_eq!(observed.chains.keys().collect::<Vec<_>>(), ["IP-MASQ-AGENT", "POSTROUTING", "PREROUTING"]);
        assert_eq!(observed.postrouting().len(), 1);
        assert_eq!(observed.postrouting()[0].packets, Some(5));
        assert_eq!(observed.rules("IP-MASQ-AGENT").unwrap()[0].packets, None);
        assert_eq!(observed.rules("IP-MASQ-AGENT").unwrap()[0].destination, Some("10.0.0.0/8".parse().unwrap()));
        assert_eq!(observed.rules("FORWARD"), None);
        assert!(!observed.is_incomplete);
    }

    #[test]
    fn rules_of_the_agent_are_not_counted_as_anybody_elses() {
        let jump = comment::jump("C");
        let text = format!(
            "*filter\n-A FORWARD -j DROP\nCOMMIT\n*nat\n-A POSTROUTING -m comment --comment \"{jump}\" -j C\n\
             -A C -m comment --comment \"{}\" -j MASQUERADE\nCOMMIT\n",
            comment::MASQUERADE
        );
        assert_eq!(strangers_rules(&text), 1);
    }

    #[test]
    fn a_line_break_in_a_comment_ends_no_line() {
        let text = "*nat\n:C - [0:0]\n-A C -m comment --comment \"a \\\" b\n-A C -j DROP\nCOMMIT\" -j RETURN\n-A C -j ACCEPT\nCOMMIT\n";
        let observed = Observed::parse(text);
        let targets: Vec<_> = observed.rules("C").unwrap().iter().map(|rule| rule.target.name.as_deref()).collect();
        assert_eq!(targets, [Some("RETURN"), Some("ACCEPT")]);
        assert_eq!(observed.rules("C").unwrap()[0].comment(), Some("a \" b\n-A C -j DROP\nCOMMIT"));
        assert!(!observed.is_incomplete);
    }

    #[test]
    fn no_output_is_an_empty_table() {
        assert_eq!(Observed::parse(""), Observed::default());
    }

    #[test]
    fn a_text_that_breaks_off_is_known_to_be_incomplete() {
        let broken = SAVED.split("COMMIT\n# Completed").next().unwrap();
        assert!(Observed::parse(broken).is_incomplete);
        assert!(Observed::parse("# Table `nat' is incompatible, use 'nft' tool.\n").is_incomplete);
        assert!(
            !Observed::parse(&SAVED.replace("Warning:", "Table `nat' contains incompatible base-chains,"))
                .is_incomplete
        );
    }

    #[test]
    fn listings_of_single_chains_are_read_too() {
        let mut observed = Observed::default();
        observed.read_listing("-P POSTROUTING ACCEPT\n-A POSTROUTING -j C\n");
        observed.read_listing("-N C\n");
        assert_eq!(observed.postrouting().len(), 1);
        assert_eq!(observed.rules("C"), Some(&[][..]));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in any::<String>()) {
            Observed::parse(&text);
            Observed::default().read_listing(&text);
        }

        #[test]
        fn any_words_of_a_save_are_read_without_a_panic(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "*nat", ":C", "-A", "POSTROUTING", "-d", "-p", "!", "-m", "comment", "--comment", "\"", "\\", "addrtype", "\n",
                    "--dst-type", "LOCAL", "-j", "-g", "RETURN", "statistic", "--mode", "random", "--probability", "1e999", "[",
                    "] ", "-A C ", "10.0.0.0/8", "é", "#", "COMMIT", "--to-ports", "1-2", " ",
                ]),
                0..60,
            ),
            glue in prop::sample::select(vec!["", " "]),
        ) {
            Observed::parse(&format!("*nat\n-A {}", words.join(glue)));
        }
    }
}
