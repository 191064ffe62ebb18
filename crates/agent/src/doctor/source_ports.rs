//! Destinations to which nearly all source ports are in use.

use super::{Facts, Finding, Severity, listed};
use crate::snat::{CONSEQUENCE, PortUse, REMEDY};

/// One finding for all of them, the nearest to running out first.
pub(super) fn finding(facts: &Facts<'_>) -> Option<Finding> {
    let nearly = facts.port_uses.iter().filter(|port_use| port_use.is_nearly_used_up());
    let nearly: Vec<String> = nearly.map(PortUse::to_string).collect();
    (!nearly.is_empty()).then(|| Finding {
        id: "snat-ports-nearly-used-up",
        severity: Severity::Warning,
        sentence: format!("{}; {CONSEQUENCE}", listed(&nearly)),
        remedy: format!("{REMEDY}; ip-masq-agent top shows who opens the connections"),
    })
}
