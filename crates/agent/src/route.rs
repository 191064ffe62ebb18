//! The node's routes and addresses, asked of the kernel over rtnetlink; nothing is changed and no privilege is needed.

pub mod select;

use std::net::IpAddr;

use anyhow::{Context, Result};
use masq::cidr::Family;
use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType};
use nix::errno::Errno;
use nix::libc::{RTM_GETADDR, RTM_GETROUTE, RTM_NEWADDR, RTM_NEWROUTE};
use nix::net::if_::if_indextoname;

use self::select::Address;
use crate::foreign::condition::{AddressTypes, Link};
use crate::rtnetlink::{Socket, refusal};

/// What a packet's route depends on. Marks, users and types of service are taken to be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Where it goes.
    pub destination: IpAddr,
    /// Where it comes from; `None` where that is not chosen yet.
    pub source: Option<IpAddr>,
    /// The link it came in by; `None` for a packet of the node's own.
    pub input: Option<u32>,
    /// Number of its transport protocol; `None` where that is not known.
    pub protocol: Option<u8>,
    /// Its source port; `None` where that is not known.
    pub source_port: Option<u16>,
    /// Its destination port; `None` where that is not known.
    pub destination_port: Option<u16>,
}

impl Flow {
    /// What the node sends to an address, of which nothing else is known.
    pub fn to(destination: IpAddr) -> Flow {
        Flow { destination, source: None, input: None, protocol: None, source_port: None, destination_port: None }
    }
}

/// Where a packet goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// What the destination is to the node.
    pub destination_type: AddressTypes,
    /// The link it leaves by; the loopback link for the node's own addresses.
    pub output: Link,
    /// The gateway it is handed to; `None` if that is the destination itself.
    pub gateway: Option<IpAddr>,
    /// The source that the node itself would use, where the kernel says so.
    pub preferred_source: Option<IpAddr>,
    /// Number of the routing table.
    pub table: u32,
}

/// There is no way for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", reason(*.0))]
pub struct NoRoute(pub Errno);

/// The kernel tells kinds of routes apart by the number of the error alone.
fn reason(number: Errno) -> &'static str {
    match number {
        Errno::EINVAL => "a blackhole route, a group that nobody here routes, or addresses that no packet may have",
        Errno::EACCES => "a prohibit route forbids it",
        Errno::EHOSTUNREACH => "an unreachable route, or no route from where it comes in",
        Errno::ENETUNREACH => "no route leads there",
        Errno::EXDEV => "the reverse path filter drops what comes in by that link from that source",
        other => other.desc(),
    }
}

/// A socket for questions about routes, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Routes {
    socket: Socket,
}

impl Routes {
    /// Opens the socket.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn open() -> Result<Routes> {
        Ok(Routes { socket: Socket::open()? })
    }

    /// The route that the kernel would take now.
    ///
    /// # Errors
    /// The kernel cannot be asked. That it has no route is an answer.
    pub fn lookup(&mut self, flow: Flow) -> Result<Result<Route, NoRoute>> {
        let mut message = RouteMessage::default();
        let bits = Family::of(flow.destination).bits();
        message.header.address_family = family_of(flow.destination);
        message.header.destination_prefix_length = bits;
        message.header.flags = RouteFlags::LookupTable;
        message.attributes.push(RouteAttribute::Destination(flow.destination.into()));
        if let Some(source) = flow.source {
            message.header.source_prefix_length = bits;
            message.attributes.push(RouteAttribute::Source(source.into()));
        }
        message.attributes.extend(flow.input.map(RouteAttribute::Iif));
        message.attributes.extend(transport(flow));
        match self.socket.request(RTM_GETROUTE, 0, &message) {
            Ok(answers) => {
                let answer = answers.first().context("rtnetlink answered without a route")?;
                Ok(Ok(route(flow.destination, &answer.parse(RTM_NEWROUTE)?)?))
            }
            Err(error) => match refusal(&error) {
                Some(number) => Ok(Err(NoRoute(Errno::from_raw(number)))),
                None => Err(error),
            },
        }
    }

    /// What an address is to the node, as rules ask it: unicast where there is nothing special about it.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    pub fn type_of(&mut self, address: IpAddr) -> Result<AddressTypes> {
        let found = self.lookup(Flow::to(address))?;
        Ok(found.map_or(AddressTypes::UNICAST, |route| route.destination_type))
    }

    /// All addresses of all links of a family, each link's in the order in which the kernel looks at them.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    pub fn addresses(&mut self, family: Family) -> Result<Vec<Address>> {
        let mut message = AddressMessage::default();
        message.header.family = match family {
            Family::Ipv4 => AddressFamily::Inet,
            Family::Ipv6 => AddressFamily::Inet6,
        };
        let answers = self.socket.request(RTM_GETADDR, NLM_F_DUMP, &message).context("cannot read addresses")?;
        let addresses = answers.iter().map(|answer| Ok(address(&answer.parse(RTM_NEWADDR)?)));
        addresses.filter_map(Result::transpose).collect()
    }
}

