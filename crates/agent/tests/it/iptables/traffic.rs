//! Real packets on both stacks, held against the verdict function.

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::Lab;
use masq::config::Flags;

use crate::support::engine::{mismatches, policy};
use crate::support::iptables::StackDaemon;

fn packets_are_treated_as_decided(flags: &Flags, args: &[&str], config: &str) {
    for stack in Stack::ALL {
        let lab = Lab::open().unwrap();
        let _daemon = StackDaemon::start_ready(&lab.node, stack, args, config);
        let wrong = mismatches(&lab, &policy(flags, Some(config)));
        assert!(wrong.is_empty(), "{stack}: {wrong:#?}");
    }
}

#[test]
fn packets_are_treated_as_decided_with_the_default_list() {
    packets_are_treated_as_decided(&Flags::default(), &[], "");
}

#[test]
fn packets_are_treated_as_decided_with_ipv6_and_nested_blocks() {
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    let config =
        "nonMasqueradeCIDRs: [198.51.100.0/24, 198.51.0.0/16, 203.0.113.7/32, 'fd00::/8', '2001:db8:1::/64']\n";
    packets_are_treated_as_decided(&flags, &["--enable-ipv6"], config);
}

#[test]
fn packets_are_treated_as_decided_with_an_empty_list_and_link_local_masqueraded() {
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    let config = "nonMasqueradeCIDRs: []\nmasqLinkLocal: true\n";
    packets_are_treated_as_decided(&flags, &["--enable-ipv6"], config);
}

#[test]
fn packets_are_treated_as_decided_with_ports_and_without_random_fully() {
    let to_ports = "1024-29999,32768-65535";
    let flags = Flags { to_ports: to_ports.parse().unwrap(), random_fully: false, ..Flags::default() };
    packets_are_treated_as_decided(&flags, &["--to-ports=1024-29999,32768-65535", "--random-fully=false"], "");
}
