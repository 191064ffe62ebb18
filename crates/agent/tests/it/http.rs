//! The HTTP server over real sockets: what it answers, and that nobody keeps others from being answered.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use ip_masq_agent::http::{Request, Response, Status, serve};
use ip_masq_agent::lab::link::Rtnetlink;
use ip_masq_agent::lab::namespace::Namespace;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::support::agent::{Agent, wait_until};
use crate::support::http::Client;
use crate::support::ruleset::{nft, wait_for_exempt};
use crate::support::scrape::{HTTP, Scraper};

/// As the server has it.
const MOST_CONNECTIONS: usize = 64;

/// A namespace in which the server answers at an address.
struct Site {
    namespace: Namespace,
    address: SocketAddr,
}

impl Site {
    fn open(answer: impl Fn(&Request) -> Response + Send + 'static) -> Site {
        let namespace = Namespace::open("http").unwrap();
        let listener = namespace.run(|| {
            Rtnetlink::open().unwrap().set_up("lo").unwrap();
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
        });
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(listener, answer));
        Site { namespace, address }
    }

    fn client(&self) -> Client {
        Client::connect(&self.namespace, self.address)
    }

    fn connect(&self) -> TcpStream {
        let address = self.address;
        self.namespace.run(move || TcpStream::connect(address)).unwrap()
    }

    /// How many connections the server has open, as the kernel counts them.
    fn open_connections(&self) -> usize {
        let table = self.namespace.run(|| fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
        let local = format!(":{:04X}", self.address.port());
        let is_established = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[1].ends_with(&local) && words[3] == "01"
        };
        table.lines().skip(1).filter(is_established).count()
    }
}

fn answer(request: &Request) -> Response {
    match request.path.as_str() {
        "/metrics" => Response::text(Status::Ok, format!("accept={} query={}", request.accept, request.query)),
        _ => Response::not_found(&["/metrics", "/livez"]),
    }
}

/// Lets the tests hold more than the usual 1,024 descriptors, which are no hard limit.
fn allow_many_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

#[test]
fn a_connection_is_kept_for_any_number_of_requests() {
    let site = Site::open(answer);
    let mut client = site.client();
    for number in 0..100 {
        let answer = client.get(&format!("/metrics?{number}"), "Accept: text/plain\r\n");
        assert_eq!((answer.status, answer.body), (200, format!("accept=text/plain query={number}")));
        assert_eq!(answer.fields["content-type"], "text/plain; charset=utf-8");
        assert_eq!(answer.fields["cache-control"], "no-store");
        assert_eq!(answer.fields["x-content-type-options"], "nosniff");
        assert_eq!(answer.fields.get("connection"), None);
    }
}

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let site = Site::open(answer);
    let mut client = site.client();
    client
        .send(&(0..50).map(|number| format!("GET /metrics?{number} HTTP/1.1\r\nHost: a\r\n\r\n")).collect::<String>());
    for number in 0..50 {
        assert_eq!(client.answer().body, format!("accept= query={number}"));
    }
}

#[test]
fn an_unknown_path_is_answered_with_the_known_ones() {
    let answer = Site::open(answer).client().get("/", "");
    assert_eq!(answer.status, 404);
    assert!(answer.body.ends_with("\n/metrics\n/livez\n"), "{}", answer.body);
}

#[test]
fn a_client_that_sends_what_is_not_wanted_can_read_why_and_is_left() {
    let site = Site::open(answer);
    let body = "x".repeat(30_000);
    for (request, status) in [
        (format!("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n{body}"), 405),
        (format!("GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n{body}"), 413),
        (format!("GET /{body} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {body}\r\n\r\n"), 431),
        ("GET / HTTP/3.0\r\n\r\n".to_owned(), 505),
        ("\u{16}\u{3}\u{1}".to_owned(), 400),
    ] {
        let mut client = site.client();
        client.send(&request);
        let answer = client.answer();
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.fields["connection"], "close");
        assert_eq!(answer.fields.get("allow").map(String::as_str), (status == 405).then_some("GET, HEAD"));
        assert_eq!(client.rest(), "");
    }
}

