//! The daemon's loop: wakes up, reads the config, compares the kernel with the policy, and says what happened.

mod reading;
mod report;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};
use masq::config::Config;
use masq::outline::Outline;
use masq::policy::Policy;
use masq::schedule::{FIGHTING_PAUSE, Schedule, Work};
use nfnetlink::Generation;
use nix::sys::signal::Signal;
use sd_notify::NotifyState;

use self::reading::Reading;
use self::report::Report;
use crate::backend::{self, Backend, Look, Outcome, Write};
use crate::board::{Board, InForce};
use crate::cli::DaemonOptions;
use crate::endpoints;
use crate::events::{Author, ConfigChange, Events, Wakeup};
use crate::snat::sampler::Sampler;

/// A file that went away is given this long to come back: editors replace files in two steps.
const GONE_SETTLES: Duration = Duration::from_millis(100);

/// A file that is being written to is read after this much silence, if nobody closes it before.
const WRITING_SETTLES: Duration = Duration::from_secs(1);

/// How often `--once` tries before it gives up: about three seconds of backoff.
const ONCE_ATTEMPTS: u32 = 6;

/// More generations of ours than this are not on their way back to us: a plan has three transactions at most.
const GENERATIONS_KEPT: usize = 64;

/// More authors than this are not named in one line of the log.
const AUTHORS_NAMED: usize = 4;

/// Runs the daemon until a signal ends it, or, with `--once`, until the kernel holds the policy.
pub fn run(options: DaemonOptions) -> ExitCode {
    if options.once && options.cleanup_on_exit {
        log::warn!("--cleanup-on-exit has no effect with --once: there would be nothing left of it");
    }
    let outcome = Agent::start(options).and_then(Agent::turn);
    outcome.unwrap_or_else(|error| {
        log::error!(err:% = format_args!("{error:#}"); "Cannot go on");
        ExitCode::FAILURE
    })
}

/// All that is carried from one pass to the next.
struct Agent {
    options: DaemonOptions,
    events: Events,
    /// Opened by the first pass that succeeds in it: a kernel module may be loaded later.
    backend: Option<Backend>,
    schedule: Schedule,
    /// Of the last reading of the config, good or bad.
    fingerprint: Option<u64>,
    /// Whether the last reading of the config was good.
    config_valid: bool,
    /// What the backend is yet to be told to keep in force.
    policy: Option<Policy>,
    /// What the backend has been told and the sampler has not, since the kernel is yet to hold it.
    pending: Option<Arc<Outline>>,
    /// Where that comes from which is kept in force.
    in_force: InForce,
    /// Whether the kernel has held it before, so that a difference is somebody's doing.
    established: bool,
    /// The last generations that we made ourselves. Their notices tell nothing new, those of all others do: a table that was read
    /// while somebody's transaction was being applied may be a mixture of before and after, and only the notice, which
    /// comes last, tells that it is over.
    made: VecDeque<Generation>,
    /// Who has changed the ruleset since the last pass.
    authors: Vec<Author>,
    /// When the first of these changes was noticed that the kernel has not been put right after.
    noticed: Option<Instant>,
    /// Half the time that the service manager waits for a sign of life.
    watchdog: Option<Duration>,
    /// Whether the pass had to put right what somebody else had changed.
    has_healed: bool,
    /// Whether the service manager knows that the kernel holds a policy.
    was_ready: bool,
    report: Report,
    /// Looks at the connections; `None` if it is not to, or cannot.
    sampler: Option<Sampler>,
    /// Where others read what the report says.
    board: Arc<Board>,
}

impl Agent {
    fn start(options: DaemonOptions) -> Result<Agent> {
        let events = Events::open(&options.config_path)?;
        let board = Arc::<Board>::default();
        let defaults = Config::default_for(&options.policy);
        let sampler = options.conntrack_interval.filter(|_| !options.once).and_then(|interval| {
            let started = Sampler::start(interval, options.policy.to_ports.clone());
            started.map_err(|error| log::warn!("Source ports in use stay unknown: {error:#}")).ok()
        });
        if !options.once
            && let Err(error) = endpoints::serve(&options, &board, sampler.clone())
        {
            log::error!(err:% = format_args!("{error:#}"); "Nothing is served over HTTP");
        }
        Ok(Agent {
            events,
            backend: None,
            schedule: Schedule::new(defaults.resync_interval),
            fingerprint: None,
            config_valid: false,
            policy: None,
            pending: None,
            in_force: InForce::Nothing,
            has_healed: false,
            was_ready: false,
            established: false,
            made: VecDeque::new(),
            authors: Vec::new(),
            noticed: None,
            watchdog: sd_notify::watchdog_enabled().map(|interval| interval / 2),
            report: Report::new(options.config_path.clone(), Arc::clone(&board)),
            board,
            sampler,
            options,
        })
    }

