//! The status for people: one page.

use std::collections::BTreeMap;
use std::time::Duration;

use masq::cidr::Family;

use super::Status;
use super::json::position_word;
use crate::doctor::conntrack::Conntrack;
use crate::doctor::{Finding, rule_with_chain};
use crate::foreign::{ForeignRule, Owner};
use crate::tools::output::printable;
use crate::tools::running::Running;

/// More rules of other programs than this are counted instead of shown; `-o json` has them all.
const SHOWN: usize = 8;

/// The page.
pub(super) fn text(status: &Status<'_>) -> String {
    let seen = status.seen;
    let mut page = String::new();
    let mut line = |label: &str, text: String| page.push_str(&format!("{label:<11}{}\n", printable(&text)));
    line("Config:", config(status));
    line("Policy:", policy(status));
    line("Backend:", seen.backend.as_ref().map_or("cannot be used".to_owned(), |(text, _)| text.clone()));
    line("Kernel:", kernel(status).to_owned());
    line("Agent:", agents(&seen.agents));
    for counted in seen.comparison.iter().flat_map(|comparison| &comparison.counted) {
        let (family, exempt, masqueraded) = (counted.family, counted.exempt, counted.masqueraded);
        line("Counters:", format!("{family} connections: {exempt} exempt, {masqueraded} masqueraded"));
    }
    line("Conntrack:", conntrack(status));
    line("Others:", others(&status.foreign, seen.unseen.is_empty()));
    for rule in status.foreign.iter().take(SHOWN) {
        line("", foreign_rule(rule));
    }
    if status.foreign.len() > SHOWN {
        line("", format!("and {} more; -o json has them all", status.foreign.len() - SHOWN));
    }
    for error in &seen.unseen {
        line("Not seen:", format!("{error:#}"));
    }
    page.push_str(&findings(&status.findings, seen.unseen.is_empty()));
    page
}

fn config(status: &Status<'_>) -> String {
    let seen = status.seen;
    if seen.files.is_empty() {
        return "no file: the defaults are in force".to_owned();
    }
    let file = |(name, age): &(String, Option<Duration>)| match age {
        Some(age) => format!("{name} (written {} ago)", span(*age)),
        None => name.clone(),
    };
    let files: Vec<String> = seen.files.iter().map(file).collect();
    let remarks = match seen.diagnostics.len() {
        0 => String::new(),
        1 => ", 1 remark below".to_owned(),
        count => format!(", {count} remarks below"),
    };
    format!("{}, hash {}{remarks}", files.join(", "), seen.hash)
}

fn policy(status: &Status<'_>) -> String {
    let Some(config) = &status.seen.config else {
        return "none: the config is refused, and a running agent keeps its last good one".to_owned();
    };
    let count = |family| config.non_masquerade_cidrs.iter().filter(|listed| listed.cidr.family() == family).count();
    let ipv6 =
        if config.enable_ipv6 { format!("{} of IPv6", count(Family::Ipv6)) } else { "IPv6 is left alone".to_owned() };
    format!("CIDRs listed as exempt: {} of IPv4, {ipv6}", count(Family::Ipv4))
}

fn kernel(status: &Status<'_>) -> &'static str {
    match &status.seen.comparison {
        _ if !status.seen.unseen.is_empty() => "not all could be looked at",
        None => "nothing to compare it with",
        Some(comparison) if comparison.groups.is_empty() => "in sync with the policy",
        Some(_) => "differs from the policy; ip-masq-agent diff tells how",
    }
}

fn agents(agents: &[Running]) -> String {
    let one = |Running { pid, words }: &Running| format!("seen as process {pid} ({})", words.join(" "));
    match agents {
        [] => "not seen among the processes that can be seen from here".to_owned(),
        [agent] => format!("{}; its flags hold here, too, where none are given", one(agent)),
        agents => agents.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}

fn conntrack(status: &Status<'_>) -> String {
    let Some(Conntrack { size, statistics }) = status.seen.conntrack else {
        return "cannot be looked at".to_owned();
    };
    let limit = size.limit.map(|limit| format!(" of at most {limit}")).unwrap_or_default();
    let counts =
        [("insert_failed", statistics.insert_failed), ("drop", statistics.drop), ("early_drop", statistics.early_drop)];
    let counts = counts.into_iter().filter_map(|(name, count)| Some(format!("{name} {}", count?)));
    format!("{}{limit} entries; {}", size.entries, counts.collect::<Vec<_>>().join(", "))
}

fn others(rules: &[ForeignRule], all_seen: bool) -> String {
    if rules.is_empty() && !all_seen {
        return "not all could be looked at".to_owned();
    }
    if rules.is_empty() {
        return "no rule of another program can change the source of what leaves".to_owned();
    }
    let mut counts: BTreeMap<Owner, usize> = BTreeMap::new();
    rules.iter().for_each(|rule| *counts.entry(rule.owner).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(owner, count)| format!("{count} of {owner}")).collect();
    format!("rules that can change the source of what leaves: {}", counts.join(", "))
}

fn foreign_rule(rule: &ForeignRule) -> String {
    let when = rule.position.map(|position| format!("{} ours, ", position_word(position))).unwrap_or_default();
    let ForeignRule { stack, family, table, chain, text, .. } = rule;
    format!("{when}{stack} {family} {table}: {}", rule_with_chain(chain, text))
}

fn findings(findings: &[Finding], all_seen: bool) -> String {
    if findings.is_empty() {
        let scope = if all_seen { "" } else { " of what could be looked at" };
        return format!("\nNothing to report{scope}.\n");
    }
    let one = |finding: &Finding| {
        let Finding { id, severity, sentence, remedy } = finding;
        format!("\n{severity} ({id}): {}.\n    Remedy: {}.\n", printable(sentence), printable(remedy))
    };
    findings.iter().map(one).collect()
}

/// The two largest units of a time, like `3 h 5 min`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        let of = |seconds| span(Duration::from_secs(seconds));
        assert_eq!([of(59), of(61), of(3_661), of(90_000)], ["59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }
}
