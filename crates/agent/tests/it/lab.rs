//! The lab itself: without an agent every packet arrives with the address it was sent from, whatever its destination.

use std::net::IpAddr;
use std::os::unix::process::ExitStatusExt;

use ip_masq_agent::lab::probe::Transport;
use ip_masq_agent::lab::{Host, Lab, addresses, source_address};
use masq::cidr::Family;

use crate::support::agent::{Agent, PATIENCE};

fn destinations(family: Family) -> Vec<IpAddr> {
    let texts: &[&str] = match family {
        Family::Ipv4 => &[
            "8.8.8.8",
            "10.244.0.77",
            "10.0.0.0",
            "1.0.0.1",
            "169.254.169.254",
            "172.31.255.255",
            "198.51.100.77",
            "240.0.0.1",
            "255.255.255.254",
        ],
        Family::Ipv6 => &["2001:db8:1::77", "2606:4700::1111", "fd00:244::77", "::2", "fec0::1", "feff:ffff::"],
    };
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn any_destination_arrives_outside_with_the_senders_address_and_port() {
    let lab = Lab::open().unwrap();
    for &family in lab.families() {
        for from in [Host::Pod, Host::Node] {
            for transport in [Transport::Udp, Transport::Tcp] {
                for destination in destinations(family) {
                    let seen = lab.probe(from, transport, destination).unwrap();
                    let seen = seen.unwrap_or_else(|| panic!("{transport:?} from {from:?} to {destination} was lost"));
                    assert_eq!(seen.host, Host::Outside, "{transport:?} to {destination}");
                    assert_eq!(seen.source, seen.sent_from, "{transport:?} to {destination}");
                    assert_eq!(seen.source.ip(), source_address(from, family), "{transport:?} to {destination}");
                }
            }
        }
    }
}

#[test]
fn the_nodes_addresses_are_heard_by_the_node() {
    let lab = Lab::open().unwrap();
    for &family in lab.families() {
        let addresses = addresses(family);
        for destination in [addresses.node_inside, addresses.node_outside] {
            for transport in [Transport::Udp, Transport::Tcp] {
                let seen = lab.probe(Host::Pod, transport, destination).unwrap().unwrap();
                assert_eq!(seen.host, Host::Node, "{transport:?} to {destination}");
                assert_eq!(seen.source, seen.sent_from, "{transport:?} to {destination}");
            }
        }
    }
}

#[test]
fn thousands_of_datagrams_are_matched_to_their_destinations() {
    let lab = Lab::open().unwrap();
    for &family in lab.families() {
        let base = masq::cidr::number(destinations(family)[0]);
        let many: Vec<IpAddr> = (0..3000).map(|offset| family.address(base + offset * 1021)).collect();
        let seen = lab.probe_many(Host::Pod, &many).unwrap();
        assert_eq!(seen.len(), many.len());
        for (destination, seen) in many.iter().zip(seen) {
            let seen = seen.unwrap_or_else(|| panic!("the datagram to {destination} was lost"));
            assert_eq!((seen.host, seen.source), (Host::Outside, seen.sent_from), "{destination}");
        }
    }
}

#[test]
fn a_destination_that_no_packet_can_reach_is_refused() {
    let lab = Lab::open().unwrap();
    for destination in ["127.0.0.1", "224.0.0.1", "255.255.255.255", "::1", "ff02::1", "fe80::1", "::ffff:1.2.3.4"] {
        let error = lab.probe(Host::Pod, Transport::Udp, destination.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains(destination), "{error:#}");
    }
}

#[test]
fn a_daemon_dies_with_the_thread_that_started_it() {
    let lab = Lab::open().unwrap();
    let mut agent = Agent::start_ready(&lab.node, &["--backend=nftables"], None);
    assert_eq!(agent.exited().unwrap(), None);
    drop(lab);
    let status = agent.wait_for_exit(PATIENCE).unwrap();
    assert_eq!(status.signal(), Some(9));
}
