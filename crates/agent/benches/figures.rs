//! The figures of the README's table: how long from a cause to the rules in force, and what the daemon costs meanwhile.
//!
//! Everything runs in private namespaces, with the program as built for release. A figure is the median of its samples; the
//! moment of "in force" is when the kernel's notice of the last transaction arrived after which the table was as wanted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is how a benchmark ends")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ip_masq_agent::backend::Look;
use ip_masq_agent::backend::nftables::Nftables;
use ip_masq_agent::backend::nftables::desired::Desired;
use ip_masq_agent::backend::nftables::plan::Plan;
use ip_masq_agent::lab::link::Rtnetlink;
use ip_masq_agent::lab::namespace::Namespace;
use ip_masq_agent::snat;
use masq::config::{Config, Flags, Source};
use masq::policy::Policy;
use masq::ports::PortRanges;
use nfnetlink::{Conntrack, Event, Generation, Monitor};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const SAMPLES: usize = 50;
const PATIENCE: Duration = Duration::from_secs(60);
/// After so long without a notice whatever was going on is over.
const SILENCE: Duration = Duration::from_millis(60);
/// The same with 100,000 elements, whose transactions take longer.
const SILENCE_OF_MANY: Duration = Duration::from_millis(1_000);
const IDLE: Duration = Duration::from_secs(30);

fn main() {
    let scratch = Scratch::new();
    println!("release binary: {:.2} MB", fs::metadata(program()).unwrap().len() as f64 / 1e6);
    let parts: [(&str, Part); 7] = [
        ("start", start),
        ("change", file_change),
        ("heal", heals),
        ("idle", idle),
        ("scrape", scrapes),
        ("connections", connections),
        ("100000", hundred_thousand),
    ];
    // `cargo bench -- heal` measures one part; cargo adds a word of its own.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            part(&scratch);
        }
    }
}

/// One of the things to measure.
type Part = fn(&Scratch);

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_ip-masq-agent")
}

/// From starting the process to rules in force, without a config file.
fn start(scratch: &Scratch) {
    let desired = desired("");
    let samples = (0..SAMPLES).map(|_| {
        let node = Namespace::open("node").unwrap();
        let mut watch = Watch::open(&node);
        let began = Instant::now();
        let _agent = Agent::spawn(&node, &scratch.0.join("missing"));
        watch.wait_in_force(&desired) - began
    });
    report("start to rules", samples.collect());
}

/// From renaming a new file into place to its policy in force.
fn file_change(scratch: &Scratch) {
    let node = Namespace::open("node").unwrap();
    let path = scratch.0.join("ip-masq-agent");
    let mut watch = Watch::open(&node);
    let _agent = Agent::spawn(&node, &path);
    watch.wait_in_force(&desired(""));
    let samples = (0..SAMPLES).map(|n| {
        let text = format!("nonMasqueradeCIDRs: [10.0.0.0/8, 11.{n}.0.0/16]\n");
        let wanted = desired(&text);
        let fresh = scratch.0.join("fresh");
        fs::write(&fresh, text).unwrap();
        let began = Instant::now();
        fs::rename(&fresh, &path).unwrap();
        watch.wait_in_force(&wanted) - began
    });
    report("file change to kernel", samples.collect());
    fs::remove_file(path).unwrap();
}

/// From a stranger's transaction to the policy in force again.
fn heals(scratch: &Scratch) {
    for (name, commands) in [
        ("nft flush ruleset", "flush ruleset"),
        ("deleted table", "delete table inet ip-masq-agent"),
        ("deleted chain", "flush chain inet ip-masq-agent postrouting; delete chain inet ip-masq-agent postrouting"),
        ("flushed chain", "flush chain inet ip-masq-agent postrouting"),
        ("deleted element", "delete element inet ip-masq-agent exempt-ipv4 { 10.0.0.0/8 }"),
        ("inserted rule", "insert rule inet ip-masq-agent postrouting masquerade"),
    ] {
        let node = Namespace::open("node").unwrap();
        let wanted = desired("");
        let mut watch = Watch::open(&node);
        let _agent = Agent::spawn(&node, &scratch.0.join("missing"));
        watch.wait_in_force(&wanted);
        let samples = (0..SAMPLES).map(|_| {
            let nft = node.run(move || Command::new("nft").arg(commands).spawn().unwrap());
            // The stranger's own notice is the moment of the damage: how long nft takes to end is not the agent's time.
            let damaged = watch.wait_for_transaction();
            let healed = watch.wait_in_force(&wanted);
            wait(nft);
            healed - damaged
        });
        report(&format!("healed: {name}"), samples.collect());
    }
}

