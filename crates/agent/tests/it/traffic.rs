//! The real agent and real packets: the source that the receiver sees is the one that the verdict function asks for.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use ip_masq_agent::lab::judge::{compare, facts};
use ip_masq_agent::lab::link::Rtnetlink;
use ip_masq_agent::lab::probe::Transport;
use ip_masq_agent::lab::{Host, Lab, OUTSIDE_LINK, addresses};
use masq::cidr::Family;
use masq::config::Flags;
use masq::policy::Policy;
use masq::verdict::{Verdict, decide};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recvfrom, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

use crate::support::agent::PATIENCE;
use crate::support::engine::{ENGINES, mismatches, policy};
use crate::support::random::{Random, config_of};

const IPV6_LIST: &str = "nonMasqueradeCIDRs:\n- 10.0.0.0/8\n- fd00::/8\n- 2606:4700::/32\n";

/// Runs the agent with each backend and holds every packet against the policy.
#[track_caller]
fn assert_treated_as_decided(flags: &Flags, config: Option<&str>) {
    let policy = policy(flags, config);
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let agent = engine.start(&lab, flags, config);
        let wrong = mismatches(&lab, &policy);
        assert!(wrong.is_empty(), "{engine}:\n{}\n{}", wrong.join("\n"), agent.log_tail());
    }
}

#[test]
fn the_default_list_of_an_empty_file_is_exempt() {
    assert_treated_as_decided(&Flags::default(), Some(""));
}

#[test]
fn without_a_file_the_default_list_is_exempt() {
    assert_treated_as_decided(&Flags::default(), None);
}

#[test]
fn a_custom_list_replaces_the_default_one() {
    let config =
        "nonMasqueradeCIDRs:\n- 10.244.0.0/16\n- 8.8.8.8/32\n- 8.8.8.0/24\n- 203.0.113.128/25\n- 240.0.0.0/4\n";
    assert_treated_as_decided(&Flags::default(), Some(config));
}

#[test]
fn an_empty_list_exempts_only_link_local() {
    assert_treated_as_decided(&Flags::default(), Some("nonMasqueradeCIDRs: []\n"));
}

#[test]
fn a_list_of_everything_exempts_everything() {
    assert_treated_as_decided(&Flags::default(), Some("nonMasqueradeCIDRs: [0.0.0.0/0]\n"));
}

#[test]
fn link_local_is_masqueraded_when_asked_for() {
    assert_treated_as_decided(&Flags::default(), Some("masqLinkLocal: true\n"));
}

#[test]
fn the_reserved_ranges_are_exempt_when_asked_for() {
    let flags = Flags { nomasq_all_reserved_ranges: true, ..Flags::default() };
    assert_treated_as_decided(&flags, None);
}

#[test]
fn without_random_fully_a_free_port_is_kept() {
    let flags = Flags { random_fully: false, enable_ipv6: true, ..Flags::default() };
    assert_treated_as_decided(&flags, Some(IPV6_LIST));
}

#[test]
fn ipv6_has_a_list_of_its_own_when_it_is_on() {
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    assert_treated_as_decided(&flags, Some(IPV6_LIST));
    assert_treated_as_decided(&flags, Some("nonMasqueradeCIDRs: ['::/0']\n"));
    assert_treated_as_decided(&flags, None);
}

#[test]
fn ports_come_from_the_ranges_in_both_families() {
    for random_fully in [true, false] {
        let to_ports = "1024-1999,3000-3000,40000-49999".parse().unwrap();
        let flags = Flags { to_ports, random_fully, enable_ipv6: true, ..Flags::default() };
        assert_treated_as_decided(&flags, Some(IPV6_LIST));
    }
}

#[test]
fn with_random_fully_ports_are_scattered() {
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let _agent = engine.start(&lab, &Flags::default(), None);
        let seen = lab.probe_many(Host::Pod, &public(200)).unwrap();
        let kept = seen.into_iter().flatten().filter(|seen| seen.source.port() == seen.sent_from.port()).count();
        // One in 60,000 keeps its port by chance.
        assert!(kept < 5, "{engine}: {kept} of 200 kept their port");
    }
}

#[test]
fn each_port_range_is_used_in_proportion_to_its_size() {
    const FLOWS: u32 = 4000;
    let to_ports: masq::ports::PortRanges = "1024-29999,32768-65535,30500-31499".parse().unwrap();
    let flags = Flags { to_ports: to_ports.clone(), ..Flags::default() };
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let _agent = engine.start(&lab, &flags, None);
        let seen = lab.probe_many(Host::Pod, &public(FLOWS)).unwrap();
        let mut used: BTreeMap<usize, u32> = BTreeMap::new();
        for seen in seen {
            let port = seen.unwrap().source.port();
            let range = to_ports.0.iter().position(|range| (range.first..=range.last).contains(&port));
            *used.entry(range.unwrap_or_else(|| panic!("{engine}: port {port} is in no range"))).or_default() += 1;
        }
        for (place, range) in to_ports.0.iter().enumerate() {
            let share = f64::from(range.size()) / to_ports.size() as f64;
            let expected = share * f64::from(FLOWS);
            // Six standard deviations: by chance alone this fails once in 500 million runs.
            let slack = 6.0 * (expected * (1.0 - share)).sqrt();
            let used = f64::from(used.get(&place).copied().unwrap_or(0));
            assert!((used - expected).abs() < slack, "{engine}: {range:?} {used} times, not {expected}");
        }
    }
}

