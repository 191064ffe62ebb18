//! The agent's table against what it should hold, line by line, in nft's words.

use std::net::IpAddr;

use masq::cidr::{Cidr, Family};
use nfnetlink::{Batch, Chain, Interval, Rule, Table};

use super::desired::{CHAIN, Desired, TABLE, exempt_name};
use super::observed::Observed;
use super::plan::{Change, Plan, difference};
use crate::backend::difference::{Group, Line, Side, align};

/// The differences between the table that should be and the one that is; none where the [`Plan`] has none.
pub fn groups(desired: &Desired, observed: &Observed) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for change in Plan::new(desired, observed).changes() {
        for (place, lines) in lines(change, desired, observed) {
            match groups.iter_mut().find(|group| group.place == place) {
                Some(group) => group.lines.extend(lines),
                None => groups.push(Group { place, lines }),
            }
        }
    }
    groups
}

/// A change as one or more places with their lines.
fn lines(change: &Change, desired: &Desired, observed: &Observed) -> Vec<(String, Vec<Line>)> {
    let in_table = |lines| vec![(place(None), lines)];
    match change {
        Change::AddTable => everything(desired),
        Change::RebuildTable(why) => {
            in_table(vec![Line::unwanted(format!("the table as it is: {why}")), Line::missing("the table made anew")])
        }
        Change::SetTableFlags(flags) => {
            let found = Table { flags: *flags, ..desired.table.clone() };
            in_table(vec![Line::unwanted(table_text(&found)), Line::missing(table_text(&desired.table))])
        }
        Change::AddCounter(name) => in_table(vec![Line::missing(format!("counter {name}"))]),
        Change::AddSet { set, .. } => {
            let mut lines = vec![Line::missing(format!("set {set}"))];
            lines.extend(elements_of(desired, set).iter().map(|element| Line::missing(element_text(set, *element))));
            vec![(place(Some(("set", set))), lines)]
        }
        Change::ChangeElements { set, .. } => vec![(place(Some(("set", set))), elements(set, desired, observed))],
        Change::AddChain => vec![(place(Some(("chain", CHAIN))), whole_chain(desired))],
        Change::ReplaceChain => {
            let found = observed.chains.iter().filter(|chain| chain.name == CHAIN);
            let mut lines: Vec<Line> = found.map(|chain| Line::unwanted(chain_text(chain))).collect();
            lines.push(Line::missing(chain_text(&desired.chain)));
            lines.extend(rules(desired, observed));
            vec![(place(Some(("chain", CHAIN))), lines)]
        }
        Change::ReplaceRules { .. } => vec![(place(Some(("chain", CHAIN))), rules(desired, observed))],
        Change::Remove { kind, name } => in_table(vec![Line::unwanted(format!("{kind} {name}"))]),
    }
}

/// The table, or a set or chain of it.
fn place(part: Option<(&str, &str)>) -> String {
    match part {
        None => format!("table inet {TABLE}"),
        Some((kind, name)) => format!("table inet {TABLE}, {kind} {name}"),
    }
}

fn everything(desired: &Desired) -> Vec<(String, Vec<Line>)> {
    let mut places = vec![(place(None), vec![Line::missing(table_text(&desired.table))])];
    for set in desired.sets.iter().map(|filled| &filled.set.name) {
        let elements = elements_of(desired, set).iter();
        let lines: Vec<Line> = elements.map(|element| Line::missing(element_text(set, *element))).collect();
        if !lines.is_empty() {
            places.push((place(Some(("set", set))), lines));
        }
    }
    places.push((place(Some(("chain", CHAIN))), whole_chain(desired)));
    places
}

fn whole_chain(desired: &Desired) -> Vec<Line> {
    let rules = desired.rules.iter().map(Rule::to_string);
    [chain_text(&desired.chain)].into_iter().chain(rules).map(Line::missing).collect()
}

fn rules(desired: &Desired, observed: &Observed) -> Vec<Line> {
    let (wanted, found): (&[Rule], Vec<&Rule>) = (&desired.rules, observed.rules_of(CHAIN).collect());
    let differences = align(wanted.len(), found.len(), |row, column| found[column].same_definition(&wanted[row]));
    let line = |(side, index): (Side, usize)| match side {
        Side::Missing => Line::missing(wanted[index].to_string()),
        Side::Unwanted => Line::unwanted(found[index].to_string()),
    };
    differences.into_iter().map(line).collect()
}

