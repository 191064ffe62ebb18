//! Tests of the way of packets through tables that are written down as iptables prints them.

use std::net::IpAddr;

use super::condition::{AddressTypes, Answer, Link, Packet};
use super::walk::{Ours, Step, Way};
use super::*;
use crate::backend::iptables::comment;
use crate::backend::iptables::save::Observed;

const CHAIN: &str = "IP-MASQ-AGENT";

/// A nat table of IPv4 that holds these lines, at this priority.
fn table(priority: i32, lines: &str) -> Table {
    let observed = Observed::parse(&format!("*nat\n:POSTROUTING ACCEPT [0:0]\n:{CHAIN} - [0:0]\n{lines}COMMIT\n"));
    let mut table = read::legacy_table(Family::Ipv4, "nat", &observed);
    read::mark_ours(&mut table, CHAIN);
    for base in table.chains.iter_mut().filter_map(|chain| chain.base.as_mut()) {
        base.priority = priority;
    }
    table
}

fn jump() -> String {
    format!(
        "-A POSTROUTING -m comment --comment \"{}\" -m addrtype ! --dst-type LOCAL -j {CHAIN}\n",
        comment::jump(CHAIN)
    )
}

/// A pod's packet to a name server outside.
pub(super) fn packet() -> Packet {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    Packet {
        source: address("10.244.0.2"),
        destination: address("8.8.8.8"),
        source_type: AddressTypes::UNICAST,
        destination_type: AddressTypes::UNICAST,
        protocol: Some(17),
        source_port: None,
        destination_port: Some(53),
        input: Some(Link { index: 2, name: "p0".to_owned() }),
        output: Some(Link { index: 3, name: "e0".to_owned() }),
        mark: Some(0),
    }
}

fn walk(ruleset: &Ruleset, ours: Ours) -> Way<'_> {
    ruleset.walk(Kind::Nat, Hook::Postrouting, &packet(), ours, &mut |_, _, _| None)
}

/// The rules that surely settle the packet and that may, of one table without ours.
fn fates(lines: &str) -> (Option<String>, Vec<String>) {
    let ruleset = Ruleset { tables: vec![table(100, lines)] };
    let way = walk(&ruleset, Ours::Pass);
    let text = |step: &Step<'_>| step.rule.text.clone();
    (way.settled.as_ref().map(text), way.possible.iter().map(text).collect())
}

fn settled(lines: &str) -> Option<String> {
    let (settled, possible) = fates(lines);
    assert_eq!(possible, Vec::<String>::new(), "{lines}");
    settled
}

const MASQUERADE: &str = "-A POSTROUTING -j MASQUERADE";

#[test]
fn the_first_rule_that_translates_wins() {
    let lines = format!(
        "-A POSTROUTING -d 9.0.0.0/8 -j MASQUERADE\n-A POSTROUTING -o e0 -j SNAT --to-source 1.2.3.4\n{MASQUERADE}\n"
    );
    assert_eq!(settled(&lines).as_deref(), Some("-A POSTROUTING -o e0 -j SNAT --to-source 1.2.3.4"));
    assert_eq!(settled("-A POSTROUTING -p tcp -j MASQUERADE\n"), None);
}

#[test]
fn accept_and_return_end_the_way_through_their_table_and_no_other() {
    for end in ["-j ACCEPT", "-j RETURN", "-d 8.0.0.0/8 -j ACCEPT", "-g A"] {
        let lines = format!("-A POSTROUTING {end}\n-A A -j RETURN\n{MASQUERADE}\n");
        assert_eq!(settled(&lines), None, "{end}");
        let ruleset = Ruleset { tables: vec![table(100, &lines), table(110, &format!("{MASQUERADE}\n"))] };
        assert!(walk(&ruleset, Ours::Pass).settled.is_some(), "{end}");
    }
}

