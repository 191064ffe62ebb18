//! What several files and the flags set, made into one config, and the rules that hold for the whole of it.

use std::collections::HashSet;
use std::time::Duration;

use crate::cidr::Family;
use crate::config::findings::{Finding, Findings};
use crate::config::reader::{FileConfig, Setting};
use crate::config::{Config, Flags, ListedCidr, Origin};
use crate::diagnostic::{DiagnosticKind, Place};
use crate::duration::GoDuration;

/// Lays the files over the defaults, in order, and checks the result.
pub(super) fn merge(mut files: Vec<FileConfig>, flags: &Flags, findings: &mut Findings) -> Config {
    let mut config = Config::default_for(flags);
    let mut list_place = None;
    if let Some(list) = united(&mut files) {
        config.non_masquerade_cidrs = list.value;
        list_place = Some(list.place);
    }
    let limit = agreed(files.iter().map(|file| &file.cidr_limit), "cidrLimit", findings);
    if let Some(limit) = &limit {
        config.cidr_limit = limit.value;
    }
    config.masq_link_local = any(files.iter().map(|file| &file.masq_link_local));
    config.masq_link_local_ipv6 = any(files.iter().map(|file| &file.masq_link_local_ipv6));
    match agreed(files.iter().map(|file| &file.resync_interval), "resyncInterval", findings) {
        Some(interval) => config.resync_interval = at_least_a_second(&interval, findings),
        None => check_interval_flag(flags, findings),
    }
    check_count(&config, list_place.or(limit.map(|limit| limit.place)), findings);
    check_families(&config, findings);
    config
}

/// The lists of all files that give one, taken out of them. Only where several files are united does a block count once.
fn united(files: &mut [FileConfig]) -> Option<Setting<Vec<ListedCidr>>> {
    let is_union = files.len() > 1;
    let mut lists = files.iter_mut().filter_map(|file| file.non_masquerade_cidrs.take());
    let mut union = lists.next()?;
    if is_union {
        union.value.extend(lists.flat_map(|list| list.value));
        let mut seen = HashSet::new();
        union.value.retain(|listed| seen.insert(listed.cidr));
    }
    Some(union)
}

/// The one value that all files which set it agree on.
fn agreed<'files, T: PartialEq + Clone + std::fmt::Display + 'files>(
    settings: impl Iterator<Item = &'files Option<Setting<T>>>,
    key: &str,
    findings: &mut Findings,
) -> Option<Setting<T>> {
    let mut settings = settings.flatten();
    let first = settings.next()?;
    for other in settings.filter(|other| other.value != first.value) {
        findings.error(|| Finding {
            kind: DiagnosticKind::Conflict,
            place: Some(other.place.clone()),
            path: key.to_owned(),
            value: Some(other.value.to_string()),
            reason: format!("{} sets it to {}", first.place, first.value),
            remedy: "set it in one file only, or to the same value".to_owned(),
        });
    }
    Some(first.clone())
}

fn any<'files>(settings: impl Iterator<Item = &'files Option<Setting<bool>>>) -> bool {
    settings.flatten().any(|setting| setting.value)
}

fn at_least_a_second(interval: &Setting<GoDuration>, findings: &mut Findings) -> Duration {
    let least = Duration::from_secs(1);
    // A negative interval is below a second too.
    let given = u64::try_from(interval.value.0).map_or(Duration::ZERO, Duration::from_nanos);
    if given < least {
        findings.warning(|| short_interval("resyncInterval", Some(interval.place.clone()), interval.value.to_string()));
    }
    given.max(least)
}

fn check_interval_flag(flags: &Flags, findings: &mut Findings) {
    if let Some(seconds) = flags.resync_interval.filter(|&seconds| seconds < 1) {
        findings.warning(|| short_interval("--resync-interval", None, seconds.to_string()));
    }
}

fn short_interval(path: &str, place: Option<Place>, value: String) -> Finding {
    Finding {
        kind: DiagnosticKind::ShortInterval,
        place,
        path: path.to_owned(),
        value: Some(value),
        reason: "the interval is below one second and is taken as one second".to_owned(),
        remedy: "set one second or more; changes are seen at once whatever the interval".to_owned(),
    }
}

fn check_count(config: &Config, place: Option<Place>, findings: &mut Findings) {
    let count = config.non_masquerade_cidrs.len();
    if i64::try_from(count).is_ok_and(|count| count <= config.cidr_limit) {
        return;
    }
    findings.error(|| Finding {
        kind: DiagnosticKind::TooManyCidrs,
        place,
        path: "nonMasqueradeCIDRs".to_owned(),
        value: None,
        reason: format!("there are {count} CIDRs, and cidrLimit allows {}", config.cidr_limit),
        remedy: format!("set cidrLimit to {count} or more, or list fewer CIDRs"),
    });
}

/// Checks what the listed blocks mean for each family.
fn check_families(config: &Config, findings: &mut Findings) {
    for listed in &config.non_masquerade_cidrs {
        let about = |kind, reason: String, remedy: &str| Finding {
            kind,
            place: listed.place().cloned(),
            // No index: several files, or elements refused before, may have shifted it. The place is exact.
            path: "nonMasqueradeCIDRs".to_owned(),
            value: Some(listed.text.clone()),
            reason,
            remedy: remedy.to_owned(),
        };
        let family = listed.cidr.family();
        if family == Family::Ipv6 && !config.enable_ipv6 {
            findings.element_error(|| {
                about(
                    DiagnosticKind::Ipv6Disabled,
                    "this is an IPv6 block, and IPv6 is off".to_owned(),
                    "start the agent with --enable-ipv6, or remove the block",
                )
            });
        } else if listed.cidr.prefix_len() == 0 {
            findings.warning(|| {
                about(
                    DiagnosticKind::ExemptsAll,
                    format!("this block holds every address, so that nothing of {family} is masqueraded"),
                    "list only the networks that can route the pods' addresses",
                )
            });
        }
    }
    let has_ipv6 = config.non_masquerade_cidrs.iter().any(|listed| listed.cidr.family() == Family::Ipv6);
    if config.enable_ipv6 && !has_ipv6 {
        findings.warning(|| Finding {
            kind: DiagnosticKind::NoIpv6Cidrs,
            place: None,
            path: "nonMasqueradeCIDRs".to_owned(),
            value: None,
            reason: "IPv6 is on and no IPv6 block is listed, so that IPv6 between pods is masqueraded too".to_owned(),
            remedy: "list the cluster's IPv6 blocks, like fd00::/8".to_owned(),
        });
    }
}

impl ListedCidr {
    /// Where it is listed, if in a file.
    fn place(&self) -> Option<&Place> {
        match &self.origin {
            Origin::File(place) => Some(place),
            Origin::Default | Origin::ReservedRanges | Origin::LinkLocal => None,
        }
    }
}
