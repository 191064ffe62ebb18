//! Real packets through the lab: what left a host, and what its receiver saw.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use masq::cidr::Family;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::Host;
use super::namespace::Namespace;

/// The port that every receiver of the lab listens on, TCP and UDP.
pub const PORT: u16 = 7000;

/// How long an answer may take before a packet counts as lost. A packet crosses the lab in microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Datagrams under way at once. The smallest receive buffer in use holds several hundred.
const WINDOW: usize = 64;

/// How often a datagram that was not seen is sent again, each time from another port.
const ATTEMPTS: u32 = 3;

/// A transport protocol that the lab can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// A connection, opened and closed.
    Tcp,
}

/// What became of the first packet of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The address and port it was sent from.
    pub sent_from: SocketAddr,
    /// The host it arrived at.
    pub host: Host,
    /// The address and port its receiver saw.
    pub source: SocketAddr,
}

/// The receivers of one host: a UDP and a TCP socket on [`PORT`] of all addresses, both families.
#[derive(Debug)]
pub(super) struct Receivers {
    host: Host,
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Receivers {
    pub(super) fn open(host: Host, namespace: &Namespace, ipv6: bool) -> Result<Receivers> {
        // One IPv6 socket hears IPv4 too; where the kernel has no IPv6 there is only an IPv4 one.
        let any = if ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        let sockets = namespace.run(move || -> io::Result<_> {
            let udp = UdpSocket::bind((any, PORT))?;
            let tcp = TcpListener::bind((any, PORT))?;
            udp.set_nonblocking(true)?;
            tcp.set_nonblocking(true)?;
            Ok((udp, tcp))
        });
        let (udp, tcp) = sockets
            .with_context(|| format!("cannot listen on port {PORT} of the namespace \"{}\"", namespace.name()))?;
        Ok(Receivers { host, udp, tcp })
    }
}

/// Sends one datagram with an id as its payload and waits for it at any of the receivers; `None` where it is not seen in time.
pub(super) fn udp(
    sender: &UdpSocket,
    destination: SocketAddr,
    id: u64,
    receivers: &[&Receivers],
) -> Result<Option<Seen>> {
    let sent_from = sender.local_addr().context("a bound socket has an address")?;
    sender
        .send_to(&id.to_be_bytes(), destination)
        .with_context(|| format!("cannot send from {sent_from} to {destination}"))?;
    let deadline = Instant::now() + PATIENCE;
    while wait(receivers, |receivers| receivers.udp.as_fd(), deadline)? {
        for (host, source, received) in drain(receivers)? {
            if received == id {
                return Ok(Some(Seen { sent_from, host, source }));
            }
        }
    }
    Ok(None)
}

/// Sends one datagram to each destination and returns, in their order, what was seen of it.
///
/// `fresh_sender` opens a socket of a family on a source port that was not used before, and is asked again for the datagrams that
/// were lost: a resent one must not meet the connection tracking entry of the first.
pub(super) fn udp_many(
    destinations: &[IpAddr],
    fresh_sender: impl Fn(Family) -> Result<UdpSocket>,
    next_id: impl Fn() -> u64,
    receivers: &[&Receivers],
) -> Result<Vec<Option<Seen>>> {
    let mut seen = vec![None; destinations.len()];
    for _ in 0..ATTEMPTS {
        for family in Family::ALL {
            let is_missing = |&place: &usize| seen[place].is_none() && Family::of(destinations[place]) == family;
            let missing: Vec<usize> = (0..seen.len()).filter(is_missing).collect();
            if missing.is_empty() {
                continue;
            }
            let sender = fresh_sender(family)?;
            for window in missing.chunks(WINDOW) {
                let wanted: Vec<(usize, IpAddr)> = window.iter().map(|&place| (place, destinations[place])).collect();
                for (place, found) in udp_window(&sender, &wanted, &next_id, receivers)? {
                    seen[place] = Some(found);
                }
            }
        }
    }
    Ok(seen)
}

/// Sends a few datagrams at once and collects what is seen of them in time, each with the place it was asked under.
fn udp_window(
    sender: &UdpSocket,
    wanted: &[(usize, IpAddr)],
    next_id: impl Fn() -> u64,
    receivers: &[&Receivers],
) -> Result<Vec<(usize, Seen)>> {
    let sent_from = sender.local_addr().context("a bound socket has an address")?;
    let mut waiting = HashMap::with_capacity(wanted.len());
    for &(place, destination) in wanted {
        let id = next_id();
        sender
            .send_to(&id.to_be_bytes(), (destination, PORT))
            .with_context(|| format!("cannot send from {sent_from} to {destination}"))?;
        waiting.insert(id, place);
    }
    let mut seen = Vec::with_capacity(wanted.len());
    let deadline = Instant::now() + PATIENCE;
    while !waiting.is_empty() && wait(receivers, |receivers| receivers.udp.as_fd(), deadline)? {
        for (host, source, id) in drain(receivers)? {
            if let Some(place) = waiting.remove(&id) {
                seen.push((place, Seen { sent_from, host, source }));
            }
        }
    }
    Ok(seen)
}

/// Opens a connection, sends an id over it and waits for both at any of the receivers; `None` where it does not come about.
pub(super) fn tcp(
    namespace: &Namespace,
    from: SocketAddr,
    destination: SocketAddr,
    id: u64,
    receivers: &[&Receivers],
) -> Result<Option<Seen>> {
    let connected = namespace.run(move || open_connection(from, destination));
    let mut stream = match connected {
        Ok(stream) => stream,
        // A connect that runs into its timeout says EINPROGRESS.
        Err(Errno::EINPROGRESS | Errno::ETIMEDOUT) => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot connect from {} to {destination}", from.ip()));
        }
    };
    let sent_from = stream.local_addr().context("a connected socket has an address")?;
    stream.write_all(&id.to_be_bytes()).with_context(|| format!("cannot write to {destination}"))?;
    let deadline = Instant::now() + PATIENCE;
    while wait(receivers, |receivers| receivers.tcp.as_fd(), deadline)? {
        for receivers in receivers {
            if let Some((source, received)) = accept(&receivers.tcp)?
                && received == id
            {
                return Ok(Some(Seen { sent_from, host: receivers.host, source }));
            }
        }
    }
    Ok(None)
}

