//! The configuration: flags and files in, what they mean out.

use std::fmt;
use std::time::Duration;

use crate::cidr::Cidr;
pub use crate::diagnostic::Place;
use crate::diagnostic::{Diagnostic, DiagnosticKind, Severity};
use crate::duration::GoDuration;
use crate::ports::PortRanges;

use findings::Findings;

mod findings;
mod keys;
mod merge;
mod reader;

/// The command line flags that are part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flags {
    /// `--enable-ipv6`.
    pub enable_ipv6: bool,
    /// `--random-fully`.
    pub random_fully: bool,
    /// `--to-ports`.
    pub to_ports: PortRanges,
    /// `--nomasq-all-reserved-ranges`.
    pub nomasq_all_reserved_ranges: bool,
    /// `--resync-interval` in seconds as given; may be below 1.
    pub resync_interval: Option<i64>,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            enable_ipv6: false,
            random_fully: true,
            to_ports: PortRanges::default(),
            nomasq_all_reserved_ranges: false,
            resync_interval: None,
        }
    }
}

/// One config file: its name as shown to people and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A valid configuration with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Destinations that keep the source address, in the order of the file.
    pub non_masquerade_cidrs: Vec<ListedCidr>,
    /// The longest list of CIDRs accepted.
    pub cidr_limit: i64,
    /// Whether 169.254.0.0/16 is masqueraded too.
    pub masq_link_local: bool,
    /// Whether fe80::/10 is masqueraded too.
    pub masq_link_local_ipv6: bool,
    /// The longest time between two full passes; at least one second.
    pub resync_interval: Duration,
    /// Whether IPv6 is looked after.
    pub enable_ipv6: bool,
    /// Whether source ports are chosen at random.
    pub random_fully: bool,
    /// The source ports to choose from; empty for any.
    pub to_ports: PortRanges,
}

/// A CIDR block and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCidr {
    /// The block.
    pub cidr: Cidr,
    /// The block as written.
    pub text: String,
    /// Who listed it.
    pub origin: Origin,
}

/// Where a CIDR block comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default list.
    Default,
    /// The longer default list of `--nomasq-all-reserved-ranges`.
    ReservedRanges,
    /// The link-local block of a family.
    LinkLocal,
    /// A config file.
    File(Place),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default list"),
            Origin::ReservedRanges => f.write_str("default list with --nomasq-all-reserved-ranges"),
            Origin::LinkLocal => f.write_str("link-local"),
            Origin::File(place) => place.fmt(f),
        }
    }
}

/// A config that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// What it means.
    pub config: Config,
    /// What its writer should know.
    pub warnings: Vec<Diagnostic>,
}

/// A config that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Why; never empty.
    pub errors: Vec<Diagnostic>,
    /// What its writer should know besides.
    pub warnings: Vec<Diagnostic>,
}

const DEFAULT_CIDRS: [&str; 3] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];
const RESERVED_RANGES: [&str; 8] = [
    "100.64.0.0/10",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
];

impl Config {
    /// What is in force without any file.
    pub fn default_for(flags: &Flags) -> Config {
        Config {
            non_masquerade_cidrs: default_cidrs(flags.nomasq_all_reserved_ranges),
            cidr_limit: 64,
            masq_link_local: false,
            masq_link_local_ipv6: false,
            resync_interval: Duration::from_secs(flags.resync_interval.map_or(60, |s| s.max(1).unsigned_abs())),
            enable_ipv6: flags.enable_ipv6,
            random_fully: flags.random_fully,
            to_ports: flags.to_ports.clone(),
        }
    }

    /// Reads the config files; none at all means the defaults.
    ///
    /// Time is linear in the size of the sources, whatever is in them. Memory is a few hundred bytes for each value and each
    /// CIDR, which are bounded in each file: a hostile file costs some 100 MB at most, or ten times its size where that is more.
    /// Whoever reads the files bounds their size and number.
    ///
    /// # Errors
    /// A file cannot be understood or asks for something impossible: [`Rejected`] tells everything that was found.
    pub fn parse(sources: &[Source], flags: &Flags) -> Result<Parsed, Rejected> {
        let mut findings = Findings::default();
        let files: Vec<_> = sources.iter().map(|source| reader::read_file(source, &mut findings)).collect();
        let config = merge::merge(files, flags, &mut findings);
        let (errors, warnings) = findings.into_parts();
        if errors.is_empty() { Ok(Parsed { config, warnings }) } else { Err(Rejected { errors, warnings }) }
    }

    /// The config as one line of JSON, in the form in which the reference logs the config in use.
    pub fn to_reference_json(&self) -> String {
        let cidrs: Vec<String> =
            self.non_masquerade_cidrs.iter().map(|listed| format!("\"{}\"", listed.text)).collect();
        let nanoseconds = i64::try_from(self.resync_interval.as_nanos()).unwrap_or(i64::MAX);
        format!(
            "{{\"nonMasqueradeCIDRs\":[{}],\"cidrLimit\":{},\"masqLinkLocal\":{},\"masqLinkLocalIPv6\":{},\"resyncInterval\":\"{}\"}}",
            cidrs.join(","),
            self.cidr_limit,
            self.masq_link_local,
            self.masq_link_local_ipv6,
            GoDuration(nanoseconds),
        )
    }
}

impl Parsed {
    /// The same under `--strict`, where an unknown key refuses the config.
    ///
    /// # Errors
    /// There is an unknown key.
    pub fn strict(self) -> Result<Parsed, Rejected> {
        let (mut errors, warnings): (Vec<_>, Vec<_>) =
            self.warnings.into_iter().partition(|warning| warning.kind == DiagnosticKind::UnknownKey);
        if errors.is_empty() {
            return Ok(Parsed { config: self.config, warnings });
        }
        for error in &mut errors {
            error.severity = Severity::Error;
        }
        Err(Rejected { errors, warnings })
    }
}

fn default_cidrs(with_reserved_ranges: bool) -> Vec<ListedCidr> {
    let (more, origin): (&[&str], Origin) =
        if with_reserved_ranges { (&RESERVED_RANGES, Origin::ReservedRanges) } else { (&[], Origin::Default) };
    DEFAULT_CIDRS
        .iter()
        .chain(more)
        .map(|text| ListedCidr {
            cidr: text.parse().expect("the built-in CIDRs are valid"),
            text: (*text).to_owned(),
            origin: origin.clone(),
        })
        .collect()
}
