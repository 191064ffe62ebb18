//! `demo`: the real daemon and real packets in private namespaces, held against the verdict function.

mod changes;
mod destinations;
mod report;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use masq::cidr::Family;
use masq::config::{Config, Flags, Source};
use masq::diagnostic::Diagnostic;
use masq::policy::Policy;

use self::report::{Observation, Report};
use super::output::{complain, finish};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT, input};
use crate::backend::nftables::desired::TABLE;
use crate::cli::{DemoOptions, OutputFormat};
use crate::lab::Lab;
use crate::lab::daemon::{Daemon, arguments};
use crate::lab::probe::Transport;

/// The config file's name in the demo's own directory.
const CONFIG_NAME: &str = "ip-masq-agent";

/// How long the daemon may take to get ready; tens of milliseconds are expected.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the program under demonstration is: this very file, even if its name is gone.
const PROGRAM: &str = "/proc/self/exe";

/// Why there is nothing to show.
enum Failure {
    /// The config is refused.
    Refused(Vec<Source>, Vec<Diagnostic>),
    /// The config cannot be read, or namespaces are not allowed.
    CannotLook(anyhow::Error),
    /// The daemon or the lab did not work.
    Broken(anyhow::Error),
}

/// Shows the agent at work and prints what was seen. Exit status 0: all as it should be; 1: a mismatch, or a config that is
/// refused; 3: it could not be tried here.
///
/// Must be called before the process has started any thread.
pub fn run(options: &DemoOptions) -> ExitCode {
    let status = match demonstrate(options) {
        Ok(report) => {
            let text = match options.output {
                OutputFormat::Text => report.to_text(),
                OutputFormat::Json => format!("{:#}\n", report.to_json()),
            };
            return finish(&text, if report.is_fine() { STATUS_FINE } else { STATUS_TO_REPORT });
        }
        Err(Failure::Refused(sources, errors)) => {
            for error in errors {
                complain(&with_source(&error, &sources));
            }
            STATUS_TO_REPORT
        }
        Err(Failure::CannotLook(error)) => {
            complain(&format!("demo: {error:#}\n"));
            STATUS_CANNOT_LOOK
        }
        Err(Failure::Broken(error)) => {
            complain(&format!("demo: {error:#}\n"));
            STATUS_TO_REPORT
        }
    };
    ExitCode::from(status)
}

/// Fewer source ports than this may run out while the demo's connections to one destination linger.
const FEWEST_PORTS: u64 = 100;

/// An error with the line it is about, as `check` shows it.
fn with_source(error: &Diagnostic, sources: &[Source]) -> String {
    let file = error.place.as_ref().and_then(|place| sources.iter().find(|source| *source.name == *place.file));
    let text = error.render_with_source(file.map_or(&[], |source| source.bytes.as_slice()));
    format!("{}\n", text.trim_end_matches('\n'))
}

fn demonstrate(options: &DemoOptions) -> Result<Report, Failure> {
    let sources = sources(options).map_err(Failure::CannotLook)?;
    let parsed = match Config::parse(&sources, &options.policy) {
        Ok(parsed) => parsed,
        Err(rejected) => return Err(Failure::Refused(sources, rejected.errors)),
    };
    let ports = &parsed.config.to_ports;
    if !ports.is_empty() && ports.size() < FEWEST_PORTS {
        let given = ports.size();
        return Err(Failure::CannotLook(anyhow!(
            "--to-ports {ports} holds {given} ports, and the demo's connections at one time take up to {FEWEST_PORTS}; give it a \
             larger range"
        )));
    }
    let mut notes = notes(options, &sources);
    notes.extend(parsed.warnings.iter().map(ToString::to_string));
    let is_directory = options.config_path.as_deref().is_some_and(Path::is_dir);
    let directory = stage::enter().map_err(Failure::CannotLook)?;
    let lab = Lab::open().map_err(|error| match stage::forbidding_sysctl() {
        Some(cause) => Failure::CannotLook(error.context(cause)),
        None => Failure::CannotLook(error),
    })?;
    let config_path = copy_config(&directory, &sources, is_directory).map_err(Failure::Broken)?;
    show(&lab, &parsed.config, options, &directory, &config_path, notes).map_err(Failure::Broken)
}

