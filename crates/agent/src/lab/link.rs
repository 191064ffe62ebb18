//! Links, addresses and routes of the calling thread's network namespace, set up over rtnetlink without any program.

use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use masq::cidr::{Cidr, Family};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily as SocketFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;

/// The kernel answers a request before `sendto` returns; the timeout only turns a bug into an error.
const ANSWER_TIMEOUT_SECONDS: i64 = 5;

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
    socket: OwnedFd,
    sequence: u32,
}

impl Rtnetlink {
    /// Opens the socket in the calling thread's namespace. Links are looked up by name there, so stay on that thread.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> Result<Rtnetlink> {
        let socket = socket(SocketFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
            .context("cannot open an rtnetlink socket")?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(ANSWER_TIMEOUT_SECONDS, 0))
            .context("cannot set a timeout on the rtnetlink socket")?;
        Ok(Rtnetlink { socket, sequence: 0 })
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
        self.request(RouteNetlinkMessage::NewLink(near), NLM_F_CREATE | NLM_F_EXCL)
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
        self.request(RouteNetlinkMessage::SetLink(message), 0).with_context(|| format!("cannot set the link {link} up"))
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
            self.send(RouteNetlinkMessage::GetLink(message.clone()), 0)?;
            match self.answer()? {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(found)) => {
                    Ok(found.attributes.contains(&LinkAttribute::OperState(State::Up)))
                }
                other => bail!("rtnetlink answered with something else than the link: {other:?}"),
            }
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
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
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
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
            .with_context(|| format!("cannot add a route to {destination} out of {link}"))
    }

    /// Sends one request and waits for its acknowledgement.
    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
        self.send(message, NLM_F_ACK | flags)?;
        match self.answer()? {
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io().into()),
            other => bail!("rtnetlink answered with something else than an acknowledgement: {other:?}"),
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        sendto(self.socket.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())
            .context("cannot send to rtnetlink")?;
        Ok(())
    }

    fn answer(&self) -> Result<NetlinkPayload<RouteNetlinkMessage>> {
        let mut buffer = [0; 8192];
        let received =
            recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).context("no answer from rtnetlink")?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&buffer[..received])
            .context("cannot read the answer of rtnetlink")?;
        Ok(answer.payload)
    }
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
