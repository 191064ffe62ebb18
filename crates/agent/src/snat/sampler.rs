//! A thread of the daemon that looks at the connections now and then, and shares what it saw last.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use masq::outline::Outline;
use masq::ports::PortRanges;
use nfnetlink::Conntrack;
use nfnetlink::expr::IPS_SRC_NAT;
use nix::time::{ClockId, clock_gettime};

use super::alarm::{self, Alarm, News};
use super::stale::{Change, Stale};
use super::{CONSEQUENCE, Census, PortUse, REMEDY};
use crate::foreign::condition::AddressTypes;
use crate::route::Routes;

/// After each sample the thread rests for so many times the CPU time that it took, if that is longer than the interval: it never costs
/// more than one part in a hundred of one CPU, however many connections there are.
const RESTS: u32 = 100;

/// A look at the connections that takes longer than this is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// So many of the busiest destinations are kept of a sample.
const BUSIEST: usize = 32;

/// More destinations than this are asked about again instead of being remembered as the node's own or not.
const MOST_ASKED: usize = 4_096;

/// The thread keeps little on its stack.
const STACK: usize = 128 * 1024;

/// What the thread saw last; clones share it.
#[derive(Debug, Clone)]
pub struct Sampler {
    shared: Arc<Shared>,
}

/// What was seen of the connections at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The destinations that are nearest to running out of source ports, the nearest first; at most 32.
    pub busiest: Vec<PortUse>,
    /// Live connections whose verdict a change of the policy reversed.
    pub stale: usize,
}

impl Sample {
    /// The largest part of its ports that any destination uses, 0 to 1; 0 where nothing is translated.
    pub fn highest_ratio(&self) -> f64 {
        self.busiest.first().map_or(0.0, PortUse::ratio)
    }
}

impl Sampler {
    /// Starts the thread, which does nothing until it is told what is in force. `to_ports` are the ranges of the flags, for rules of an
    /// earlier run whose config is not known. The thread ends with the process; nobody has to wait for it.
    ///
    /// # Errors
    /// The process may have no more threads.
    pub fn start(interval: Duration, to_ports: PortRanges) -> Result<Sampler> {
        let shared = Arc::new(Shared::default());
        let mut rounds = Rounds { shared: Arc::clone(&shared), interval, to_ports, ..Rounds::default() };
        thread::Builder::new()
            .name("conntrack".to_owned())
            .stack_size(STACK)
            .spawn(move || rounds.turn())
            .context("cannot start a thread for samples of the connections")?;
        Ok(Sampler { shared })
    }

    /// Says that the kernel holds rules, and which policy they are of; `None` for those of an earlier run. Returns at once.
    pub fn in_force(&self, policy: Option<Arc<Outline>>) {
        let mut state = self.shared.lock();
        state.has_begun = true;
        state.in_force = policy;
        self.shared.changed.notify_all();
    }

