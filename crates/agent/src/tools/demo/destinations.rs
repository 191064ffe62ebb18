//! Which destinations show a policy best: inside each CIDR, just beyond its edges, and the special cases.

use std::collections::BTreeSet;
use std::net::IpAddr;

use masq::cidr::{Cidr, Family};
use masq::policy::Policy;
use masq::verdict::{Reason, Verdict, decide};

use crate::lab::judge::facts;
use crate::lab::probe::Transport;
use crate::lab::{Host, addresses, can_probe};

/// CIDRs of a family that are looked at; a list of thousands would be no demonstration any more.
const CIDRS_SHOWN: usize = 8;

/// Addresses on the public internet, and one that clouds serve their metadata from. Nothing is sent there: in the lab every address
/// is the outside's.
const WELL_KNOWN: [&str; 4] = ["8.8.8.8", "203.0.113.80", "169.254.169.254", "2001:4860:4860::8888"];

/// One row of the demo: who sends, and to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The sending host.
    pub from: Host,
    /// The destination.
    pub destination: IpAddr,
}

/// The rows for a policy: the pod's by ascending destination, then what the node sends itself.
pub fn rows(policy: &Policy, families: &[Family]) -> Vec<Row> {
    let mut from_pod = BTreeSet::new();
    for &family in families {
        from_pod.extend(near_cidrs(policy, family));
        from_pod.extend([addresses(family).node_inside, addresses(family).node_outside]);
        from_pod.extend(well_known(family));
    }
    from_pod.retain(|&destination| can_probe(destination));
    let from_node = families.iter().filter_map(|&family| well_known(family).next());
    let row = |from| move |destination| Row { from, destination };
    from_pod.into_iter().map(row(Host::Pod)).chain(from_node.map(row(Host::Node))).collect()
}

/// Destinations off the node that a policy masquerades for the pod, those of `preferred` first.
pub fn masqueraded(policy: &Policy, preferred: &[Row]) -> Vec<IpAddr> {
    let shown = preferred.iter().filter(|row| row.from == Host::Pod).map(|row| row.destination);
    shown
        .chain(well_known(Family::Ipv4))
        .filter(|&destination| {
            let decision = decide(policy, &facts(destination, Transport::Udp));
            matches!(decision.verdict, Verdict::Masquerade(_)) && decision.reason != Reason::LocalDestination
        })
        .collect()
}

fn near_cidrs(policy: &Policy, family: Family) -> impl Iterator<Item = IpAddr> {
    let entries = policy.family(family).map_or(&[][..], |partition| partition.entries());
    entries.iter().take(CIDRS_SHOWN).flat_map(|entry| around(entry.listed.cidr))
}

/// The middle of a block, and its neighbours below and above.
fn around(cidr: Cidr) -> impl Iterator<Item = IpAddr> {
    let (first, last) = (cidr.first(), cidr.last());
    let top = cidr.family().max();
    let numbers = [first.checked_sub(1), Some(first + (last - first) / 2), last.checked_add(1)];
    numbers.into_iter().flatten().filter(move |&number| number <= top).map(move |number| cidr.family().address(number))
}

fn well_known(family: Family) -> impl Iterator<Item = IpAddr> {
    WELL_KNOWN
        .iter()
        .map(|text| text.parse().expect("the constants are addresses"))
        .filter(move |&address| Family::of(address) == family)
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags};

    use super::*;

    fn default_rows() -> Vec<Row> {
        rows(&Policy::new(&Config::default_for(&Flags::default())), &Family::ALL)
    }

    fn pod_sends_to(rows: &[Row], destination: &str) -> bool {
        rows.contains(&Row { from: Host::Pod, destination: destination.parse().unwrap() })
    }

    #[test]
    fn each_cidr_is_shown_inside_and_beyond_both_edges() {
        let rows = default_rows();
        for destination in ["9.255.255.255", "10.127.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0"] {
            assert!(pod_sends_to(&rows, destination), "{destination}");
        }
    }

    #[test]
    fn the_node_itself_is_a_destination_and_a_sender() {
        let rows = default_rows();
        assert!(pod_sends_to(&rows, "198.51.100.1"));
        assert!(rows.iter().any(|row| row.from == Host::Node));
    }

    #[test]
    fn nothing_is_sent_where_no_packet_arrives() {
        let whole = Cidr::new("0.0.0.0".parse().unwrap(), 0).unwrap();
        assert!(around(whole).all(|address| address == IpAddr::from([127, 255, 255, 255])));
        assert!(default_rows().iter().all(|row| can_probe(row.destination)));
    }

    #[test]
    fn a_policy_that_exempts_all_leaves_no_destination_masqueraded() {
        let mut config = Config::default_for(&Flags::default());
        let default = Policy::new(&config);
        assert!(masqueraded(&default, &default_rows()).len() > 2);
        config.non_masquerade_cidrs[0].cidr = "0.0.0.0/0".parse().unwrap();
        assert!(masqueraded(&Policy::new(&config), &default_rows()).is_empty());
    }
}