fn show(
    lab: &Lab,
    config: &Config,
    options: &DemoOptions,
    directory: &Path,
    config_path: &Path,
    notes: Vec<String>,
) -> Result<Report> {
    let start = Instant::now();
    let mut flags = options.policy_words.clone();
    flags.push("--backend=nftables".into());
    let mut daemon = Daemon::start(&lab.node, Path::new(PROGRAM), &arguments(config_path, flags), directory)?;
    daemon.wait_until_ready(PATIENCE)?;
    let ready_after = start.elapsed();
    let policy = Policy::new(config);
    let rows = destinations::rows(&policy, lab.families());
    let mut observations = Vec::with_capacity(rows.len());
    for &row in &rows {
        let udp = lab.probe(row.from, Transport::Udp, row.destination)?;
        let tcp = lab.probe(row.from, Transport::Tcp, row.destination)?;
        observations.push(Observation::new(&policy, row, udp, tcp));
    }
    let mut report = Report { notes, ready_after, observations, changes: Vec::new(), remarks: Vec::new() };
    make_changes(lab, config, &options.policy, config_path, &rows, &mut report)?;
    if !report.is_fine() {
        report.remarks.push(format!("Something is wrong with the agent or this demo{}", daemon.log_tail()));
    }
    Ok(report)
}

/// Adds a CIDR, then deletes the rules. Only a destination that is masqueraded shows either, so a policy that exempts everything
/// leaves nothing to measure.
fn make_changes(
    lab: &Lab,
    config: &Config,
    flags: &Flags,
    config_path: &Path,
    rows: &[destinations::Row],
    report: &mut Report,
) -> Result<()> {
    let mut policy = Policy::new(config);
    if let Some(&destination) = destinations::masqueraded(&policy, rows).first() {
        let (change, changed) = changes::exempt(lab, config, flags, config_path, destination)?;
        report.changes.push(change);
        policy = changed;
    }
    match destinations::masqueraded(&policy, rows).first() {
        Some(&destination) => {
            report.changes.push(changes::delete_table(lab, &policy, TABLE, destination));
        }
        None => report.remarks.push("All is exempt, so no packet could tell when deleted rules are back.".to_owned()),
    }
    Ok(())
}

/// The config files to show: the user's, or else a built-in one, unless a flag asks for the longer default list.
fn sources(options: &DemoOptions) -> Result<Vec<Source>> {
    match &options.config_path {
        Some(path) => input::read(Some(path)),
        None if options.policy.nomasq_all_reserved_ranges => Ok(Vec::new()),
        None => Ok(vec![Source { name: CONFIG_NAME.to_owned(), bytes: built_in(&options.policy).into_bytes() }]),
    }
}

fn built_in(flags: &Flags) -> String {
    let ipv6 = if flags.enable_ipv6 { "  - fd00::/8\n" } else { "" };
    format!(
        "nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - 192.168.0.0/16\n{ipv6}masqLinkLocal: false\nresyncInterval: 60s\n"
    )
}

fn notes(options: &DemoOptions, sources: &[Source]) -> Vec<String> {
    let addresses = crate::lab::addresses(Family::Ipv4);
    let mut notes = vec![format!(
        "A pod ({}), a node ({}) and an outside that answers for every other address, in private namespaces.",
        addresses.pod, addresses.node_outside
    )];
    match (&options.config_path, sources) {
        (Some(path), _) => notes.push(format!("The agent runs on a copy of {}.", path.display())),
        (None, []) => notes.push("The agent runs without a config file.".to_owned()),
        (None, [source, ..]) => {
            notes.push(format!("The agent runs on this config, called {}:", source.name));
            notes.extend(String::from_utf8_lossy(&source.bytes).lines().map(|line| format!("    {line}")));
        }
    }
    notes
}

/// Copies the files to where only the demo sees them, so that it can change them; the path for the daemon's --config.
fn copy_config(directory: &Path, sources: &[Source], is_directory: bool) -> Result<PathBuf> {
    let copies = directory.join("config");
    fs::create_dir(&copies).with_context(|| format!("cannot make {}", copies.display()))?;
    for source in sources {
        let name = match Path::new(&source.name).file_name() {
            Some(name) if is_directory => name,
            Some(_) | None => CONFIG_NAME.as_ref(),
        };
        let copy = copies.join(name);
        fs::write(&copy, &source.bytes).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    Ok(if is_directory { copies } else { copies.join(CONFIG_NAME) })
}
