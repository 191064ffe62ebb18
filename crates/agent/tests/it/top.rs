//! `top` of the built program: its figures against real connections, and its manners in a real terminal.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};

use ip_masq_agent::lab::{Host, Lab, addresses, source_address};
use masq::cidr::Family;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::agent::{Agent, program, wait_until};
use crate::support::program::{Run, run_in, run_powerless};
use crate::support::terminal::Terminal;

/// A node with a few connections of the pod, two to one destination and one to another, in each family.
struct Node {
    lab: Lab,
    _agent: Agent,
    sockets: Vec<UdpSocket>,
}

const FLAGS: [&str; 3] = ["--enable-ipv6", "--to-ports=4000-4003", "--config=-"];
const PORTS: [u16; 3] = [7_100, 7_100, 7_200];

impl Node {
    fn new() -> Node {
        let lab = Lab::open().unwrap();
        let agent = Agent::start_ready(&lab.node, &["--enable-ipv6", "--to-ports=4000-4003"], None);
        let mut node = Node { lab, _agent: agent, sockets: Vec::new() };
        for family in Family::ALL {
            PORTS.iter().for_each(|&port| node.connect(family, port));
        }
        node
    }

    /// Opens a connection from the pod to a port outside.
    fn connect(&mut self, family: Family, port: u16) {
        let to = SocketAddr::new(addresses(family).outside, port);
        let from = SocketAddr::new(source_address(Host::Pod, family), self.lab.fresh_port());
        let socket = self.lab.pod.run(move || UdpSocket::bind(from)).unwrap();
        socket.send_to(b"x", to).unwrap();
        self.sockets.push(socket);
    }

    fn run(&self, args: &[&str]) -> Run {
        run_in(&self.lab.node, &[&["top"], FLAGS.as_slice(), args].concat(), "", |_| {})
    }

