//! Whether the daemon is alive and its node ready, and why not, in the manner of Kubernetes' own endpoints.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::board::{Facts, InForce, Kernel};

/// How much later than announced the loop may turn. A pass is bounded by the limits of the programs that it may run, twenty seconds each, and
/// to restart a daemon that waits for them would not help.
const OVERDUE: Duration = Duration::from_secs(180);

/// How long a change by others may wait for its look. The loop rests for at most a second after a pass.
const UNSEEN: Duration = Duration::from_secs(2);

/// What was found out about one thing, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is about.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub is_ok: bool,
    /// What there is to say.
    pub text: String,
}

/// Whether the loop turns.
pub fn liveness(facts: &Facts, now: Instant) -> Vec<Check> {
    let late = facts.turns_by.map_or(Duration::ZERO, |by| now.saturating_duration_since(by));
    vec![match late {
        late if late <= OVERDUE => Check::new("loop", true, "turns"),
        late => Check::new("loop", false, format!("has not turned for {} s longer than announced", late.as_secs())),
    }]
}

/// Whether the kernel holds a valid policy.
pub fn readiness(facts: &Facts, now: Instant) -> Vec<Check> {
    vec![config(facts), kernel(facts, now)]
}

/// The checks as text, one line each, and what they come to in the last line.
pub fn text(endpoint: &str, checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { name, is_ok, text: said } in checks {
        let sign = if *is_ok { '+' } else { '-' };
        // A line of its own for everything that a config or a program may say.
        writeln!(text, "[{sign}]{name}: {}", said.replace(char::is_control, " ")).expect("a String takes any text");
    }
    let outcome = if checks.iter().all(|check| check.is_ok) { "passed" } else { "failed" };
    text + endpoint + " check " + outcome + "\n"
}

/// The checks for programs.
pub fn json(checks: &[Check]) -> Value {
    let check = |Check { name, is_ok, text }: &Check| json!({ "name": name, "ok": is_ok, "text": text });
    checks.iter().map(check).collect()
}

impl Check {
    fn new(name: &'static str, is_ok: bool, text: impl Into<String>) -> Check {
        Check { name, is_ok, text: text.into() }
    }
}

fn config(facts: &Facts) -> Check {
    let Some(config) = &facts.config else { return Check::new("config", false, "not read yet") };
    let Some(problem) = &config.problem else { return Check::new("config", true, "good") };
    match facts.in_force {
        InForce::Config => Check::new("config", true, format!("bad, the last good one stays in force: {problem}")),
        InForce::EarlierRun => {
            Check::new("config", false, format!("bad, the rules of an earlier run stay in force: {problem}"))
        }
        InForce::Defaults | InForce::Nothing => {
            Check::new("config", false, format!("bad, the defaults are in force: {problem}"))
        }
    }
}

fn kernel(facts: &Facts, now: Instant) -> Check {
    let unseen = facts.unseen_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
    match &facts.kernel {
        Kernel::NotYet => Check::new("kernel", false, "does not hold a policy yet"),
        Kernel::Drifted => Check::new("kernel", false, "differs from the policy and is being put right"),
        Kernel::Failing(why) => Check::new("kernel", false, format!("cannot be programmed, trying again: {why}")),
        Kernel::InSync if unseen > UNSEEN => {
            Check::new("kernel", false, format!("was changed by others {} s ago, not looked at yet", unseen.as_secs()))
        }
        Kernel::InSync => Check::new("kernel", true, "holds the policy"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::board::ConfigFacts;

    fn in_order() -> Facts {
        let config = ConfigFacts { problem: None, hash: None, warnings: 0, since: SystemTime::UNIX_EPOCH };
        Facts { config: Some(config), in_force: InForce::Config, kernel: Kernel::InSync, ..Facts::default() }
    }

    fn is_ready(facts: &Facts, now: Instant) -> bool {
        readiness(facts, now).iter().all(|check| check.is_ok)
    }

    #[test]
    fn a_loop_that_does_not_come_back_is_dead() {
        let now = Instant::now();
        let facts = Facts { turns_by: Some(now), ..Facts::default() };
        let is_alive = |facts: &Facts, after: Duration| liveness(facts, now + after).iter().all(|check| check.is_ok);
        assert!(is_alive(&Facts::default(), OVERDUE * 2), "before its first turn it waits for nothing");
        assert!(is_alive(&facts, OVERDUE));
        assert!(!is_alive(&facts, OVERDUE + Duration::from_secs(1)));
    }

    #[test]
    fn a_bad_config_makes_the_node_unready_only_before_there_was_a_good_one() {
        let now = Instant::now();
        let mut facts = in_order();
        assert!(is_ready(&facts, now));
        facts.config.as_mut().unwrap().problem = Some("line\n2".to_owned());
        assert!(is_ready(&facts, now));
        for in_force in [InForce::Nothing, InForce::Defaults, InForce::EarlierRun] {
            facts.in_force = in_force;
            assert!(!is_ready(&facts, now), "{in_force:?}");
        }
        let text = text("readyz", &readiness(&facts, now));
        assert_eq!(
            text,
            "[-]config: bad, the rules of an earlier run stay in force: line 2\n[+]kernel: holds the policy\nreadyz check failed\n"
        );
    }

    #[test]
    fn a_change_by_others_that_nobody_looks_at_makes_the_node_unready() {
        let now = Instant::now();
        let facts = Facts { unseen_since: Some(now), ..in_order() };
        assert!(is_ready(&facts, now + UNSEEN));
        assert!(!is_ready(&facts, now + UNSEEN + Duration::from_secs(1)));
    }
}