    /// The last sample; `None` before the first one, and when the last look at the connections failed.
    pub fn latest(&self) -> Option<Arc<Sample>> {
        self.shared.lock().latest.clone()
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_begun: bool,
    in_force: Option<Arc<Outline>>,
    latest: Option<Arc<Sample>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment after the other, so a panic elsewhere cannot leave half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread carries from sample to sample.
#[derive(Debug, Default)]
struct Rounds {
    shared: Arc<Shared>,
    interval: Duration,
    to_ports: PortRanges,
    conntrack: Option<Conntrack>,
    /// The policy that was in force when the last wait was over. The look after it may have failed, and is not made again before it is due.
    looked_under: Option<Arc<Outline>>,
    /// The policy by which the connections were last judged.
    policy: Option<Arc<Outline>>,
    stale: Stale,
    alarm: Alarm,
    /// Whether the last look failed, which is told once.
    is_failing: bool,
}

impl Rounds {
    fn turn(&mut self) {
        let (mut earliest, mut due) = (Instant::now(), Instant::now());
        loop {
            let policy = self.wait(earliest, due);
            let began = cpu_time();
            let sample = self.sample(policy);
            self.publish(sample);
            let rest = cpu_time().saturating_sub(began) * RESTS;
            earliest = Instant::now() + rest;
            due = Instant::now() + rest.max(self.interval);
        }
    }

    /// Waits until `due`, or, when another policy comes into force, until `earliest`; answers which policy is in force.
    fn wait(&mut self, earliest: Instant, due: Instant) -> Option<Arc<Outline>> {
        let mut state = self.shared.lock();
        loop {
            let has_changed = state.in_force.as_ref().map(Arc::as_ptr) != self.looked_under.as_ref().map(Arc::as_ptr);
            let left = if has_changed { earliest } else { due }.saturating_duration_since(Instant::now());
            let changed = &self.shared.changed;
            if !state.has_begun {
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if left.is_zero() {
                self.looked_under.clone_from(&state.in_force);
                return state.in_force.clone();
            } else {
                (state, _) = changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn sample(&mut self, policy: Option<Arc<Outline>>) -> Result<(Sample, News)> {
        let mut conntrack = match self.conntrack.take() {
            Some(conntrack) => conntrack,
            None => Conntrack::open()?,
        };
        let change = match (&self.policy, &policy) {
            (Some(old), Some(new)) if old != new => Some((Arc::clone(old), Arc::clone(new))),
            _ => None,
        };
        let to_ports = policy.as_ref().map_or(&self.to_ports, |policy| &policy.to_ports);
        let mut census = Census::new(to_ports);
        let mut found = Stale::default();
        // To count them costs nothing, but a walk goes through all of the table, however empty it is.
        if conntrack.size()?.entries > 0 {
            let mut locals = Locals::default();
            let status = if change.is_some() || self.stale.counts().1 > 0 { 0 } else { IPS_SRC_NAT };
            conntrack.walk(status, PATIENCE, |connection| {
                census.add(connection, false);
                match &change {
                    Some((old, new)) => {
                        self.stale.judge(connection, Change { old, new }, &mut |it| locals.has(it), &mut found);
                    }
                    None => self.stale.find_again(connection, &mut found),
                }
            })?;
        }
        self.conntrack = Some(conntrack);
        self.stale = found;
        self.policy = policy;
        if change.is_some() {
            tell_stale(&self.stale);
        }
        let busiest = census.busiest(BUSIEST);
        let news = self.alarm.update(&busiest, census.lanes() > BUSIEST);
        let (masqueraded, bare) = self.stale.counts();
        Ok((Sample { busiest, stale: masqueraded + bare }, news))
    }

    fn publish(&mut self, outcome: Result<(Sample, News)>) {
        let sample = match outcome {
            Ok((sample, news)) => {
                tell(&news);
                self.is_failing = false;
                Some(Arc::new(sample))
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    log::warn!("Source ports in use and stale connections are not known: {error:#}");
                }
                None
            }
        };
        self.shared.lock().latest = sample;
    }
}

fn tell(news: &News) {
    for port_use in &news.raised {
        log::warn!("SNAT ports nearly used up: {port_use}; {CONSEQUENCE}. Remedy: {REMEDY}");
    }
    for lane in &news.over {
        log::info!("{}", alarm::over(lane));
    }
}

fn tell_stale(stale: &Stale) {
    let (masqueraded, bare) = stale.counts();
    if masqueraded + bare > 0 {
        log::info!(
            "Live connections that the change of the policy reversed keep their old translation until they end: \
             {masqueraded} masqueraded that are exempt now, {bare} not masqueraded that would be now"
        );
    }
}

/// Which addresses are the node's own, as the kernel answers.
#[derive(Debug, Default)]
struct Locals {
    routes: Option<Routes>,
    asked: HashMap<IpAddr, bool>,
}

impl Locals {
    /// Where it cannot be found out, an address is taken for somebody else's.
    fn has(&mut self, address: IpAddr) -> bool {
        if let Some(known) = self.asked.get(&address) {
            return *known;
        }
        if self.routes.is_none() {
            self.routes = Routes::open().ok();
        }
        let answer = self.routes.as_mut().and_then(|routes| routes.type_of(address).ok());
        let is_local = answer == Some(AddressTypes::LOCAL);
        if self.asked.len() < MOST_ASKED {
            self.asked.insert(address, is_local);
        }
        is_local
    }
}

/// The CPU time of the calling thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use masq::config::{Config, Flags};
    use masq::policy::Policy;

    use super::*;

    #[test]
    fn another_policy_is_waited_for_once_whatever_becomes_of_the_look_at_it() {
        let shared = Arc::new(Shared::default());
        let mut rounds = Rounds { shared: Arc::clone(&shared), ..Rounds::default() };
        let policy = Arc::new(Outline::new(&Policy::new(&Config::default_for(&Flags::default()))));
        Sampler { shared }.in_force(Some(Arc::clone(&policy)));
        let now = Instant::now();
        assert_eq!(rounds.wait(now, now + Duration::from_secs(3600)), Some(policy), "as soon as it is in force");
        let due = now + Duration::from_millis(50);
        rounds.wait(now, due);
        assert!(Instant::now() >= due, "it is no other policy any more");
    }
}