#[test]
fn head_and_http_1_0_are_answered() {
    let site = Site::open(answer);
    let mut client = site.client();
    client.send("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    let (status, fields) = client.head();
    assert_eq!((status, fields["content-length"].as_str()), (200, "14"));
    client.send("GET /metrics HTTP/1.0\n\n");
    assert_eq!(client.answer().body, "accept= query=");
    assert_eq!(client.rest(), "", "and that was the last");
}

#[test]
fn a_thousand_idle_connections_and_a_flood_of_half_requests_keep_nobody_out() {
    let site = Site::open(answer);
    allow_many_descriptors();
    let mut regular = Vec::new();
    for round in 0..4 {
        let idle: Vec<TcpStream> = (0..250).map(|_| site.connect()).collect();
        let half: Vec<Client> = (0..100)
            .map(|_| {
                let mut client = site.client();
                client.send("GET /metrics HTTP/1.1\r\nHost: ");
                client
            })
            .collect();
        assert_eq!(site.client().get("/metrics", "").status, 200, "round {round}");
        regular.push((idle, half));
    }
    wait_until("the server to keep few connections", || site.open_connections() <= MOST_CONNECTIONS);
    assert_eq!(site.client().get("/metrics", "").status, 200);
}

#[test]
fn a_client_that_never_finishes_its_request_is_told_so_and_keeps_nobody_waiting_until_then() {
    let site = Site::open(answer);
    let (mut slow, over) = (site.client(), Arc::new(AtomicBool::new(false)));
    let others = {
        let (mut other, over) = (site.client(), Arc::clone(&over));
        thread::spawn(move || {
            let mut answered = 0_u32;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(other.get("/metrics", "").status, 200);
                answered += 1;
                thread::yield_now();
            }
            answered
        })
    };
    slow.send("GET /metrics HTTP/1.1\r\n");
    assert_eq!(slow.answer().status, 408);
    assert_eq!(slow.rest(), "");
    over.store(true, Ordering::Relaxed);
    assert!(others.join().unwrap() > 0);
}

#[test]
fn clients_that_do_not_fetch_their_answers_lose_them_before_they_fill_the_memory() {
    const BODY: usize = 8 << 20;
    let site = Site::open(|request| match request.path.as_str() {
        "/large" => Response::text(Status::Ok, vec![b'x'; BODY]),
        _ => answer(request),
    });
    let greedy: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = site.client();
            client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    wait_until("all but the last to be given up", || site.open_connections() <= 1);
    assert_eq!(site.client().get("/metrics", "").status, 200);
    drop(greedy);
    assert_eq!(site.client().get("/large", "").body.len(), BODY, "one that fetches it gets it");
}

#[test]
fn an_agent_without_free_descriptors_answers_whoever_comes_next() {
    let node = Namespace::open("node").unwrap();
    let scraper = Scraper::new(&node);
    let agent = Agent::start_ready(&node, &[HTTP], None);
    assert_eq!(scraper.get("/livez").status, 200);
    let descriptors = fs::read_dir(format!("/proc/{}/fd", agent.pid())).unwrap();
    let highest = descriptors.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap()).max();
    // Room for one connection, or two.
    let limit = format!("--nofile={}", highest.unwrap() + 2);
    let limited = Command::new("prlimit").args(["--pid", &agent.pid().to_string(), &limit]).status().unwrap();
    assert!(limited.success());
    let mut idle = Vec::new();
    for round in 0..5 {
        idle.extend((0..4).map(|_| scraper.client()));
        assert_eq!(scraper.get("/livez").status, 200, "round {round}");
    }
}

#[test]
fn clients_that_hang_on_by_the_hundred_do_not_keep_the_agent_from_its_work() {
    let node = Namespace::open("node").unwrap();
    let scraper = Scraper::new(&node);
    let agent = Agent::start_ready(&node, &[HTTP], Some("nonMasqueradeCIDRs: [10.0.0.0/8]\n"));
    allow_many_descriptors();
    let mut hanging = Vec::new();
    for block in 11..15_u8 {
        hanging.extend((0..150).map(|number| {
            let mut client = scraper.client();
            client.send(if number % 3 == 0 { "GET /metrics HTTP/1.1\r\nHost: " } else { "" });
            client
        }));
        agent.write_config(&format!("nonMasqueradeCIDRs: [{block}.0.0.0/8]\n"));
        wait_for_exempt(&node, &[&format!("{block}.0.0.0-{block}.255.255.255"), "169.254.0.0-169.254.255.255"]);
        nft(&node, "flush chain inet ip-masq-agent postrouting");
        let heals = f64::from(block) - 10.0;
        agent.wait_until("the flush to be healed and counted", || {
            scraper.value("drifts_total{kind=\"rule\"}").is_some_and(|rules| rules >= heals)
        });
        // Drift is counted a moment before the pass that healed it is over.
        scraper.wait_for("/readyz", 200, "[+]kernel: holds the policy");
    }
}
