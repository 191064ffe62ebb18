//! A pod, a node and an outside in private network namespaces, to hold the kernel's verdicts against ours with real packets.

pub mod daemon;
pub mod judge;
pub mod link;
pub mod namespace;
pub mod probe;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use masq::cidr::{Cidr, Family};

use link::{RoutingTable, Rtnetlink, Target};
use namespace::Namespace;
use probe::{PORT, Receivers, Seen, Transport};

/// A host of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A pod, whose only link leads to the node.
    Pod,
    /// The node: the router on which the agent runs.
    Node,
    /// Everything beyond the node. Every address that is nobody else's is its own, so any destination can be probed.
    Outside,
}

/// The addresses of the lab in one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The pod's address, which an exempt packet of the pod keeps.
    pub pod: IpAddr,
    /// The node's address on the pod's link, which an exempt packet of the node keeps.
    pub node_inside: IpAddr,
    /// The node's address on the link to the outside, which a masqueraded packet bears.
    pub node_outside: IpAddr,
    /// An address of the outside; one of many.
    pub outside: IpAddr,
}

/// The addresses of a family: those of the documentation ranges outside, private ones inside.
pub fn addresses(family: Family) -> Addresses {
    match family {
        Family::Ipv4 => Addresses {
            pod: Ipv4Addr::new(10, 244, 0, 2).into(),
            node_inside: Ipv4Addr::new(10, 244, 0, 1).into(),
            node_outside: Ipv4Addr::new(198, 51, 100, 1).into(),
            outside: Ipv4Addr::new(198, 51, 100, 2).into(),
        },
        Family::Ipv6 => Addresses {
            pod: Ipv6Addr::new(0xfd00, 0x244, 0, 0, 0, 0, 0, 2).into(),
            node_inside: Ipv6Addr::new(0xfd00, 0x244, 0, 0, 0, 0, 0, 1).into(),
            node_outside: Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1).into(),
            outside: Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2).into(),
        },
    }
}

/// A second address of the node on the link to the outside: what is sent from it and masqueraded bears the first.
pub const NODE_SECOND_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);

/// The node's link to the pod.
pub const POD_LINK: &str = "p0";

/// The node's link to the outside.
pub const OUTSIDE_LINK: &str = "e0";

/// The only link of the pod and of the outside.
const ONLY_LINK: &str = "eth0";

/// The first source port that probes without a port of their own use. The next ones follow, so that every probe is the first
/// packet of a connection: to connection tracking a repeated one would belong to an earlier verdict.
const FIRST_SOURCE_PORT: u16 = 10_000;

/// How many source ports there are before the first one is used again.
const SOURCE_PORTS: u16 = 50_000;

/// Three connected namespaces with receivers in the node and outside. All of it ends when the value is dropped.
#[derive(Debug)]
pub struct Lab {
    /// The pod's namespace.
    pub pod: Namespace,
    /// The node's namespace: run the agent here.
    pub node: Namespace,
    /// The namespace of everything else.
    pub outside: Namespace,
    families: Vec<Family>,
    receivers: [Receivers; 2],
    probes: AtomicU32,
    id: AtomicU64,
}

impl Lab {
    /// Makes the namespaces, links, addresses and routes. Nothing outside the namespaces is touched.
    ///
    /// # Errors
    /// Namespaces are not allowed here, or /proc/sys is read-only.
    pub fn open() -> Result<Lab> {
        let families = families();
        let [pod, node, outside] = [Namespace::open("pod")?, Namespace::open("node")?, Namespace::open("outside")?];
        for namespace in [&pod, &node, &outside] {
            set_link_defaults(namespace, &families)?;
        }
        connect(&node, POD_LINK, &pod)?;
        connect(&node, OUTSIDE_LINK, &outside)?;
        for &family in &families {
            set_up_node(&node, family)?;
            set_up_pod(&pod, family)?;
            set_up_outside(&outside, family)?;
        }
        let ipv6 = families.contains(&Family::Ipv6);
        let receivers = [Receivers::open(Host::Node, &node, ipv6)?, Receivers::open(Host::Outside, &outside, ipv6)?];
        Ok(Lab { pod, node, outside, families, receivers, probes: AtomicU32::new(0), id: AtomicU64::new(0) })
    }

