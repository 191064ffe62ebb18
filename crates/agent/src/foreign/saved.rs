//! Rules of iptables-legacy taken apart, from the words that its save program prints.

use std::net::IpAddr;

use masq::cidr::{Cidr, Family, number};

use super::condition::{AddressTypes, LinkName, Question, Span, Test, protocol_number};
use super::extension::plain_target;
use super::{Action, Rule, SnatTo};
use crate::backend::iptables::save::{Match, SavedRule, Target};

/// Takes a rule of a chain apart; `is_chain` tells names of chains from those of targets.
pub(super) fn rule(chain: &str, saved: &SavedRule, is_chain: impl Fn(&str) -> bool) -> Rule {
    let mut tests: Vec<Test> = Vec::new();
    tests.extend(saved.destination.map(|cidr| Test::new(Question::Destination(block(cidr)))));
    if let Some(protocol) = &saved.protocol {
        tests.push(protocol_test(protocol, false));
    }
    for condition in &saved.matches {
        match condition {
            Match::Comment(_) => {}
            Match::DestinationNotLocal => {
                let question = Question::DestinationType(AddressTypes::LOCAL);
                tests.push(Test { question, negated: true });
            }
            Match::Probability(_) => tests.push(Test::opaque("-m statistic")),
            Match::Other(text) => tests.extend(other(text)),
        }
    }
    Rule {
        tests,
        action: action(&saved.target, is_chain),
        text: format!("-A {chain} {}", saved.text),
        comment: saved.comment().map(str::to_owned),
        is_ours: false,
    }
}

/// Conditions as printed: `-s BLOCK`, `! -o LINK`, `-m MODULE OPTIONS`.
fn other(text: &str) -> Vec<Test> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (negated, words) = match words.as_slice() {
        ["!", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let one = |question: Option<Question>| match question {
        Some(question) => vec![Test { question, negated }],
        None => vec![Test::opaque(text)],
    };
    match words {
        ["-s", address] => one(parse_block(address).map(Question::Source)),
        ["-d", address] => one(parse_block(address).map(Question::Destination)),
        ["-i", name] => one(Some(Question::Input(link(name)))),
        ["-o", name] => one(Some(Question::Output(link(name)))),
        ["-p", protocol] => vec![protocol_test(protocol, negated)],
        ["-m", "mark", rest @ ..] => options(rest, text, mark),
        ["-m", "addrtype", rest @ ..] => options(rest, text, address_type),
        ["-m", "tcp" | "udp" | "sctp", rest @ ..] => options(rest, text, port),
        _ => vec![Test::opaque(text)],
    }
}

/// Options of a match with one value each; the whole stays one opaque condition if one of them is not known.
fn options(words: &[&str], text: &str, read: fn(&str, &str) -> Option<Question>) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut rest = words;
    while let [first, behind @ ..] = rest {
        let (negated, option, behind) = match (*first, behind) {
            ("!", [option, behind @ ..]) => (true, *option, behind),
            (option, behind) => (false, option, behind),
        };
        let Some((value, behind)) = behind.split_first() else { return vec![Test::opaque(text)] };
        let Some(question) = read(option, value) else { return vec![Test::opaque(text)] };
        tests.push(Test { question, negated });
        rest = behind;
    }
    tests
}