/// Addresses tell more than elements do: where one CIDR was added beside another, the kernel gets one element that is larger.
fn elements(set: &str, desired: &Desired, observed: &Observed) -> Vec<Line> {
    let wanted = elements_of(desired, set);
    let found = observed.sets.iter().find(|found| found.set.name == set).map(|found| &found.elements);
    let (held, catch_all) = found.map_or((&[][..], false), |found| (found.intervals.as_slice(), found.catch_all));
    let (mut missing, mut unwanted) = (without(wanted, held), without(held, wanted));
    if missing.is_empty() && unwanted.is_empty() {
        (missing, unwanted) = difference(wanted, held);
    }
    let mut lines: Vec<Line> = catch_all.then(|| Line::unwanted("*")).into_iter().collect();
    lines.extend(unwanted.into_iter().map(|element| Line::unwanted(element_text(set, element))));
    lines.extend(missing.into_iter().map(|element| Line::missing(element_text(set, element))));
    lines
}

fn elements_of<'d>(desired: &'d Desired, set: &str) -> &'d [Interval] {
    let filled = desired.sets.iter().find(|filled| filled.set.name == set);
    filled.map_or(&[], |filled| filled.elements.as_slice())
}

/// What is in the intervals of `all` and in none of `taken`; each list is ascending and disjoint.
fn without(all: &[Interval], taken: &[Interval]) -> Vec<Interval> {
    let mut left = Vec::new();
    let mut taken = taken.iter().peekable();
    for &Interval { first, last } in all {
        let mut rest = Some(first);
        while let (Some(first), Some(cut)) = (rest, taken.peek()) {
            if cut.first > last {
                break;
            }
            if cut.last >= first {
                if cut.first > first {
                    left.push(Interval { first, last: cut.first - 1 });
                }
                rest = cut.last.checked_add(1).filter(|&next| next <= last);
            }
            // One that reaches beyond may take from the next interval, too.
            if rest.is_some() {
                taken.next();
            }
        }
        left.extend(rest.map(|first| Interval { first, last }));
    }
    left
}

/// A CIDR where it is one, else a range.
fn element_text(set: &str, Interval { first, last }: Interval) -> String {
    let ours = Family::ALL.into_iter().find(|family| exempt_name(*family) == set);
    let Some(family) = ours else { return format!("{first:#x}-{last:#x}") };
    let (from, to): (IpAddr, IpAddr) = (family.address(first), family.address(last));
    let host_bits = 128 - (first ^ last).leading_zeros();
    let prefix_len = u32::from(family.bits()).saturating_sub(host_bits) as u8;
    match Cidr::new(from, prefix_len) {
        Ok(cidr) if cidr.last() == last => cidr.to_string(),
        Ok(_) | Err(_) => format!("{from}-{to}"),
    }
}

fn table_text(table: &Table) -> String {
    let mut batch = Batch::new();
    batch.add_table(table);
    definition(&batch)
}

fn chain_text(chain: &Chain) -> String {
    let mut batch = Batch::new();
    batch.add_chain((nfnetlink::ProtocolFamily::Inet, TABLE), chain);
    definition(&batch)
}

