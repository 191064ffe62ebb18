//! Changes under the daemon's eyes, each timed by packets: how long until they are treated as they should be.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use masq::cidr::{Cidr, Family};
use masq::config::{Config, Flags, ListedCidr, Origin, Source};
use masq::policy::Policy;
use masq::verdict::decide;
use nfnetlink::{Batch, ProtocolFamily, Socket};
use serde_json::json;

use crate::lab::judge::{compare, facts};
use crate::lab::probe::Transport;
use crate::lab::{Host, Lab};

/// How long a change may take. Milliseconds are expected; the resync interval would be the last net, but nobody waits for that.
const PATIENCE: Duration = Duration::from_secs(10);

/// A change and how long it took to be in force.
#[derive(Debug)]
pub struct Change {
    /// What was done, in the past tense.
    pub what: String,
    /// From the moment it was done until a packet that was treated as it should be had arrived; an error where none did.
    pub in_force_after: Result<Duration>,
}

/// Adds a CIDR for one destination, masqueraded so far, to the config that the daemon reads at `path`, and waits until the
/// destination is exempt. Returns the policy that is then in force, too.
///
/// # Errors
/// The config cannot be written, or is refused: a defect of the demo.
pub fn exempt(lab: &Lab, config: &Config, flags: &Flags, path: &Path, destination: IpAddr) -> Result<(Change, Policy)> {
    let cidr = Cidr::new(destination, Family::of(destination).bits())?;
    let text = with_cidr(config, cidr);
    let source = Source { name: path.display().to_string(), bytes: text.clone().into_bytes() };
    let parsed = Config::parse(&[source], flags)
        .map_err(|rejected| anyhow!("the changed config is refused: {:?}", rejected.errors))?;
    let policy = Policy::new(&parsed.config);
    let fresh = replace(path, &text)?;
    let start = Instant::now();
    fs::rename(&fresh, file_of(path)).with_context(|| format!("cannot rename {}", fresh.display()))?;
    let in_force_after = until_as_decided(lab, &policy, destination, start);
    Ok((Change { what: format!("added {cidr} to the config"), in_force_after }, policy))
}

/// Deletes the agent's table, as `nft flush ruleset` would, and waits until a destination that the policy masquerades is
/// masqueraded again.
pub fn delete_table(lab: &Lab, policy: &Policy, table: &'static str, destination: IpAddr) -> Change {
    let in_force_after = lab.node.run(move || delete(table)).and_then(|(start, socket)| {
        let time = until_as_decided(lab, policy, destination, start);
        // Closing it waits for the kernel, which must not count as the daemon's time.
        drop(socket);
        time
    });
    Change { what: format!("deleted the table {table} behind the agent's back"), in_force_after }
}

/// Deletes a table in this thread's namespace; the moment before, and the socket that did it.
fn delete(table: &str) -> Result<(Instant, Socket)> {
    let mut socket = Socket::open()?;
    let mut batch = Batch::new();
    batch.delete_table((ProtocolFamily::Inet, table));
    let start = Instant::now();
    socket.commit(&batch, None).with_context(|| format!("cannot delete the table {table}"))?;
    Ok((start, socket))
}

/// Sends packets until one is treated as decided; the time from `start` until that packet had arrived.
fn until_as_decided(lab: &Lab, policy: &Policy, destination: IpAddr, start: Instant) -> Result<Duration> {
    let decision = decide(policy, &facts(destination, Transport::Udp));
    loop {
        let seen = lab.probe(Host::Pod, Transport::Udp, destination)?;
        let arrived = start.elapsed();
        match compare(&decision, destination, seen) {
            Ok(()) => return Ok(arrived),
            Err(disagreement) if arrived > PATIENCE => {
                return Err(anyhow!("not in force after {PATIENCE:?}: to {destination}, {disagreement}"));
            }
            Err(_) => {}
        }
    }
}

/// The whole config with one more CIDR, as JSON: in this form it stands for any file that means the same.
fn with_cidr(config: &Config, cidr: Cidr) -> String {
    let added = ListedCidr { cidr, text: cidr.to_string(), origin: Origin::Default };
    let listed: Vec<&str> =
        config.non_masquerade_cidrs.iter().chain([&added]).map(|listed| listed.text.as_str()).collect();
    let limit = config.cidr_limit.max(i64::try_from(listed.len()).unwrap_or(i64::MAX));
    let text = json!({
        "nonMasqueradeCIDRs": listed,
        "cidrLimit": limit,
        "masqLinkLocal": config.masq_link_local,
        "masqLinkLocalIPv6": config.masq_link_local_ipv6,
        "resyncInterval": format!("{}ns", config.resync_interval.as_nanos()),
    });
    text.to_string()
}

/// Writes `text` beside the config file for a rename over it, and removes what else a config directory holds.
fn replace(path: &Path, text: &str) -> Result<PathBuf> {
    let file = file_of(path);
    let parent = file.parent().unwrap_or(Path::new("/"));
    if path.is_dir() {
        for entry in fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
            let other = entry?.path();
            if other != file {
                fs::remove_file(&other).with_context(|| format!("cannot remove {}", other.display()))?;
            }
        }
    }
    // A name that the daemon does not read, so that it never sees both.
    let fresh = parent.join(".fresh");
    fs::write(&fresh, text).with_context(|| format!("cannot write {}", fresh.display()))?;
    Ok(fresh)
}

/// The file that holds the config once there is one only.
fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(super::CONFIG_NAME) } else { path.to_owned() }
}