/// What the daemon costs while nothing happens.
fn idle(scratch: &Scratch) {
    let node = Namespace::open("node").unwrap();
    let mut watch = Watch::open(&node);
    let agent = Agent::spawn(&node, &scratch.0.join("missing"));
    watch.wait_in_force(&desired(""));
    let before = (watch.generation(), agent.switches(), agent.cpu_ticks());
    std::thread::sleep(IDLE);
    let after = (watch.generation(), agent.switches(), agent.cpu_ticks());
    println!(
        "idle for {IDLE:?}: {} transactions, {} wake-ups, {} CPU ticks of 10 ms",
        after.0.wrapping_sub(before.0),
        after.1 - before.1,
        after.2 - before.2
    );
    println!("resident: {} kB now, {} kB at most", agent.status("VmRSS:"), agent.status("VmHWM:"));
}

/// Reading the metrics, and what is left of 100,000 readings.
fn scrapes(scratch: &Scratch) {
    let node = Namespace::open("node").unwrap();
    let mut watch = Watch::open(&node);
    let agent = Agent::spawn(&node, &scratch.0.join("missing"));
    watch.wait_in_force(&desired(""));
    let stream = node.run(|| {
        Rtnetlink::open().unwrap().set_up("lo").unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, 10268)).unwrap()
    });
    let mut stream = BufReader::new(stream);
    let mut scrape = || {
        let began = Instant::now();
        stream.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            length = line.strip_prefix("Content-Length: ").map_or(length, |text| text.trim().parse().unwrap());
        }
        stream.read_exact(&mut vec![0; length]).unwrap();
        began.elapsed()
    };
    report("scrape", (0..1_000).map(|_| scrape()).collect());
    let before = agent.status("VmRSS:");
    for _ in 0..100_000 {
        scrape();
    }
    println!("resident: {before} kB became {} kB with 100,000 scrapes", agent.status("VmRSS:"));
}

/// What a look at a table full of translated connections takes, which the daemon takes at most a hundredth of the time for.
fn connections(_: &Scratch) {
    const CONNECTIONS: u32 = 250_000;
    let node = Namespace::open("node").unwrap();
    // So that the first is still there when the last is made.
    node.set_sysctl("net/netfilter/nf_conntrack_udp_timeout", "900").unwrap();
    node.run(|| {
        Rtnetlink::open().unwrap().set_up("lo").unwrap();
        let rules = "add table ip t; add chain ip t post { type nat hook postrouting priority 100; }; \
                     add rule ip t post ip saddr 127.0.0.2 meta l4proto udp snat to 127.0.0.3";
        wait(Command::new("nft").arg(rules).spawn().unwrap());
        let receiver = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let sender = UdpSocket::bind("127.0.0.2:0").unwrap();
        // Every address of 127.0.0.0/8 is the node's own.
        for place in 0..CONNECTIONS {
            sender.send_to(b"x", (Ipv4Addr::from_bits(0x7f01_0000 + place), port)).unwrap();
        }
        let mut conntrack = Conntrack::open().unwrap();
        let entries = conntrack.size().unwrap().entries;
        let mut look = || {
            let began = Instant::now();
            let busiest = snat::look(&mut conntrack, &PortRanges::default(), 32, PATIENCE).unwrap();
            assert_eq!(busiest.len(), 32);
            began.elapsed()
        };
        report(&format!("{entries} connections: ports in use"), (0..20).map(|_| look()).collect());
    });
}