    fn turn(mut self) -> Result<ExitCode> {
        loop {
            // Also when a pass is due: what has happened to the file by now says whether it may be read.
            let wait = self.schedule.wait(Instant::now());
            let wait = self.watchdog.map_or(wait, |limit| wait.min(limit));
            self.report.turning(wait);
            for wakeup in self.events.wait(wait)? {
                if let Wakeup::Terminate(signal) = wakeup {
                    return Ok(self.end(signal));
                }
                self.note(wakeup);
            }
            let now = Instant::now();
            let work = self.schedule.due(now);
            if !work.is_empty() {
                self.report.turning(Duration::ZERO);
                self.pass(work, now);
                if let Some(code) = self.once_is_over() {
                    return Ok(code);
                }
            }
            if self.watchdog.is_some() {
                notify(NotifyState::Watchdog);
            }
        }
    }

    /// Enters what happened into the schedule.
    fn note(&mut self, wakeup: Wakeup) {
        let now = Instant::now();
        match wakeup {
            Wakeup::Terminate(_) => {}
            Wakeup::Reload => {
                log::info!("SIGHUP: reading config and kernel anew");
                self.schedule.trigger_config(now);
                self.schedule.trigger_kernel(now);
            }
            Wakeup::Config(ConfigChange::Finished) => self.schedule.trigger_config(now),
            Wakeup::Config(ConfigChange::Gone) => self.schedule.trigger_config(now + GONE_SETTLES),
            Wakeup::Config(ConfigChange::Writing) => self.schedule.postpone_config(now, WRITING_SETTLES),
            Wakeup::Kernel(change) if !self.made.contains(&Generation(change.generation)) => {
                if self.authors.len() < AUTHORS_NAMED && !self.authors.contains(&change.author) {
                    self.authors.push(change.author);
                }
                self.notice(now);
            }
            Wakeup::Kernel(_) => {}
            Wakeup::KernelNoticesLost => self.notice(now),
        }
    }

    /// Somebody may have changed our rules.
    fn notice(&mut self, now: Instant) {
        let since = *self.noticed.get_or_insert(now);
        self.report.noticed(since);
        self.schedule.trigger_kernel(now);
    }

    fn pass(&mut self, work: Work, began: Instant) {
        if work.config {
            self.read_config();
        }
        let result = self.open_kernel().and_then(|()| self.hand_over()).and_then(|()| self.reconcile(work, began));
        let now = Instant::now();
        match result {
            Ok(changed) => {
                self.schedule.succeeded(work, began, now);
                self.report.succeeded(changed, now.saturating_duration_since(began));
                self.noticed = None;
                if !std::mem::replace(&mut self.was_ready, true) {
                    notify(NotifyState::Ready);
                }
                if std::mem::take(&mut self.has_healed) && self.schedule.healed(now) {
                    self.report.fighting(FIGHTING_PAUSE);
                }
            }
            Err(error) => {
                self.schedule.failed(work, began, now);
                self.report.failed(&error, now.saturating_duration_since(began));
            }
        }
    }

    /// The notices are listened to before the first look at the kernel, so that no change falls in between.
    fn open_kernel(&mut self) -> Result<()> {
        let listening = self.events.watch_kernel();
        if self.backend.is_none() {
            let options = backend::Options {
                choice: self.options.backend,
                chain: self.options.masq_chain.clone(),
                protect: self.options.protect_table,
                count_cidrs: self.options.cidr_metrics,
                interrupt: Some(self.events.interrupt()?),
            };
            let mut backend = Backend::open(options)?;
            log::info!("Backend: {}", backend.description());
            backend.count_into(Arc::clone(self.board.counts()));
            self.report.opened(backend.rules_at());
            self.backend = Some(backend);
        }
        match listening {
            Err(error) if self.backend.as_ref().is_some_and(Backend::does_without_notices) => {
                log::warn!("Changes by others will only be seen at the next resync: {error:#}");
                Ok(())
            }
            other => other,
        }
    }

    /// A bad config is no failure: there is always something else to keep in force.
    fn read_config(&mut self) {
        if let Err(error) = self.events.watch_config() {
            self.report.cannot_watch(&error);
        }
        let options = &self.options;
        let reading = Reading::take(&options.config_path, &options.policy, options.strict, self.fingerprint);
        let Some(reading) = reading else { return };
        self.fingerprint = Some(reading.fingerprint);
        self.report.read(&reading, self.in_force);
        self.config_valid = reading.result.is_ok();
        if let Ok(config) = &reading.result {
            self.schedule.set_resync_interval(config.resync_interval);
            self.policy = Some(Policy::new(config));
            self.in_force = InForce::Config;
        }
    }

