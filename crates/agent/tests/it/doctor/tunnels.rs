//! Tunnels that end on the node: whose packets are seen to leave from another source, may do so, or do not.

use std::net::UdpSocket;

use ip_masq_agent::lab::{Lab, NODE_SECOND_ADDRESS};
use serde_json::Value;

use crate::support::agent::Agent;
use crate::support::applied::DEFAULTS;
use crate::support::program::run_in;

/// An agent's node with sockets that stay open.
struct Node {
    lab: Lab,
    flags: Vec<&'static str>,
    _agent: Agent,
    sockets: Vec<UdpSocket>,
}

impl Node {
    fn new(flags: &[&'static str]) -> Node {
        let lab = Lab::open().unwrap();
        let flags = [&["--backend=nftables"], flags].concat();
        let agent = Agent::start_ready(&lab.node, &flags, Some(DEFAULTS));
        Node { lab, flags, _agent: agent, sockets: Vec::new() }
    }

    /// Listens on an address.
    fn listen(mut self, local: &'static str) -> Node {
        self.sockets.push(self.lab.node.run(move || UdpSocket::bind(local).unwrap()));
        self
    }

    /// Sends a packet from the last socket.
    fn send(self, peer: &str) -> Node {
        self.sockets.last().unwrap().send_to(b"x", peer).unwrap();
        self
    }

    /// The exit status, and id, severity and sentence of each finding.
    fn look(&self) -> (Option<i32>, Vec<[String; 3]>) {
        let args = [&["status", "--config", "-", "-o", "json"], self.flags.as_slice()].concat();
        let run = run_in(&self.lab.node, &args, DEFAULTS, |_| {});
        let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let findings = value["findings"].as_array().unwrap().iter();
        (run.status, findings.map(|it| [text(&it["id"]), text(&it["severity"]), text(&it["sentence"])]).collect())
    }

    /// Asserts that no more than one thing is found, and answers its sentence.
    #[track_caller]
    fn expect(&self, status: i32, finding: Option<(&str, &str)>) -> String {
        let (found_status, found) = self.look();
        let found_words: Vec<_> = found.iter().map(|[id, severity, _]| (id.as_str(), severity.as_str())).collect();
        assert_eq!((found_status, found_words), (Some(status), finding.into_iter().collect()), "{found:?}");
        found.into_iter().map(|[_, _, sentence]| sentence).collect()
    }
}

#[test]
fn a_tunnel_whose_packets_leave_from_another_port_is_a_warning() {
    for (local, peer, name) in [
        ("198.51.100.1:51820", "8.8.8.8:51820", "WireGuard"),
        ("0.0.0.0:4500", "8.8.8.8:4500", "IKE"),
        ("[::]:51820", "[::ffff:8.8.8.8]:7000", "WireGuard"),
    ] {
        let text = Node::new(&[]).listen(local).send(peer).expect(1, Some(("tunnel-translated", "warning")));
        assert!(text.contains(name) && text.contains(" to 8.8.8.8:") && text.contains(" as 198.51.100.1:"), "{text}");
    }
}

#[test]
fn a_tunnel_whose_packets_leave_from_another_address_is_a_warning() {
    let local: &'static str = Box::leak(format!("{NODE_SECOND_ADDRESS}:8472").into_boxed_str());
    let text = Node::new(&[]).listen(local).send("8.8.8.8:8472").expect(1, Some(("tunnel-translated", "warning")));
    assert!(text.contains("VXLAN") && text.contains("198.51.100.9:8472 to 8.8.8.8:8472 as 198.51.100.1:"), "{text}");
}

#[test]
fn a_tunnel_that_nobody_was_seen_to_use_is_a_note_if_its_port_would_change() {
    let text = Node::new(&[]).listen("0.0.0.0:51820").expect(0, Some(("tunnel-translated", "note")));
    assert!(text.contains("UDP port 51820 (WireGuard)"), "{text}");
    Node::new(&["--random-fully=false"]).listen("0.0.0.0:51820").expect(0, None);
}

#[test]
fn tunnels_whose_peers_do_not_mind_and_other_sockets_are_no_finding() {
    // To a peer that is exempt.
    Node::new(&[]).listen("0.0.0.0:51820").send("10.1.2.3:51820").expect(0, None);
    // From the address that masquerading picks, and of VXLAN nobody asks for the port.
    Node::new(&[]).listen("0.0.0.0:8472").send("8.8.8.8:8472").expect(0, None);
    Node::new(&[]).listen("0.0.0.0:8472").expect(0, None);
    // The port is kept where it is free.
    Node::new(&["--random-fully=false"]).listen("198.51.100.1:51820").send("8.8.8.8:51820").expect(0, None);
    // Not a port of tunnels.
    Node::new(&[]).listen("198.51.100.1:40000").send("8.8.8.8:40000").expect(0, None);
}
