//! Live connections of a real kernel.

use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use nfnetlink::expr::IPS_SRC_NAT;
use nfnetlink::{Connection, Conntrack, Direction, Error, ProtocolFamily, TableSize, TupleFilter};

use crate::support::{in_namespace, nft};

const UDP: u8 = 17;

/// Sends a datagram from each of these addresses, all of the loopback link, to port 700 of the last one, with connections tracked and
/// those from 127.0.0.2 translated to 127.0.0.9.
fn traffic(sources: &[&str]) -> Vec<UdpSocket> {
    let status = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(status.success(), "the ip program: install the package iproute2");
    nft(
        "table inet t { chain post { type nat hook postrouting priority 100; ct state new counter; ip saddr 127.0.0.2 snat ip to 127.0.0.9; }; }",
    );
    let send = |source: &&str| {
        let socket = UdpSocket::bind((*source, 600)).unwrap();
        let to = if source.contains(':') { "[::1]:700" } else { "127.0.0.1:700" };
        socket.send_to(b"x", to).unwrap();
        socket
    };
    sources.iter().map(send).collect()
}

fn filter(direction: Direction, source: &str, destination: Option<&str>) -> TupleFilter {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    TupleFilter {
        destination: destination.map(address),
        protocol: Some(UDP),
        ..TupleFilter::from(direction, address(source))
    }
}