fn mark(option: &str, value: &str) -> Option<Question> {
    let (value, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
    let hex = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    (option == "--mark").then_some(Question::Mark { value: hex(value)?, mask: hex(mask)? })
}

fn address_type(option: &str, value: &str) -> Option<Question> {
    let types = AddressTypes::parse(value)?;
    match option {
        "--src-type" => Some(Question::SourceType(types)),
        "--dst-type" => Some(Question::DestinationType(types)),
        _ => None,
    }
}

fn port(option: &str, value: &str) -> Option<Question> {
    let (first, last) = value.split_once(':').unwrap_or((value, value));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    match option {
        "--sport" => Some(Question::SourcePort(first, last)),
        "--dport" => Some(Question::DestinationPort(first, last)),
        _ => None,
    }
}

fn protocol_test(word: &str, negated: bool) -> Test {
    match protocol_number(word) {
        Some(number) => Test { question: Question::Protocol(number), negated },
        None => Test { negated, ..Test::opaque(format!("-p {word}")) },
    }
}

fn link(name: &str) -> LinkName {
    match name.strip_suffix('+') {
        Some(prefix) => LinkName::Prefix(prefix.to_owned()),
        None => LinkName::Name(name.to_owned()),
    }
}

fn parse_block(text: &str) -> Option<Span> {
    match text.parse::<IpAddr>() {
        Ok(address) => {
            let family = Family::of(address);
            Some(Span::block(family, number(address), u32::from(family.bits())))
        }
        Err(_) => text.parse::<Cidr>().ok().map(block),
    }
}

fn block(cidr: Cidr) -> Span {
    Span { family: cidr.family(), first: cidr.first(), last: cidr.last() }
}

fn action(target: &Target, is_chain: impl Fn(&str) -> bool) -> Action {
    let Some(name) = target.name.as_deref() else { return Action::Continue };
    let options: Vec<&str> = target.options.iter().map(String::as_str).collect();
    match name {
        chain if is_chain(chain) && target.is_goto => Action::Goto(chain.to_owned()),
        chain if is_chain(chain) => Action::Jump(chain.to_owned()),
        "ACCEPT" => Action::Accept,
        "DROP" => Action::Drop,
        "RETURN" => Action::Return,
        "SNAT" => Action::Snat(snat(&options)),
        "CT" if options.contains(&"--notrack") => Action::Notrack,
        "CT" => Action::Continue,
        name => plain_target(name),
    }
}

/// `--to-source [ADDRESS[-ADDRESS]][:PORTS]`, IPv6 addresses in brackets where ports follow.
fn snat(options: &[&str]) -> SnatTo {
    let Some(at) = options.iter().position(|option| *option == "--to-source") else { return SnatTo::Unknown };
    let Some(to) = options.get(at + 1) else { return SnatTo::Unknown };
    if to.starts_with(':') && !to.starts_with("::") {
        return SnatTo::Ports;
    }
    let addresses = match to.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None if to.contains('.') => to.split(':').next().unwrap_or_default(),
        None => to,
    };
    let (first, last) = addresses.split_once('-').unwrap_or((addresses, addresses));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => SnatTo::Addresses(first, last),
        _ => SnatTo::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::iptables::save::Observed;

    fn parsed(words: &str) -> Rule {
        let observed = Observed::parse(&format!("*nat\n:CHAIN - [0:0]\n-A POSTROUTING {words}\nCOMMIT\n"));
        rule("POSTROUTING", &observed.postrouting()[0], |word| word == "CHAIN")
    }

    fn tests_of(words: &str) -> Vec<String> {
        parsed(words).tests.iter().map(Test::to_string).collect()
    }

    #[test]
    fn conditions_are_taken_apart_and_written_as_they_were() {
        for words in [
            "-s 10.0.0.0/8",
            "! -d 0.0.0.0/0",
            "! -o e+",
            "-i eth0",
            "-m mark ! --mark 0x4000/0x4000",
            "-m addrtype --src-type LOCAL,MULTICAST",
        ] {
            assert_eq!(tests_of(&format!("{words} -j RETURN")), [words]);
        }
        let udp = tests_of("-p udp -m udp ! --dport 53 -m comment --comment \"-s x\" -j RETURN");
        assert_eq!(udp, ["-p udp", "! --dport 53"]);
        assert_eq!(tests_of("-m addrtype ! --dst-type LOCAL -j RETURN"), ["-m addrtype ! --dst-type LOCAL"]);
    }

    #[test]
    fn what_is_not_known_stays_opaque() {
        for words in [
            "-m recent --rcheck",
            "-m addrtype --dst-type LOCAL --limit-iface-in",
            "-m mark --mark x",
            "-s 10.0.0.0/255.0.255.0",
        ] {
            let rule = parsed(&format!("{words} -j RETURN"));
            assert!(matches!(rule.tests[0].question, Question::Opaque(_)), "{words}: {:?}", rule.tests);
        }
    }

    #[test]
    fn targets_are_told_from_chains() {
        assert_eq!(parsed("-j CHAIN").action, Action::Jump("CHAIN".to_owned()));
        assert_eq!(parsed("-g CHAIN").action, Action::Goto("CHAIN".to_owned()));
        assert_eq!(parsed("-j OTHER").action, Action::Opaque);
        assert_eq!(parsed("-j CT --notrack").action, Action::Notrack);
        assert_eq!(parsed("-j CT --zone 1").action, Action::Continue);
        assert_eq!(parsed("-m comment --comment x").action, Action::Continue);
    }

    #[test]
    fn the_addresses_of_snat_are_read_with_and_without_ports() {
        let (one, two) = ("1.2.3.4".parse().unwrap(), "1.2.3.9".parse().unwrap());
        for (to, expected) in [
            ("1.2.3.4", SnatTo::Addresses(one, one)),
            ("1.2.3.4-1.2.3.9:10-20", SnatTo::Addresses(one, two)),
            (":10-20", SnatTo::Ports),
            ("fd00::1", SnatTo::Addresses("fd00::1".parse().unwrap(), "fd00::1".parse().unwrap())),
            ("[fd00::1]:5", SnatTo::Addresses("fd00::1".parse().unwrap(), "fd00::1".parse().unwrap())),
            ("::1", SnatTo::Addresses("::1".parse().unwrap(), "::1".parse().unwrap())),
            ("x", SnatTo::Unknown),
        ] {
            assert_eq!(parsed(&format!("-j SNAT --to-source {to}")).action, Action::Snat(expected), "{to}");
        }
    }
}
