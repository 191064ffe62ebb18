//! The address that masquerading picks: the kernel's own choice, worked out from the addresses of the node.

use std::net::{IpAddr, Ipv6Addr};

use masq::cidr::{Family, number};

/// An address of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Number of the link.
    pub link: u32,
    /// The address.
    pub local: IpAddr,
    /// The address whose first bits make the network: the peer's on a point-to-point link, else the same.
    pub network: IpAddr,
    /// Length of the network's prefix.
    pub prefix_len: u8,
    /// Whether it is meant for the whole world, not for the link or the node alone.
    pub is_global: bool,
    /// IPv4: whether an earlier address of the link has the same network. IPv6: whether it is a temporary one.
    pub is_secondary: bool,
    /// Whether new connections should not use it.
    pub is_deprecated: bool,
    /// Whether it is known to be nobody else's.
    pub is_usable: bool,
}

/// The address that masquerading picks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked {
    /// The address; `None` where there is none, so that the kernel drops the packet.
    pub address: Option<IpAddr>,
    /// Why it may be another one; `None` if it surely is this.
    pub doubt: Option<&'static str>,
}

/// Works out the address for a packet that leaves by `link` to `next_hop`, which is the gateway or the destination itself.
pub fn masquerade(addresses: &[Address], link: u32, next_hop: IpAddr, destination: IpAddr) -> Picked {
    match destination {
        IpAddr::V4(_) => ipv4(addresses, link, next_hop),
        IpAddr::V6(destination) => ipv6(addresses, link, destination),
    }
}

/// The first primary address of global scope whose network holds the next hop, else the first of them, else one of another link.
fn ipv4(addresses: &[Address], link: u32, next_hop: IpAddr) -> Picked {
    let eligible = |address: &&Address| address.is_global && !address.is_secondary;
    let own = || addresses.iter().filter(|address| address.link == link).filter(eligible);
    if let Some(address) = own().find(|address| address.holds(next_hop)).or_else(|| own().next()) {
        return Picked { address: Some(address.local), doubt: None };
    }
    match addresses.iter().find(eligible) {
        Some(address) => Picked {
            address: Some(address.local),
            doubt: Some("the output link has no address of its own, so the kernel takes one of another link"),
        },
        None => Picked { address: None, doubt: None },
    }
}

/// The rules of RFC 6724 as far as they are sure: addresses of the output link before others, and of the destination's scope.
fn ipv6(addresses: &[Address], link: u32, destination: Ipv6Addr) -> Picked {
    let is_global =
        !(destination.is_unicast_link_local() || destination.is_multicast() && is_link_multicast(destination));
    let fits = |address: &&Address| address.is_usable && address.is_global == is_global;
    let own: Vec<&Address> = addresses.iter().filter(|address| address.link == link).filter(fits).collect();
    if let Some(same) = own.iter().find(|address| address.local == IpAddr::V6(destination)) {
        return Picked { address: Some(same.local), doubt: None };
    }
    let preferred: Vec<&Address> = own.iter().copied().filter(|address| !address.is_deprecated).collect();
    let candidates = if preferred.is_empty() { own } else { preferred };
    match candidates.as_slice() {
        [] => Picked {
            address: addresses.iter().find(fits).map(|address| address.local),
            doubt: Some("the output link has no address of the destination's scope, so the kernel takes another one"),
        },
        [only] => Picked { address: Some(only.local), doubt: None },
        several => longest_match(several, destination),
    }
}

/// Of several the one that shares the longest prefix with the destination, unless labels or temporary addresses come into it.
fn longest_match(several: &[&Address], destination: Ipv6Addr) -> Picked {
    let shared = |address: &Address| {
        let differing = number(address.local) ^ number(destination.into());
        differing.leading_zeros().min(u32::from(address.prefix_len))
    };
    let longest = several.iter().copied().map(shared).max().unwrap_or_default();
    let address = several.iter().find(|address| shared(address) == longest).map(|address| address.local);
    let label = |address: &Address| label(address.local);
    let alike = several.iter().all(|other| label(other) == label(several[0]) && !other.is_secondary);
    let doubt = (!alike).then_some("the output link has several addresses, and the kernel's choice among them depends on labels and privacy settings");
    Picked { address, doubt }
}

