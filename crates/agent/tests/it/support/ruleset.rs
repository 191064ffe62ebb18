//! The node's ruleset as tests look at it: through the nft program, and through the backend's own reading.

use std::net::IpAddr;
use std::process::Command;

use ip_masq_agent::backend::nftables::Nftables;
use ip_masq_agent::backend::nftables::observed::Observed;
use ip_masq_agent::lab::namespace::Namespace;
use masq::cidr::Family;

use super::agent::wait_until;

/// Runs one nft command in the namespace, as a stranger on the node would.
pub fn nft(namespace: &Namespace, command: &str) -> String {
    let words = command.to_owned();
    let output = namespace.run(move || Command::new("nft").arg(words).output().unwrap());
    assert!(output.status.success(), "nft {command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The agent's table as nft prints it, with what counters hold taken out; empty if there is no table.
pub fn table_text(namespace: &Namespace) -> String {
    let output =
        namespace.run(|| Command::new("nft").args(["list", "table", "inet", "ip-masq-agent"]).output().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("packets ")).collect::<Vec<_>>().join("\n")
}

/// The agent's table and the generation it was read in.
pub fn observe(namespace: &Namespace) -> (Observed, u32) {
    let (observed, generation) = namespace.run(|| Nftables::open().unwrap().observe().unwrap());
    (observed, generation.0)
}

/// What the set of exempt destinations of a family holds, as `first-last` texts; `None` if there is no such set.
pub fn exempt(namespace: &Namespace, family: Family) -> Option<Vec<String>> {
    let name = ip_masq_agent::backend::nftables::desired::exempt_name(family);
    let (observed, _) = observe(namespace);
    let set = observed.sets.into_iter().find(|set| set.set.name == name)?;
    let text = |first: IpAddr, last: IpAddr| format!("{first}-{last}");
    let intervals = set.elements.intervals.iter();
    Some(intervals.map(|interval| text(family.address(interval.first), family.address(interval.last))).collect())
}

/// Waits until the set of exempt IPv4 destinations holds exactly these `first-last` ranges.
pub fn wait_for_exempt(namespace: &Namespace, ranges: &[&str]) {
    wait_until(&format!("exempt ranges {ranges:?}"), || {
        exempt(namespace, Family::Ipv4).is_some_and(|found| found == ranges)
    });
}
