//! The pools that source ports are picked from, and how many ports each holds.

use masq::ports::{PortRange, PortRanges};

/// Where the port of a translated connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Pool {
    /// The ranges of `--to-ports`.
    Ranges,
    /// What the kernel picks from for a source port below 512.
    Lowest,
    /// What the kernel picks from for a source port of 512 to 1023.
    Reserved,
    /// What the kernel picks from for all other source ports.
    Unprivileged,
}

/// The kernel's own three, as its NAT has them for connections that no rule gives a range to.
const LOWEST: PortRange = PortRange { first: 1, last: 511 };
const RESERVED: PortRange = PortRange { first: 600, last: 1_023 };
const UNPRIVILEGED: PortRange = PortRange { first: 1_024, last: 65_535 };

/// IANA's numbers of the protocols that `--to-ports` is for: tcp, udp and sctp.
const WITH_RANGES: [u8; 3] = [6, 17, 132];

/// All pools of a policy.
#[derive(Debug)]
pub(super) struct Pools {
    ranges: PortRanges,
    in_ranges: u32,
}

impl Pools {
    pub(super) fn new(ranges: &PortRanges) -> Pools {
        Pools { ranges: ranges.clone(), in_ranges: ranges.distinct() }
    }

    /// The pool that a port was picked from. Beside ranges, a port outside of them was picked by a rule of somebody else.
    pub(super) fn pool_of(&self, protocol: u8, port: u16) -> Pool {
        match port {
            _ if WITH_RANGES.contains(&protocol) && self.ranges.contains(port) => Pool::Ranges,
            0..512 => Pool::Lowest,
            512..1_024 => Pool::Reserved,
            1_024.. => Pool::Unprivileged,
        }
    }

    /// How many ports a pool holds.
    pub(super) fn size(&self, pool: Pool) -> u32 {
        match pool {
            Pool::Ranges => self.in_ranges,
            Pool::Lowest => LOWEST.size(),
            Pool::Reserved => RESERVED.size(),
            Pool::Unprivileged => UNPRIVILEGED.size(),
        }
    }
}
