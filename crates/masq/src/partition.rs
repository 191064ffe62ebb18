//! CIDR lists as disjoint intervals of addresses: the most specific CIDR decides, and each interval knows which one that was.

use std::net::IpAddr;

use crate::cidr::{Family, number};
use crate::config::ListedCidr;

/// The list a CIDR stands in, which says what becomes of a destination inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// 169.254.0.0/16 and fe80::/10, unless `masqLinkLocal` or `masqLinkLocalIPv6` is set.
    LinkLocal,
    /// `nonMasqueradeCIDRs`, given or by default.
    NonMasquerade,
    /// CIDRs to masquerade although they lie inside an exempt one.
    Masquerade,
}

impl List {
    /// Whether a destination in a CIDR of this list keeps the pod's address.
    pub fn is_exempt(self) -> bool {
        match self {
            List::LinkLocal | List::NonMasquerade => true,
            List::Masquerade => false,
        }
    }
}

/// One CIDR of a policy with the list it stands in and the place it was written at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The block and where it comes from.
    pub listed: ListedCidr,
    /// The list it stands in.
    pub list: List,
}

/// A run of addresses for which one entry decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The lowest address, as a number.
    pub first: u128,
    /// The highest address, as a number; not below `first`.
    pub last: u128,
    /// Index of the deciding entry in [`Partition::entries`].
    pub entry: usize,
}

/// The CIDRs of one family, cut into disjoint intervals in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    family: Family,
    entries: Vec<Entry>,
    intervals: Vec<Interval>,
}

impl Partition {
    /// Cuts the entries of `family` into intervals; those of the other family are passed over.
    ///
    /// Of two entries with the same CIDR the first decides.
    pub fn new(family: Family, entries: impl IntoIterator<Item = Entry>) -> Partition {
        let entries: Vec<Entry> = entries.into_iter().filter(|entry| entry.listed.cidr.family() == family).collect();
        let intervals = cut(&entries);
        Partition { family, entries, intervals }
    }

    /// The family of all addresses in it.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The entries in the order they were given.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The intervals in ascending order: no two overlap, together they cover exactly the entries' addresses.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The entry that decides about an address: the most specific one that holds it.
    pub fn lookup(&self, addr: IpAddr) -> Option<&Entry> {
        if Family::of(addr) != self.family {
            return None;
        }
        let wanted = number(addr);
        let after = self.intervals.partition_point(|interval| interval.first <= wanted);
        let interval = self.intervals[..after].last().filter(|interval| wanted <= interval.last)?;
        Some(&self.entries[interval.entry])
    }

    /// The exempt addresses as the fewest possible `(first, last)` ranges, ascending: what a kernel's interval set holds.
    ///
    /// Neighbours are joined, so two ways to write the same addresses give the same ranges and no kernel write.
    pub fn exempt_ranges(&self) -> Vec<(u128, u128)> {
        let mut ranges: Vec<(u128, u128)> = Vec::new();
        for interval in self.intervals.iter().filter(|interval| self.entries[interval.entry].list.is_exempt()) {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(interval.first) => *last = interval.last,
                _ => ranges.push((interval.first, interval.last)),
            }
        }
        ranges
    }
}

/// Sweeps over the CIDRs in address order, outer before inner, with the CIDRs open at the current address on a stack.
///
/// Two CIDRs are either disjoint or one lies inside the other, so the top of the stack is always the most specific.
fn cut(entries: &[Entry]) -> Vec<Interval> {
    let mut sweep = Sweep { entries, open: Vec::new(), next: Some(0), intervals: Vec::with_capacity(entries.len()) };
    for entry in sorted_without_duplicates(entries) {
        let first = entries[entry].listed.cidr.first();
        sweep.close_before(first);
        if let Some(&outer) = sweep.open.last() {
            sweep.emit_up_to(first.checked_sub(1), outer);
        }
        sweep.next = Some(first);
        sweep.open.push(entry);
    }
    while let Some(entry) = sweep.open.pop() {
        sweep.emit_up_to(Some(entries[entry].listed.cidr.last()), entry);
    }
    sweep.intervals
}