#[test]
fn connections_are_found_by_either_direction_and_no_others() {
    in_namespace(|| {
        let _sockets = traffic(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
        let mut conntrack = Conntrack::open().unwrap();
        let mut find = |filter| conntrack.find(&filter, 10, |_| true).unwrap().connections;
        let found = find(filter(Direction::Original, "127.0.0.2", None));
        assert_eq!(found.len(), 1, "{found:?}");
        let (original, reply) = (found[0].original, found[0].reply);
        assert_eq!((original.source_port, original.destination_port, original.protocol), (Some(600), Some(700), UDP));
        assert_eq!(reply.destination.to_string(), "127.0.0.9");
        let reverse = find(filter(Direction::Reply, "127.0.0.1", Some("127.0.0.9")));
        assert_eq!(reverse.iter().map(|it| it.id).collect::<Vec<_>>(), [found[0].id]);
        assert_eq!(find(filter(Direction::Original, "127.0.0.3", Some("127.0.0.1"))).len(), 1);
        assert_eq!(find(filter(Direction::Original, "127.0.0.3", Some("127.0.0.2"))), []);
        assert_eq!(find(TupleFilter { protocol: Some(6), ..filter(Direction::Original, "127.0.0.3", None) }), []);
        assert_eq!(find(TupleFilter { protocol: None, ..filter(Direction::Reply, "127.0.0.1", None) }).len(), 3);
    });
}

#[test]
fn connections_of_ipv6_are_found_too() {
    in_namespace(|| {
        let _sockets = traffic(&["::1"]);
        let mut conntrack = Conntrack::open().unwrap();
        let mut find =
            |source| conntrack.find(&filter(Direction::Original, source, Some("::1")), 10, |_| true).unwrap();
        assert_eq!((find("::1").connections.len(), find("::2").connections.len()), (1, 0));
    });
}

#[test]
fn connections_of_a_family_are_found_by_their_ports() {
    in_namespace(|| {
        let _sockets = traffic(&["127.0.0.2", "::1"]);
        let mut conntrack = Conntrack::open().unwrap();
        for (protocol, family) in
            [(Some(UDP), ProtocolFamily::Ipv4), (Some(UDP), ProtocolFamily::Ipv6), (None, ProtocolFamily::Ipv6)]
        {
            let by = |source_port, destination_port| TupleFilter {
                protocol,
                source_port,
                destination_port,
                ..TupleFilter::new(Direction::Original, family)
            };
            let mut count = |filter| conntrack.find(&filter, 10, |_| true).unwrap().connections.len();
            assert_eq!([count(by(Some(600), None)), count(by(None, Some(700))), count(by(None, None))], [1, 1, 1]);
            assert_eq!([count(by(Some(700), None)), count(by(Some(600), Some(600)))], [0, 0]);
        }
    });
}

#[test]
fn no_more_are_kept_than_were_asked_for() {
    in_namespace(|| {
        let _sockets = traffic(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
        let mut conntrack = Conntrack::open().unwrap();
        let all = filter(Direction::Reply, "127.0.0.1", None);
        let found = conntrack.find(&all, 2, |_| true).unwrap();
        assert_eq!((found.connections.len(), found.has_more), (2, true));
        let found =
            conntrack.find(&all, 2, |connection| connection.original.source.to_string() == "127.0.0.4").unwrap();
        assert_eq!((found.connections.len(), found.has_more), (1, false));
    });
}

/// Longer than any walk of these tests takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn walk(conntrack: &mut Conntrack, status: u32) -> Vec<Connection> {
    let mut seen = Vec::new();
    conntrack.walk(status, PATIENCE, |connection| seen.push(*connection)).unwrap();
    seen
}

#[test]
fn a_walk_shows_all_connections_or_those_with_a_status() {
    in_namespace(|| {
        let _sockets = traffic(&["127.0.0.2", "127.0.0.3", "127.0.0.4", "::1"]);
        let mut conntrack = Conntrack::open().unwrap();
        assert_eq!(walk(&mut conntrack, 0).len(), 4);
        let translated = walk(&mut conntrack, IPS_SRC_NAT);
        let sources: Vec<String> = translated.iter().map(|it| it.original.source.to_string()).collect();
        assert_eq!(sources, ["127.0.0.2"], "{translated:?}");
    });
}

#[test]
fn a_walk_that_takes_too_long_ends_and_the_next_one_is_whole() {
    in_namespace(|| {
        let _sockets = traffic(&["127.0.0.2", "127.0.0.3"]);
        let mut conntrack = Conntrack::open().unwrap();
        let given_up = conntrack.walk(0, Duration::ZERO, |_| {});
        assert!(matches!(given_up, Err(Error::TimedOut { .. })), "{given_up:?}");
        assert_eq!(walk(&mut conntrack, 0).len(), 2);
    });
}

#[test]
fn the_size_of_the_table_is_told_for_this_namespace() {
    in_namespace(|| {
        let mut conntrack = Conntrack::open().unwrap();
        assert_eq!(conntrack.size().unwrap().entries, 0);
        let _sockets = traffic(&["127.0.0.2", "127.0.0.3"]);
        let TableSize { entries, limit } = conntrack.size().unwrap();
        assert_eq!(entries, 2);
        assert!(limit.is_some_and(|limit| limit > 2), "{limit:?}");
    });
}

#[test]
fn connections_for_which_no_port_is_left_are_counted() {
    in_namespace(|| {
        let mut conntrack = Conntrack::open().unwrap();
        let before = conntrack.statistics().unwrap();
        assert_eq!((before.insert_failed, before.drop), (Some(0), Some(0)));
        let _first = traffic(&["127.0.0.3"]);
        nft("add table inet u; add chain inet u post { type nat hook postrouting priority 90; }; \
             add rule inet u post ip saddr 127.0.0.0/8 meta l4proto udp snat ip to 127.0.0.9:4000");
        let sender = |port: u16| UdpSocket::bind(("127.0.0.5", port)).unwrap();
        sender(600).send_to(b"x", "127.0.0.1:700").unwrap();
        // The kernel tells the sender, or drops the packet behind its back: the statistics count both.
        let _ = sender(601).send_to(b"x", "127.0.0.1:700");
        let after = conntrack.statistics().unwrap();
        assert_eq!((after.insert_failed, after.drop), (Some(1), Some(1)), "{after:?}");
    });
}
