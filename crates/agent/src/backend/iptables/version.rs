//! Which iptables it is, by what `iptables --version` prints, and what it can do.

use std::fmt;

/// One of the two implementations of iptables in the kernel. Rules of both apply at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stack {
    /// iptables-nft: rules live in nf_tables.
    Nft,
    /// iptables-legacy: rules live in tables of their own.
    Legacy,
}

impl Stack {
    /// Both stacks.
    pub const ALL: [Stack; 2] = [Stack::Nft, Stack::Legacy];

    /// The other one.
    pub fn other(self) -> Stack {
        match self {
            Stack::Nft => Stack::Legacy,
            Stack::Legacy => Stack::Nft,
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stack::Nft => "iptables-nft",
            Stack::Legacy => "iptables-legacy",
        })
    }
}

/// A version of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Major, minor and patch number.
    pub number: (u32, u32, u32),
    /// Which stack it writes to. Versions before 1.8 know only the old one.
    pub stack: Stack,
}

impl Version {
    /// Reads `iptables v1.8.9 (nf_tables)`; `None` if there is no version in the text.
    pub fn parse(text: &str) -> Option<Version> {
        let mut words = text.split_ascii_whitespace();
        let number = words.find_map(|word| parse_number(word.strip_prefix('v')?))?;
        let stack = if words.next() == Some("(nf_tables)") { Stack::Nft } else { Stack::Legacy };
        Some(Version { number, stack })
    }

    /// Whether MASQUERADE takes `--random-fully`.
    pub fn has_random_fully(self) -> bool {
        self.number >= (1, 6, 2)
    }

    /// Whether the restore program waits for the lock with `-w SECONDS`; older ones take no lock at all.
    pub fn restore_waits(self) -> bool {
        self.number >= (1, 6, 2)
    }
}

fn parse_number(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split('.').map(|part| {
        // 1.4.19.1 is fine, and so is a suffix like 1.8.9-r1.
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse::<u32>().ok()
    });
    let (major, minor) = (parts.next()??, parts.next()??);
    Some((major, minor, parts.next().flatten().unwrap_or(0)))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Option<((u32, u32, u32), Stack)> {
        Version::parse(text).map(|version| (version.number, version.stack))
    }

    #[test]
    fn versions_of_all_times_are_read() {
        assert_eq!(version("iptables v1.8.9 (nf_tables)\n"), Some(((1, 8, 9), Stack::Nft)));
        assert_eq!(version("ip6tables v1.8.9 (legacy)\n"), Some(((1, 8, 9), Stack::Legacy)));
        assert_eq!(version("iptables v1.6.1\n"), Some(((1, 6, 1), Stack::Legacy)));
        assert_eq!(version("iptables v1.4.19.1\n"), Some(((1, 4, 19), Stack::Legacy)));
        assert_eq!(version("iptables v1.10-r1 (nf_tables)"), Some(((1, 10, 0), Stack::Nft)));
    }

    #[test]
    fn what_is_no_version_is_not_taken_for_one() {
        for text in ["", "iptables", "iptables v", "iptables v1", "vx.y.z", "iptables v99999999999.1.1"] {
            assert_eq!(version(text), None, "{text:?}");
        }
    }

    #[test]
    fn random_fully_and_waiting_came_with_1_6_2() {
        for (text, knows) in
            [("v1.4.7", false), ("v1.6.1", false), ("v1.6.2", true), ("v1.8.0", true), ("v2.0.0", true)]
        {
            let version = Version::parse(text).unwrap();
            assert_eq!((version.has_random_fully(), version.restore_waits()), (knows, knows), "{text}");
        }
    }
}
