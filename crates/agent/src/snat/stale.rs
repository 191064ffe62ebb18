//! Live connections whose verdict a change of the policy reversed: they keep their translation, or the want of it, until they end.

use std::collections::HashSet;
use std::net::IpAddr;

use masq::outline::Outline;
use nfnetlink::Connection;
use nfnetlink::expr::IPS_SRC_NAT;

/// More such connections than this of either kind are not counted.
const MOST_REMEMBERED: usize = 32_768;

/// The connections that an earlier policy treated as the one in force would not, by the kernel's numbers for them.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// Those that stay translated although they would be exempt now.
    masqueraded: HashSet<u32>,
    /// Those that stay bare although they would be masqueraded now.
    bare: HashSet<u32>,
}

/// A change of the policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'p> {
    /// What was in force when the connections were opened.
    pub(super) old: &'p Outline,
    /// What is in force now.
    pub(super) new: &'p Outline,
}

impl Stale {
    /// How many are translated, and how many are bare.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.masqueraded.len(), self.bare.len())
    }

    /// Takes a live connection over into `found` if it is one of these.
    pub(super) fn find_again(&self, connection: &Connection, found: &mut Stale) {
        if self.of(connection).contains(&connection.id) {
            found.insert(connection);
        }
    }

    /// Puts a live connection into `found` if the policy in force would treat it otherwise, and an earlier one treated it as it is:
    /// the last one, or the one by which it is one of these already. A destination of the node's own is untouched by any policy.
    pub(super) fn judge(
        &self,
        connection: &Connection,
        change: Change<'_>,
        is_local: &mut dyn FnMut(IpAddr) -> bool,
        found: &mut Stale,
    ) {
        let destination = connection.reply.source;
        let is_as_by = |policy: &Outline| policy.masquerades(destination) == is_translated(connection);
        if is_as_by(change.new) {
            return;
        }
        if (is_as_by(change.old) || self.of(connection).contains(&connection.id)) && !is_local(destination) {
            found.insert(connection);
        }
    }

    fn of(&self, connection: &Connection) -> &HashSet<u32> {
        if is_translated(connection) { &self.masqueraded } else { &self.bare }
    }

    fn insert(&mut self, connection: &Connection) {
        let ids = if is_translated(connection) { &mut self.masqueraded } else { &mut self.bare };
        if ids.len() < MOST_REMEMBERED {
            ids.insert(connection.id);
        }
    }
}

fn is_translated(connection: &Connection) -> bool {
    connection.status & IPS_SRC_NAT != 0
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags, Parsed, Source};
    use masq::policy::Policy;
    use nfnetlink::Tuple;

    use super::*;

    fn policy(list: &str) -> Outline {
        let bytes = format!("nonMasqueradeCIDRs: [{list}]\n").into_bytes();
        let Parsed { config, .. } =
            Config::parse(&[Source { name: "c".to_owned(), bytes }], &Flags::default()).unwrap();
        Outline::new(&Policy::new(&config))
    }

    fn connection(id: u32, destination: &str, status: u32) -> Connection {
        let tuple = Tuple {
            source: destination.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: 6,
            source_port: Some(1),
            destination_port: Some(1),
        };
        Connection { original: tuple, reply: tuple, status, id, timeout: None, mark: 0 }
    }

    /// What of these connections is stale after a change, beside what was before.
    fn after(before: &Stale, old: &str, new: &str, connections: &[Connection]) -> Stale {
        let (old, new) = (policy(old), policy(new));
        let mut found = Stale::default();
        for connection in connections {
            let mut is_local = |address: IpAddr| address.to_string() == "11.0.0.99";
            before.judge(connection, Change { old: &old, new: &new }, &mut is_local, &mut found);
        }
        found
    }

    #[test]
    fn connections_of_either_reversed_verdict_are_found_and_no_others() {
        let live = [
            connection(1, "11.0.0.1", IPS_SRC_NAT),
            connection(2, "12.0.0.1", 0),
            connection(3, "13.0.0.1", IPS_SRC_NAT),
            connection(4, "10.0.0.1", 0),
            // Masqueraded by nobody before, and translated by somebody else.
            connection(5, "11.0.0.1", 0),
            connection(6, "12.0.0.1", IPS_SRC_NAT),
            connection(7, "2001:db8::1", 0),
            connection(8, "11.0.0.99", IPS_SRC_NAT),
        ];
        let found = after(&Stale::default(), "10.0.0.0/8, 12.0.0.0/8", "10.0.0.0/8, 11.0.0.0/8", &live);
        assert_eq!((found.masqueraded, found.bare), ([1].into(), [2].into()));
    }

    #[test]
    fn a_change_back_makes_them_as_they_should_be_and_another_change_does_not() {
        let live = [connection(1, "11.0.0.1", IPS_SRC_NAT)];
        let once = after(&Stale::default(), "10.0.0.0/8", "11.0.0.0/8", &live);
        assert_eq!(once.counts(), (1, 0));
        assert_eq!(after(&once, "11.0.0.0/8", "11.0.0.0/16", &live).counts(), (1, 0));
        assert_eq!(after(&once, "11.0.0.0/8", "10.0.0.0/8", &live).counts(), (0, 0));
    }

    #[test]
    fn one_that_has_ended_is_not_found_again() {
        let live = [connection(1, "11.0.0.1", IPS_SRC_NAT), connection(2, "11.0.0.2", IPS_SRC_NAT)];
        let stale = after(&Stale::default(), "10.0.0.0/8", "11.0.0.0/8", &live);
        let mut found = Stale::default();
        stale.find_again(&live[1], &mut found);
        stale.find_again(&connection(3, "11.0.0.3", IPS_SRC_NAT), &mut found);
        assert_eq!(found.masqueraded, [2].into());
    }
}