#[test]
fn pings_have_no_ports_and_are_masqueraded_as_well() {
    let flags = Flags { to_ports: "20000-20999".parse().unwrap(), ..Flags::default() };
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let _agent = engine.start(&lab, &flags, None);
        for (destination, expected) in [([8, 8, 8, 8], [198, 51, 100, 1]), ([10, 1, 2, 3], [10, 244, 0, 2])] {
            assert_eq!(source_of_ping(&lab, destination.into()), Ipv4Addr::from(expected), "{engine}");
        }
    }
}

/// Sends an echo request from the pod and returns the source that arrives outside.
fn source_of_ping(lab: &Lab, destination: Ipv4Addr) -> Ipv4Addr {
    // Type 8, code 0, checksum, identifier, sequence number.
    const ECHO_REQUEST: [u8; 8] = [8, 0, 0xe5, 0xca, 0x12, 0x34, 0, 1];
    let open = || {
        let ping = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp).unwrap();
        setsockopt(&ping, sockopt::ReceiveTimeout, &TimeVal::new(PATIENCE.as_secs().cast_signed(), 0)).unwrap();
        ping
    };
    let (sender, receiver) = (lab.pod.run(open), lab.outside.run(open));
    let to = SockaddrIn::from(SocketAddrV4::new(destination, 0));
    sendto(sender.as_raw_fd(), &ECHO_REQUEST, &to, MsgFlags::empty()).unwrap();
    let (_, source) = recvfrom::<SockaddrIn>(receiver.as_raw_fd(), &mut [0; 64]).unwrap();
    source.unwrap().ip()
}

/// So many addresses that no built-in list exempts.
fn public(count: u32) -> Vec<IpAddr> {
    (0..count).map(|offset| Family::Ipv4.address(u128::from((11_u32 << 24) + offset * 7919))).collect()
}

#[test]
fn ipv6_link_local_destinations_follow_their_own_key() {
    let lab = Lab::open().unwrap();
    if !lab.families().contains(&Family::Ipv6) {
        return;
    }
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    for engine in ENGINES {
        for config in ["masqLinkLocalIPv6: false\n", "masqLinkLocalIPv6: true\n"] {
            let lab = Lab::open().unwrap();
            let _agent = engine.start(&lab, &flags, Some(config));
            let (sent_from, seen) = probe_link_local(&lab);
            let policy = policy(&flags, Some(config));
            match decide(&policy, &facts(LINK_LOCAL.into(), Transport::Udp)).verdict {
                Verdict::Exempt => assert_eq!(seen, sent_from, "{engine}: {config}"),
                // The output interface has one address that fits a link-local destination, and that is a link-local one.
                Verdict::Masquerade(_) => {
                    assert!(seen.ip().is_unicast_link_local(), "{engine}: {config}: {seen}");
                }
                Verdict::Untouched => panic!("{engine}: {config}: IPv6 is on"),
            }
        }
    }
}

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);

/// Sends from the node's inner address to a link-local neighbour: routers forward no such packet, so only the node itself can send
/// one. Returns the source as sent and as seen.
fn probe_link_local(lab: &Lab) -> (SocketAddrV6, SocketAddrV6) {
    let IpAddr::V6(inside) = addresses(Family::Ipv6).node_inside else { panic!("an IPv6 address is one") };
    lab.outside.run(|| Rtnetlink::open().unwrap().add_address("eth0", LINK_LOCAL.into(), 64).unwrap());
    let receiver = lab.outside.run(|| UdpSocket::bind("[::]:7200").unwrap());
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent_from = lab.node.run(move || {
        let sender = UdpSocket::bind((inside, 0)).unwrap();
        let scope = if_nametoindex(OUTSIDE_LINK).unwrap();
        sender.send_to(b"probe", SocketAddrV6::new(LINK_LOCAL, 7200, 0, scope)).unwrap();
        sender.local_addr().unwrap()
    });
    let (_, seen) = receiver.recv_from(&mut [0; 8]).unwrap();
    match (sent_from, seen) {
        (SocketAddr::V6(sent_from), SocketAddr::V6(seen)) => (sent_from, seen),
        _ => panic!("IPv6 sockets have IPv6 addresses"),
    }
}

#[test]
fn random_lists_and_destinations_are_treated_as_decided() {
    const LISTS: usize = 200;
    const DESTINATIONS: usize = 50;
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let flags = Flags { enable_ipv6: true, ..Flags::default() };
        let agent = engine.start(&lab, &flags, Some("nonMasqueradeCIDRs: []\n"));
        let mut random = Random::new(2);
        for round in 0..LISTS {
            let lists = Family::ALL.map(|family| random.cidrs(family, 30));
            let config = config_of(&lists.concat());
            let policy = policy(&flags, Some(&config));
            let destinations: Vec<IpAddr> = Family::ALL
                .iter()
                .zip(&lists)
                .filter(|(family, _)| lab.families().contains(family))
                .flat_map(|(&family, cidrs)| {
                    (0..DESTINATIONS / 2).map(|_| random.destination(family, cidrs)).collect::<Vec<_>>()
                })
                .collect();
            agent.write_config(&config);
            let what = format!("{engine}: list {round} to be in force:\n{config}");
            agent.wait_until(&what, || all_agree(&lab, &policy, &destinations));
        }
    }
}

/// Whether a datagram from the pod to each destination is treated as decided.
fn all_agree(lab: &Lab, policy: &Policy, destinations: &[IpAddr]) -> bool {
    let seen = lab.probe_many(Host::Pod, destinations).unwrap();
    destinations.iter().zip(seen).all(|(&destination, seen)| {
        compare(&decide(policy, &facts(destination, Transport::Udp)), destination, seen).is_ok()
    })
}
