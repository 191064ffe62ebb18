//! How connection tracking is doing: its counters, summed over all CPUs, and how full its table is.

use super::{Conntrack, NFNL_SUBSYS_CTNETLINK, Request};
use crate::error::Error;
use crate::netlink::PATIENCE;
use crate::object::ProtocolFamily;
use crate::uapi;
use crate::wire::{Attributes, Writer};

const IPCTNL_MSG_CT_GET_STATS_CPU: u16 = 4;
const IPCTNL_MSG_CT_GET_STATS: u16 = 5;
const CTA_STATS_FOUND: u16 = 2;
const CTA_STATS_INVALID: u16 = 4;
const CTA_STATS_INSERT_FAILED: u16 = 9;
const CTA_STATS_DROP: u16 = 10;
const CTA_STATS_EARLY_DROP: u16 = 11;
const CTA_STATS_ERROR: u16 = 12;
const CTA_STATS_SEARCH_RESTART: u16 = 13;
const CTA_STATS_CLASH_RESOLVE: u16 = 14;
const CTA_STATS_CHAIN_TOOLONG: u16 = 15;
const CTA_STATS_GLOBAL_ENTRIES: u16 = 1;
const CTA_STATS_GLOBAL_MAX_ENTRIES: u16 = 2;

/// What has happened in a network namespace since it was made, summed over all CPUs; `None` where this kernel does not count it.
///
/// The kernel counts in 32 bits per CPU: a sum falls back by 2^32 when one of them wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets whose tuple was looked for to choose a translation, and was taken.
    pub found: Option<u64>,
    /// Packets that belong to no connection and can open none.
    pub invalid: Option<u64>,
    /// Connections that could not be entered: another one with the same tuple came first, or no port was left to translate to.
    pub insert_failed: Option<u64>,
    /// Packets dropped because the table was full, or because their connection could not be entered.
    pub drop: Option<u64>,
    /// Connections thrown out of a full table to make room for others.
    pub early_drop: Option<u64>,
    /// Packets that a protocol's tracker refused as damaged.
    pub error: Option<u64>,
    /// Searches begun anew since the table was resized meanwhile.
    pub search_restart: Option<u64>,
    /// Connections that were entered twice at the same time and could be made one (Linux 5.9).
    pub clash_resolve: Option<u64>,
    /// Connections that could not be entered since too many share a hash (Linux 5.15).
    pub chain_too_long: Option<u64>,
}

/// How full the table of a network namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableSize {
    /// Connections in it.
    pub entries: u32,
    /// The most that it takes; `None` where this kernel does not say (before Linux 4.18).
    pub limit: Option<u32>,
}

impl Conntrack {
    /// The counters of the network namespace of this socket.
    ///
    /// # Errors
    /// [`Error::Refused`] without CAP_NET_ADMIN or without connection tracking, [`Error::TimedOut`], [`Error::Malformed`].
    pub fn statistics(&mut self) -> Result<Statistics, Error> {
        let family = ProtocolFamily::Unspec.number();
        let request = Request::dump("dump statistics of connections", IPCTNL_MSG_CT_GET_STATS_CPU, family, &|_| {});
        let mut sum = Statistics::default();
        self.ask(&request, PATIENCE, &mut |of_cpu| sum.add(of_cpu))?;
        Ok(sum)
    }

    /// How many connections there are, without looking at any of them.
    ///
    /// # Errors
    /// As [`Conntrack::statistics`].
    pub fn size(&mut self) -> Result<TableSize, Error> {
        let action = "count connections";
        let request = Request {
            action,
            kind: NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET_STATS,
            flags: uapi::NLM_F_REQUEST | uapi::NLM_F_ACK,
            family: ProtocolFamily::Unspec.number(),
            attributes: Writer::default().into_bytes(),
        };
        let mut size = None;
        self.ask(&request, PATIENCE, &mut |attributes| size = size.or_else(|| table_size(attributes)))?;
        size.ok_or(Error::Malformed { action, reason: "there is no number in it" })
    }
}

impl Statistics {
    fn add(&mut self, of_cpu: Attributes<'_>) {
        for (sum, kind) in [
            (&mut self.found, CTA_STATS_FOUND),
            (&mut self.invalid, CTA_STATS_INVALID),
            (&mut self.insert_failed, CTA_STATS_INSERT_FAILED),
            (&mut self.drop, CTA_STATS_DROP),
            (&mut self.early_drop, CTA_STATS_EARLY_DROP),
            (&mut self.error, CTA_STATS_ERROR),
            (&mut self.search_restart, CTA_STATS_SEARCH_RESTART),
            (&mut self.clash_resolve, CTA_STATS_CLASH_RESOLVE),
            (&mut self.chain_too_long, CTA_STATS_CHAIN_TOOLONG),
        ] {
            if let Some(count) = of_cpu.u32(kind) {
                *sum = Some(sum.unwrap_or_default().saturating_add(u64::from(count)));
            }
        }
    }
}

fn table_size(attributes: Attributes<'_>) -> Option<TableSize> {
    let entries = attributes.u32(CTA_STATS_GLOBAL_ENTRIES)?;
    Some(TableSize { entries, limit: attributes.u32(CTA_STATS_GLOBAL_MAX_ENTRIES) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_cpu(counts: &[(u16, u32)]) -> Vec<u8> {
        let mut writer = Writer::default();
        counts.iter().for_each(|&(kind, count)| writer.put_u32(kind, count));
        writer.into_bytes()
    }

    #[test]
    fn the_cpus_are_added_up_and_what_none_of_them_tells_stays_unknown() {
        let mut sum = Statistics::default();
        for counts in [[(CTA_STATS_DROP, u32::MAX), (CTA_STATS_FOUND, 0)], [(CTA_STATS_DROP, 2), (99, 7)]] {
            sum.add(Attributes(&of_cpu(&counts)));
        }
        let drop = Some(u64::from(u32::MAX) + 2);
        assert_eq!(sum, Statistics { drop, found: Some(0), ..Statistics::default() });
    }

    #[test]
    fn a_kernel_that_does_not_tell_the_limit_still_tells_the_number() {
        let bytes = of_cpu(&[(CTA_STATS_GLOBAL_ENTRIES, 5)]);
        assert_eq!(table_size(Attributes(&bytes)), Some(TableSize { entries: 5, limit: None }));
        assert_eq!(table_size(Attributes(&[])), None);
    }
}
