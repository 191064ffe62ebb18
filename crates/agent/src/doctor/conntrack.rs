//! The health of the connection table, as the kernel tells it without a look at any connection.

use nfnetlink::{Error, Statistics, TableSize};

/// How full the table is, and what has gone wrong with it since the start of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conntrack {
    /// How full it is.
    pub size: TableSize,
    /// What has happened, summed up over all CPUs.
    pub statistics: Statistics,
}

/// Asks about the table of the network namespace of the calling thread.
///
/// # Errors
/// The caller has no CAP_NET_ADMIN, or the kernel has no connection tracking.
pub fn read() -> Result<Conntrack, Error> {
    let mut conntrack = nfnetlink::Conntrack::open()?;
    Ok(Conntrack { size: conntrack.size()?, statistics: conntrack.statistics()? })
}
