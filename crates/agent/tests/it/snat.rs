//! Source ports in use and stale connections: what the sampler sees of real connections, and what the daemon says about it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use ip_masq_agent::lab::{Host, Lab, addresses, source_address};
use ip_masq_agent::snat::sampler::{Sample, Sampler};
use masq::cidr::Family;
use masq::config::{Config, Flags, Parsed, Source};
use masq::outline::Outline;
use masq::policy::Policy;
use nfnetlink::{Conntrack, Statistics};
use serde_json::Value;

use crate::support::agent::{Agent, wait_until};
use crate::support::program::run_in;
use crate::support::scrape::{HTTP, Scraper};

/// Nobody else in the lab uses this port.
const PORT: u16 = 7_100;

/// Often enough that no test waits for it.
const INTERVAL: Duration = Duration::from_millis(10);

/// A host of the lab that a few sockets send to.
struct Receiver {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Receiver {
    fn open(lab: &Lab, family: Family) -> Receiver {
        let address = SocketAddr::new(addresses(family).outside, PORT);
        let socket = lab.namespace(Host::Outside).run(move || UdpSocket::bind(address)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Receiver { socket, address }
    }

    /// How many datagrams have arrived since this was last asked.
    fn count(&self) -> usize {
        let mut buffer = [0; 8];
        (0..1_000)
            .take_while(|_| match self.socket.recv(&mut buffer) {
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                Err(error) => panic!("{error}"),
            })
            .count()
    }
}

/// Opens connections from the pod, with one datagram each.
fn open_connections(lab: &Lab, to: SocketAddr, count: u16) -> Vec<UdpSocket> {
    let source = source_address(Host::Pod, Family::of(to.ip()));
    let open = |_| {
        let port = lab.fresh_port();
        let socket = lab.pod.run(move || UdpSocket::bind((source, port))).unwrap();
        socket.send_to(b"x", to).unwrap();
        socket
    };
    (0..count).map(open).collect()
}

fn statistics(lab: &Lab) -> Statistics {
    lab.node.run(|| Conntrack::open().unwrap().statistics().unwrap())
}

fn entries(lab: &Lab) -> u32 {
    lab.node.run(|| Conntrack::open().unwrap().size().unwrap().entries)
}

/// The findings of `status`, and the sentence of the first.
fn findings(lab: &Lab, flags: &[&str]) -> (Vec<String>, String) {
    let args = [&["status", "--backend=nftables", "-o", "json", "--config", "-"], flags].concat();
    let run = run_in(&lab.node, &args, BEFORE, |_| {});
    let value: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ids = value["findings"].as_array().unwrap().iter().map(|finding| text(&finding["id"])).collect();
    (ids, text(&value["findings"][0]["sentence"]))
}

fn policy(config: &str) -> Option<Arc<Outline>> {
    let source = Source { name: "config".to_owned(), bytes: config.as_bytes().to_vec() };
    let Parsed { config, .. } = Config::parse(&[source], &Flags::default()).unwrap();
    Some(Arc::new(Outline::new(&Policy::new(&config))))
}

/// Waits for a sample that fits.
fn wait_for_sample(sampler: &Sampler, what: &str, fits: impl Fn(&Sample) -> bool) -> Arc<Sample> {
    let mut found = None;
    wait_until(what, || {
        found = sampler.latest().filter(|sample| fits(sample));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_range_of_four_ports_takes_four_connections_to_a_destination_and_the_daemon_warns_once() {
    for family in Family::ALL {
        let lab = Lab::open().unwrap();
        let receiver = Receiver::open(&lab, family);
        let args = ["--to-ports=4000-4003", "--enable-ipv6", "--conntrack-interval=1"];
        let agent = Agent::start_ready(&lab.node, &args, None);
        let before = statistics(&lab);
        let sockets = open_connections(&lab, receiver.address, 6);
        let mut arrived = 0;
        wait_until("four of six connections at the receiver", || {
            arrived += receiver.count();
            arrived == 4
        });
        let after = statistics(&lab);
        let rose_by = |count: fn(&Statistics) -> Option<u64>| count(&after).unwrap() - count(&before).unwrap();
        assert_eq!((rose_by(|it| it.insert_failed), rose_by(|it| it.drop)), (2, 2), "{after:?}");
        let text = format!(
            "SNAT ports nearly used up: udp connections to {} use 4 of the 4 source ports of {}; ",
            receiver.address,
            addresses(family).node_outside
        );
        agent.wait_for_line(&text);
        // Each further packet makes its connection live for a second more, instead of half a minute.
        for setting in ["udp_timeout", "udp_timeout_stream"] {
            lab.node.set_sysctl(timeout(setting), "1").unwrap();
        }
        for socket in &sockets[..4] {
            socket.send_to(b"x", receiver.address).unwrap();
        }
        agent.wait_for_line("less than 70 % are in use again");
        assert_eq!(agent.log().iter().filter(|line| line.contains(&text)).count(), 1, "{:?}", agent.log());
    }
}

fn timeout(setting: &str) -> &'static str {
    match setting {
        "udp_timeout" => "net/netfilter/nf_conntrack_udp_timeout",
        _ => "net/netfilter/nf_conntrack_udp_timeout_stream",
    }
}

#[test]
fn a_sample_tells_the_busiest_destination_and_how_much_of_its_ports_is_in_use() {
    let lab = Lab::open().unwrap();
    let _agent = Agent::start_ready(&lab.node, &["--conntrack-interval=0"], None);
    let sampler = lab.node.run(|| Sampler::start(INTERVAL, "".parse().unwrap())).unwrap();
    sampler.in_force(None);
    assert_eq!(wait_for_sample(&sampler, "a first sample", |_| true).highest_ratio(), 0.0);
    let to = |last: u8| SocketAddr::new(IpAddr::from([198, 51, 100, last]), PORT);
    let _few = open_connections(&lab, to(3), 3);
    let _many = open_connections(&lab, to(2), 7);
    let _exempt = open_connections(&lab, SocketAddr::new([10, 9, 9, 9].into(), PORT), 9);
    wait_until("all connections in the table", || entries(&lab) == 19);
    let sample =
        wait_for_sample(&sampler, "both destinations", |sample| sample.busiest.iter().map(|it| it.used).eq([7, 3]));
    assert_eq!(sample.busiest[0].lane.endpoint(), to(2));
    assert_eq!(sample.busiest[0].lane.translated, addresses(Family::Ipv4).node_outside);
    assert_eq!(sample.highest_ratio(), 7.0 / 64_512.0);
}

#[test]
fn connections_whose_verdict_a_new_policy_reverses_are_stale_until_they_end_or_the_policy_comes_back() {
    let lab = Lab::open().unwrap();
    let _agent = Agent::start_ready(&lab.node, &["--conntrack-interval=0"], Some(BEFORE));
    let (translated, bare) =
        (SocketAddr::new([198, 51, 100, 2].into(), PORT), SocketAddr::new([11, 0, 0, 1].into(), PORT));
    let translated_sockets = open_connections(&lab, translated, 2);
    let _bare_sockets = open_connections(&lab, bare, 1);
    let _unchanged = open_connections(&lab, SocketAddr::new([10, 9, 9, 9].into(), PORT), 1);
    wait_until("all connections in the table", || entries(&lab) == 4);
    let sampler = lab.node.run(|| Sampler::start(INTERVAL, "".parse().unwrap())).unwrap();
    sampler.in_force(policy(BEFORE));
    wait_for_sample(&sampler, "a first sample", |sample| sample.stale == 0 && !sample.busiest.is_empty());
    sampler.in_force(policy(AFTER));
    wait_for_sample(&sampler, "three stale connections", |sample| sample.stale == 3);
    lab.node.set_sysctl(timeout("udp_timeout"), "1").unwrap();
    translated_sockets[0].send_to(b"x", translated).unwrap();
    wait_for_sample(&sampler, "one of them to end", |sample| sample.stale == 2);
    sampler.in_force(policy(BEFORE));
    wait_for_sample(&sampler, "none after the change was taken back", |sample| sample.stale == 0);
}

const BEFORE: &str = "nonMasqueradeCIDRs: [10.0.0.0/8, 11.0.0.0/8]\n";
const AFTER: &str = "nonMasqueradeCIDRs: [10.0.0.0/8, 198.51.100.0/24]\n";

#[test]
fn status_tells_of_a_destination_with_few_ports_left_and_of_none_with_enough() {
    let lab = Lab::open().unwrap();
    let flags = ["--to-ports=4000-4004"];
    let _agent = Agent::start_ready(&lab.node, &flags, Some(BEFORE));
    let to = SocketAddr::new([198, 51, 100, 2].into(), PORT);
    let _sockets = open_connections(&lab, to, 3);
    let _others = open_connections(&lab, SocketAddr::new([198, 51, 100, 3].into(), PORT), 3);
    wait_until("six connections in the table", || entries(&lab) == 6);
    assert_eq!(findings(&lab, &flags).0, [""; 0]);
    let _one_more = open_connections(&lab, to, 1);
    wait_until("one more", || entries(&lab) == 7);
    let (ids, sentence) = findings(&lab, &flags);
    assert_eq!(ids, ["snat-ports-nearly-used-up"]);
    let figures = "udp connections to 198.51.100.2:7100 use 4 of the 5 source ports of 198.51.100.1; once";
    assert!(sentence.starts_with(figures), "{sentence}");
}

#[test]
fn the_daemon_serves_what_was_sampled_and_looks_at_no_connection_for_whoever_asks() {
    for (interval, wanted) in [("--conntrack-interval=1", Some(0.8)), ("--conntrack-interval=0", None)] {
        let lab = Lab::open().unwrap();
        let args = ["--to-ports=4000-4004", interval, HTTP];
        let agent = Agent::start_ready(&lab.node, &args, Some(BEFORE));
        let _sockets = open_connections(&lab, SocketAddr::new([198, 51, 100, 2].into(), PORT), 4);
        wait_until("four connections in the table", || entries(&lab) == 4);
        let scraper = Scraper::new(&lab.node);
        agent.wait_until("the share of the ports", || scraper.value("snat_port_utilization_ratio") == wanted);
        let page = scraper.get("/statusz?format=json").body;
        assert_eq!(page.contains("snat-ports-nearly-used-up"), wanted.is_some(), "{page}");
        agent.write_config(AFTER);
        let stale = wanted.map(|_| 4.0);
        agent.wait_until("stale connections", || scraper.value("stale_connections") == stale);
    }
}

#[test]
fn the_daemon_says_how_many_connections_a_change_of_the_config_left_stale() {
    let lab = Lab::open().unwrap();
    let agent = Agent::start_ready(&lab.node, &["--conntrack-interval=1"], Some(BEFORE));
    let _translated = open_connections(&lab, SocketAddr::new([198, 51, 100, 2].into(), PORT), 2);
    let _bare = open_connections(&lab, SocketAddr::new([11, 0, 0, 1].into(), PORT), 1);
    wait_until("all connections in the table", || entries(&lab) == 3);
    agent.write_config(AFTER);
    agent.wait_for_line("2 masqueraded that are exempt now, 1 not masqueraded that would be now");
}