    fn terminal(&self, size: (u16, u16)) -> Terminal {
        // The config is not read from a terminal.
        Terminal::start(&self.lab.node, &["top", "--enable-ipv6", "--to-ports=4000-4003", "--interval=1"], size)
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn one_table_tells_the_ports_in_use_of_each_destination_and_family() {
    let node = Node::new();
    let run = node.run(&["--once", "--interval=1"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let rows: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let row =
        |destination: &str| rows.iter().find(|row| row.contains(&destination)).unwrap_or_else(|| panic!("{run:?}"));
    assert_eq!(row("198.51.100.2:7100"), &["2", "4", "50", "0.0", "udp", "198.51.100.2:7100", "198.51.100.1"]);
    assert_eq!(row("198.51.100.2:7200")[..3], ["1", "4", "25"]);
    assert_eq!(row("[2001:db8:1::2]:7100")[..3], ["2", "4", "50"]);
    assert!(run.stdout.contains("translated 6, new/s 0.0"), "{run:?}");
}

#[test]
fn by_source_the_pods_connections_are_counted() {
    let run = Node::new().run(&["--once", "--interval=1", "--by=source", "--sort=name"]);
    let sources: Vec<&str> = run.stdout.lines().rev().take(2).collect();
    assert!(sources[0].ends_with("fd00:244::2") && sources[0].trim_start().starts_with("3 "), "{run:?}");
    assert!(sources[1].ends_with("10.244.0.2") && sources[1].trim_start().starts_with("3 "), "{run:?}");
}

#[test]
fn a_destination_with_hardly_a_port_left_is_something_to_report() {
    let mut node = Node::new();
    for _ in 0..2 {
        node.connect(Family::Ipv4, 7_200);
    }
    assert_eq!(node.run(&["--once", "--interval=1"]).status, Some(0));
    node.connect(Family::Ipv4, 7_200);
    let run = node.run(&["--once", "--interval=1", "-o", "json"]);
    assert_eq!(run.status, Some(1), "{run:?}");
    let seen = value(&run.stdout);
    let busiest = &seen["destinations"][0];
    assert_eq!(busiest["ratio"], 1.0);
    assert_eq!((&busiest["used"], &busiest["usable"], &busiest["port"]), (&4.into(), &4.into(), &7_200.into()));
}

#[test]
fn the_stream_has_a_document_per_line_with_what_is_new_and_ends_when_nobody_reads_it() {
    let mut node = Node::new();
    let mut command = Command::new(program());
    command.args(["top", "-o", "json", "--interval=1"]).args(FLAGS).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = node.lab.node.run(move || command.spawn()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| value(&line.unwrap()));
    let first = lines.next().unwrap();
    assert_eq!((&first["translated"], &first["newPerSecond"]), (&6.into(), &Value::Null));
    node.connect(Family::Ipv4, 7_300);
    let second = lines.next().unwrap();
    assert_eq!(second["translated"], 7);
    let new = |value: &Value| value["newPerSecond"].as_f64().unwrap();
    assert!(new(&second) > 0.0, "{second}");
    let with_new = second["destinations"].as_array().unwrap().iter().filter(|it| new(it) > 0.0);
    assert_eq!(with_new.map(|it| it["port"].as_u64().unwrap()).collect::<Vec<_>>(), [7_300]);
    drop(lines);
    let mut status = None;
    wait_until("the end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());
}

#[test]
fn without_the_capability_it_says_so_and_ends_with_status_3() {
    let lab = Lab::open().unwrap();
    let run = run_powerless(&lab.node, &["top", "--once"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(3), ""));
    assert!(run.stderr.contains("CAP_NET_ADMIN"), "{run:?}");
}

#[test]
fn without_a_terminal_it_shows_one_table() {
    let run = Node::new().run(&["--interval=1"]);
    assert_eq!(run.status, Some(0));
    assert!(run.stdout.contains("DESTINATION") && !run.stdout.contains('\u{1b}'), "{run:?}");
}

#[test]
fn in_a_terminal_keys_choose_what_is_shown_and_q_gives_the_terminal_back() {
    let mut node = Node::new();
    let mut terminal = node.terminal((100, 24));
    let shown = terminal.wait_for("q quit");
    assert!(shown.contains("[d destinations] s sources  sort: [u used]"), "{shown}");
    terminal.wait_for("198.51.100.2:7200");
    assert!(!terminal.is_as_before(), "keys are taken one by one while it runs");
    terminal.press(b's');
    terminal.wait_for("[s sources]");
    terminal.wait_for("fd00:244::2");
    terminal.press(b'a');
    terminal.wait_for("[a name]");
    terminal.press(b'd');
    terminal.wait_for("[d destinations]");
    terminal.press(b'n');
    terminal.wait_for("[n new]");
    node.connect(Family::Ipv4, 7_400);
    terminal.wait_for("198.51.100.2:7400");
    terminal.press(b'q');
    let (status, shown) = terminal.wait_for_exit();
    assert!(status.success(), "{status}");
    assert!(terminal.is_as_before());
    assert!(shown.contains(LEFT_SCREEN) && shown.contains(SHOWN_CURSOR), "{shown:?}");
}

const LEFT_SCREEN: &str = "\u{1b}[?1049l";
const SHOWN_CURSOR: &str = "\u{1b}[?25h";

#[test]
fn signals_and_control_c_end_it_and_give_the_terminal_back() {
    let node = Node::new();
    let end_by = |end: &dyn Fn(&mut Terminal)| {
        let mut terminal = node.terminal((80, 24));
        terminal.wait_for("q quit");
        end(&mut terminal);
        let (status, shown) = terminal.wait_for_exit();
        assert!(status.success() && terminal.is_as_before(), "{status}");
        assert!(shown.contains(LEFT_SCREEN) && shown.contains(SHOWN_CURSOR), "{shown:?}");
    };
    end_by(&|terminal| terminal.press(3));
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP] {
        end_by(&|terminal| terminal.signal(signal));
    }
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let mut terminal = Node::new().terminal((80, 24));
    terminal.wait_for("q quit");
    terminal.hang_up();
    let (status, _) = terminal.wait_for_exit();
    assert!(status.success(), "{status}");
}

#[test]
fn a_window_of_any_size_is_filled_and_not_overrun() {
    let node = Node::new();
    for size in [(1, 1), (2, 40), (200, 1), (30, 6)] {
        let mut terminal = node.terminal(size);
        terminal.wait_for("C");
        terminal.resize(100, 24);
        terminal.wait_for("198.51.100.2:7200");
        terminal.resize(3, 2);
        terminal.wait_for("Fai");
        terminal.press(b'q');
        let (status, _) = terminal.wait_for_exit();
        assert!(status.success() && terminal.is_as_before(), "{size:?}: {status}");
    }
}
