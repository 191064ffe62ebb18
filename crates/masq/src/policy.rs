//! What the kernel should do, per family: a config freed of syntax, defaults and file places that no packet can tell.

use crate::cidr::{Cidr, Family};
use crate::config::{Config, ListedCidr, Origin};
use crate::partition::{Entry, List, Partition};
use crate::ports::PortRanges;

/// The node's masquerading policy.
///
/// IPv6 off is the absence of its part, so rules for it cannot be written down by mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Which IPv4 destinations are exempt.
    pub ipv4: Partition,
    /// Which IPv6 destinations are exempt; `None` leaves IPv6 untouched.
    pub ipv6: Option<Partition>,
    /// What happens to a connection that is masqueraded.
    pub masquerade: Masquerade,
}

/// How a masqueraded connection's source port is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masquerade {
    /// The source ports of tcp, udp and sctp connections; empty leaves the choice to the kernel.
    pub to_ports: PortRanges,
    /// Whether the kernel picks the port at random instead of keeping the pod's where it is free.
    pub random_fully: bool,
}

impl Policy {
    /// The policy that a config asks for.
    pub fn new(config: &Config) -> Policy {
        let ipv6 = config.enable_ipv6.then(|| destinations(Family::Ipv6, config));
        Policy {
            ipv4: destinations(Family::Ipv4, config),
            ipv6,
            masquerade: Masquerade { to_ports: config.to_ports.clone(), random_fully: config.random_fully },
        }
    }

    /// The destinations of one family; `None` where the family is left untouched.
    pub fn family(&self, family: Family) -> Option<&Partition> {
        match family {
            Family::Ipv4 => Some(&self.ipv4),
            Family::Ipv6 => self.ipv6.as_ref(),
        }
    }

    /// The families the policy speaks about, IPv4 first.
    pub fn families(&self) -> impl Iterator<Item = &Partition> {
        Family::ALL.into_iter().filter_map(|family| self.family(family))
    }
}

fn destinations(family: Family, config: &Config) -> Partition {
    let masq_link_local = match family {
        Family::Ipv4 => config.masq_link_local,
        Family::Ipv6 => config.masq_link_local_ipv6,
    };
    let link_local = (!masq_link_local).then(|| Entry { listed: link_local(family), list: List::LinkLocal });
    let listed = config.non_masquerade_cidrs.iter().cloned();
    let listed = listed.map(|listed| Entry { listed, list: List::NonMasquerade });
    Partition::new(family, link_local.into_iter().chain(listed))
}

fn link_local(family: Family) -> ListedCidr {
    let text = match family {
        Family::Ipv4 => "169.254.0.0/16",
        Family::Ipv6 => "fe80::/10",
    };
    let cidr: Cidr = text.parse().expect("both constants are aligned CIDR blocks");
    ListedCidr { cidr, text: text.to_owned(), origin: Origin::LinkLocal }
}
