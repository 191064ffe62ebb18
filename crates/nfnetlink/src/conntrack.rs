//! Connection tracking: the live connections that match a filter, read over ctnetlink.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::SockFlag;

use crate::error::{Error, Refusal};
use crate::netlink::Netlink;
use crate::object::ProtocolFamily;
use crate::uapi;
use crate::wire::{Attributes, Header, Message, Messages, Writer};

mod filter;
mod statistics;

pub use filter::{Direction, TupleFilter};
pub use statistics::{Statistics, TableSize};

const NFNL_SUBSYS_CTNETLINK: u16 = 1;
const IPCTNL_MSG_CT_GET: u16 = 1;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_TIMEOUT: u16 = 7;
const CTA_MARK: u16 = 8;
const CTA_ID: u16 = 12;
const CTA_STATUS_MASK: u16 = 26;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

/// A search that takes longer than this is given up: a million connections take about two seconds.
const SEARCH_PATIENCE: Duration = Duration::from_secs(60);

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
        let mut found = Found::default();
        let mut keep = |connection: &Connection| {
            if filter.matches(connection) && wanted(connection) {
                found.has_more |= found.connections.len() == most;
                if !found.has_more {
                    found.connections.push(*connection);
                }
            }
        };
        let family = filter.family.number();
        let get = |body: &dyn Fn(&mut Writer)| Request::dump(DUMP, IPCTNL_MSG_CT_GET, family, body);
        match self.connections(&get(&|writer| filter.put(writer)), SEARCH_PATIENCE, &mut keep) {
            Err(Error::Refused(refusal)) if matches!(refusal.errno, libc::EOPNOTSUPP | libc::EINVAL) => {
                self.connections(&get(&|_| {}), SEARCH_PATIENCE, &mut keep)?;
            }
            other => other?,
        }
        Ok(found)
    }

    /// Shows every connection whose status has all of these bits (`IPS_*`; 0 for all connections) to `visit`, one after the other and
    /// in no particular order; none is kept. Connections that come and go meanwhile may be missed, or shown twice. Kernels pass the
    /// others over; those that are too old for that send them, and they are passed over here.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it takes longer than `patience`, after a part of the connections; [`Error::Refused`] without
    /// CAP_NET_ADMIN or without connection tracking; [`Error::Malformed`].
    pub fn walk(&mut self, status: u32, patience: Duration, mut visit: impl FnMut(&Connection)) -> Result<(), Error> {
        let with_status = |writer: &mut Writer| {
            // The kernel refuses to be asked for no bits at all.
            if status != 0 {
                writer.put_u32(CTA_STATUS, status);
                writer.put_u32(CTA_STATUS_MASK, status);
            }
        };
        let request = Request::dump(DUMP, IPCTNL_MSG_CT_GET, ProtocolFamily::Unspec.number(), &with_status);
        self.connections(&request, patience, &mut |connection| {
            if connection.status & status == status {
                visit(connection);
            }
        })
    }

    fn connections(
        &mut self,
        request: &Request,
        patience: Duration,
        visit: &mut dyn FnMut(&Connection),
    ) -> Result<(), Error> {
        // What is no connection of a kind known here is none that was asked for.
        self.ask(request, patience, &mut |attributes| connection(attributes).iter().for_each(&mut *visit))
    }

    /// Sends a request and shows the attributes of each message of the answer to `visit`.
    fn ask(
        &mut self,
        request: &Request,
        patience: Duration,
        visit: &mut dyn FnMut(Attributes<'_>),
    ) -> Result<(), Error> {
        let outcome = self.exchange(request, Instant::now() + patience, visit);
        if !matches!(outcome, Ok(()) | Err(Error::Refused(_))) {
            // The kernel refuses a second dump on a socket while the first one waits to be read.
            *self = Self { sequence: self.sequence, ..Self::open()? };
        }
        outcome
    }

    fn exchange(
        &mut self,
        request: &Request,
        deadline: Instant,
        visit: &mut dyn FnMut(Attributes<'_>),
    ) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let (sequence, action) = (self.sequence, request.action);
        let began = Instant::now();
        self.netlink.send(&request.encode(sequence))?;
        while Instant::now() < deadline {
            let datagram = self.netlink.receive(action, true)?.unwrap_or_default();
            for message in Messages(datagram).filter(|it| it.sequence == sequence) {
                match message.kind {
                    uapi::NLMSG_DONE | uapi::NLMSG_ERROR => return end(action, message),
                    _ => message.nfnetlink().into_iter().for_each(|(_, _, attributes)| visit(attributes)),
                }
            }
        }
        Err(Error::TimedOut { action, seconds: began.elapsed().as_secs() })
    }
}

/// What a dump of connections is called in errors.
const DUMP: &str = "dump connections";

/// A request to ctnetlink.
struct Request {
    /// What it is called in errors.
    action: &'static str,
    kind: u16,
    flags: u16,
    family: u8,
    attributes: Vec<u8>,
}

impl Request {
    /// A request for all of a kind.
    fn dump(action: &'static str, message: u16, family: u8, body: &dyn Fn(&mut Writer)) -> Self {
        let mut writer = Writer::default();
        body(&mut writer);
        let (kind, flags) = (NFNL_SUBSYS_CTNETLINK << 8 | message, uapi::NLM_F_REQUEST | uapi::NLM_F_DUMP);
        Self { action, kind, flags, family, attributes: writer.into_bytes() }
    }

    fn encode(&self, sequence: u32) -> Vec<u8> {
        let Self { kind, flags, family, .. } = *self;
        let mut writer = Writer::default();
        writer
            .message(Header { kind, flags, sequence, family, resource: 0 }, |writer| writer.put_raw(&self.attributes));
        writer.into_bytes()
    }
}

/// The end of an answer, which is an error if it carries a number below 0.
fn end(action: &str, message: Message<'_>) -> Result<(), Error> {
    let errno = message.payload.split_first_chunk().map_or(0, |(&code, _)| i32::from_ne_bytes(code).saturating_neg());
    if errno <= 0 {
        return Ok(());
    }
    let operation = action.to_owned();
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
