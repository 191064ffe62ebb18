//! A flood of first packets to exempt and to masqueraded destinations at once, and how each was treated.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ip_masq_agent::lab::{Host, Lab, addresses, source_address};
use masq::cidr::{Cidr, Family};
use nfnetlink::{BaseChain, Batch, Chain, ProtocolFamily, Socket, Table};
use nix::sys::socket::{setsockopt, sockopt};

use super::agent::wait_until;

/// The receiver's port; the probes of the lab have another.
const PORT: u16 = 7100;

/// Datagrams under way at once: far fewer than the smallest receive buffer holds.
const WINDOW: u64 = 128;

/// Datagrams between two looks at the phase.
const BURST: usize = 16;

/// Between two bursts: tens of thousands of connections per second are a flood, and leave the processors to the agent and the
/// table to the tests beside it.
const PAUSE: Duration = Duration::from_micros(200);

/// Source ports to send from, one after the other.
const SOURCE_PORTS: usize = 64;

/// After this long without progress what is under way counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// What a destination is, all through the flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    Exempt,
    Masqueraded,
}

/// How many first packets of one class and phase arrived, and how many of them bore the other class's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub right: u64,
    pub wrong: u64,
}

/// Two threads, one sending from the pod and one receiving outside, until the flood is stopped.
#[derive(Debug)]
pub struct Flood {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// One flood at a time: each fills the connection tracking table that all namespaces share.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    phase: AtomicU32,
    /// The phase that the sender works in.
    entered: AtomicU32,
    sent: AtomicU64,
    received: AtomicU64,
    counts: Mutex<HashMap<(u32, Class), Count>>,
}

impl Flood {
    /// Starts sending, in phase 0, to all addresses of `exempt` and, in turn, to all of `masqueraded`. Once they are used up the
    /// next source port takes over, so each packet is the first of a connection.
    pub fn start(lab: &Lab, exempt: Vec<Cidr>, masqueraded: Vec<Cidr>) -> Flood {
        // A test that failed during its turn is no reason for others to fail.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        lab.node.run(keep_connection_tracking_on);
        // Entries of datagrams without an answer would pile up for half a minute each.
        lab.node.set_sysctl("net/netfilter/nf_conntrack_udp_timeout", "1").unwrap();
        let receiver = lab.outside.run(|| UdpSocket::bind(("0.0.0.0", PORT)).unwrap());
        // As much as an ordinary user may have; the window fits into the default already.
        setsockopt(&receiver, sockopt::RcvBuf, &(4 << 20)).unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let pod = source_address(Host::Pod, Family::Ipv4);
        let senders =
            lab.pod.run(move || (0..SOURCE_PORTS).map(|_| UdpSocket::bind((pod, 0)).unwrap()).collect::<Vec<_>>());
        let shared = Arc::new(Shared::default());
        let (sending, receiving) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            thread::spawn(move || sending.send(&senders, &exempt, &masqueraded)),
            thread::spawn(move || receiving.receive(&receiver)),
        ];
        Flood { shared, threads, _turn: turn }
    }

    /// Begins the next phase and returns its number. Packets sent from now on belong to it; those of the phases before have
    /// arrived, or are lost.
    pub fn next_phase(&self) -> u32 {
        let phase = self.shared.phase.fetch_add(1, Ordering::SeqCst) + 1;
        wait_until("the sender to enter the next phase", || self.shared.entered.load(Ordering::SeqCst) == phase);
        phase
    }

    /// Waits until `number` more datagrams have arrived.
    pub fn wait_for_more(&self, number: u64) {
        let goal = self.shared.received.load(Ordering::SeqCst) + number;
        wait_until("the flood to go on", || self.shared.received.load(Ordering::SeqCst) >= goal);
    }

    /// What has arrived so far of a class in the phases that `wanted` accepts.
    pub fn count(&self, class: Class, wanted: impl Fn(u32) -> bool) -> Count {
        let counts = self.shared.counts.lock().unwrap();
        let chosen = counts.iter().filter(|((phase, of), _)| *of == class && wanted(*phase));
        chosen.fold(Count::default(), |sum, (_, count)| Count {
            right: sum.right + count.right,
            wrong: sum.wrong + count.wrong,
        })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // A panic in it has failed the test already, by the flood's standing still.
            let _ = thread.join();
        }
    }
}

