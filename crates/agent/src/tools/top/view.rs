//! What one look at the connections showed, and in which order it is told.

use std::net::IpAddr;
use std::time::Duration;

use nfnetlink::{Statistics, TableSize};

use crate::cli::{Grouping, SortKey};
use crate::snat::PortUse;

/// One of the statistics, if the kernel counts it.
pub(super) type Statistic = fn(&Statistics) -> Option<u64>;

/// What was seen.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// How full the table is.
    pub(super) size: TableSize,
    /// Connections whose source is translated.
    pub(super) translated: usize,
    /// Every count of a destination or source is too small by so many connections at most.
    pub(super) missed: u32,
    /// What has happened since the network namespace was made.
    pub(super) statistics: Statistics,
    /// What has happened since the look before; `None` at the first one.
    pub(super) since: Option<Since>,
    /// The destinations, those first that are nearest to running out of ports.
    pub(super) destinations: Vec<PortUse>,
    /// The sources, in no particular order.
    pub(super) sources: Vec<SourceUse>,
}

/// The look before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    /// How long ago it was.
    pub(super) elapsed: Duration,
    /// Translated connections that have come since.
    pub(super) new: u64,
    /// The statistics at that time.
    pub(super) statistics: Statistics,
}

/// The translated connections of one source, a pod most often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceUse {
    /// Its address before translation.
    pub(super) address: IpAddr,
    /// Its connections.
    pub(super) connections: u32,
    /// Those that have come since the look before.
    pub(super) new: u32,
}

/// What is told, and what comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    /// Destinations or sources.
    pub(super) by: Grouping,
    /// What comes first.
    pub(super) sort: SortKey,
}

impl View {
    /// A count of the time since the look before, per second; `None` at the first look.
    pub(super) fn per_second(&self, count: u64) -> Option<f64> {
        let elapsed = self.since?.elapsed.as_secs_f64();
        // Counts of connections are far below 2^52.
        (elapsed > 0.0).then(|| count as f64 / elapsed)
    }

    /// How fast one of the statistics rises; `None` at the first look, and where the kernel does not count it.
    pub(super) fn rise(&self, of: Statistic) -> Option<f64> {
        let before = of(&self.since?.statistics)?;
        self.per_second(of(&self.statistics)?.saturating_sub(before))
    }

    /// How many translated connections come per second.
    pub(super) fn new_per_second(&self) -> Option<f64> {
        self.per_second(self.since?.new)
    }

    /// The destinations in an order; what is equal in it stays as it was.
    pub(super) fn destinations_by(&self, sort: SortKey) -> Vec<&PortUse> {
        let mut uses: Vec<&PortUse> = self.destinations.iter().collect();
        match sort {
            // This is the order they come in.
            SortKey::Used => {}
            SortKey::New => uses.sort_by_key(|port_use| std::cmp::Reverse(port_use.new)),
            SortKey::Name => uses.sort_by_key(|port_use| (port_use.lane.endpoint(), port_use.lane)),
        }
        uses
    }

    /// The sources in an order; what is equal in it is ordered by address.
    pub(super) fn sources_by(&self, sort: SortKey) -> Vec<&SourceUse> {
        let mut uses: Vec<&SourceUse> = self.sources.iter().collect();
        uses.sort_by_key(|source| source.address);
        match sort {
            SortKey::Used => uses.sort_by_key(|source| std::cmp::Reverse(source.connections)),
            SortKey::New => uses.sort_by_key(|source| std::cmp::Reverse(source.new)),
            SortKey::Name => {}
        }
        uses
    }
}
