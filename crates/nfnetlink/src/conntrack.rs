//! Connection tracking: the live connections that match a filter, read over ctnetlink.

use std::net::IpAddr;

use nix::libc;
use nix::sys::socket::SockFlag;

use crate::error::{Error, Refusal};
use crate::netlink::Netlink;
use crate::uapi;
use crate::wire::{Attributes, Header, Message, Messages, Writer};

mod filter;

pub use filter::{Direction, TupleFilter};

const NFNL_SUBSYS_CTNETLINK: u16 = 1;
const IPCTNL_MSG_CT_GET: u16 = 1;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_TIMEOUT: u16 = 7;
const CTA_MARK: u16 = 8;
const CTA_ID: u16 = 12;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

/// A dump of this many datagrams, of up to 32 KiB each, is no table of connections any more.
const MOST_DATAGRAMS: usize = 1_000_000;

/// What one direction of a connection looks like on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Number of the transport protocol.
    pub protocol: u8,
    /// Source port, for protocols that have ports.
    pub source_port: Option<u16>,
    /// Destination port, for protocols that have ports.
    pub destination_port: Option<u16>,
}

/// A tracked connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Its packets as they come in, before any translation.
    pub original: Tuple,
    /// The answers as they come in: its destination is what the source was translated to.
    pub reply: Tuple,
    /// Status bits (`IPS_*`).
    pub status: u32,
    /// The kernel's number for it.
    pub id: u32,
    /// Seconds until it is forgotten, unless more packets come; `None` where the kernel does not say.
    pub timeout: Option<u32>,
    /// Its mark.
    pub mark: u32,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The connections, in no particular order.
    pub connections: Vec<Connection>,
    /// Whether there are more than were asked for.
    pub has_more: bool,
}

/// A socket to connection tracking, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Conntrack {
    netlink: Netlink,
    sequence: u32,
}

impl Conntrack {
    /// Opens a socket.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel has no netfilter netlink, or refuses.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { netlink: Netlink::open(0, SockFlag::empty(), |_| Ok(()))?, sequence: 0 })
    }

    /// The connections that match a filter and that `wanted` accepts, at most `most` of them. Kernels do not filter by IPv6
    /// addresses, and before 5.8 by none: they send all connections, of which the others are passed over.
    ///
    /// # Errors
    /// [`Error::Refused`] without CAP_NET_ADMIN or without connection tracking, [`Error::TimedOut`], [`Error::Malformed`].
    pub fn find(
        &mut self,
        filter: &TupleFilter,
        most: usize,
        wanted: impl Fn(&Connection) -> bool,
    ) -> Result<Found, Error> {
        let wanted = |connection: &Connection| filter.matches(connection) && wanted(connection);
        match self.search(filter, most, &wanted, true) {
            Err(Error::Refused(refusal)) if matches!(refusal.errno, libc::EOPNOTSUPP | libc::EINVAL) => {
                self.search(filter, most, &wanted, false)
            }
            other => other,
        }
    }

    fn search(
        &mut self,
        filter: &TupleFilter,
        most: usize,
        wanted: &dyn Fn(&Connection) -> bool,
        in_kernel: bool,
    ) -> Result<Found, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        self.netlink.send(&request(sequence, filter, in_kernel))?;
        let mut found = Found::default();
        for _ in 0..MOST_DATAGRAMS {
            let datagram = self.netlink.receive(ACTION, true)?.unwrap_or_default();
            for message in Messages(datagram).filter(|it| it.sequence == sequence) {
                match message.kind {
                    uapi::NLMSG_DONE | uapi::NLMSG_ERROR => return end(message).map(|()| found),
                    // What is no connection of a kind known here is none that was asked for.
                    _ => match message.nfnetlink().and_then(|(_, _, attributes)| connection(attributes)) {
                        Some(connection) if wanted(&connection) => {
                            found.has_more |= found.connections.len() == most;
                            if !found.has_more {
                                found.connections.push(connection);
                            }
                        }
                        Some(_) | None => {}
                    },
                }
            }
        }
        Err(Error::Malformed { action: ACTION, reason: "it does not end" })
    }
}

/// What a search is called in errors.
const ACTION: &str = "dump connections";

fn request(sequence: u32, filter: &TupleFilter, in_kernel: bool) -> Vec<u8> {
    let header = Header {
        kind: NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET,
        flags: uapi::NLM_F_REQUEST | uapi::NLM_F_DUMP,
        sequence,
        family: filter.family().number(),
        resource: 0,
    };
    let mut writer = Writer::default();
    writer.message(header, |writer| {
        if in_kernel {
            filter.put(writer);
        }
    });
    writer.into_bytes()
}

/// The end of a dump, which is an error if it carries a number below 0.
fn end(message: Message<'_>) -> Result<(), Error> {
    let errno = message.payload.split_first_chunk().map_or(0, |(&code, _)| i32::from_ne_bytes(code).saturating_neg());
    if errno <= 0 {
        return Ok(());
    }
    let operation = ACTION.to_owned();
    Err(Error::Refused(Box::new(Refusal { operation, attribute: None, message: None, errno, others: 0 })))
}

fn connection(attributes: Attributes<'_>) -> Option<Connection> {
    Some(Connection {
        original: tuple(attributes.nested(CTA_TUPLE_ORIG)?)?,
        reply: tuple(attributes.nested(CTA_TUPLE_REPLY)?)?,
        status: attributes.u32(CTA_STATUS).unwrap_or_default(),
        id: attributes.u32(CTA_ID).unwrap_or_default(),
        timeout: attributes.u32(CTA_TIMEOUT),
        mark: attributes.u32(CTA_MARK).unwrap_or_default(),
    })
}

fn tuple(attributes: Attributes<'_>) -> Option<Tuple> {
    let (ip, protocol) = (attributes.nested(CTA_TUPLE_IP)?, attributes.nested(CTA_TUPLE_PROTO)?);
    let (source, destination) = match (address(ip, CTA_IP_V4_SRC), address(ip, CTA_IP_V4_DST)) {
        (Some(source), Some(destination)) => (source, destination),
        _ => (address(ip, CTA_IP_V6_SRC)?, address(ip, CTA_IP_V6_DST)?),
    };
    let port = |kind| Some(u16::from_be_bytes(protocol.get(kind)?.try_into().ok()?));
    Some(Tuple {
        source,
        destination,
        protocol: protocol.u8(CTA_PROTO_NUM)?,
        source_port: port(CTA_PROTO_SRC_PORT),
        destination_port: port(CTA_PROTO_DST_PORT),
    })
}

fn address(attributes: Attributes<'_>, kind: u16) -> Option<IpAddr> {
    let bytes = attributes.get(kind)?;
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = connection(Attributes(&bytes));
            let _ = tuple(Attributes(&bytes));
        }
    }
}