/// Adds a chain that uses connection tracking and does nothing, as other programs do on every node. Without one, the first rule to
/// masquerade makes the kernel walk through all connections of the machine, behind a lock that vanishing namespaces hold for long.
fn keep_connection_tracking_on() {
    let table = Table::new(ProtocolFamily::Inet, "stranger");
    let base = BaseChain { kind: "nat".to_owned(), hook: BaseChain::POSTROUTING, priority: 200, policy: None };
    let chain = Chain { name: "postrouting".to_owned(), base: Some(base), ..Chain::default() };
    let mut batch = Batch::new();
    batch.add_table(&table);
    batch.add_chain(table.reference(), &chain);
    Socket::open().unwrap().commit(&batch, None).unwrap();
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn send(&self, senders: &[UdpSocket], exempt: &[Cidr], masqueraded: &[Cidr]) {
        let mut destinations = [(0, Spread::new(exempt)), (1, Spread::new(masqueraded))];
        // Of what is under way, so many are not coming any more.
        let mut lost = 0;
        while !self.stopped() {
            let phase = self.phase.load(Ordering::SeqCst);
            if phase != self.entered.load(Ordering::SeqCst) {
                self.drain(0, &mut lost);
                self.entered.store(phase, Ordering::SeqCst);
            }
            for turn in 0..BURST {
                let (class, spread) = &mut destinations[turn % 2];
                let (round, destination) = spread.next();
                let [a, b, c, d] = phase.to_be_bytes();
                let sender = &senders[round % senders.len()];
                sender.send_to(&[a, b, c, d, *class], SocketAddr::new(destination, PORT)).unwrap();
            }
            self.sent.fetch_add(BURST as u64, Ordering::SeqCst);
            self.drain(WINDOW, &mut lost);
            thread::sleep(PAUSE);
        }
    }

    /// Waits until no more than `left` datagrams are under way.
    fn drain(&self, left: u64, lost: &mut u64) {
        let under_way =
            |lost: u64| (self.sent.load(Ordering::SeqCst) - lost).saturating_sub(self.received.load(Ordering::SeqCst));
        let mut seen = under_way(*lost);
        let mut since = Instant::now();
        while seen > left && !self.stopped() {
            thread::sleep(Duration::from_micros(20));
            let now = under_way(*lost);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > LOST_AFTER {
                *lost += now;
                return;
            }
        }
    }

    fn receive(&self, receiver: &UdpSocket) {
        let own = addresses(Family::Ipv4);
        let mut payload = [0; 5];
        while !self.stopped() {
            // A timeout is there only to look whether to stop.
            let Ok((5, source)) = receiver.recv_from(&mut payload) else { continue };
            let [a, b, c, d, class] = payload;
            let class = if class == 0 { Class::Exempt } else { Class::Masqueraded };
            let right = match class {
                Class::Exempt => own.pod,
                Class::Masqueraded => own.node_outside,
            };
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry((u32::from_be_bytes([a, b, c, d]), class)).or_default();
            if source.ip() == right {
                count.right += 1;
            } else {
                count.wrong += 1;
            }
            drop(counts);
            self.received.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// All addresses of some blocks of the same size, neighbours as far apart as can be, over and over.
#[derive(Debug)]
struct Spread<'c> {
    cidrs: &'c [Cidr],
    turn: usize,
}

impl Spread<'_> {
    fn new(cidrs: &[Cidr]) -> Spread<'_> {
        Spread { cidrs, turn: 0 }
    }

    /// The next address, and how often all of them have been used before.
    fn next(&mut self) -> (usize, IpAddr) {
        let cidr = self.cidrs[self.turn % self.cidrs.len()];
        let size = usize::try_from(cidr.last() - cidr.first() + 1).unwrap();
        let offset = self.turn / self.cidrs.len();
        self.turn += 1;
        (offset / size, Family::Ipv4.address(cidr.first() + (offset % size) as u128))
    }
}