    /// Tells the backend what to keep in force. Without a good config yet that is what an earlier run left in the kernel; if there
    /// is nothing, the defaults.
    fn hand_over(&mut self) -> Result<()> {
        let Some(backend) = &mut self.backend else { return Ok(()) };
        if self.in_force == InForce::Nothing {
            // The defaults must not replace what could not be seen, so a failure here is tried again.
            if backend.adopt().context("cannot see whether an earlier run left rules")? {
                self.in_force = InForce::EarlierRun;
                self.report.in_force(self.in_force, None);
            } else {
                self.policy = Some(Policy::new(&Config::default_for(&self.options.policy)));
                self.in_force = InForce::Defaults;
            }
            self.report.fallen_back(self.in_force);
        }
        if let Some(policy) = self.policy.take() {
            self.report.in_force(self.in_force, Some(&policy));
            if self.options.cidr_metrics {
                self.board.count_by(Arc::new(policy.clone()));
            }
            if backend.want(&policy) {
                self.established = false;
            }
            self.pending = self.sampler.as_ref().map(|_| Arc::new(Outline::new(&policy)));
        }
        Ok(())
    }

    /// Makes the kernel hold what is wanted; answers whether anything had to be changed.
    fn reconcile(&mut self, work: Work, began: Instant) -> Result<bool> {
        let Some(backend) = &mut self.backend else { return Ok(false) };
        let (events, report, established) = (&mut self.events, &self.report, self.established);
        let look = if work.kernel { Look::Afresh } else { Look::IfChanged };
        let outcome = backend.reconcile(look, |write| {
            if established {
                report.drifted();
            }
            if write == Write::Loud {
                events.ignore_kernel();
            }
        });
        self.board.cidr_counts().resume();
        if !backend.does_without_notices() {
            events.watch_kernel()?;
        }
        // What others committed while nobody listened has left its trace in the generation.
        if outcome.generation.is_some() && backend.generation()? != outcome.generation {
            self.schedule.trigger_kernel(Instant::now());
        }
        self.conclude(outcome, began)
    }

    /// Says what a pass has done, and answers what it could not do.
    fn conclude(&mut self, outcome: Outcome, began: Instant) -> Result<bool> {
        let took = began.elapsed();
        let changed = !outcome.changes.is_empty();
        self.report.refusals(&outcome);
        self.made.extend(outcome.made);
        self.made.drain(..self.made.len().saturating_sub(GENERATIONS_KEPT));
        let place = self.backend.as_ref().map_or_else(String::new, Backend::place);
        if changed && self.established {
            let late = self.noticed.unwrap_or(began).elapsed();
            self.report.healed(&place, &outcome.changes, &self.authors, took, late);
            self.has_healed = true;
        } else if changed {
            self.report.applied(&place, &outcome.changes, took);
        }
        if let Some(failure) = failure(&outcome.failures) {
            return Err(failure);
        }
        self.authors.clear();
        self.established = true;
        self.tell_sampler();
        Ok(changed)
    }

    /// Once the kernel holds another policy than before, the connections that were opened under the old one can be told apart.
    fn tell_sampler(&mut self) {
        let policy = self.pending.take();
        if let Some(sampler) = self.sampler.as_ref().filter(|_| policy.is_some() || !self.was_ready) {
            sampler.in_force(policy);
        }
    }

    fn once_is_over(&self) -> Option<ExitCode> {
        if !self.options.once {
            return None;
        }
        if self.schedule.failures() == 0 && self.fingerprint.is_some() {
            return Some(if self.config_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        if self.schedule.failures() < ONCE_ATTEMPTS {
            return None;
        }
        log::error!("--once: giving up after {ONCE_ATTEMPTS} attempts; the kernel does not hold the policy");
        Some(ExitCode::FAILURE)
    }

    fn end(mut self, signal: Signal) -> ExitCode {
        notify(NotifyState::Stopping);
        self.report.ending();
        if !self.options.cleanup_on_exit {
            log::info!("{signal}: ending; the rules stay in the kernel");
            return ExitCode::SUCCESS;
        }
        log::info!("{signal}: ending; removing the rules (--cleanup-on-exit)");
        match self.backend.as_mut().map_or(Ok(()), Backend::cleanup) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                log::error!(err:% = format_args!("{error:#}"); "The rules could not be removed");
                ExitCode::FAILURE
            }
        }
    }
}

/// All that failed as one error; none if nothing did.
fn failure(failures: &[Error]) -> Option<Error> {
    let texts: Vec<String> = failures.iter().map(|error| format!("{error:#}")).collect();
    (!texts.is_empty()).then(|| anyhow!("{}", texts.join("; and ")))
}

/// Nobody may be listening, and a service manager that does not hear is no reason to stop.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        log::debug!("Cannot notify the service manager: {error}");
    }
}
