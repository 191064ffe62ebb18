//! Which connections a search is for: addresses and ports of one direction.

use std::net::IpAddr;

use super::{
    CTA_IP_V4_DST, CTA_IP_V4_SRC, CTA_PROTO_DST_PORT, CTA_PROTO_NUM, CTA_PROTO_SRC_PORT, CTA_TUPLE_IP, CTA_TUPLE_ORIG,
    CTA_TUPLE_PROTO, CTA_TUPLE_REPLY, Connection, Tuple,
};
use crate::object::ProtocolFamily;
use crate::wire::Writer;

const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;
const CTA_FILTER_F_CTA_IP_SRC: u32 = 1 << 0;
const CTA_FILTER_F_CTA_IP_DST: u32 = 1 << 1;
const CTA_FILTER_F_CTA_PROTO_NUM: u32 = 1 << 3;
const CTA_FILTER_F_CTA_PROTO_SRC_PORT: u32 = 1 << 4;
const CTA_FILTER_F_CTA_PROTO_DST_PORT: u32 = 1 << 5;

/// One of the two directions of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From whoever opened it.
    Original,
    /// Back to them.
    Reply,
}

/// What one direction of a connection has to look like. All that is given has to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TupleFilter {
    /// The direction.
    pub direction: Direction,
    /// The family of the connection.
    pub family: ProtocolFamily,
    /// Its source address.
    pub source: Option<IpAddr>,
    /// Its destination address.
    pub destination: Option<IpAddr>,
    /// Number of its transport protocol.
    pub protocol: Option<u8>,
    /// Its source port.
    pub source_port: Option<u16>,
    /// Its destination port.
    pub destination_port: Option<u16>,
}

impl TupleFilter {
    /// A filter that every connection of a family matches, to be narrowed. The kernel filters by family at the least.
    pub fn new(direction: Direction, family: ProtocolFamily) -> TupleFilter {
        TupleFilter {
            direction,
            family,
            source: None,
            destination: None,
            protocol: None,
            source_port: None,
            destination_port: None,
        }
    }

    /// A filter for connections with this source address.
    pub fn from(direction: Direction, source: IpAddr) -> TupleFilter {
        let family = if source.is_ipv4() { ProtocolFamily::Ipv4 } else { ProtocolFamily::Ipv6 };
        TupleFilter { source: Some(source), ..TupleFilter::new(direction, family) }
    }

    pub(super) fn matches(&self, connection: &Connection) -> bool {
        let tuple = match self.direction {
            Direction::Original => connection.original,
            Direction::Reply => connection.reply,
        };
        let Tuple { source, destination, protocol, source_port, destination_port } = tuple;
        self.source.is_none_or(|wanted| wanted == source)
            && self.destination.is_none_or(|wanted| wanted == destination)
            && self.protocol.is_none_or(|wanted| wanted == protocol)
            && self.source_port.is_none_or(|wanted| Some(wanted) == source_port)
            && self.destination_port.is_none_or(|wanted| Some(wanted) == destination_port)
    }

    /// The attributes by which the kernel filters, which it does for one family at a time. It takes IPv6 addresses too, but then answers
    /// with the connections that have other ones (seen on Linux 6.18, and in the source since the filter came in 5.8), so it is not asked
    /// to. Ports it takes only with a protocol.
    pub(super) fn put(&self, writer: &mut Writer) {
        let (tuple, flags_of) = match self.direction {
            Direction::Original => (CTA_TUPLE_ORIG, CTA_FILTER_ORIG_FLAGS),
            Direction::Reply => (CTA_TUPLE_REPLY, CTA_FILTER_REPLY_FLAGS),
        };
        let mut flags = 0;
        writer.nest(tuple, |writer| {
            if let Some(IpAddr::V4(source)) = self.source {
                writer.nest(CTA_TUPLE_IP, |writer| {
                    writer.put(CTA_IP_V4_SRC, &source.octets());
                    flags |= CTA_FILTER_F_CTA_IP_SRC;
                    if let Some(IpAddr::V4(destination)) = self.destination {
                        writer.put(CTA_IP_V4_DST, &destination.octets());
                        flags |= CTA_FILTER_F_CTA_IP_DST;
                    }
                });
            }
            if let Some(protocol) = self.protocol {
                writer.nest(CTA_TUPLE_PROTO, |writer| {
                    writer.put_u8(CTA_PROTO_NUM, protocol);
                    flags |= CTA_FILTER_F_CTA_PROTO_NUM;
                    if let Some(port) = self.source_port {
                        writer.put(CTA_PROTO_SRC_PORT, &port.to_be_bytes());
                        flags |= CTA_FILTER_F_CTA_PROTO_SRC_PORT;
                    }
                    if let Some(port) = self.destination_port {
                        writer.put(CTA_PROTO_DST_PORT, &port.to_be_bytes());
                        flags |= CTA_FILTER_F_CTA_PROTO_DST_PORT;
                    }
                });
            }
        });
        // The only numbers of ctnetlink in the byte order of this machine.
        writer.nest(CTA_FILTER, |writer| writer.put(flags_of, &flags.to_ne_bytes()));
    }
}