/// Waits until one of the receivers has something to read; false at the deadline.
fn wait<'a>(
    receivers: &[&'a Receivers],
    socket: impl Fn(&'a Receivers) -> BorrowedFd<'a>,
    deadline: Instant,
) -> Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = PollTimeout::try_from(left).context("the lab's patience is a few seconds")?;
    let mut polled: Vec<PollFd> =
        receivers.iter().map(|receivers| PollFd::new(socket(receivers), PollFlags::POLLIN)).collect();
    match poll(&mut polled, timeout) {
        Ok(ready) => Ok(ready > 0),
        // Not a reason to give up: the caller's deadline bounds the next try.
        Err(nix::Error::EINTR) => Ok(true),
        Err(error) => Err(error).context("cannot wait for packets"),
    }
}

/// Everything the UDP receivers hold right now: where it arrived, from where, and its id.
fn drain(receivers: &[&Receivers]) -> Result<Vec<(Host, SocketAddr, u64)>> {
    let mut arrived = Vec::new();
    for receivers in receivers {
        let mut payload = [0; 8];
        // Bounded: no more than a window of datagrams is ever under way.
        for _ in 0..WINDOW {
            match receivers.udp.recv_from(&mut payload) {
                Ok((8, source)) => arrived.push((receivers.host, canonical(source), u64::from_be_bytes(payload))),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("cannot receive a datagram"),
            }
        }
    }
    Ok(arrived)
}

/// Accepts one connection, if there is one, and reads the id that its peer sends first.
fn accept(listener: &TcpListener) -> Result<Option<(SocketAddr, u64)>> {
    let (mut stream, source) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error).context("cannot accept a connection"),
    };
    stream.set_nonblocking(false).context("cannot make a connection blocking")?;
    stream.set_read_timeout(Some(PATIENCE)).context("cannot set a timeout on a connection")?;
    let mut id = [0; 8];
    match stream.read_exact(&mut id) {
        Ok(()) => Ok(Some((canonical(source), u64::from_be_bytes(id)))),
        // An earlier connection that its sender gave up: not the one waited for.
        Err(_) => Ok(None),
    }
}

/// The address as its sender would write it: an IPv4 peer of an IPv6 socket is shown as an IPv4-mapped address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Connects from a given address: the standard library connects, but not from an address of one's choice.
fn open_connection(from: SocketAddr, destination: SocketAddr) -> nix::Result<TcpStream> {
    let family = match from {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let patience = TimeVal::new(PATIENCE.as_secs().cast_signed(), 0);
    setsockopt(&socket, sockopt::SendTimeout, &patience)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(destination))?;
    Ok(TcpStream::from(socket))
}

/// Whether an address is a unicast one to which routers forward packets.
pub(super) fn is_routable(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(v4) => !(v4.octets()[0] == 0 || v4.is_loopback() || v4.is_multicast() || v4.is_broadcast()),
        // Routers do not forward link-local packets, and an IPv4-mapped destination leaves a host as IPv4.
        IpAddr::V6(v6) => {
            !(v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6.to_ipv4_mapped().is_some())
        }
    }
}
