//! The page of all metrics: what is known, written down in the order of the catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use masq::cidr::Family;
use masq::partition::List;

use super::catalogue;
use super::exposition::{Exposition, Format};
use super::process::Process;
use crate::backend::DRIFT_KINDS;
use crate::backend::difference::Counted;
use crate::board::{ConfigFacts, Facts, Kernel};
use crate::doctor::conntrack::Conntrack;
use crate::snat::sampler::Sample;
use crate::survey::ForeignRules;

/// All numbers of one moment.
#[derive(Debug, Default)]
pub struct Numbers {
    /// What the loop knows.
    pub facts: Facts,
    /// What our rules have counted.
    pub counted: Vec<Counted>,
    /// What CIDRs have counted; none where they do not count.
    pub cidrs: BTreeMap<String, u64>,
    /// Rules of others; `None` until they have been looked at.
    pub foreign: Option<ForeignRules>,
    /// The connection table; `None` where it cannot be asked about.
    pub conntrack: Option<Conntrack>,
    /// The last look at the connections; `None` where there was none, or it failed.
    pub sample: Option<Arc<Sample>>,
    /// The process.
    pub process: Process,
}

impl Numbers {
    /// The page in one of the formats.
    pub fn text(&self, format: Format) -> String {
        let mut page = Exposition::new(format);
        page.family(&catalogue::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], 1.0)]);
        page.family(&catalogue::BACKEND_INFO, self.facts.rules_at.iter().map(|place| ([place.name()], 1.0)));
        self.config(&mut page);
        self.syncs(&mut page);
        self.rules(&mut page);
        self.connections(&mut page);
        self.process(&mut page);
        page.finish()
    }

    fn config(&self, page: &mut Exposition) {
        let config = self.facts.config.as_ref();
        page.value(&catalogue::CONFIG_VALID, config.map(|config| truth(config.problem.is_none())));
        let hash = config.and_then(|ConfigFacts { hash, .. }| hash.as_deref());
        page.family(&catalogue::CONFIG_INFO, hash.map(|hash| ([hash], 1.0)));
        page.value(&catalogue::CONFIG_WARNINGS, config.map(|config| config.warnings as f64));
        page.value(&catalogue::CONFIG_LAST_CHANGE, config.map(|config| since_1970(config.since)));
        let cidrs = self.facts.cidrs.iter();
        page.family(
            &catalogue::CIDRS,
            cidrs.map(|(&(family, list), &count)| ([family_word(family), list_word(list)], count as f64)),
        );
    }

    fn syncs(&self, page: &mut Exposition) {
        let Facts { syncs, kernel, .. } = &self.facts;
        let results = [("in_sync", syncs.in_sync), ("changed", syncs.changed), ("failed", syncs.failed)];
        page.family(&catalogue::SYNCS, results.map(|(result, count)| ([result], count as f64)));
        page.histogram(&catalogue::SYNC_DURATION, &self.facts.sync_durations);
        page.value(&catalogue::LAST_SYNC, self.facts.last_sync.map(since_1970));
        page.value(&catalogue::IN_SYNC, Some(truth(*kernel == Kernel::InSync)));
        let mut drifts = BTreeMap::from(DRIFT_KINDS.map(|kind| (kind, 0)));
        drifts.extend(&self.facts.drifts);
        page.family(&catalogue::DRIFTS, drifts.into_iter().map(|(kind, count)| ([kind], count as f64)));
        page.histogram(&catalogue::HEAL_DURATION, &self.facts.heal_durations);
        page.value(&catalogue::LOCK_REFUSALS, Some(self.facts.lock_refusals as f64));
    }

    fn rules(&self, page: &mut Exposition) {
        let counted = self.counted.iter().flat_map(|counted| {
            let family = family_word(counted.family);
            [([family, "masquerade"], counted.masqueraded as f64), ([family, "exempt"], counted.exempt as f64)]
        });
        page.family(&catalogue::CONNECTIONS, counted);
        page.family(
            &catalogue::CIDR_CONNECTIONS,
            self.cidrs.iter().map(|(cidr, count)| ([cidr.as_str()], *count as f64)),
        );
        let foreign =
            self.foreign.iter().flat_map(|ForeignRules { before, after }| [("before", before), ("after", after)]);
        page.family(&catalogue::FOREIGN_NAT_RULES, foreign.map(|(position, count)| ([position], *count as f64)));
    }

    fn connections(&self, page: &mut Exposition) {
        let size = self.conntrack.map(|conntrack| conntrack.size);
        page.value(&catalogue::CONNTRACK_ENTRIES, size.map(|size| f64::from(size.entries)));
        page.value(&catalogue::CONNTRACK_LIMIT, size.and_then(|size| size.limit).map(f64::from));
        let statistics = self.conntrack.map(|conntrack| conntrack.statistics).unwrap_or_default();
        for (metric, count) in [
            (&catalogue::CONNTRACK_INSERT_FAILED, statistics.insert_failed),
            (&catalogue::CONNTRACK_DROP, statistics.drop),
            (&catalogue::CONNTRACK_EARLY_DROP, statistics.early_drop),
        ] {
            page.value(metric, count.map(|count| count as f64));
        }
        let sample = self.sample.as_ref();
        page.value(&catalogue::SNAT_PORT_UTILIZATION, sample.map(|sample| sample.highest_ratio()));
        page.value(&catalogue::STALE_CONNECTIONS, sample.map(|sample| sample.stale as f64));
    }

    fn process(&self, page: &mut Exposition) {
        page.value(&catalogue::PROCESS_CPU, self.process.cpu_seconds);
        page.value(&catalogue::PROCESS_RESIDENT_MEMORY, self.process.resident_bytes);
        page.value(&catalogue::PROCESS_START_TIME, self.process.started_at);
        page.value(&catalogue::PROCESS_OPEN_FDS, self.process.open_fds);
        page.value(&catalogue::PROCESS_THREADS, self.process.threads);
    }
}

fn truth(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}

/// In seconds; a clock before 1970 counts as none.
fn since_1970(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}

fn family_word(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

fn list_word(list: List) -> &'static str {
    match list {
        List::NonMasquerade => "nonMasqueradeCIDRs",
        List::LinkLocal => "linkLocal",
        List::Masquerade => "masqueradeCIDRs",
    }
}