/// Indices in the order of the sweep. Sorting is stable, so the first of equal CIDRs stays.
fn sorted_without_duplicates(entries: &[Entry]) -> Vec<usize> {
    let key = |index: &usize| {
        let cidr = entries[*index].listed.cidr;
        (cidr.first(), cidr.prefix_len())
    };
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(key);
    order.dedup_by_key(|index| key(index));
    order
}

struct Sweep<'e> {
    entries: &'e [Entry],
    /// The CIDRs that hold the current address, outermost first.
    open: Vec<usize>,
    /// The lowest address not yet in an interval; `None` once the top of the address space is.
    next: Option<u128>,
    intervals: Vec<Interval>,
}

impl Sweep<'_> {
    fn close_before(&mut self, first: u128) {
        while let Some(&entry) = self.open.last() {
            let last = self.entries[entry].listed.cidr.last();
            if last >= first {
                break;
            }
            self.open.pop();
            self.emit_up_to(Some(last), entry);
        }
    }

    fn emit_up_to(&mut self, last: Option<u128>, entry: usize) {
        if let (Some(first), Some(last)) = (self.next, last)
            && first <= last
        {
            self.intervals.push(Interval { first, last, entry });
            self.next = last.checked_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cidr::Cidr;
    use crate::config::Origin;

    fn entry(text: &str, list: List) -> Entry {
        listed(text.parse().unwrap(), list)
    }

    fn listed(cidr: Cidr, list: List) -> Entry {
        Entry { listed: ListedCidr { cidr, text: cidr.to_string(), origin: Origin::Default }, list }
    }

    fn exempt(texts: &[&str]) -> Partition {
        Partition::new(Family::Ipv4, texts.iter().map(|text| entry(text, List::NonMasquerade)))
    }

    fn decider(partition: &Partition, addr: &str) -> Option<String> {
        partition.lookup(addr.parse().unwrap()).map(|entry| entry.listed.cidr.to_string())
    }

    #[test]
    fn the_most_specific_cidr_decides() {
        let partition = Partition::new(
            Family::Ipv4,
            [
                entry("10.0.0.0/8", List::NonMasquerade),
                entry("10.1.0.0/16", List::Masquerade),
                entry("10.1.2.0/24", List::NonMasquerade),
            ],
        );
        assert_eq!(decider(&partition, "10.0.0.1").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(decider(&partition, "10.1.0.1").as_deref(), Some("10.1.0.0/16"));
        assert_eq!(decider(&partition, "10.1.2.255").as_deref(), Some("10.1.2.0/24"));
        assert_eq!(decider(&partition, "10.1.3.0").as_deref(), Some("10.1.0.0/16"));
        assert_eq!(decider(&partition, "10.255.255.255").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(decider(&partition, "11.0.0.0"), None);
        let text = |(a, b): (u128, u128)| format!("{}-{}", Family::Ipv4.address(a), Family::Ipv4.address(b));
        let ranges: Vec<String> = partition.exempt_ranges().into_iter().map(text).collect();
        assert_eq!(ranges, ["10.0.0.0-10.0.255.255", "10.1.2.0-10.1.2.255", "10.2.0.0-10.255.255.255"]);
    }

    #[test]
    fn an_outer_cidr_listed_after_an_inner_one_changes_nothing() {
        assert_eq!(
            exempt(&["10.1.0.0/16", "10.0.0.0/8"]).exempt_ranges(),
            exempt(&["10.0.0.0/8", "10.1.0.0/16"]).exempt_ranges()
        );
    }

    #[test]
    fn neighbours_and_nested_blocks_become_one_range() {
        let partition = exempt(&["10.0.0.0/9", "10.128.0.0/9", "10.3.0.0/16", "11.0.0.0/8"]);
        assert_eq!(partition.exempt_ranges(), [(10 << 24, (12 << 24) - 1)]);
    }

    #[test]
    fn the_whole_address_space_is_one_range_to_the_top() {
        assert_eq!(exempt(&["0.0.0.0/0", "240.0.0.0/4"]).exempt_ranges(), [(0, u128::from(u32::MAX))]);
        let ipv6 = ["::/0", "ffff::/16", "::/1"].map(|text| entry(text, List::NonMasquerade));
        assert_eq!(Partition::new(Family::Ipv6, ipv6).exempt_ranges(), [(0, u128::MAX)]);
    }

    #[test]
    fn of_two_equal_cidrs_the_first_decides() {
        let partition = Partition::new(
            Family::Ipv4,
            [entry("169.254.0.0/16", List::LinkLocal), entry("169.254.0.0/16", List::NonMasquerade)],
        );
        assert_eq!(partition.lookup("169.254.1.1".parse().unwrap()).unwrap().list, List::LinkLocal);
        assert_eq!(partition.intervals().len(), 1);
    }

    #[test]
    fn an_address_of_the_other_family_is_in_no_cidr() {
        assert_eq!(decider(&exempt(&["0.0.0.0/0"]), "::ffff:10.0.0.1"), None);
    }

    /// CIDRs crowded into few addresses, so that equal, nested and neighbouring ones are common, and the ends of the space.
    fn cidrs(family: Family) -> impl Strategy<Value = Vec<Entry>> {
        let bits = u32::from(family.bits());
        let one =
            (any::<u128>(), 0..=bits, 0..4u8, prop::bool::ANY).prop_map(move |(random, prefix, place, masquerade)| {
                let base = match place {
                    0 => 0,
                    1 => family.max(),
                    2 => random & 0x0f,
                    _ => random & family.max(),
                };
                let mask = family.max().checked_shr(prefix).unwrap_or(0);
                let network = family.address(base & !mask);
                let list = if masquerade { List::Masquerade } else { List::NonMasquerade };
                Cidr::new(network, prefix as u8).ok().map(|cidr| listed(cidr, list))
            });
        prop::collection::vec(one, 0..40).prop_map(|entries| entries.into_iter().flatten().collect())
    }

    fn most_specific(entries: &[Entry], addr: IpAddr) -> Option<&Entry> {
        let mut best: Option<&Entry> = None;
        for entry in entries.iter().filter(|entry| entry.listed.cidr.contains(addr)) {
            if best.is_none_or(|best| best.listed.cidr.prefix_len() < entry.listed.cidr.prefix_len()) {
                best = Some(entry);
            }
        }
        best
    }

    /// Random addresses, and the ones where an off-by-one would show: both ends of each block and their neighbours.
    fn interesting_addresses(family: Family, entries: &[Entry], random: &[u128]) -> Vec<IpAddr> {
        let ends = entries.iter().flat_map(|entry| [entry.listed.cidr.first(), entry.listed.cidr.last()]);
        let near = ends.flat_map(|end| [end, end.saturating_sub(1), end.saturating_add(1).min(family.max())]);
        near.chain(random.iter().copied()).chain([0, family.max()]).map(|number| family.address(number)).collect()
    }

    fn agrees_with_a_naive_search(family: Family, entries: Vec<Entry>, random: &[u128]) -> Result<(), TestCaseError> {
        let partition = Partition::new(family, entries.clone());
        for addr in interesting_addresses(family, &entries, random) {
            let expected = most_specific(&entries, addr);
            prop_assert_eq!(partition.lookup(addr), expected, "{}", addr);
            let in_ranges = partition.exempt_ranges().iter().any(|(a, b)| (*a..=*b).contains(&number(addr)));
            prop_assert_eq!(in_ranges, expected.is_some_and(|entry| entry.list.is_exempt()), "{}", addr);
        }
        for pair in partition.intervals().windows(2) {
            prop_assert!(pair[0].last < pair[1].first);
        }
        for pair in partition.exempt_ranges().windows(2) {
            prop_assert!(pair[0].1 + 1 < pair[1].0, "neighbours are joined");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn the_ipv4_partition_agrees_with_a_naive_search(
            entries in cidrs(Family::Ipv4),
            random in prop::collection::vec(any::<u128>(), 20),
        ) {
            agrees_with_a_naive_search(Family::Ipv4, entries, &random)?;
        }

        #[test]
        fn the_ipv6_partition_agrees_with_a_naive_search(
            entries in cidrs(Family::Ipv6),
            random in prop::collection::vec(any::<u128>(), 20),
        ) {
            agrees_with_a_naive_search(Family::Ipv6, entries, &random)?;
        }
    }
}
