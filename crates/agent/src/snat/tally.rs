//! Connections counted by a key, in bounded memory: what comes often is counted well, what comes seldom may be forgotten.

use std::collections::HashMap;
use std::hash::Hash;

/// How many connections have one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// All of them.
    pub connections: u32,
    /// Those that had not been there before.
    pub new: u32,
}

/// Counts of at most a given number of keys.
///
/// While there are no more keys than that, every count is exact. Beyond that it follows Misra and Gries: a key for which there is no
/// room takes one connection away from every other key, and keys without connections go. So after n connections each count is too
/// small by n / (most + 1) at most, and every key with more than that is there, in whatever order they came.
#[derive(Debug)]
pub struct Tally<K> {
    counts: HashMap<K, Count>,
    most: usize,
    missed: u32,
}

impl<K: Eq + Hash> Tally<K> {
    /// Nothing is counted yet; at most `most` keys will be.
    pub fn new(most: usize) -> Tally<K> {
        Tally { counts: HashMap::new(), most, missed: 0 }
    }

    /// Counts a connection.
    pub fn add(&mut self, key: K, is_new: bool) {
        let new = u32::from(is_new);
        if let Some(count) = self.counts.get_mut(&key) {
            count.connections = count.connections.saturating_add(1);
            count.new = count.new.saturating_add(new);
        } else if self.counts.len() < self.most {
            self.counts.insert(key, Count { connections: 1, new });
        } else {
            self.missed = self.missed.saturating_add(1);
            self.counts.retain(|_, count| {
                count.connections -= 1;
                count.new = count.new.min(count.connections);
                count.connections > 0
            });
        }
    }

    /// Every count is too small by so many connections at most.
    pub fn missed(&self) -> u32 {
        self.missed
    }

    /// The keys and their counts, in no particular order.
    pub fn counts(&self) -> impl ExactSizeIterator<Item = (&K, &Count)> {
        self.counts.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_are_exact_while_there_is_room_and_then_too_small_by_a_known_bound(
            keys in prop::collection::vec(0_u8..40, 0..600),
            most in 1_usize..50,
        ) {
            let (mut tally, mut exact) = (Tally::new(most), BTreeMap::<u8, u32>::new());
            for key in keys.iter().copied() {
                tally.add(key, false);
                *exact.entry(key).or_default() += 1;
            }
            let counted: BTreeMap<u8, u32> = tally.counts().map(|(key, count)| (*key, count.connections)).collect();
            prop_assert!(counted.len() <= most);
            prop_assert!(tally.missed() as usize * (most + 1) <= keys.len());
            if exact.len() <= most {
                prop_assert_eq!(&counted, &exact);
            }
            for (key, count) in exact {
                let found = counted.get(&key).copied().unwrap_or_default();
                prop_assert!(found <= count && count - found <= tally.missed(), "{key}: {found} of {count}");
            }
        }
    }

    #[test]
    fn no_more_are_new_than_there_are() {
        let mut tally = Tally::new(1);
        tally.add('a', true);
        tally.add('a', true);
        tally.add('b', false);
        assert_eq!(tally.counts().collect::<Vec<_>>(), [(&'a', &Count { connections: 1, new: 1 })]);
    }
}
