//! Live connections of a real kernel.

use std::net::{IpAddr, UdpSocket};
use std::process::Command;

use nfnetlink::{Conntrack, Direction, TupleFilter};

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
    TupleFilter { direction, source: address(source), destination: destination.map(address), protocol: Some(UDP) }
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