#[test]
fn a_chain_comes_back_where_nothing_in_it_ends_the_way() {
    let chain = "-A POSTROUTING -j A\n-A A -d 9.0.0.0/8 -j ACCEPT\n-A A -j RETURN\n-A A -j ACCEPT\n";
    assert_eq!(settled(&format!("{chain}{MASQUERADE}\n")).as_deref(), Some(MASQUERADE));
    assert_eq!(settled(&format!("-A POSTROUTING -j A\n-A A -j ACCEPT\n{MASQUERADE}\n")), None);
    assert_eq!(settled("-A POSTROUTING -j A\n-A A -j B\n-A B -j MASQUERADE\n").as_deref(), Some("-A B -j MASQUERADE"));
}

#[test]
fn a_goto_does_not_come_back() {
    let lines =
        |target| format!("-A POSTROUTING -j A\n-A A {target} B\n-A A -j MASQUERADE\n-A B -d 9.0.0.0/8 -j ACCEPT\n");
    assert_eq!(settled(&lines("-g")), None);
    assert_eq!(settled(&lines("-j")).as_deref(), Some("-A A -j MASQUERADE"));
}

#[test]
fn what_cannot_be_told_leaves_the_next_rule_as_the_likely_one() {
    let maybe = "-A POSTROUTING -m recent --rcheck -j SNAT --to-source 1.2.3.4";
    let (settled, possible) = fates(&format!("{maybe}\n{MASQUERADE}\n"));
    assert_eq!((settled.as_deref(), possible), (Some(MASQUERADE), vec![maybe.to_owned()]));
    let (settled, possible) = fates(&format!("-A POSTROUTING -m recent --rcheck -j ACCEPT\n{MASQUERADE}\n"));
    assert_eq!((settled, possible), (None, vec![MASQUERADE.to_owned()]), "it may have been accepted");
    let chain = "-A POSTROUTING -j A\n-A A -m recent --rcheck -j RETURN\n-A A -j LOG\n";
    let (settled, possible) = fates(&format!("{chain}{MASQUERADE}\n"));
    assert_eq!((settled.as_deref(), possible), (Some(MASQUERADE), vec![]), "it comes back either way");
    let chain = "-A POSTROUTING -j A\n-A A -m recent --rcheck -j RETURN\n-A A -j ACCEPT\n";
    let (settled, possible) = fates(&format!("{chain}{MASQUERADE}\n"));
    assert_eq!((settled, possible), (None, vec![MASQUERADE.to_owned()]), "it comes back only perhaps");
}

#[test]
fn a_target_that_is_not_known_may_do_anything() {
    let (settled, possible) = fates(&format!("-A POSTROUTING -j WHATEVER\n{MASQUERADE}\n"));
    assert_eq!(
        (settled, possible.len()),
        (None, 2),
        "it may end the packet's way, so that what follows is no longer sure"
    );
}

#[test]
fn kube_proxys_rules_leave_packets_without_its_mark_alone() {
    let chain = "-A POSTROUTING -j K\n-A K -m mark ! --mark 0x4000/0x4000 -j RETURN\n-A K -j MARK --xor-mark 0x4000\n-A K -j MASQUERADE\n";
    assert_eq!(settled(chain), None);
    let (settled, possible) = fates(&format!("-A POSTROUTING -j MARK --or-mark 0x4000\n{chain}"));
    assert_eq!((settled, possible.len()), (None, 1), "after that the mark is not known any more");
}

#[test]
fn chains_that_jump_in_circles_are_given_up() {
    let ruleset =
        Ruleset { tables: vec![table(100, "-A POSTROUTING -j A\n-A A -j B\n-A A -j B\n-A B -j A\n-A B -j A\n")] };
    assert!(walk(&ruleset, Ours::Pass).is_cut);
    assert_eq!(ruleset.foreign_rules().len(), 5);
}