/// Protocol and ports, which rules of policy routing may ask for. The kernel takes these protocols and no others, and port 0 for none.
fn transport(flow: Flow) -> impl Iterator<Item = RouteAttribute> {
    const WITH_PORTS: [u8; 2] = [6, 17];
    let protocol = flow.protocol.filter(|protocol| WITH_PORTS.contains(protocol));
    let port = |port: Option<u16>| port.filter(|port| protocol.is_some() && *port != 0);
    let ports =
        [port(flow.source_port).map(RouteAttribute::Sport), port(flow.destination_port).map(RouteAttribute::Dport)];
    protocol.map(RouteAttribute::IpProto).into_iter().chain(ports.into_iter().flatten())
}

fn route(destination: IpAddr, found: &RouteMessage) -> Result<Route> {
    let mut output = None;
    let (mut gateway, mut preferred_source, mut table) = (None, None, u32::from(found.header.table));
    for attribute in &found.attributes {
        match attribute {
            RouteAttribute::Oif(index) => output = Some(*index),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::PrefSource(address) => preferred_source = ip(address),
            RouteAttribute::Table(number) => table = *number,
            _ => {}
        }
    }
    let index = output.context("a route of the kernel names no link")?;
    Ok(Route {
        destination_type: destination_type(destination, found.header.kind),
        output: link(index)?,
        gateway,
        preferred_source,
        table,
    })
}

fn destination_type(destination: IpAddr, kind: RouteType) -> AddressTypes {
    match kind {
        _ if destination.is_multicast() => AddressTypes::MULTICAST,
        RouteType::Local => AddressTypes::LOCAL,
        RouteType::Broadcast => AddressTypes::BROADCAST,
        RouteType::Anycast => AddressTypes::ANYCAST,
        _ => AddressTypes::UNICAST,
    }
}

/// The link with that number.
///
/// # Errors
/// It has gone.
pub fn link(index: u32) -> Result<Link> {
    let name = if_indextoname(index).with_context(|| format!("the link {index} has gone meanwhile"))?;
    Ok(Link { index, name: name.to_string_lossy().into_owned() })
}

fn address(found: &AddressMessage) -> Option<Address> {
    let (mut local, mut network, mut flags) = (None, None, u32::from(found.header.flags.bits()));
    for attribute in &found.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => network = Some(*address),
            AddressAttribute::Flags(all) => flags = all.bits(),
            _ => {}
        }
    }
    let is = |flag: AddressFlags| flags & flag.bits() != 0;
    let network = network.or(local)?;
    Some(Address {
        link: found.header.index,
        // Of IPv6 a local address is told only where there is a peer.
        local: local.unwrap_or(network),
        network,
        prefix_len: found.header.prefix_len,
        is_global: found.header.scope == AddressScope::Universe,
        is_secondary: is(AddressFlags::Secondary),
        is_deprecated: is(AddressFlags::Deprecated),
        is_usable: !is(AddressFlags::Tentative) && !is(AddressFlags::Dadfailed),
    })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn family_of(address: IpAddr) -> AddressFamily {
    match Family::of(address) {
        Family::Ipv4 => AddressFamily::Inet,
        Family::Ipv6 => AddressFamily::Inet6,
    }
}
