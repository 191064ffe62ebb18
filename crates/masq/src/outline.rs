//! A policy without its reasons: which destinations it masquerades and out of which ports, in a fraction of the memory.

use std::net::IpAddr;

use crate::cidr::{Family, number};
use crate::partition::Partition;
use crate::policy::Policy;
use crate::ports::PortRanges;

/// What is worth remembering of a policy when another one takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The source ports of masqueraded connections; empty leaves the choice to the kernel.
    pub to_ports: PortRanges,
    /// The exempt addresses of IPv4, as [`Partition::exempt_ranges`] has them.
    ipv4: Vec<(u128, u128)>,
    /// The same of IPv6; `None` leaves IPv6 untouched.
    ipv6: Option<Vec<(u128, u128)>>,
}

impl Outline {
    /// The outline of a policy.
    pub fn new(policy: &Policy) -> Outline {
        Outline {
            to_ports: policy.masquerade.to_ports.clone(),
            ipv4: policy.ipv4.exempt_ranges(),
            ipv6: policy.ipv6.as_ref().map(Partition::exempt_ranges),
        }
    }

    /// Whether a connection to this address of another host is masqueraded: what [`decide`](crate::verdict::decide) says, without why.
    pub fn masquerades(&self, destination: IpAddr) -> bool {
        let exempt = match Family::of(destination) {
            Family::Ipv4 => Some(&self.ipv4),
            Family::Ipv6 => self.ipv6.as_ref(),
        };
        let wanted = number(destination);
        let holds = |ranges: &[(u128, u128)]| {
            let after = ranges.partition_point(|(first, _)| *first <= wanted);
            ranges[..after].last().is_some_and(|(_, last)| wanted <= *last)
        };
        exempt.is_some_and(|ranges| !holds(ranges))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cidr::Cidr;
    use crate::config::{ListedCidr, Origin};
    use crate::partition::{Entry, List};
    use crate::policy::Masquerade;
    use crate::verdict::{PacketFacts, Protocol, Verdict, decide};

    /// CIDRs of both lists, often inside each other, at both ends of the addresses.
    fn partition(family: Family) -> impl Strategy<Value = Partition> {
        let list = prop_oneof![Just(List::LinkLocal), Just(List::NonMasquerade), Just(List::Masquerade)];
        let cidr =
            (any::<bool>(), 0..=8_u8, any::<u8>(), list).prop_filter_map("aligned", move |(top, len, low, list)| {
                let base = if top { family.max() } else { 0 };
                let mask = family.max().checked_shr(u32::from(len)).unwrap_or(0);
                let address = family.address((base ^ u128::from(low) << (family.bits() - 8)) & !mask);
                let cidr = Cidr::new(address, len).ok()?;
                Some(Entry { listed: ListedCidr { cidr, text: cidr.to_string(), origin: Origin::Default }, list })
            });
        prop::collection::vec(cidr, 0..6).prop_map(move |entries| Partition::new(family, entries))
    }

    proptest! {
        #[test]
        fn it_says_what_the_verdict_is(
            ipv4 in partition(Family::Ipv4),
            ipv6 in prop::option::of(partition(Family::Ipv6)),
            four in any::<u32>(),
            six in any::<u128>(),
        ) {
            let masquerade = Masquerade { to_ports: PortRanges::default(), random_fully: true };
            let policy = Policy { ipv4, ipv6, masquerade };
            let outline = Outline::new(&policy);
            for destination in [Family::Ipv4.address(four.into()), Family::Ipv6.address(six)] {
                let packet = PacketFacts { destination, destination_is_local: false, protocol: Protocol::Tcp };
                let is_masqueraded = matches!(decide(&policy, &packet).verdict, Verdict::Masquerade(_));
                prop_assert_eq!(outline.masquerades(destination), is_masqueraded, "{}", destination);
            }
        }
    }
}
