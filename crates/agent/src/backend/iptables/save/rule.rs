//! One rule of a save by what it means: which packets it is for and what becomes of them.

use masq::cidr::Cidr;

use super::words;

/// A rule as it was printed.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedRule {
    /// All that follows the chain's name, as printed: what deletes the rule again behind `-D CHAIN`.
    pub text: String,
    /// `-d`, where it is a plain block; a block of all addresses is not printed.
    pub destination: Option<Cidr>,
    /// `-p`, where it is plain.
    pub protocol: Option<String>,
    /// Everything else that packets have to match, in the order of printing.
    pub matches: Vec<Match>,
    /// What becomes of them.
    pub target: Target,
    /// How many packets have matched it, if that was printed.
    pub packets: Option<u64>,
}

/// A condition of a rule, or a comment.
#[derive(Debug, Clone, PartialEq)]
pub enum Match {
    /// `-m comment`: matches everything.
    Comment(String),
    /// `-m addrtype ! --dst-type LOCAL`.
    DestinationNotLocal,
    /// `-m statistic --mode random --probability`.
    Probability(f64),
    /// Any other condition, as printed.
    Other(String),
}

/// What becomes of packets that match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// `RETURN`, `MASQUERADE`, a chain's name...; `None` where the rule only counts.
    pub name: Option<String>,
    /// Whether the rule leaves its chain for good (`-g`) instead of jumping (`-j`).
    pub is_goto: bool,
    /// The words that follow the name.
    pub options: Vec<String>,
}

impl SavedRule {
    /// Reads what follows `-A CHAIN `.
    pub(in crate::backend::iptables) fn parse(text: &str) -> SavedRule {
        let words = words::split(text);
        let mut rule = SavedRule {
            text: text.to_owned(),
            destination: None,
            protocol: None,
            matches: Vec::new(),
            target: Target::default(),
            packets: None,
        };
        let mut rest = words.as_slice();
        while let [first, behind @ ..] = rest {
            rest = match (first.as_str(), behind) {
                ("-j" | "-g", [name, options @ ..]) => {
                    rule.target =
                        Target { name: Some(name.clone()), is_goto: first == "-g", options: options.to_vec() };
                    &[]
                }
                ("-m", [module, behind @ ..]) => {
                    let (options, behind) = behind.split_at(module_length(behind));
                    rule.matches.push(module_match(module, options));
                    behind
                }
                ("-d", [block, behind @ ..]) if rule.destination.is_none() => {
                    rule.read_destination(block);
                    behind
                }
                ("-p", [protocol, behind @ ..]) if rule.protocol.is_none() => {
                    rule.protocol = Some(protocol_name(protocol).to_owned());
                    behind
                }
                // `! -d BLOCK`, `-s BLOCK`, `-i LINK`...: whatever it is, it is a condition.
                (option, behind) => {
                    let (values, behind) = behind.split_at(condition_length(option, behind));
                    rule.matches.push(Match::Other(joined(option, values)));
                    behind
                }
            };
        }
        rule
    }

    fn read_destination(&mut self, block: &str) {
        match parse_block(block) {
            // Some versions print the block of all addresses, most do not.
            Some(cidr) if cidr.prefix_len() == 0 => {}
            Some(cidr) => self.destination = Some(cidr),
            None => self.matches.push(Match::Other(format!("-d {block}"))),
        }
    }

    /// The text of its comment; the first one, should there be several.
    pub fn comment(&self) -> Option<&str> {
        self.matches.iter().find_map(|condition| match condition {
            Match::Comment(text) => Some(text.as_str()),
            Match::DestinationNotLocal | Match::Probability(_) | Match::Other(_) => None,
        })
    }

    /// Whether every packet matches it.
    ///
    /// `iptables-nft-save` prints conditions of native rules that it cannot express as nothing, so such a rule passes for
    /// unconditional here.
    pub fn is_unconditional(&self) -> bool {
        let only_comments = self.matches.iter().all(|condition| matches!(condition, Match::Comment(_)));
        self.destination.is_none() && self.protocol.is_none() && only_comments
    }

    /// Whether it jumps or goes to this chain.
    pub fn leads_to(&self, chain: &str) -> bool {
        self.target.name.as_deref() == Some(chain)
    }
}

/// How many words belong to the option before them: its values, and after a `!` the option that it negates.
fn condition_length(option: &str, words: &[String]) -> usize {
    let negated = usize::from(option == "!").min(words.len());
    let values = words[negated..].iter().position(|word| word == "!" || starts_condition(word));
    values.map_or(words.len(), |values| negated + values)
}