/// 100,000 CIDRs: replacing them all against `nft -f`, and changing one among them.
fn hundred_thousand(scratch: &Scratch) {
    let list = |offset: u32, extra: &str| {
        let mut text = format!("cidrLimit: 200000\nnonMasqueradeCIDRs:\n{extra}");
        for n in 0..100_000_u32 {
            // Every other /24, so that no two are neighbours and nothing can be joined.
            let block = (11 << 16) + 2 * n + offset;
            writeln!(text, "- {}.{}.{}.0/24", block >> 16, (block >> 8) & 255, block & 255).unwrap();
        }
        text
    };
    let path = scratch.0.join("ip-masq-agent");
    let node = Namespace::open("node").unwrap();
    // Whoever listens makes the kernel write a notice of each element, so here the generation is asked for instead.
    let mut table = node.run(|| Nftables::open().unwrap());
    fs::write(&path, list(0, "")).unwrap();
    let before = table.generation().unwrap();
    let agent = Agent::spawn(&node, &path);
    ask_until_in_force(&mut table, before, &desired(&list(0, "")));
    let mut change = |text: &str| {
        let wanted = desired(text);
        let fresh = scratch.0.join("fresh");
        fs::write(&fresh, text).unwrap();
        let (before, began) = (table.generation().unwrap(), Instant::now());
        fs::rename(&fresh, &path).unwrap();
        ask_until_in_force(&mut table, before, &wanted) - began
    };
    report("100,000 CIDRs: all replaced, from the file", (0..6).map(|n| change(&list((n + 1) % 2, ""))).collect());
    let one = (0..10).map(|n| change(&list(0, if n % 2 == 0 { "- 9.9.9.0/24\n" } else { "" })));
    report("100,000 CIDRs: one changed, from the file", one.collect());
    println!("resident with 100,000 CIDRs: {} kB now, {} kB at most", agent.status("VmRSS:"), agent.status("VmHWM:"));
    drop(agent);
    hundred_thousand_against_nft(scratch, &node, &mut table, &[list(0, ""), list(1, "")]);
}

/// The same replacement by the backend alone and by `nft -f`, neither of which reads a config.
fn hundred_thousand_against_nft(scratch: &Scratch, node: &Namespace, table: &mut Nftables, lists: &[String; 2]) {
    let wanted = lists.each_ref().map(|list| desired(list));
    let timed = |work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    let samples =
        (0..6).map(|n| timed(&mut || drop(table.reconcile_with(&wanted[n % 2], Look::IfChanged, |_| {}).unwrap())));
    report("100,000 CIDRs: all replaced by the backend", samples.skip(1).collect());
    let near = desired(&format!("{}- 9.9.9.0/24\n", lists[1]));
    let samples = (0..10).map(|n| {
        let wanted = if n % 2 == 0 { &near } else { &wanted[1] };
        timed(&mut || drop(table.reconcile_with(wanted, Look::IfChanged, |_| {}).unwrap()))
    });
    report("100,000 CIDRs: one changed by the backend", samples.collect());
    let samples = (0..4).map(|n| {
        let plan = Plan::new(&wanted[n % 2], &Default::default());
        let load: String = plan.transactions().map(ToString::to_string).collect();
        let file = scratch.0.join("ruleset");
        fs::write(&file, format!("add table inet ip-masq-agent\ndelete table inet ip-masq-agent\n{load}")).unwrap();
        timed(&mut || {
            let file = file.clone();
            wait(node.run(move || Command::new("nft").arg("-f").arg(file).spawn().unwrap()));
        })
    });
    report("100,000 CIDRs: all replaced by nft -f", samples.collect());
}

