//! Source ports in use: translated connections, counted by what has to be unique about them.

mod alarm;
mod pool;
mod stale;

pub mod sampler;
pub mod tally;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use masq::ports::PortRanges;
use nfnetlink::expr::IPS_SRC_NAT;
use nfnetlink::{Connection, Conntrack, Error};

use self::pool::{Pool, Pools};
use self::tally::Tally;
use crate::foreign::condition::protocol_name;

/// From this share of its ports on, in percent, a destination is worth a warning.
pub const NEARLY_USED_UP: u32 = 80;

/// What happens where no port is left.
pub const CONSEQUENCE: &str = "once all are in use, new connections are dropped";

/// What to do about it.
pub const REMEDY: &str =
    "let clients keep and share connections, widen --to-ports, or spread over more destinations or nodes";

/// So many destinations are counted exactly, in half a megabyte: a hash map of 8,192 places takes no more. With more destinations, those with
/// few connections are forgotten, and the counts of the others are too small by [`Census::missed`] at most.
const MOST_DESTINATIONS: usize = 7_168;

/// Connections between one translated address and one destination: the kernel tells them apart by their source ports alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// Number of the transport protocol.
    pub protocol: u8,
    /// The destination behind any translation of it: an endpoint, not a Service.
    pub destination: IpAddr,
    /// Its port.
    pub port: u16,
    /// The address that the source is translated to.
    pub translated: IpAddr,
    /// Where the source ports come from.
    pool: Pool,
}

/// How many of its ports a lane uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortUse {
    /// The lane.
    pub lane: Lane,
    /// Ports in use.
    pub used: u32,
    /// Ports there are, 1 to 65536.
    pub usable: u32,
    /// Connections that had not been there before, where that was looked at.
    pub new: u32,
}

impl PortUse {
    /// The part of the ports that is in use, 0 to 1.
    pub fn ratio(&self) -> f64 {
        // Somebody else's rule may use ports beyond those that are counted as usable.
        (f64::from(self.used) / f64::from(self.usable.max(1))).min(1.0)
    }

    /// Whether this share of the ports is in use, in percent.
    fn reaches(&self, percent: u32) -> bool {
        u64::from(self.used) * 100 >= u64::from(self.usable) * u64::from(percent)
    }

    /// Whether new connections may soon find no port.
    pub fn is_nearly_used_up(&self) -> bool {
        self.reaches(NEARLY_USED_UP)
    }
}

impl fmt::Display for PortUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lane { protocol, translated, .. } = self.lane;
        let (protocol, used, usable) = (protocol_name(protocol), self.used, self.usable);
        write!(
            f,
            "{protocol} connections to {} use {used} of the {usable} source ports of {translated}",
            self.lane.endpoint()
        )
    }
}

impl Lane {
    /// The lane of a connection whose source is translated; `None` for protocols without ports. Pings are among those: each address
    /// has 65,536 identifiers for every destination, and few connections are pings.
    fn of(connection: &Connection, pools: &Pools) -> Option<Lane> {
        let reply = connection.reply;
        let (port, translated_port) = (reply.source_port?, reply.destination_port?);
        Some(Lane {
            protocol: reply.protocol,
            destination: reply.source,
            port,
            translated: reply.destination,
            pool: pools.pool_of(reply.protocol, translated_port),
        })
    }

    /// The destination's address and port.
    pub fn endpoint(&self) -> SocketAddr {
        SocketAddr::new(self.destination, self.port)
    }
}

/// A count of the translated connections.
#[derive(Debug)]
pub struct Census {
    pools: Pools,
    lanes: Tally<Lane>,
}

impl Census {
    /// Nothing is counted yet. `to_ports` are the ranges that masquerading chooses ports from.
    pub fn new(to_ports: &PortRanges) -> Census {
        Census { pools: Pools::new(to_ports), lanes: Tally::new(MOST_DESTINATIONS) }
    }

    /// Counts a connection, if its source is translated.
    pub fn add(&mut self, connection: &Connection, is_new: bool) {
        if connection.status & IPS_SRC_NAT != 0
            && let Some(lane) = Lane::of(connection, &self.pools)
        {
            self.lanes.add(lane, is_new);
        }
    }

    /// Every count is too small by so many connections at most.
    pub fn missed(&self) -> u32 {
        self.lanes.missed()
    }

    /// How many different lanes were counted.
    pub fn lanes(&self) -> usize {
        self.lanes.counts().len()
    }

    /// Those that are nearest to running out of ports, the nearest first; at most `most` of them.
    pub fn busiest(&self, most: usize) -> Vec<PortUse> {
        let port_use = |(lane, count): (&Lane, &tally::Count)| PortUse {
            lane: *lane,
            used: count.connections,
            usable: self.pools.size(lane.pool),
            new: count.new,
        };
        let mut uses = Vec::new();
        for one in self.lanes.counts().map(port_use) {
            uses.push(one);
            // So that a few of thousands need the memory of a few.
            if uses.len() / 2 >= most {
                keep_busiest(&mut uses, most);
            }
        }
        keep_busiest(&mut uses, most);
        uses
    }
}

fn keep_busiest(uses: &mut Vec<PortUse>, most: usize) {
    uses.sort_unstable_by(|one, other| {
        other.ratio().total_cmp(&one.ratio()).then(other.used.cmp(&one.used)).then(one.lane.cmp(&other.lane))
    });
    uses.truncate(most);
}

