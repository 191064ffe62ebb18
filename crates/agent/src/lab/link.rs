//! Links, addresses and routes of the calling thread's network namespace, set up over rtnetlink without any program.

use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use masq::cidr::{Cidr, Family};
use netlink_packet_core::{Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NlasIterator};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use nix::libc::{IFLA_OPERSTATE, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE, RTM_SETLINK};
use nix::net::if_::if_nametoindex;

use crate::rtnetlink::Socket;

/// How long the kernel may take for what it does in the background; microseconds are expected.
const FINISHED_WITHIN: Duration = Duration::from_secs(5);

/// Which of the kernel's routing tables a route goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutingTable {
    /// Where `ip route add` puts routes.
    Main = 254,
    /// Looked at first; holds the node's own addresses.
    Local = 255,
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To this node itself.
    Here,
    /// To a neighbour on the link.
    Link,
    /// Through a gateway, which is taken to be on the link whatever the addresses say.
    Gateway(IpAddr),
}

/// A socket for rtnetlink requests in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Rtnetlink {
    socket: Socket,
}

impl Rtnetlink {
    /// Opens the socket in the calling thread's namespace. Links are looked up by name there, so stay on that thread.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> Result<Rtnetlink> {
        Ok(Rtnetlink { socket: Socket::open()? })
    }

    /// Makes a veth pair: `name` here, `peer` in `peer_namespace`. Both ends are down.
    ///
    /// # Errors
    /// The kernel refuses it: a name is taken, or there is no veth driver.
    pub fn add_veth_pair(&mut self, name: &str, peer: &str, peer_namespace: BorrowedFd<'_>) -> Result<()> {
        let mut far = LinkMessage::default();
        far.attributes =
            vec![LinkAttribute::IfName(peer.to_owned()), LinkAttribute::NetNsFd(peer_namespace.as_raw_fd())];
        let mut near = LinkMessage::default();
        near.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far))),
            ]),
        ];
        self.request(RTM_NEWLINK, &near, NLM_F_CREATE | NLM_F_EXCL)
            .with_context(|| format!("cannot make the veth pair {name}, {peer}"))
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// There is no such link, or the kernel refuses.
    pub fn set_up(&mut self, link: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index_of(link)?;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(RTM_SETLINK, &message, 0).with_context(|| format!("cannot set the link {link} up"))
    }

    /// Waits until a link whose both ends are up carries packets: the kernel gets round to that a little later, and drops them
    /// before.
    ///
    /// # Errors
    /// There is no such link, or it carries none in time.
    pub fn wait_until_operational(&mut self, link: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index_of(link)?;
        wait_until(|| {
            let answers = self.socket.request(RTM_GETLINK, 0, &message)?;
            let found = answers.first().context("rtnetlink answered without a link")?.body(RTM_NEWLINK)?;
            Ok(operational_state(found) == Some(State::Up))
        })
        .with_context(|| format!("the link {link} carries no packets although it is up"))
    }

    /// Gives a link an address and waits until it can be used. An IPv6 address takes a second unless duplicate address detection
    /// is off (`accept_dad`); even then it is heard by its neighbours only once the kernel is done with it.
    ///
    /// # Errors
    /// There is no such link, it has the address already, or IPv6 is disabled on it.
    pub fn add_address(&mut self, link: &str, address: IpAddr, prefix_len: u8) -> Result<()> {
        let index = index_of(link)?;
        let mut message = AddressMessage::default();
        message.header.family = family_of(address);
        message.header.prefix_len = prefix_len;
        message.header.index = index;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.request(RTM_NEWADDR, &message, NLM_F_CREATE | NLM_F_EXCL)
            .with_context(|| format!("cannot add the address {address}/{prefix_len} to {link}"))?;
        // The kernel refuses to bind to a tentative address.
        let bindable = match address {
            IpAddr::V4(v4) => SocketAddr::from((v4, 0)),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, index).into(),
        };
        wait_until(|| Ok(UdpSocket::bind(bindable).is_ok()))
            .with_context(|| format!("the address {address} of {link} cannot be used"))
    }

    /// Adds a route to `destination` out of `link`.
    ///
    /// # Errors
    /// There is no such link, it is down, or the route exists.
    pub fn add_route(&mut self, table: RoutingTable, destination: Cidr, target: Target, link: &str) -> Result<()> {
        let mut message = RouteMessage::default();
        let header = &mut message.header;
        header.address_family = family_of(destination.network());
        header.destination_prefix_length = destination.prefix_len();
        header.table = table as u8;
        header.protocol = RouteProtocol::Static;
        (header.kind, header.scope) = match target {
            Target::Here => (RouteType::Local, RouteScope::Host),
            Target::Link => (RouteType::Unicast, RouteScope::Link),
            Target::Gateway(_) => (RouteType::Unicast, RouteScope::Universe),
        };
        message.attributes.push(RouteAttribute::Oif(index_of(link)?));
        if destination.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(RouteAddress::from(destination.network())));
        }
        if let Target::Gateway(gateway) = target {
            message.header.flags = RouteFlags::Onlink;
            message.attributes.push(RouteAttribute::Gateway(RouteAddress::from(gateway)));
        }
        self.request(RTM_NEWROUTE, &message, NLM_F_CREATE | NLM_F_EXCL)
            .with_context(|| format!("cannot add a route to {destination} out of {link}"))
    }

    /// Sends one request and waits for its acknowledgement.
    fn request(&mut self, kind: u16, message: &dyn Emitable, flags: u16) -> Result<()> {
        self.socket.request(kind, NLM_F_ACK | flags, message).map(|_| ())
    }
}

/// The one attribute of a link that is asked for: the library parses all of them or none, and they are many.
fn operational_state(link: &[u8]) -> Option<State> {
    let attributes = link.get(LinkMessage::default().header.buffer_len()..)?;
    let state = NlasIterator::new(attributes).flatten().find(|attribute| attribute.kind() == IFLA_OPERSTATE)?;
    state.value().first().map(|state| State::from(*state))
}

/// Waits for what the kernel finishes behind the request that began it.
fn wait_until(mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + FINISHED_WITHIN;
    while !done()? {
        ensure!(Instant::now() < deadline, "the kernel is not done with it after {FINISHED_WITHIN:?}");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn index_of(link: &str) -> Result<u32> {
    if_nametoindex(link).with_context(|| format!("there is no link {link} in this namespace"))
}

fn family_of(address: IpAddr) -> AddressFamily {
    match Family::of(address) {
        Family::Ipv4 => AddressFamily::Inet,
        Family::Ipv6 => AddressFamily::Inet6,
    }
}