/// The kinds of addresses that the default policy table of RFC 6724 keeps apart, roughly.
fn label(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => 0,
        IpAddr::V6(address) => match address.segments()[0] {
            unique_local @ 0xfc00..=0xfdff => unique_local & 0xfe00,
            special @ (0x2001 | 0x2002 | 0x3ffe) => special,
            _ => 1,
        },
    }
}

fn is_link_multicast(address: Ipv6Addr) -> bool {
    matches!(address.segments()[0] & 0xf, 1 | 2)
}

impl Address {
    fn holds(&self, address: IpAddr) -> bool {
        let family = Family::of(self.network);
        let hosts = family.max().checked_shr(u32::from(self.prefix_len)).unwrap_or(0);
        family == Family::of(address) && (number(self.network) ^ number(address)) & !hosts == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(link: u32, text: &str) -> Address {
        let (local, prefix_len) = text.split_once('/').unwrap();
        let local: IpAddr = local.parse().unwrap();
        Address {
            link,
            local,
            network: local,
            prefix_len: prefix_len.parse().unwrap(),
            is_global: true,
            is_secondary: false,
            is_deprecated: false,
            is_usable: true,
        }
    }

    fn picked(addresses: &[Address], next_hop: &str) -> (Option<String>, bool) {
        let next_hop: IpAddr = next_hop.parse().unwrap();
        let picked = masquerade(addresses, 1, next_hop, next_hop);
        (picked.address.map(|address| address.to_string()), picked.doubt.is_none())
    }

    fn sure(text: &str) -> (Option<String>, bool) {
        (Some(text.to_owned()), true)
    }

    #[test]
    fn the_first_address_in_the_next_hops_network_is_taken() {
        let addresses = [address(1, "192.0.2.1/24"), address(1, "198.51.100.7/24"), address(1, "198.51.100.8/24")];
        assert_eq!(picked(&addresses, "198.51.100.254"), sure("198.51.100.7"));
        assert_eq!(picked(&addresses, "203.0.113.1"), sure("192.0.2.1"));
    }

    #[test]
    fn secondary_and_narrow_addresses_are_passed_over() {
        let secondary = Address { is_secondary: true, ..address(1, "198.51.100.7/24") };
        let narrow = Address { is_global: false, ..address(1, "198.51.100.8/24") };
        assert_eq!(picked(&[secondary, narrow, address(1, "192.0.2.1/24")], "198.51.100.2"), sure("192.0.2.1"));
    }

    #[test]
    fn without_an_address_of_the_link_another_links_is_a_guess_and_none_is_none() {
        assert_eq!(picked(&[address(2, "192.0.2.1/24")], "198.51.100.2"), (Some("192.0.2.1".to_owned()), false));
        assert_eq!(picked(&[], "198.51.100.2"), (None, true));
    }

    #[test]
    fn a_peers_network_counts_and_not_the_local_address() {
        let peer = Address { network: "198.51.100.2".parse().unwrap(), ..address(1, "10.0.0.1/32") };
        assert_eq!(picked(&[address(1, "192.0.2.1/24"), peer], "198.51.100.2"), sure("10.0.0.1"));
    }

    #[test]
    fn ipv6_prefers_the_scope_of_the_destination_and_the_longer_match() {
        let link_local = Address { is_global: false, ..address(1, "fe80::1/64") };
        let addresses =
            [link_local, address(1, "2a00:1::1/64"), address(1, "2a00:2::1/64"), address(2, "2a00:3::1/64")];
        assert_eq!(picked(&addresses, "fe80::2"), sure("fe80::1"));
        assert_eq!(picked(&addresses, "2a00:2::9"), sure("2a00:2::1"));
        assert_eq!(picked(&addresses[..2], "2a00:3::9"), sure("2a00:1::1"));
        let mixed = [address(1, "2a00:1::1/64"), address(1, "fd00::1/64")];
        assert_eq!(picked(&mixed, "2a00:3::9"), (Some("2a00:1::1".to_owned()), false));
    }
}