#[test]
fn our_rules_do_what_was_decided_or_what_they_say() {
    let lines =
        format!("{}-A {CHAIN} -d 8.0.0.0/8 -j RETURN\n-A {CHAIN} -j MASQUERADE\n{MASQUERADE} --random\n", jump());
    let ruleset = Ruleset { tables: vec![table(100, &lines)] };
    let way = walk(&ruleset, Ours::Translate);
    assert!(way.settled.is_some_and(|step| step.rule.is_ours) && way.asked_ours == Answer::Yes);
    let after = walk(&ruleset, Ours::Pass).settled.unwrap();
    assert!(after.is_after_ours && after.rule.text.ends_with("--random"), "{after:?}");
    let stand = walk(&ruleset, Ours::AsTheyStand).settled.unwrap();
    assert!(!stand.chain.is_ours, "{stand:?}");
}

#[test]
fn a_rule_before_ours_that_ends_the_way_is_remembered() {
    let ruleset = Ruleset { tables: vec![table(100, &format!("-A POSTROUTING -o e0 -j ACCEPT\n{}", jump()))] };
    let way = walk(&ruleset, Ours::Translate);
    assert_eq!((way.settled.is_none(), way.asked_ours), (true, Answer::No));
    assert_eq!(way.ended.unwrap().rule.text, "-A POSTROUTING -o e0 -j ACCEPT");
}

#[test]
fn a_jump_is_ours_only_with_our_comment() {
    let ruleset =
        Ruleset { tables: vec![table(100, &format!("-A POSTROUTING -j {CHAIN}\n-A {CHAIN} -j MASQUERADE\n"))] };
    assert!(!ruleset.has_ours(Family::Ipv4));
    let ruleset = Ruleset { tables: vec![table(100, &jump())] };
    assert!(ruleset.has_ours(Family::Ipv4) && !ruleset.has_ours(Family::Ipv6));
}

#[test]
fn every_foreign_rule_is_listed_once_with_its_place() {
    let first = "-A POSTROUTING -j A\n-A A -j MASQUERADE\n";
    let lines = format!("{first}{}-A POSTROUTING -j A\n-A UNUSED -j MASQUERADE\n-A {CHAIN} -j MASQUERADE\n", jump());
    let ruleset = Ruleset { tables: vec![table(100, &lines), table(90, "-A POSTROUTING -j ACCEPT\n")] };
    let rules = ruleset.foreign_rules();
    let listed: Vec<_> = rules.iter().map(|rule| (rule.priority, rule.text.as_str(), rule.position.unwrap())).collect();
    assert_eq!(
        listed,
        [
            (90, "-A POSTROUTING -j ACCEPT", Position::Before),
            (100, "-A POSTROUTING -j A", Position::Before),
            (100, "-A A -j MASQUERADE", Position::Before),
            (100, "-A POSTROUTING -j A", Position::After),
        ]
    );
    assert_eq!((rules[2].effect, &rules[2].condition), (Effect::MayMasquerade, &Condition::Always));
    let without = Ruleset { tables: vec![table(100, first)] };
    assert!(without.foreign_rules().iter().all(|rule| rule.position.is_none()));
}

#[test]
fn of_equal_priorities_the_later_table_is_asked_first_and_the_guess_is_known_as_one() {
    let tables = vec![table(100, "-A POSTROUTING -j ACCEPT\n"), table(100, &format!("{MASQUERADE}\n")), table(50, "")];
    let ruleset = Ruleset { tables };
    let places = |entries: Vec<Entry<'_>>| {
        let place =
            |entry: &Entry<'_>| ruleset.tables.iter().position(|table| std::ptr::eq(table, entry.table)).unwrap();
        entries.iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(places(ruleset.entries(Kind::Nat, Hook::Postrouting)), [2, 1, 0]);
    assert_eq!(places(ruleset.entries_otherwise(Kind::Nat, Hook::Postrouting).unwrap()), [2, 0, 1]);
    let known = Ruleset { tables: vec![table(100, ""), table(50, "")] };
    assert!(known.entries_otherwise(Kind::Nat, Hook::Postrouting).is_none());
}

#[test]
fn a_dormant_table_sees_nothing() {
    let dormant = Table { is_dormant: true, ..table(100, &format!("{MASQUERADE}\n")) };
    assert!(walk(&Ruleset { tables: vec![dormant] }, Ours::Pass).settled.is_none());
}
