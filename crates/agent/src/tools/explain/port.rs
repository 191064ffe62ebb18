//! Source ports that other connections hold, so that masquerading cannot keep them.

use nfnetlink::{Connection, Tuple};

use crate::cli::Question;

/// The connection that holds the port that was asked about, towards the destination that was asked about.
pub(super) fn holder<'c>(question: &Question, others: &'c [Connection]) -> Option<&'c Connection> {
    let wanted = question.source.port?;
    others.iter().find(|other| held(question, other) == Some(wanted))
}

/// The ports of the node's address that are in use towards the destination, ascending.
pub(super) fn held_ports(question: &Question, others: &[Connection]) -> Vec<u16> {
    let mut ports: Vec<u16> = others.iter().filter_map(|other| held(question, other)).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The port by which the node's side of a connection is known to the destination that was asked about.
fn held(question: &Question, other: &Connection) -> Option<u16> {
    let comes_from_there = |tuple: &&Tuple| {
        tuple.source == question.destination.address
            && question.destination.port.is_some()
            && tuple.source_port == question.destination.port
    };
    [other.original, other.reply].iter().find(comes_from_there).and_then(|tuple| tuple.destination_port)
}
