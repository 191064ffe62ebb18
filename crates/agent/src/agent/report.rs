//! What the daemon says: in its log one line per event that matters, none per idle interval; on its board how things stand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use masq::cidr::Family;
use masq::config::Config;
use masq::diagnostic::Diagnostic;
use masq::duration::GoDuration;
use masq::partition::List;
use masq::policy::Policy;

use super::reading::{Files, NoConfig, Reading};
use crate::backend::iptables::programs::ProgramError;
use crate::backend::reader::Place;
use crate::backend::{Change, Outcome};
use crate::board::{Board, ConfigFacts, InForce, Kernel};
use crate::events::Author;

/// In a fight with another program, this many heals are told one by one in each [`WINDOW`], the others as a number.
const HEALS_TOLD: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// The daemon's voice, with what it has to remember to speak sensibly.
#[derive(Debug)]
pub struct Report {
    config_path: PathBuf,
    board: Arc<Board>,
    heals: Allowance,
    /// Whether the last pass failed.
    failing: bool,
}

impl Report {
    /// Nothing has happened yet.
    pub fn new(config_path: PathBuf, board: Arc<Board>) -> Report {
        Report { config_path, board, heals: Allowance::default(), failing: false }
    }

    /// The loop turns again within this time, if what it does then takes none.
    pub fn turning(&self, within: Duration) {
        // Where nothing is due for longer than clocks can tell, nothing is overdue.
        self.board.update(|facts| facts.turns_by = Instant::now().checked_add(within));
    }

    /// The backend is open.
    pub fn opened(&self, rules_at: Place) {
        self.board.update(|facts| facts.rules_at = Some(rules_at));
    }

    /// The config holds something new, good or bad. Until then `in_force` was.
    pub fn read(&self, reading: &Reading, in_force: InForce) {
        self.warnings(&reading.warnings);
        let problem = match &reading.result {
            Ok(config) => {
                self.config(&reading.files, config);
                None
            }
            Err(no_config) => {
                self.bad_config(no_config, in_force);
                no_config.0.first().cloned()
            }
        };
        let (hash, warnings, since) = (reading.hash.clone(), reading.warnings.len(), SystemTime::now());
        self.board.update(|facts| facts.config = Some(ConfigFacts { problem, hash, warnings, since }));
    }

    /// The backend keeps something else in force from now on; its policy, unless it is what an earlier run left.
    pub fn in_force(&self, in_force: InForce, policy: Option<&Policy>) {
        let cidrs = policy.map(count_cidrs).unwrap_or_default();
        self.board.update(|facts| (facts.in_force, facts.cidrs) = (in_force, cidrs));
    }

    /// Somebody has changed the ruleset, which is to be looked at.
    pub fn noticed(&self, since: Instant) {
        self.board.update(|facts| facts.unseen_since = Some(since));
    }

    /// Rules that were in force differ from what they should be, and are about to be written.
    pub fn drifted(&self) {
        self.board.update(|facts| facts.kernel = Kernel::Drifted);
    }

    fn config(&self, files: &Files, config: &Config) {
        match files {
            Files::Missing => log::info!("No config file at {}: the defaults are in force", self.config_path.display()),
            Files::Empty(names) => log::info!("Config is empty in {}: the defaults are in force", names.join(", ")),
            Files::Filled(names) => log::info!("Config read from {}: {}", names.join(", "), summary(config)),
        }
        log::debug!("Using config: {}", config.to_reference_json());
    }

    fn bad_config(&self, NoConfig(problems): &NoConfig, in_force: InForce) {
        for problem in problems {
            log::error!(err:% = problem; "Bad config");
        }
        match in_force {
            InForce::Nothing => {}
            InForce::Config => log::error!("The last good config stays in force and is healed"),
            InForce::EarlierRun => log::error!("The rules of an earlier run stay in force and are healed"),
            InForce::Defaults => log::error!("The defaults stay in force and are healed"),
        }
    }

    /// There is no good config yet, and something else was put in its place.
    pub fn fallen_back(&self, in_force: InForce) {
        match in_force {
            InForce::EarlierRun => {
                log::warn!("No good config yet: the rules of an earlier run stay in force and are healed");
            }
            InForce::Defaults => {
                log::warn!("No good config yet and no rules of an earlier run: the defaults are put in force");
            }
            InForce::Nothing | InForce::Config => {}
        }
    }

    fn warnings(&self, warnings: &[Diagnostic]) {
        for warning in warnings {
            log::warn!("{warning}");
        }
    }

    /// The config's directory cannot be watched; changes are seen at the next resync.
    pub fn cannot_watch(&self, error: &anyhow::Error) {
        log::warn!("Changes of the config will only be seen at the next resync: {error:#}");
    }

    /// The kernel was made to hold a policy.
    pub fn applied(&self, place: &str, changes: &[Change], took: Duration) {
        log::info!("Kernel updated in {}: {place}: {}", millis(took), listed(changes));
    }

