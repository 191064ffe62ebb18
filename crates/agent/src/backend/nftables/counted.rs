//! What the table's named counters say of connections.

use masq::cidr::Family;
use masq::partition::Partition;
use nfnetlink::{Counter, Interval, Socket};

use super::OUR_TABLE;
use super::desired::{empty_cidr_set, exempt_name, masquerade_name};
use crate::backend::cidr_counts::CidrStand;
use crate::backend::counts::Stand;
use crate::backend::difference::Counted;

/// What the counters of each family stand at, whether or not they are there.
pub fn stands(counters: &[Counter]) -> [Stand; 2] {
    let packets = |name: String| counters.iter().find(|found| found.name == name).map(|found| found.packets);
    Family::ALL.map(|family| Stand {
        family,
        exempt: packets(exempt_name(family)),
        masqueraded: packets(masquerade_name(family)),
    })
}

/// What was counted in the families that have both counters.
pub fn counted(counters: &[Counter]) -> Vec<Counted> {
    let both = |Stand { family, exempt, masqueraded }: Stand| {
        Some(Counted { family, exempt: exempt?, masqueraded: masqueraded? })
    };
    stands(counters).into_iter().filter_map(both).collect()
}

/// What each part of a CIDR has counted; nothing where they are not counted.
///
/// # Errors
/// The kernel refuses, or the set changes meanwhile.
pub fn cidrs(socket: &mut Socket, partition: &Partition) -> Result<Vec<CidrStand>, nfnetlink::Error> {
    let found = socket.counted_elements(OUR_TABLE, &empty_cidr_set(partition.family()))?.items;
    let runs = partition.intervals();
    let stand = |(part, packets): (Interval, u64)| {
        let place = runs.binary_search_by_key(&part.first, |run| run.first).ok()?;
        let run = runs.get(place).filter(|run| run.last == part.last)?;
        let cidr = partition.entries().get(run.entry)?.listed.text.clone();
        Some(CidrStand { cidr, part: (part.first, part.last), packets })
    };
    Ok(found.into_iter().filter_map(stand).collect())
}