/// Looks at all connections once and tells which lanes are nearest to running out of ports, the nearest first; at most `most` of them.
///
/// # Errors
/// As [`Conntrack::walk`].
pub fn look(
    conntrack: &mut Conntrack,
    to_ports: &PortRanges,
    most: usize,
    patience: Duration,
) -> Result<Vec<PortUse>, Error> {
    let mut census = Census::new(to_ports);
    conntrack.walk(IPS_SRC_NAT, patience, |connection| census.add(connection, false))?;
    Ok(census.busiest(most))
}

#[cfg(test)]
mod tests {
    use nfnetlink::Tuple;

    use super::*;

    /// A connection of a pod by way of 192.0.2.1, out of this port, to this address.
    fn connection(protocol: u8, port: u16, to: &str) -> Connection {
        let to: SocketAddr = to.parse().unwrap();
        let tuple = |source: SocketAddr, destination: SocketAddr| Tuple {
            source: source.ip(),
            destination: destination.ip(),
            protocol,
            source_port: Some(source.port()),
            destination_port: Some(destination.port()),
        };
        let pod = "10.0.0.2:5000".parse().unwrap();
        let translated = SocketAddr::new("192.0.2.1".parse().unwrap(), port);
        let (original, reply) = (tuple(pod, to), tuple(to, translated));
        Connection { original, reply, status: IPS_SRC_NAT, id: 0, timeout: None, mark: 0 }
    }

    fn used(ranges: &str, connections: &[Connection]) -> Vec<(String, u32, u32)> {
        let mut census = Census::new(&ranges.parse().unwrap());
        connections.iter().for_each(|connection| census.add(connection, false));
        census.busiest(100).iter().map(|it| (it.lane.endpoint().to_string(), it.used, it.usable)).collect()
    }

    #[test]
    fn ports_are_used_for_each_protocol_destination_and_port_on_its_own() {
        let connections = [
            connection(6, 2_000, "8.8.8.8:53"),
            connection(6, 2_001, "8.8.8.8:53"),
            connection(17, 2_000, "8.8.8.8:53"),
            connection(6, 2_000, "8.8.8.8:443"),
            connection(6, 2_000, "8.8.4.4:53"),
        ];
        let counts: Vec<u32> = used("", &connections).iter().map(|(_, used, _)| *used).collect();
        assert_eq!(counts, [2, 1, 1, 1]);
    }

    #[test]
    fn the_ports_there_are_come_from_the_ranges_or_from_the_kernels_own_three() {
        let of = |ranges, protocol, port| used(ranges, &[connection(protocol, port, "8.8.8.8:53")])[0].2;
        assert_eq!([of("", 6, 511), of("", 6, 600), of("", 6, 1_024)], [511, 424, 64_512]);
        assert_eq!(of("4000-4003,4002-4005", 17, 4_001), 6);
        assert_eq!(of("4000-4003", 17, 5_000), 64_512, "a port of somebody else's choice");
        assert_eq!(of("4000-4003", 33, 4_001), 64_512, "a protocol that the ranges are not for");
    }

    #[test]
    fn a_small_range_in_use_comes_before_a_large_one_with_more_connections() {
        let mut connections: Vec<Connection> =
            (10_000..10_100).map(|port| connection(6, port, "8.8.8.8:443")).collect();
        connections.push(connection(6, 4_000, "8.8.8.8:53"));
        let uses = used("4000-4003", &connections);
        assert_eq!(uses[0], ("8.8.8.8:53".to_owned(), 1, 4));
        assert_eq!(uses[1], ("8.8.8.8:443".to_owned(), 100, 64_512));
    }

    #[test]
    fn a_few_of_many_are_the_busiest_of_all() {
        let mut census = Census::new(&PortRanges::default());
        for place in 0..200_u8 {
            for port in 0..=u16::from(place ^ 0x55) {
                census.add(&connection(6, 2_000 + port, &format!("8.8.8.{place}:53")), false);
            }
        }
        let all = census.busiest(usize::MAX);
        assert_eq!((all.len(), census.lanes()), (200, 200));
        for most in [0, 1, 3, 199] {
            assert_eq!(census.busiest(most), all[..most]);
        }
    }

    #[test]
    fn bare_connections_and_those_without_ports_use_none() {
        let bare = Connection { status: 0, ..connection(6, 2_000, "8.8.8.8:53") };
        let mut ping = connection(1, 2_000, "8.8.8.8:0");
        (ping.reply.source_port, ping.reply.destination_port) = (None, None);
        assert_eq!(used("", &[bare, ping]), []);
    }

    #[test]
    fn the_part_in_use_is_never_more_than_all() {
        let lane = Lane::of(&connection(6, 700, "8.8.8.8:53"), &Pools::new(&PortRanges::default())).unwrap();
        let of = |used, usable| PortUse { lane, used, usable, new: 0 };
        assert_eq!([of(0, 4).ratio(), of(3, 4).ratio(), of(9, 4).ratio(), of(1, 0).ratio()], [0.0, 0.75, 1.0, 1.0]);
        assert_eq!([of(79, 100), of(80, 100)].map(|it| it.is_nearly_used_up()), [false, true]);
    }
}
