//! Everything that `explain` asks the kernel: routes, addresses, rules of both stacks and live connections.

use std::net::IpAddr;

use anyhow::{Context, Result};
use masq::cidr::Family;
use nfnetlink::{Connection, Conntrack, Direction, TupleFilter};

use crate::backend::detect::Backend;
use crate::backend::search_path;
use crate::cli::{BackendChoice, ExplainOptions, Question};
use crate::foreign::condition::{AddressTypes, Link};
use crate::foreign::{self, Ruleset, Unseen};
use crate::route::select::{self, Picked};
use crate::route::{Flow, NoRoute, Route, Routes};

/// More live connections than this between two addresses are not looked at one by one.
const MOST_CONNECTIONS: usize = 10_000;

/// Number of the loopback link in every network namespace.
const LOOPBACK: u32 = 1;

/// A look at the node, for one packet.
#[derive(Debug)]
pub(super) enum Look {
    /// What was seen.
    Seen(Box<Seen>),
    /// The packet cannot be one that this node sends or forwards; the reason in words.
    Impossible(String),
}

/// What there is to know about the packet's way.
#[derive(Debug)]
pub(super) struct Seen {
    /// Whether it is the node's own.
    pub(super) is_host: bool,
    /// What the source is to the node.
    pub(super) source_type: AddressTypes,
    /// What the destination is to the node.
    pub(super) destination_type: AddressTypes,
    /// The link a pod's packet comes in by, by the route back; `None` for the node's own, or without such a route.
    pub(super) input: Option<Link>,
    /// The way out.
    pub(super) route: Result<Route, NoRoute>,
    /// The source that the node itself would use on that way.
    pub(super) preferred_source: Option<IpAddr>,
    /// The address that masquerading picks on that way.
    pub(super) picked: Option<Picked>,
    /// The rules of both stacks.
    pub(super) ruleset: Ruleset,
    /// Live connections from the source to the destination.
    pub(super) connections: Vec<Connection>,
    /// Other live connections between the picked address and the destination, whichever opened them.
    pub(super) others: Vec<Connection>,
    /// What could not be seen of what may have a say, and why.
    pub(super) unseen: Vec<anyhow::Error>,
}

/// Looks at the node of the calling thread.
///
/// # Errors
/// Not even the routes can be read.
pub(super) fn look(options: &ExplainOptions) -> Result<Look> {
    let question = &options.question;
    let (source, destination) = (question.source.address, question.destination.address);
    let mut routes = Routes::open()?;
    let source_type = routes.type_of(source)?;
    let is_host = source_type == AddressTypes::LOCAL;
    if question.is_host && !is_host {
        return Ok(Look::Impossible(format!(
            "{source} is not an address of this node; leave --host out for a pod's packet"
        )));
    }
    let input = if is_host { None } else { input(&mut routes, source)? };
    let flow = Flow {
        source: Some(source),
        input: input.as_ref().map(|link| link.index),
        protocol: question.protocol,
        source_port: question.source.port,
        destination_port: question.destination.port,
        ..Flow::to(destination)
    };
    let route = routes.lookup(flow)?;
    let plain = routes.lookup(Flow { source: None, input: None, ..flow })?;
    let picked = match &route {
        Ok(route) => Some(picked(&mut routes, route, destination)?),
        Err(_) => None,
    };
    let mut reading = foreign::read(&search_path(), &options.masq_chain, Vec::new());
    match options.backend {
        BackendChoice::Auto => {}
        BackendChoice::Nftables => reading.ruleset.disown(Backend::Iptables),
        BackendChoice::Iptables => reading.ruleset.disown(Backend::Nftables),
    }
    // What packets of the other family come upon has no say.
    let is_on_the_way = |unseen: &Unseen| unseen.concerns(Family::of(destination));
    let mut seen = Seen {
        is_host,
        source_type,
        destination_type: routes.type_of(destination)?,
        input,
        preferred_source: preferred_source(&route, plain),
        route,
        picked,
        ruleset: reading.ruleset,
        connections: Vec::new(),
        others: Vec::new(),
        unseen: reading.unseen.into_iter().filter(is_on_the_way).map(|unseen| unseen.error).collect(),
    };
    if let Err(error) = seen.look_at_connections(question) {
        seen.unseen.push(error.context("live connections"));
    }
    Ok(Look::Seen(Box::new(seen)))
}

/// The link by which packets from an address come in, if they come in the way that answers go out.
fn input(routes: &mut Routes, source: IpAddr) -> Result<Option<Link>> {
    let back = routes.lookup(Flow::to(source))?;
    Ok(back.ok().map(|route| route.output))
}

/// What the node itself would use as its source, if its own packets go the same way.
fn preferred_source(route: &Result<Route, NoRoute>, plain: Result<Route, NoRoute>) -> Option<IpAddr> {
    let (route, plain) = (route.as_ref().ok()?, plain.ok()?);
    let is_same_way = (&route.output, route.gateway) == (&plain.output, plain.gateway);
    plain.preferred_source.filter(|_| is_same_way)
}

fn picked(routes: &mut Routes, route: &Route, destination: IpAddr) -> Result<Picked> {
    let addresses = routes.addresses(Family::of(destination))?;
    let next_hop = route.gateway.unwrap_or(destination);
    Ok(select::masquerade(&addresses, route.output.index, next_hop, destination))
}

impl Seen {
    /// Whether the packet comes in and goes no further. What the node does not send and what the kernel routes to the loopback link is for
    /// the node, not only what goes to an address of its own.
    pub(super) fn is_for_node(&self) -> bool {
        let loops_back = self.route.as_ref().is_ok_and(|route| route.output.index == LOOPBACK);
        let is_for_many = matches!(self.destination_type, AddressTypes::BROADCAST | AddressTypes::MULTICAST);
        !self.is_host && (self.destination_type == AddressTypes::LOCAL || is_for_many && loops_back)
    }

    fn look_at_connections(&mut self, question: &Question) -> Result<()> {
        let mut conntrack = Conntrack::open()?;
        let mut find = |direction, source: IpAddr, destination, wanted: &dyn Fn(&Connection) -> bool| {
            let protocol = question.protocol;
            let filter = TupleFilter { destination, protocol, ..TupleFilter::from(direction, source) };
            conntrack.find(&filter, MOST_CONNECTIONS, wanted).map(|found| found.connections).context("cannot be read")
        };
        let (source, destination) = (question.source.address, question.destination.address);
        let asked = |connection: &Connection| is_asked_about(question, connection);
        self.connections = find(Direction::Original, source, None, &asked)?;
        let Some(address) = self.picked.as_ref().and_then(|picked| picked.address) else { return Ok(()) };
        for direction in [Direction::Original, Direction::Reply] {
            let other = |connection: &Connection| connection.original.source != source;
            self.others.extend(find(direction, destination, Some(address), &other)?);
        }
        Ok(())
    }
}

/// Whether it goes to the destination and has the ports that were asked about, as far as any were. Through a Service it was sent to
/// another address, but the answers come from the endpoint.
fn is_asked_about(question: &Question, connection: &Connection) -> bool {
    let is = |wanted: Option<u16>, found: Option<u16>| wanted.is_none_or(|wanted| found == Some(wanted));
    let Connection { original, reply, .. } = connection;
    let destination = question.destination;
    is(question.source.port, original.source_port)
        && (reply.source == destination.address && is(destination.port, reply.source_port)
            || original.destination == destination.address && is(destination.port, original.destination_port))
}