    /// The families that this kernel has: IPv4, and IPv6 unless it is switched off as a whole.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: Host) -> &Namespace {
        match host {
            Host::Pod => &self.pod,
            Host::Node => &self.node,
            Host::Outside => &self.outside,
        }
    }

    /// Sends the first packet of a connection from `from` to [`PORT`] of `destination`, out of a fresh source port, and returns
    /// what was seen of it at the node or outside; `None` where nothing arrived.
    ///
    /// # Errors
    /// `destination` cannot be routed to, or the sending host refuses the packet.
    pub fn probe(&self, from: Host, transport: Transport, destination: IpAddr) -> Result<Option<Seen>> {
        self.probe_from(from, self.fresh_port(), transport, destination)
    }

    /// As [`Lab::probe`], out of a given source port.
    ///
    /// # Errors
    /// As [`Lab::probe`]; and the port is in use.
    pub fn probe_from(
        &self,
        from: Host,
        source_port: u16,
        transport: Transport,
        destination: IpAddr,
    ) -> Result<Option<Seen>> {
        ensure_probeable(destination)?;
        let source = SocketAddr::new(source_address(from, Family::of(destination)), source_port);
        let destination = SocketAddr::new(destination, PORT);
        match transport {
            Transport::Udp => {
                let sender = self.udp_sender(from, source)?;
                probe::udp(&sender, destination, self.next_id(), &self.all_receivers())
            }
            Transport::Tcp => {
                probe::tcp(self.namespace(from), source, destination, self.next_id(), &self.all_receivers())
            }
        }
    }

    /// Sends a datagram to each destination and returns in their order what was seen of them. Thousands take a fraction of a
    /// second.
    ///
    /// # Errors
    /// As [`Lab::probe`].
    pub fn probe_many(&self, from: Host, destinations: &[IpAddr]) -> Result<Vec<Option<Seen>>> {
        for &destination in destinations {
            ensure_probeable(destination)?;
        }
        let fresh_sender =
            |family| self.udp_sender(from, SocketAddr::new(source_address(from, family), self.fresh_port()));
        probe::udp_many(destinations, fresh_sender, || self.next_id(), &self.all_receivers())
    }

    /// A source port that no probe of this lab used in the last 50,000.
    pub fn fresh_port(&self) -> u16 {
        let offset = self.probes.fetch_add(1, Ordering::Relaxed) % u32::from(SOURCE_PORTS);
        FIRST_SOURCE_PORT + u16::try_from(offset).expect("a remainder is below its divisor")
    }

    fn udp_sender(&self, from: Host, source: SocketAddr) -> Result<UdpSocket> {
        self.namespace(from)
            .run(move || UdpSocket::bind(source))
            .with_context(|| format!("cannot open a UDP socket on {source}"))
    }

    fn next_id(&self) -> u64 {
        self.id.fetch_add(1, Ordering::Relaxed)
    }

    fn all_receivers(&self) -> [&Receivers; 2] {
        let [node, outside] = &self.receivers;
        [node, outside]
    }
}

/// Whether a probe from any host of the lab can be seen to arrive at this address: a unicast one that routers forward, of the
/// node's or of the outside.
pub fn can_probe(destination: IpAddr) -> bool {
    // The broadcast addresses of the network between node and outside.
    let broadcast = [Ipv4Addr::new(198, 51, 100, 0), Ipv4Addr::new(198, 51, 100, 255)];
    probe::is_routable(destination)
        && destination != addresses(Family::of(destination)).pod
        && !broadcast.iter().any(|&address| destination == address)
}

/// The address that a host's probes are sent from. The node's is the one on the pod's link: a masqueraded packet bears the other,
/// so the two verdicts can be told apart.
pub fn source_address(host: Host, family: Family) -> IpAddr {
    let addresses = addresses(family);
    match host {
        Host::Pod => addresses.pod,
        Host::Node => addresses.node_inside,
        Host::Outside => addresses.outside,
    }
}

/// Refuses a destination at which nothing can be seen to arrive, so that a loss is never taken for a verdict.
fn ensure_probeable(destination: IpAddr) -> Result<()> {
    ensure!(
        can_probe(destination),
        "no packet to {destination} can be seen to arrive: pick a unicast address off the pod"
    );
    Ok(())
}

fn families() -> Vec<Family> {
    let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
    Family::ALL.into_iter().filter(|&family| family == Family::Ipv4 || has_ipv6).collect()
}