    /// The kernel no longer held the policy and now does again, `late` after it was first known.
    pub fn healed(&mut self, place: &str, changes: &[Change], authors: &[Author], took: Duration, late: Duration) {
        let mut total = 0;
        self.board.update(|facts| {
            facts.heal_durations.observe(late);
            for change in changes {
                *facts.drifts.entry(change.kind).or_default() += 1;
            }
            total = facts.drifts.values().sum();
        });
        let Some(untold) = self.heals.ask(Instant::now()) else { return };
        let by = match authors {
            [] => "by somebody unseen".to_owned(),
            authors => format!("by {}", listed(authors)),
        };
        let untold = match untold {
            0 if self.heals.is_used_up() => ", the next ones are told as a number".to_owned(),
            0 => String::new(),
            untold => format!(", {untold} heals not told one by one"),
        };
        let (took, changes) = (millis(took), listed(changes));
        log::warn!("Drift healed in {took}: {place} was changed {by}: {changes} (drifts so far: {total}{untold})");
    }

    /// Somebody undoes each heal.
    pub fn fighting(&self, pause: Duration) {
        log::error!(
            "Another program keeps changing our rules as fast as they are healed; from now on they are healed every {}. Is a second \
             agent with another config running on this node?",
            millis(pause)
        );
    }

    /// The daemon ends.
    pub fn ending(&self) {
        if self.heals.untold > 0 {
            log::warn!("{} heals were not told one by one", self.heals.untold);
        }
    }

    /// A pass failed; it is tried again after a pause.
    pub fn failed(&mut self, error: &anyhow::Error, took: Duration) {
        let error = format!("{error:#}");
        log::error!(err:% = error; "Cannot program the kernel, trying again");
        self.failing = true;
        self.board.update(|facts| {
            facts.sync_durations.observe(took);
            facts.syncs.failed += 1;
            facts.unseen_since = None;
            facts.kernel = Kernel::Failing(error);
        });
    }

    /// A pass succeeded, and had to change something or not.
    pub fn succeeded(&mut self, changed: bool, took: Duration) {
        if std::mem::take(&mut self.failing) {
            log::info!("The kernel can be programmed again and holds the policy");
        }
        self.board.update(|facts| {
            facts.sync_durations.observe(took);
            *(if changed { &mut facts.syncs.changed } else { &mut facts.syncs.in_sync }) += 1;
            facts.unseen_since = None;
            facts.kernel = Kernel::InSync;
            facts.last_sync = Some(SystemTime::now());
        });
    }

    /// What could not be done in a pass, one by one.
    pub fn refusals(&self, outcome: &Outcome) {
        let is_lock = |error: &&anyhow::Error| {
            matches!(error.downcast_ref::<ProgramError>(), Some(ProgramError::LockHeld { .. }))
        };
        let locks = outcome.failures.iter().filter(is_lock).count();
        self.board.update(|facts| facts.lock_refusals += u64::from(locks > 0));
    }
}

/// Keeps a fight from filling the log.
#[derive(Debug, Default)]
struct Allowance {
    since: Option<Instant>,
    told: u32,
    untold: u64,
}

impl Allowance {
    fn is_used_up(&self) -> bool {
        self.told == HEALS_TOLD
    }

    /// Whether to tell, and then how many were not told since the last time.
    fn ask(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            self.since = Some(now);
            self.told = 0;
        }
        if self.told == HEALS_TOLD {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

fn count_cidrs(policy: &Policy) -> BTreeMap<(Family, List), usize> {
    let mut cidrs = BTreeMap::new();
    for partition in policy.families() {
        for list in [List::NonMasquerade, List::LinkLocal] {
            cidrs.insert((partition.family(), list), 0);
        }
        for entry in partition.entries() {
            *cidrs.entry((partition.family(), entry.list)).or_default() += 1;
        }
    }
    cidrs
}

fn listed(things: &[impl ToString]) -> String {
    things.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn summary(config: &Config) -> String {
    let count = |family| config.non_masquerade_cidrs.iter().filter(|listed| listed.cidr.family() == family).count();
    let ipv6 = if config.enable_ipv6 { format!("{} IPv6 CIDRs", count(Family::Ipv6)) } else { "IPv6 off".to_owned() };
    let resync = GoDuration(i64::try_from(config.resync_interval.as_nanos()).unwrap_or(i64::MAX));
    format!("{} IPv4 CIDRs, {ipv6}, resync every {resync}", count(Family::Ipv4))
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fight_is_told_a_few_times_a_minute_and_then_in_numbers() {
        let begin = Instant::now();
        let mut heals = Allowance::default();
        let told = (0..1_000).filter(|_| heals.ask(begin).is_some()).count();
        assert_eq!(told, HEALS_TOLD as usize);
        assert_eq!(heals.ask(begin + WINDOW), Some(1_000 - u64::from(HEALS_TOLD)));
        assert_eq!(heals.ask(begin + WINDOW), Some(0));
    }
}
