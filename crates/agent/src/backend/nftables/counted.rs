//! What the table's named counters say of connections.

use masq::cidr::Family;
use nfnetlink::Counter;

use super::desired::{exempt_name, masquerade_name};
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