/// Settings that links take over when they are made. The machine's own may differ, and IPv4's are inherited from it.
fn set_link_defaults(namespace: &Namespace, families: &[Family]) -> Result<()> {
    for key in ["net/ipv4/conf/all/rp_filter", "net/ipv4/conf/default/rp_filter"] {
        namespace.set_sysctl(key, "0")?;
    }
    if families.contains(&Family::Ipv6) {
        namespace.set_sysctl("net/ipv6/conf/all/disable_ipv6", "0")?;
        namespace.set_sysctl("net/ipv6/conf/default/disable_ipv6", "0")?;
        // With it every address would be tentative for a second.
        namespace.set_sysctl("net/ipv6/conf/all/accept_dad", "0")?;
        namespace.set_sysctl("net/ipv6/conf/default/accept_dad", "0")?;
    }
    namespace.run(|| Rtnetlink::open()?.set_up("lo"))
}

/// Joins the node to another namespace by a veth pair, both ends up.
fn connect(node: &Namespace, link: &'static str, other: &Namespace) -> Result<()> {
    let far = other.as_fd().try_clone_to_owned().context("cannot duplicate a namespace's descriptor")?;
    node.run(move || {
        let mut rtnetlink = Rtnetlink::open()?;
        rtnetlink.add_veth_pair(link, ONLY_LINK, far.as_fd())?;
        rtnetlink.set_up(link)
    })?;
    other.run(|| {
        let mut rtnetlink = Rtnetlink::open()?;
        rtnetlink.set_up(ONLY_LINK)?;
        rtnetlink.wait_until_operational(ONLY_LINK)
    })?;
    node.run(move || Rtnetlink::open()?.wait_until_operational(link))
}

fn set_up_node(node: &Namespace, family: Family) -> Result<()> {
    let Addresses { pod, node_inside, node_outside, outside } = addresses(family);
    node.run(move || {
        let mut rtnetlink = Rtnetlink::open()?;
        // Host routes alone: every other address, also a neighbour of the pod's, is found outside.
        rtnetlink.add_address(POD_LINK, node_inside, family.bits())?;
        rtnetlink.add_route(RoutingTable::Main, host_route(pod)?, Target::Link, POD_LINK)?;
        match family {
            Family::Ipv4 => {
                rtnetlink.add_address(OUTSIDE_LINK, node_outside, 24)?;
                rtnetlink.add_address(OUTSIDE_LINK, NODE_SECOND_ADDRESS.into(), 24)?;
            }
            Family::Ipv6 => rtnetlink.add_address(OUTSIDE_LINK, node_outside, family.bits())?,
        }
        rtnetlink.add_route(RoutingTable::Main, any_address(family)?, Target::Gateway(outside), OUTSIDE_LINK)
    })?;
    match family {
        Family::Ipv4 => node.set_sysctl("net/ipv4/ip_forward", "1"),
        Family::Ipv6 => node.set_sysctl("net/ipv6/conf/all/forwarding", "1"),
    }
}

fn set_up_pod(pod: &Namespace, family: Family) -> Result<()> {
    let Addresses { pod: address, node_inside, .. } = addresses(family);
    pod.run(move || {
        let mut rtnetlink = Rtnetlink::open()?;
        rtnetlink.add_address(ONLY_LINK, address, family.bits())?;
        rtnetlink.add_route(RoutingTable::Main, any_address(family)?, Target::Gateway(node_inside), ONLY_LINK)
    })
}

/// Makes every address the outside's own, but for those of the pod and the node: they are reached through the node, masqueraded
/// or bare. The exceptions stand in the table that is looked at first, beside the rule they are exceptions from.
fn set_up_outside(outside: &Namespace, family: Family) -> Result<()> {
    let Addresses { pod, node_inside, node_outside, outside: address } = addresses(family);
    outside.run(move || {
        let mut rtnetlink = Rtnetlink::open()?;
        rtnetlink.add_address(ONLY_LINK, address, family.bits())?;
        rtnetlink.add_route(RoutingTable::Local, host_route(node_outside)?, Target::Link, ONLY_LINK)?;
        for inside in [pod, node_inside] {
            let gateway = Target::Gateway(node_outside);
            rtnetlink.add_route(RoutingTable::Local, host_route(inside)?, gateway, ONLY_LINK)?;
        }
        if family == Family::Ipv4 {
            let second = host_route(NODE_SECOND_ADDRESS.into())?;
            rtnetlink.add_route(RoutingTable::Local, second, Target::Link, ONLY_LINK)?;
        }
        rtnetlink.add_route(RoutingTable::Local, any_address(family)?, Target::Here, "lo")
    })
}

fn host_route(address: IpAddr) -> Result<Cidr> {
    Ok(Cidr::new(address, Family::of(address).bits())?)
}

fn any_address(family: Family) -> Result<Cidr> {
    Ok(Cidr::new(family.address(0), 0)?)
}
