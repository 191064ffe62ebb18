//! The networks of pods that the node's routing table knows, by the names that network plugins give their links.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use masq::cidr::Cidr;

/// Beginnings of the names of links that lead to pods: of the plugins bridge and ptp, kubenet, Calico, Cilium, AWS, Azure, GKE, flannel,
/// Weave, kube-router and Antrea.
const POD_LINKS: [&str; 13] = [
    "cni",
    "cbr0",
    "veth",
    "cali",
    "vxlan.calico",
    "lxc",
    "cilium_",
    "eni",
    "azv",
    "gke",
    "flannel",
    "weave",
    "kube-bridge",
];

/// `RTF_UP`.
const UP: u32 = 0x1;
/// `RTF_REJECT`, and of IPv6 `RTF_ANYCAST` and `RTF_LOCAL`.
const NO_NETWORK: u32 = 0x8010_0200;

/// Destinations that are reached by a link to pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The link's name.
    pub link: String,
    /// The destinations.
    pub cidr: Cidr,
}

/// Reads the main routing tables of the network namespace of the calling thread. What cannot be read counts as empty.
pub fn read() -> Vec<Network> {
    let text = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let mut networks = parse(&text("route"), ipv4);
    networks.extend(parse(&text("ipv6_route"), ipv6));
    networks
}

fn parse(table: &str, line: impl Fn(&[&str]) -> Option<Network>) -> Vec<Network> {
    let found = table.lines().filter_map(|text| line(&text.split_whitespace().collect::<Vec<_>>()));
    found.filter(|network| POD_LINKS.iter().any(|beginning| network.link.starts_with(beginning))).collect()
}

/// `cni0 0000F40A 00000000 0001 0 0 0 00FFFFFF 0 0 0`: numbers as they lie in memory.
fn ipv4(words: &[&str]) -> Option<Network> {
    let [link, destination, _gateway, flags, _, _, _, mask, ..] = words else { return None };
    let number = |word: &str| u32::from_str_radix(word, 16).ok();
    let address = Ipv4Addr::from(number(destination)?.to_ne_bytes());
    let prefix_len = u8::try_from(number(mask)?.count_ones()).ok()?;
    network(link, address.into(), prefix_len, number(flags)?)
}

/// `fd00... 40 000... 00 000... 00000100 00000001 00000000 00000001 cni0`.
fn ipv6(words: &[&str]) -> Option<Network> {
    let [destination, prefix_len, _, _, _gateway, _, _, _, flags, link] = words else { return None };
    let address = Ipv6Addr::from(u128::from_str_radix(destination, 16).ok()?);
    let is_special = address.is_multicast() || address.is_unicast_link_local();
    let prefix_len = u8::from_str_radix(prefix_len, 16).ok().filter(|_| !is_special)?;
    network(link, address.into(), prefix_len, u32::from_str_radix(flags, 16).ok()?)
}

fn network(link: &str, address: IpAddr, prefix_len: u8, flags: u32) -> Option<Network> {
    let leads_somewhere = flags & UP != 0 && flags & NO_NETWORK == 0 && prefix_len > 0;
    let cidr = Cidr::new(address, prefix_len).ok().filter(|_| leads_somewhere)?;
    Some(Network { link: link.to_owned(), cidr })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(networks: &[Network]) -> Vec<String> {
        networks.iter().map(|network| format!("{} {}", network.cidr, network.link)).collect()
    }

    #[test]
    fn routes_by_links_to_pods_are_networks_and_others_are_not() {
        let hex = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let line = |link: &str, to: [u8; 4], flags: &str, mask: [u8; 4]| {
            format!("{link}\t{}\t00000000\t{flags}\t0\t0\t0\t{}\t0\t0\t0\n", hex(to), hex(mask))
        };
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n".to_owned()
            + &line("eth0", [0, 0, 0, 0], "0003", [0, 0, 0, 0])
            + &line("cni0", [10, 244, 1, 0], "0001", [255, 255, 255, 0])
            + &line("cali123", [10, 9, 0, 7], "0005", [255, 255, 255, 255])
            + &line("cni0", [10, 1, 0, 0], "0000", [255, 255, 0, 0])
            + &line("docker0", [172, 17, 0, 0], "0001", [255, 255, 0, 0]);
        assert_eq!(texts(&parse(&table, ipv4)), ["10.244.1.0/24 cni0", "10.9.0.7/32 cali123"]);
    }

    #[test]
    fn ipv6_routes_to_the_nodes_own_addresses_are_no_networks() {
        let line = |to: &str, bits: &str, flags: &str| {
            let zeros = "0".repeat(32);
            format!("{to:0<32} {bits} {zeros} 00 {zeros} 00000100 00000001 00000000 {flags}     cni0\n")
        };
        let table = line("fd00", "40", "00000001") + &line("fe80", "40", "00000001") + &line("fd00", "80", "80200001");
        assert_eq!(texts(&parse(&table, ipv6)), ["fd00::/64 cni0"]);
    }

    #[test]
    fn odd_lines_are_passed_over() {
        assert_eq!(parse("cni0\ncni0 x y z 1 2 3 4\n\n", ipv4), []);
        assert_eq!(parse("a b c d e f g h i j\n", ipv6), []);
    }
}
