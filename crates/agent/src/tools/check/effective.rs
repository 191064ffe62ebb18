//! What a config means with every default filled in, for people and for programs.

use masq::cidr::Family;
use masq::config::{Config, ListedCidr};
use masq::duration::GoDuration;
use serde_json::{Value, json};

/// More CIDRs than this are counted instead of shown; `-o json` has them all.
const SHOWN: usize = 40;

/// A page about the policy in force.
pub(super) fn to_text(config: &Config) -> String {
    let mut text = String::from("In force with this config:\n");
    for family in Family::ALL {
        if family == Family::Ipv6 && !config.enable_ipv6 {
            text.push_str("  IPv6: left alone (--enable-ipv6 is off)\n");
        } else {
            describe(family, config, &mut text);
        }
    }
    text.push_str(&format!("  source ports: {}\n", ports(config)));
    text.push_str(&format!("  resync: every {}\n", resync_interval(config)));
    text
}

fn describe(family: Family, config: &Config, text: &mut String) {
    let listed: Vec<&ListedCidr> =
        config.non_masquerade_cidrs.iter().filter(|listed| listed.cidr.family() == family).collect();
    text.push_str(&format!("  {family}: everything is masqueraded but\n"));
    if let Some(block) = link_local(family, config) {
        text.push_str(&format!("    {block:<18}  link-local\n"));
    }
    for listed in listed.iter().take(SHOWN) {
        text.push_str(&format!("    {:<18}  {}\n", listed.text, listed.origin));
    }
    if listed.len() > SHOWN {
        text.push_str(&format!("    and {} more\n", listed.len() - SHOWN));
    }
    text.push_str("    addresses of the node itself\n");
}

/// The link-local block, if it is exempt.
fn link_local(family: Family, config: &Config) -> Option<&'static str> {
    match family {
        Family::Ipv4 => (!config.masq_link_local).then_some("169.254.0.0/16"),
        Family::Ipv6 => (!config.masq_link_local_ipv6).then_some("fe80::/10"),
    }
}

fn ports(config: &Config) -> String {
    let choice = if config.random_fully { "at random" } else { "kept where free" };
    if config.to_ports.is_empty() {
        return choice.to_owned();
    }
    format!("{choice}, from {} for tcp, udp and sctp", config.to_ports)
}

fn resync_interval(config: &Config) -> String {
    GoDuration(i64::try_from(config.resync_interval.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

/// The keys are those of the config file; each CIDR comes with where it was listed.
pub(super) fn to_json(config: &Config) -> Value {
    let cidr = |listed: &ListedCidr| json!({ "cidr": listed.text, "origin": listed.origin.to_string() });
    json!({
        "nonMasqueradeCIDRs": config.non_masquerade_cidrs.iter().map(cidr).collect::<Vec<_>>(),
        "cidrLimit": config.cidr_limit,
        "masqLinkLocal": config.masq_link_local,
        "masqLinkLocalIPv6": config.masq_link_local_ipv6,
        "resyncInterval": resync_interval(config),
        "enableIPv6": config.enable_ipv6,
        "randomFully": config.random_fully,
        "toPorts": config.to_ports.to_string(),
    })
}
