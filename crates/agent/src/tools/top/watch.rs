//! Looks at the connections one after the other, and what is new in each.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use masq::ports::PortRanges;
use nfnetlink::expr::IPS_SRC_NAT;
use nfnetlink::{Conntrack, Statistics};

use super::view::{Since, SourceUse, View};
use crate::snat::Census;
use crate::snat::tally::{Count, Tally};

/// A look at the connections that takes longer than this is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// So many sources are counted exactly.
const MOST_SOURCES: usize = 7_168;

/// A watch on the translated connections of the calling thread's network namespace.
#[derive(Debug)]
pub(super) struct Watch {
    conntrack: Conntrack,
    to_ports: PortRanges,
    last: Option<Last>,
}

/// What the last look left behind for the next one.
#[derive(Debug)]
struct Last {
    at: Instant,
    /// The kernel's numbers of the connections, ascending.
    ids: Vec<u32>,
    statistics: Statistics,
}

impl Watch {
    /// Opens a socket; nothing is looked at yet.
    ///
    /// # Errors
    /// The kernel has no netfilter netlink.
    pub(super) fn open(to_ports: PortRanges) -> Result<Watch> {
        Ok(Watch { conntrack: Conntrack::open()?, to_ports, last: None })
    }

    /// Looks at all connections whose source is translated.
    ///
    /// # Errors
    /// The caller has no CAP_NET_ADMIN, or the kernel no connection tracking.
    pub(super) fn look(&mut self) -> Result<View> {
        let size = self.conntrack.size()?;
        let statistics = self.conntrack.statistics()?;
        let mut census = Census::new(&self.to_ports);
        let mut sources: Tally<IpAddr> = Tally::new(MOST_SOURCES);
        let mut ids = Vec::new();
        let mut new = 0;
        let at = Instant::now();
        let known = self.last.as_ref().map(|last| &last.ids);
        self.conntrack.walk(IPS_SRC_NAT, PATIENCE, |connection| {
            let is_new = known.is_some_and(|known| known.binary_search(&connection.id).is_err());
            new += u64::from(is_new);
            census.add(connection, is_new);
            sources.add(connection.original.source, is_new);
            ids.push(connection.id);
        })?;
        ids.sort_unstable();
        let translated = ids.len();
        let last = self.last.replace(Last { at, ids, statistics });
        let of_source = |(address, count): (&IpAddr, &Count)| SourceUse {
            address: *address,
            connections: count.connections,
            new: count.new,
        };
        Ok(View {
            size,
            translated,
            missed: census.missed().max(sources.missed()),
            statistics,
            since: last.map(|last| Since { elapsed: at - last.at, new, statistics: last.statistics }),
            destinations: census.busiest(usize::MAX),
            sources: sources.counts().map(of_source).collect(),
        })
    }
}