/// The moment of the last transaction after the generation `before`, to the millisecond, before a silence in which the table was as
/// wanted. It is not looked at while transactions come: what is read then may be a mixture, and reading takes the agent's processor.
fn ask_until_in_force(table: &mut Nftables, before: Generation, desired: &Desired) -> Instant {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut moment) = (before, None);
    loop {
        let generation = table.generation().unwrap();
        if generation != last {
            (last, moment) = (generation, Some(Instant::now()));
        }
        if let Some(moment) = moment.filter(|moment| moment.elapsed() > SILENCE_OF_MANY)
            && is_in_force(table, desired)
        {
            return moment;
        }
        assert!(Instant::now() < deadline, "not in force within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_in_force(table: &mut Nftables, desired: &Desired) -> bool {
    table.observe().is_ok_and(|(observed, _)| Plan::new(desired, &observed).is_in_sync())
}

fn desired(text: &str) -> Desired {
    let source = Source { name: "config".to_owned(), bytes: text.into() };
    Desired::new(&Policy::new(&Config::parse(&[source], &Flags::default()).unwrap().config), false)
}

fn report(name: &str, mut samples: Vec<Duration>) {
    samples.sort();
    let millis = |index: usize| samples[index].as_secs_f64() * 1e3;
    let last = samples.len() - 1;
    println!(
        "{name}: median {:.2} ms (min {:.2}, max {:.2}, n {})",
        millis(last / 2),
        millis(0),
        millis(last),
        last + 1
    );
}

fn wait(mut child: Child) {
    assert!(child.wait().unwrap().success());
}

/// The daemon as a plain child, killed at the end.
struct Agent(Child);

impl Agent {
    fn spawn(node: &Namespace, config: &Path) -> Agent {
        let config = config.to_owned();
        Agent(node.run(move || {
            let mut command = Command::new(program());
            command.arg("--backend=nftables").arg("--config").arg(config).stderr(Stdio::null());
            command.spawn().unwrap()
        }))
    }

    fn status(&self, field: &str) -> u64 {
        number(&Path::new("/proc").join(self.0.id().to_string()).join("status"), field)
    }

    /// How often its threads have gone to sleep.
    fn switches(&self) -> u64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        threads.map(|thread| number(&thread.unwrap().path().join("status"), "voluntary_ctxt_switches:")).sum()
    }

    /// User and system time.
    fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let behind_name = stat.rsplit_once(')').unwrap().1;
        behind_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    }
}

/// The number behind a field of a `status` file.
fn number(status: &Path, field: &str) -> u64 {
    let status = fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The kernel's notices in the node, and the means to see what they led to.
struct Watch {
    monitor: Monitor,
    table: Nftables,
}

impl Watch {
    fn open(node: &Namespace) -> Watch {
        node.run(|| Watch { monitor: Monitor::open().unwrap(), table: Nftables::open().unwrap() })
    }

    /// The moment of the next notice.
    fn wait_for_transaction(&mut self) -> Instant {
        self.wait_for_notice(PATIENCE).expect("a transaction comes within a minute")
    }

    /// The moment of the last notice before a silence in which the table was as wanted. It is not looked at before: looking would
    /// take the processor that the agent needs.
    fn wait_in_force(&mut self, desired: &Desired) -> Instant {
        loop {
            let mut moment = self.wait_for_transaction();
            while let Some(later) = self.wait_for_notice(SILENCE) {
                moment = later;
            }
            if is_in_force(&mut self.table, desired) {
                return moment;
            }
        }
    }

    fn wait_for_notice(&mut self, patience: Duration) -> Option<Instant> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(Event::Generation { .. }) = self.monitor.next_event().unwrap() {
                return Some(Instant::now());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let timeout = PollTimeout::try_from(left).unwrap();
            poll(&mut [PollFd::new(self.monitor.as_fd(), PollFlags::POLLIN)], timeout).unwrap();
        }
    }

    fn generation(&mut self) -> u32 {
        self.table.observe().unwrap().1.0
    }
}

/// A directory of this run's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let path = std::env::temp_dir().join(format!("ip-masq-agent-figures-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing to be done about a directory that somebody else has removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}