/// How many words belong to the `-m MODULE` before them.
fn module_length(words: &[String]) -> usize {
    let mut length = 0;
    while let Some(word) = words.get(length) {
        let negated = word == "!" && words.get(length + 1).is_some_and(|next| starts_condition(next));
        if starts_condition(word) || negated {
            break;
        }
        // The value of an option is no option, however it looks: a comment may be `-j`.
        length += if word == "--comment" { 2 } else { 1 };
    }
    length.min(words.len())
}

/// Options of the rule itself; those of match modules begin with two dashes.
fn starts_condition(word: &str) -> bool {
    matches!(word, "-m" | "-j" | "-g" | "-d" | "-s" | "-p" | "-i" | "-o" | "-f" | "-c")
}

fn module_match(module: &str, options: &[String]) -> Match {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    match (module, options.as_slice()) {
        ("comment", ["--comment", text]) => Match::Comment((*text).to_owned()),
        ("addrtype", ["!", "--dst-type", "LOCAL"]) => Match::DestinationNotLocal,
        ("statistic", ["--mode", "random", "--probability", text]) => match text.parse() {
            Ok(probability) => Match::Probability(probability),
            Err(_) => Match::Other(format!("-m statistic --mode random --probability {text}")),
        },
        (module, options) => Match::Other(format!("-m {module} {}", options.join(" "))),
    }
}

fn parse_block(block: &str) -> Option<Cidr> {
    if block.contains('/') {
        return block.parse().ok();
    }
    let hosts = if block.contains(':') { 128 } else { 32 };
    Cidr::new(block.parse().ok()?, hosts).ok()
}

/// Programs without a table of protocols print numbers.
fn protocol_name(word: &str) -> &str {
    match word {
        "6" => "tcp",
        "17" => "udp",
        "132" => "sctp",
        name => name,
    }
}

fn joined(first: &str, rest: &[String]) -> String {
    rest.iter().fold(first.to_owned(), |text, word| text + " " + word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_agent_is_understood() {
        let rule = SavedRule::parse(r#"-m comment --comment "\"a b\"" -m addrtype ! --dst-type LOCAL -j C"#);
        assert_eq!(rule.matches, [Match::Comment("\"a b\"".to_owned()), Match::DestinationNotLocal]);
        assert!(rule.leads_to("C") && !rule.is_unconditional());
    }

    #[test]
    fn a_masquerade_rule_with_ports_is_understood() {
        let rule = SavedRule::parse(
            r#"-p tcp -m comment --comment "a" -m statistic --mode random --probability 0.50000000000 -j MASQUERADE --to-ports 1-2 --random-fully"#,
        );
        assert_eq!(rule.protocol.as_deref(), Some("tcp"));
        assert_eq!(rule.matches, [Match::Comment("a".to_owned()), Match::Probability(0.5)]);
        assert_eq!(rule.target.options, ["--to-ports", "1-2", "--random-fully"]);
    }

    #[test]
    fn conditions_of_strangers_are_kept_as_printed() {
        let rule = SavedRule::parse(
            "-s 10.0.0.0/8 ! -d 10.0.0.0/8 ! -o docker0 -p udp -m mark ! --mark 0x4000/0x4000 -j SNAT --to-source 1.2.3.4",
        );
        let others = ["-s 10.0.0.0/8", "! -d 10.0.0.0/8", "! -o docker0", "-m mark ! --mark 0x4000/0x4000"];
        assert_eq!(rule.matches, others.map(|text| Match::Other(text.to_owned())));
        assert_eq!(rule.protocol.as_deref(), Some("udp"));
        assert!(!rule.is_unconditional());
        assert_eq!(rule.target.name.as_deref(), Some("SNAT"));
    }

    #[test]
    fn a_negated_destination_is_no_destination() {
        let rule = SavedRule::parse("! -d 10.0.0.0/8 -j MASQUERADE");
        assert_eq!(rule.destination, None);
        assert!(!rule.is_unconditional());
    }

    #[test]
    fn a_rule_with_nothing_but_a_comment_is_unconditional() {
        assert!(SavedRule::parse("-j ACCEPT").is_unconditional());
        assert!(SavedRule::parse("-m comment --comment \"-j\" -j ACCEPT").is_unconditional());
        assert!(SavedRule::parse("-d 0.0.0.0/0 -j ACCEPT").is_unconditional());
        assert!(!SavedRule::parse("-d 10.0.0.0/8 -j ACCEPT").is_unconditional());
        assert!(!SavedRule::parse("-d 10.0.0.0/255.0.255.0 -j ACCEPT").is_unconditional());
    }

    #[test]
    fn a_host_is_understood_with_and_without_prefix() {
        assert_eq!(SavedRule::parse("-d 10.0.0.1 -j RETURN").destination, Some("10.0.0.1/32".parse().unwrap()));
        assert_eq!(SavedRule::parse("-d fd00::1/128 -j RETURN").destination, Some("fd00::1/128".parse().unwrap()));
    }
}
