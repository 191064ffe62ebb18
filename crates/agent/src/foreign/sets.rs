//! Whether an address is in a set, asked of the kernel one address at a time: the few sets on one packet's way are not worth a dump.

use std::net::IpAddr;

use masq::cidr::{Family, number};
use nfnetlink::{Set, Socket};

use super::{Stack, Table};

/// A socket for such questions; without one no answer is known.
#[derive(Debug)]
pub struct SetLookup {
    socket: Option<Socket>,
}

impl SetLookup {
    /// Opens the socket, in the network namespace of the calling thread.
    pub fn open() -> SetLookup {
        SetLookup { socket: Socket::open().ok() }
    }

    /// Whether the address is in that set of the table; `None` where the kernel does not say, as for sets of other things.
    pub fn has(&mut self, table: &Table, set: &str, address: IpAddr) -> Option<bool> {
        if table.stack != Stack::Nft {
            return None;
        }
        let key = match Family::of(address) {
            Family::Ipv4 => Set::ipv4_intervals(set),
            Family::Ipv6 => Set::ipv6_intervals(set),
        };
        self.socket.as_mut()?.get_element((table.family, &table.name), &key, number(address)).ok()
    }
}
