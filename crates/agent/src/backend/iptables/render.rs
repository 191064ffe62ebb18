//! Rules as `iptables-restore` reads them, word for word as the reference writes them.

use std::fmt::Write as _;

use masq::cidr::Family;
use masq::policy::Policy;

use super::comment;
use super::desired::{Desired, Rule};

/// The policy as `iptables-restore --noflush` and `ip6tables-restore --noflush` would read it on an empty nat table, each part behind
/// a comment that names its reader. Which of the programs' versions will read it is not known here, so `--random-fully` is in it.
pub fn render(policy: &Policy, chain: &str) -> String {
    let desired = Desired::new(policy, chain);
    let mut text = String::new();
    for family in Family::ALL {
        let Some(rules) = desired.rules(family) else { continue };
        let program = match family {
            Family::Ipv4 => "iptables-restore",
            Family::Ipv6 => "ip6tables-restore",
        };
        let body = chain_lines(chain, rules) + &format!("-A POSTROUTING {}\n", jump(chain));
        text += &format!("# {program} --noflush\n{}", transaction(&body));
    }
    text
}

/// Lines as one transaction on the nat table.
pub fn transaction(lines: &str) -> String {
    format!("*nat\n{lines}COMMIT\n")
}

/// The lines that make or empty the chain and fill it with these rules.
pub fn chain_lines(chain: &str, rules: &[Rule]) -> String {
    let mut lines = format!(":{chain} - [0:0]\n");
    for rule in rules {
        lines += &format!("-A {chain} {}\n", rule_words(rule));
    }
    lines
}

/// The jump from POSTROUTING, without the command that places it.
pub fn jump(chain: &str) -> String {
    format!("{} -m addrtype ! --dst-type LOCAL -j {chain}", comment_match(&comment::jump(chain)))
}

fn rule_words(rule: &Rule) -> String {
    match rule {
        Rule::Return(destination) => {
            format!("{} -d {} -j RETURN", comment_match(comment::EXEMPT), destination.text)
        }
        Rule::Masquerade { destination, ports, random_fully } => {
            let mut words = comment_match(comment::MASQUERADE);
            if let Some(destination) = destination {
                write_word(&mut words, "-d", &destination.text);
            }
            words += " -j MASQUERADE";
            if *random_fully {
                words += " --random-fully";
            }
            if let Some(ports) = ports {
                write_word(&mut words, "-p", ports.protocol.name());
                if let Some(probability) = ports.probability() {
                    write_word(&mut words, "-m statistic --mode random --probability", &probability.to_string());
                }
                write_word(&mut words, "--to-ports", &ports.share.range.to_string());
            }
            words
        }
    }
}

fn write_word(words: &mut String, option: &str, value: &str) {
    let _ = write!(words, " {option} {value}");
}

/// A backslash or quote in the comment, which only a chain's name can bring along, would be taken for syntax.
pub(super) fn comment_match(text: &str) -> String {
    format!("-m comment --comment \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags};
    use serde_json::Value;

    use super::*;

    fn policy(flags: &Flags) -> Policy {
        Policy::new(&Config::default_for(flags))
    }

    fn recorded(name: &str) -> String {
        let vectors: Value = serde_json::from_str(include_str!("../../../../masq/tests/vectors.json")).unwrap();
        let lines = vectors["rulesets"][name].as_array().unwrap().iter();
        lines.map(|line| format!("{}\n", line.as_str().unwrap())).collect()
    }

    #[test]
    fn the_default_chain_is_written_as_the_reference_writes_it() {
        let desired = Desired::new(&policy(&Flags { enable_ipv6: true, ..Flags::default() }), "IP-MASQ-AGENT");
        let text = |rules| transaction(&chain_lines("IP-MASQ-AGENT", rules));
        assert_eq!(text(&desired.ipv4), recorded("restore4-default"));
        assert_eq!(text(desired.ipv6.as_ref().unwrap()), recorded("restore6-default"));
    }

    #[test]
    fn each_family_is_a_transaction_with_its_own_jump() {
        let text = render(&policy(&Flags { enable_ipv6: true, ..Flags::default() }), "C");
        assert_eq!(text.matches("*nat\n:C - [0:0]\n").count(), 2);
        assert_eq!(text.matches("-A POSTROUTING -m comment").count(), 2);
        assert!(
            text.starts_with("# iptables-restore --noflush\n") && text.contains("\n# ip6tables-restore --noflush\n")
        );
        assert_eq!(render(&policy(&Flags::default()), "C").matches("COMMIT").count(), 1);
    }

    #[test]
    fn a_backslash_in_the_chains_name_stays_one() {
        assert!(jump("A\\B").contains(r#"custom A\\B chain" -m addrtype"#));
        assert!(jump("A\\B").ends_with(r"-j A\B"));
    }
}
