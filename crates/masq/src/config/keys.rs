//! The keys of a config file: one row each, found as Go's `encoding/json` finds a field, and guessed at when misspelt.

use crate::config::reader::{FileConfig, Reader};
use crate::value::NodeId;

/// A key and how its value is taken.
pub(super) struct Key {
    /// The name as documented.
    pub name: &'static str,
    /// Reads the value into the file's config, or tells what is wrong with it.
    pub read: fn(&mut Reader<'_>, NodeId, &mut FileConfig),
}

/// Every key, in the order of the documentation.
pub(super) const KEYS: [Key; 5] = [
    Key {
        name: "nonMasqueradeCIDRs",
        read: |reader, value, config| reader.cidrs(value, &mut config.non_masquerade_cidrs),
    },
    Key { name: "cidrLimit", read: |reader, value, config| reader.integer(value, &mut config.cidr_limit) },
    Key { name: "masqLinkLocal", read: |reader, value, config| reader.boolean(value, &mut config.masq_link_local) },
    Key {
        name: "masqLinkLocalIPv6",
        read: |reader, value, config| reader.boolean(value, &mut config.masq_link_local_ipv6),
    },
    Key { name: "resyncInterval", read: |reader, value, config| reader.duration(value, &mut config.resync_interval) },
];

/// The key that a name in a file means: exactly, or else with upper and lower case taken alike.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name).or_else(|| KEYS.iter().find(|key| is_same_folded(key.name, name)))
}

/// Whether Go folds both to the same: ASCII letters, and the two others that fold to ASCII.
fn is_same_folded(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}

/// The known key that the name is most like, if it is like any.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    crate::nearest(name, KEYS.iter().map(|key| key.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_keys_are_guessed_and_strange_ones_are_not() {
        for (name, guess) in [
            ("nonMasqueradeCIDR", Some("nonMasqueradeCIDRs")),
            ("non_masquerade_cidrs", Some("nonMasqueradeCIDRs")),
            ("masq-link-local", Some("masqLinkLocal")),
            ("linkLocal", Some("masqLinkLocal")),
            ("masqLinkLocalIpv4", Some("masqLinkLocalIPv6")),
            ("resyncIntervall", Some("resyncInterval")),
            ("cidrKimit", Some("cidrLimit")),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(nearest(name), guess, "{name}");
        }
    }

    #[test]
    fn only_what_go_folds_is_taken_for_a_key() {
        for name in ["cidrLimit", "CIDRLIMIT", "cidrlimit"] {
            assert_eq!(find(name).map(|key| key.name), Some("cidrLimit"));
        }
        assert_eq!(find("ma\u{17f}qLin\u{212a}Local").map(|key| key.name), Some("masqLinkLocal"));
        assert!(find("resync\u{130}nterval").is_none());
        assert!(find("cidrLimit ").is_none());
    }
}