/// What a command that adds something says of it.
fn definition(batch: &Batch) -> String {
    batch.to_string().trim().trim_start_matches("add ").to_owned()
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags};
    use masq::policy::Policy;
    use nfnetlink::TableFlags;
    use proptest::prelude::*;

    use super::*;

    fn desired(cidrs: &str) -> Desired {
        let source = masq::config::Source { name: "config".to_owned(), bytes: cidrs.as_bytes().to_vec() };
        Desired::new(&Policy::new(&Config::parse(&[source], &Flags::default()).unwrap().config), false)
    }

    fn texts(groups: &[Group]) -> Vec<String> {
        let sign = |side| if side == Side::Missing { "+" } else { "-" };
        let lines = |group: &Group| {
            group.lines.iter().map(|line| format!("{} {}", sign(line.side), line.text)).collect::<Vec<_>>()
        };
        groups.iter().flat_map(lines).collect()
    }

    fn listed(cidrs: &str) -> Desired {
        desired(&format!("nonMasqueradeCIDRs: [{cidrs}]\n"))
    }

    #[test]
    fn a_table_in_order_has_no_differences() {
        let desired = listed("10.0.0.0/8");
        assert_eq!(groups(&desired, &Observed::holding(&desired)), []);
    }

    #[test]
    fn a_cidr_that_joins_its_neighbour_is_told_as_what_it_adds() {
        let found = Observed::holding(&listed("10.0.0.0/8"));
        let groups = groups(&listed("10.0.0.0/8, 11.0.0.0/8"), &found);
        assert_eq!(texts(&groups), ["+ 11.0.0.0/8"]);
        assert_eq!(groups[0].place, "table inet ip-masq-agent, set exempt-ipv4");
    }

    #[test]
    fn what_is_no_cidr_is_told_as_a_range() {
        let found = Observed::holding(&listed("10.0.0.0/8"));
        assert_eq!(
            texts(&groups(&listed("10.1.0.0/16, 10.64.0.0/10, 10.128.0.0/9"), &found)),
            ["- 10.0.0.0/16", "- 10.2.0.0-10.63.255.255"]
        );
    }

    #[test]
    fn the_same_addresses_in_other_elements_are_told_as_elements() {
        let wanted = listed("10.0.0.0/8");
        let mut found = Observed::holding(&wanted);
        let set = &mut found.sets[0].elements.intervals;
        let whole = set.iter().position(|interval| interval.first == 10 << 24).unwrap();
        set[whole].last = (10 << 24) + 0xffff;
        set.insert(whole + 1, Interval { first: (10 << 24) + 0x1_0000, last: (11 << 24) - 1 });
        assert_eq!(texts(&groups(&wanted, &found)), ["- 10.0.0.0/16", "- 10.1.0.0-10.255.255.255", "+ 10.0.0.0/8"]);
    }

    #[test]
    fn every_kind_of_change_has_a_line() {
        let wanted = listed("10.0.0.0/8");
        let of = |spoil: &dyn Fn(&mut Observed)| {
            let mut found = Observed::holding(&wanted);
            spoil(&mut found);
            texts(&groups(&wanted, &found))
        };
        assert!(texts(&groups(&wanted, &Observed::default())).contains(&"+ 10.0.0.0/8".to_owned()));
        let dormant = |found: &mut Observed| found.table.as_mut().unwrap().flags = TableFlags::DORMANT;
        assert_eq!(of(&dormant), ["- table inet ip-masq-agent { flags dormant; }", "+ table inet ip-masq-agent"]);
        let owned = |found: &mut Observed| found.table.as_mut().unwrap().flags = TableFlags::OWNER;
        assert_eq!(of(&owned), ["- the table as it is: owner flags differ", "+ the table made anew"]);
        assert_eq!(of(&|found| found.counters.clear()).len(), 2);
        assert_eq!(of(&|found| found.sets.clear())[..2], ["+ set exempt-ipv4", "+ 10.0.0.0/8"]);
        assert_eq!(of(&|found| found.sets[0].elements.catch_all = true)[0], "- *");
        assert_eq!(of(&|found| found.chains.clear()).len(), 1 + wanted.rules.len());
        let early = |found: &mut Observed| found.chains[0].base.as_mut().unwrap().priority = 0;
        assert_eq!(of(&early).len(), 2);
        assert_eq!(of(&|found| drop(found.rules.remove(0))), [format!("+ {}", wanted.rules[0])]);
        let stranger =
            |found: &mut Observed| found.chains.push(Chain { name: "theirs".to_owned(), ..Chain::default() });
        assert_eq!(of(&stranger), ["- chain theirs"]);
    }

    /// Ascending, disjoint intervals of small numbers, as sets of numbers and as intervals.
    fn intervals() -> impl Strategy<Value = (Vec<bool>, Vec<Interval>)> {
        proptest::collection::vec(any::<bool>(), 0..20).prop_map(|members| {
            let mut intervals: Vec<Interval> = Vec::new();
            for number in (0..members.len()).filter(|&number| members[number]).map(|number| number as u128) {
                match intervals.last_mut() {
                    // Some neighbours stay apart, for the kernel may hold them so.
                    Some(before) if before.last + 1 == number && number % 5 != 0 => before.last = number,
                    _ => intervals.push(Interval::single(number)),
                }
            }
            (members, intervals)
        })
    }

    proptest! {
        #[test]
        fn without_is_the_difference_of_the_sets((all, intervals) in intervals(), (taken, others) in intervals()) {
            let left = without(&intervals, &others);
            for number in 0..20 {
                let has = |members: &[bool]| members.get(number).copied().unwrap_or(false);
                let found = left.iter().any(|interval| (interval.first..=interval.last).contains(&(number as u128)));
                prop_assert_eq!(found, has(&all) && !has(&taken), "{}", number);
            }
        }
    }
}
