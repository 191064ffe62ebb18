//! Set elements to what a set matches.

use std::collections::BTreeMap;

use super::expr::{expression, expressions};
use crate::encode::highest_key;
use crate::expr::Expr;
use crate::object::{Elements, Interval, Set, SetFlags};
use crate::uapi;
use crate::wire::Attributes;

/// Collects the elements of a dump. Starts and ends of intervals come as elements of their own, in
/// an order that is the kernel's affair.
#[derive(Debug)]
pub(crate) struct ElementReader {
    key_len: u32,
    intervals: bool,
    edges: Vec<Edge>,
    /// Whole elements of sets that do not split intervals.
    whole: Vec<Interval>,
    catch_all: bool,
    /// What the counters of elements stand at, by their keys, for those that have one.
    packets: BTreeMap<u128, u64>,
}

/// Where an interval starts or ends; at the same key an end sorts before a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    key: u128,
    start: bool,
}

impl ElementReader {
    pub(crate) fn new(set: &Set) -> Self {
        let plain = set.flags.contains(SetFlags::INTERVAL) && !set.flags.contains(SetFlags::CONCAT);
        Self {
            key_len: set.key_len,
            intervals: plain,
            edges: Vec::new(),
            whole: Vec::new(),
            catch_all: false,
            packets: BTreeMap::new(),
        }
    }

    /// Takes the elements of one message; says `None` if one of them has no key of that length.
    pub(crate) fn read(&mut self, message: Attributes<'_>) -> Option<()> {
        let list = message.nested(uapi::NFTA_SET_ELEM_LIST_ELEMENTS).unwrap_or_default();
        list.iter().try_for_each(|(_, element)| self.element(Attributes(element)))
    }

    fn element(&mut self, element: Attributes<'_>) -> Option<()> {
        let flags = element.u32(uapi::NFTA_SET_ELEM_FLAGS).unwrap_or_default();
        if flags & uapi::NFT_SET_ELEM_CATCHALL != 0 {
            self.catch_all = true;
            return Some(());
        }
        let key = self.key(element, uapi::NFTA_SET_ELEM_KEY)?;
        if let Some(packets) = packets(element) {
            self.packets.insert(key, packets);
        }
        if self.intervals {
            let start = flags & uapi::NFT_SET_ELEM_INTERVAL_END == 0;
            self.edges.push(Edge { key, start });
        } else {
            let last = match element.get(uapi::NFTA_SET_ELEM_KEY_END) {
                None => key,
                Some(_) => self.key(element, uapi::NFTA_SET_ELEM_KEY_END)?,
            };
            self.whole.push(Interval { first: key, last });
        }
        Some(())
    }

    fn key(&self, element: Attributes<'_>, kind: u16) -> Option<u128> {
        let key = element.value(kind)?;
        let len = usize::try_from(self.key_len).ok()?;
        if key.len() != len || len > 16 {
            return None;
        }
        Some(key.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
    }

    /// The same, with what the counter of each element stands at; those without one are left out.
    pub(crate) fn finish_counted(mut self) -> Vec<(Interval, u64)> {
        let packets = std::mem::take(&mut self.packets);
        let intervals = self.finish().intervals.into_iter();
        intervals.filter_map(|interval| Some((interval, *packets.get(&interval.first)?))).collect()
    }

    /// What the set matches, in rising order.
    pub(crate) fn finish(mut self) -> Elements {
        self.edges.sort_unstable();
        let mut intervals = std::mem::take(&mut self.whole);
        intervals.reserve(self.edges.len() / 2);
        let mut open: Option<u128> = None;
        for edge in &self.edges {
            // A lookup goes by the nearest edge below the key, so a second start ends the interval
            // before it, and an end without a start ends nothing.
            if let Some(first) = open.take()
                && first < edge.key
            {
                intervals.push(Interval { first, last: edge.key - 1 });
            }
            open = edge.start.then_some(edge.key);
        }
        if let (Some(first), Some(last)) = (open, highest_key(self.key_len)) {
            intervals.push(Interval { first, last });
        }
        intervals.sort_unstable();
        // A transaction that is being prepared can shift elements into the next message as well.
        intervals.dedup();
        Elements { intervals, catch_all: self.catch_all }
    }
}

fn packets(element: Attributes<'_>) -> Option<u64> {
    let single = element.nested(uapi::NFTA_SET_ELEM_EXPR).map(expression);
    let several = || element.nested(uapi::NFTA_SET_ELEM_EXPRESSIONS).map(expressions).unwrap_or_default();
    let mut all = single.into_iter().chain(several());
    all.find_map(|expression| match expression {
        Expr::Counter { packets, .. } => Some(packets),
        _ => None,
    })
}
