//! Which connections a search is for: addresses and ports of one direction.

use std::net::IpAddr;

use super::{
    CTA_IP_V4_DST, CTA_IP_V4_SRC, CTA_PROTO_NUM, CTA_TUPLE_IP, CTA_TUPLE_ORIG, CTA_TUPLE_PROTO, CTA_TUPLE_REPLY,
    Connection, Tuple,
};
use crate::object::ProtocolFamily;
use crate::wire::Writer;

const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;
const CTA_FILTER_F_CTA_IP_SRC: u32 = 1 << 0;
const CTA_FILTER_F_CTA_IP_DST: u32 = 1 << 1;
const CTA_FILTER_F_CTA_PROTO_NUM: u32 = 1 << 3;

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
    /// Its source address, which also says the family.
    pub source: IpAddr,
    /// Its destination address.
    pub destination: Option<IpAddr>,
    /// Number of its transport protocol.
    pub protocol: Option<u8>,
}

impl TupleFilter {
    pub(super) fn family(&self) -> ProtocolFamily {
        match self.source {
            IpAddr::V4(_) => ProtocolFamily::Ipv4,
            IpAddr::V6(_) => ProtocolFamily::Ipv6,
        }
    }

    pub(super) fn matches(&self, connection: &Connection) -> bool {
        let Tuple { source, destination, protocol, .. } = match self.direction {
            Direction::Original => connection.original,
            Direction::Reply => connection.reply,
        };
        source == self.source
            && self.destination.is_none_or(|wanted| wanted == destination)
            && self.protocol.is_none_or(|wanted| wanted == protocol)
    }

    /// The attributes by which the kernel filters. It takes IPv6 addresses too, but then answers with the connections that have
    /// other ones (seen on Linux 6.18, and in the source since the filter came in 5.8), so it is not asked to.
    pub(super) fn put(&self, writer: &mut Writer) {
        let (tuple, flags_of) = match self.direction {
            Direction::Original => (CTA_TUPLE_ORIG, CTA_FILTER_ORIG_FLAGS),
            Direction::Reply => (CTA_TUPLE_REPLY, CTA_FILTER_REPLY_FLAGS),
        };
        let mut flags = 0;
        writer.nest(tuple, |writer| {
            if let IpAddr::V4(source) = self.source {
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
                writer.nest(CTA_TUPLE_PROTO, |writer| writer.put_u8(CTA_PROTO_NUM, protocol));
                flags |= CTA_FILTER_F_CTA_PROTO_NUM;
            }
        });
        // The only numbers of ctnetlink in the byte order of this machine.
        writer.nest(CTA_FILTER, |writer| writer.put(flags_of, &flags.to_ne_bytes()));
    }
}
