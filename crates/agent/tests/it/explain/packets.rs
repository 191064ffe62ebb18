//! What `explain` predicts against what receivers see: random packets, with and without random rules of others.

use std::net::IpAddr;
use std::process::Command;

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::{Host, Lab, source_address};
use masq::cidr::{Cidr, Family};
use masq::config::Flags;
use serde_json::Value;

use crate::support::directory::Directory;
use crate::support::engine::Engine;
use crate::support::program::run_in;
use crate::support::random::{Random, config_of};

/// Rounds, each with other rules of strangers; the first has none.
const ROUNDS: u64 = 5;

/// Packets of a round.
const PACKETS: usize = 40;

const FLAGS: [&str; 2] = ["--enable-ipv6", "--random-fully=false"];

/// Rules of others around a few random blocks.
struct Strangers {
    random: Random,
    cidrs: Vec<Cidr>,
}

impl Strangers {
    /// A block that destinations are likely to be in.
    fn block(&mut self, family: Family) -> String {
        let of_family: Vec<&Cidr> = self.cidrs.iter().filter(|cidr| cidr.family() == family).collect();
        match of_family.len() {
            0 => match family {
                Family::Ipv4 => "128.0.0.0/1".to_owned(),
                Family::Ipv6 => "8000::/1".to_owned(),
            },
            count => of_family[usize::try_from(self.random.below(count as u64)).unwrap()].to_string(),
        }
    }

    /// A script for a shell that adds rules by `iptables` of this stack and by nft, in one family.
    fn script(&mut self, stack: Stack, family: Family) -> String {
        let (program, snat) = match family {
            Family::Ipv4 => ("iptables", "198.51.100.9"),
            Family::Ipv6 => ("ip6tables", "2001:db8:1::9"),
        };
        let program = match stack {
            Stack::Nft => format!("{program}-nft -t nat"),
            Stack::Legacy => format!("{program}-legacy -t nat"),
        };
        let mut script = format!("{program} -N STRANGER\n");
        for _ in 0..self.random.below(5) {
            let (block, other) = (self.block(family), self.block(family));
            let place = ["-A POSTROUTING", "-I POSTROUTING", "-A STRANGER"][self.below(3)];
            let condition = [
                format!("-d {block}"),
                format!("! -d {block}"),
                format!("-o e0 -p udp -d {block}"),
                format!("-p tcp -d {block}"),
                format!("-m addrtype ! --dst-type LOCAL -d {block}"),
                format!("-m mark ! --mark 0x4000/0x4000 -d {block} -p udp --dport 7000"),
                format!("-m mark --mark 0x1/0x1 -d {block}"),
                format!("! -o e+ -d {block}"),
            ][self.below(8)]
            .clone();
            let target = [
                "-j MASQUERADE".to_owned(),
                "-j ACCEPT".to_owned(),
                "-j RETURN".to_owned(),
                format!("-j SNAT --to-source {snat}"),
                "-j STRANGER".to_owned(),
                "-g STRANGER".to_owned(),
            ][self.below(if place.ends_with("STRANGER") { 4 } else { 6 })]
            .clone();
            script += &format!("{program} {place} {condition} {target}\n");
            if self.below(4) == 0 {
                script += &format!("{program} -A STRANGER -d {other} -j MASQUERADE\n");
            }
        }
        script + &self.native(family)
    }

    /// The same with a table of nft's own, before or behind all others.
    fn native(&mut self, family: Family) -> String {
        let (keyword, snat) = match family {
            Family::Ipv4 => ("ip", "198.51.100.9"),
            Family::Ipv6 => ("ip6", "2001:db8:1::9"),
        };
        let (block, other) = (self.block(family), self.block(family));
        let priority = [80, 102, 110][self.below(3)];
        let rule = [
            format!("{keyword} daddr {block} masquerade"),
            format!("{keyword} daddr != {block} oifname \"e*\" masquerade random"),
            format!("{keyword} daddr {{ {block} }} snat to {snat}"),
            format!("{keyword} daddr {block} snat {keyword} to {keyword} saddr"),
            format!("{keyword} daddr {block} accept; {keyword} daddr {other} masquerade"),
            format!("{keyword} daddr {block} jump deep; udp dport 7000 {keyword} daddr {other} masquerade"),
            format!("{keyword} daddr @blocks masquerade"),
            format!("fib daddr type local accept; ct state new meta mark 0 {keyword} daddr {block} masquerade"),
        ][self.below(8)]
        .clone();
        let notrack = if self.below(3) == 0 {
            format!("chain raw {{ type filter hook prerouting priority -300; {keyword} daddr {other} notrack; }};")
        } else {
            String::new()
        };
        format!(
            "nft 'table {keyword} stranger {{ set blocks {{ type {}; flags interval; elements = {{ {block} }}; }}; \
             chain deep {{ {keyword} daddr {other} return; masquerade; }}; \
             chain post {{ type nat hook postrouting priority {priority}; {rule}; }}; {notrack} }}'\n",
            if family == Family::Ipv4 { "ipv4_addr" } else { "ipv6_addr" },
        )
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.random.below(bound)).unwrap()
    }
}

/// Removes the rules of the last round.
fn cleaning(stack: Stack) -> String {
    let suffix = match stack {
        Stack::Nft => "nft",
        Stack::Legacy => "legacy",
    };
    let tables = ["ip", "ip6"].map(|family| format!("nft delete table {family} stranger 2>/dev/null || true\n"));
    let chains = ["iptables", "ip6tables"].map(|program| {
        let save = format!("{program}-{suffix}-save -t nat");
        format!(
            "{save} | grep -v IP-MASQ-AGENT | grep -e '^-A POSTROUTING' | sed 's/^-A/-D/' | while read -r rule; do \
             eval {program}-{suffix} -t nat \"$rule\"; done\n\
             {program}-{suffix} -t nat -F STRANGER 2>/dev/null && {program}-{suffix} -t nat -X STRANGER || true\n"
        )
    });
    tables.concat() + &chains.concat()
}

fn shell(lab: &Lab, locks: &Directory, script: &str) {
    let mut command = Command::new("/bin/sh");
    command.args(["-ec", script]).env("XTABLES_LOCKFILE", locks.join("lock"));
    let output = lab.node.run(move || command.output().unwrap());
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What `explain` says of a datagram to the receivers' port.
fn explain(lab: &Lab, config: &str, from: Host, destination: IpAddr) -> Value {
    let source = source_address(from, Family::of(destination)).to_string();
    let destination = match destination {
        IpAddr::V4(address) => format!("{address}:7000/udp"),
        IpAddr::V6(address) => format!("[{address}]:7000/udp"),
    };
    let args = [&["explain", "--config", "-", "-o", "json", &source, &destination], &FLAGS[..]].concat();
    let run = run_in(&lab.node, &args, config, |_| {});
    assert!(matches!(run.status, Some(0 | 1)), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// Sends random packets and holds what receivers saw against what is predicted.
fn hold(lab: &Lab, config: &str, cidrs: &[Cidr], stack: Stack, seed: u64) {
    let locks = Directory::new();
    let mut strangers = Strangers { random: Random::new(seed), cidrs: cidrs.to_vec() };
    let (mut certain, mut by_strangers, mut script) = (0, 0, String::new());
    for round in 0..ROUNDS {
        if round > 0 {
            shell(lab, &locks, &cleaning(stack));
            script = lab.families().iter().map(|&family| strangers.script(stack, family)).collect();
            shell(lab, &locks, &script);
        }
        let from = if round % 3 == 2 { Host::Node } else { Host::Pod };
        let destinations: Vec<IpAddr> = (0..PACKETS)
            .map(|place| strangers.random.destination(lab.families()[place % lab.families().len()], cidrs))
            .collect();
        let seen = lab.probe_many(from, &destinations).unwrap();
        for (&destination, seen) in destinations.iter().zip(seen) {
            let value = explain(lab, config, from, destination);
            let result = &value["result"];
            if result["certain"] == true {
                certain += 1;
                by_strangers += usize::from(result["decided_by"] == "rule");
                let seen = seen.map(|seen| seen.source.ip().to_string());
                assert_eq!(
                    result["source"].as_str(),
                    seen.as_deref(),
                    "{stack} {round} {destination}\n{script}{config}{value:#}"
                );
            }
        }
    }
    let all = usize::try_from(ROUNDS).unwrap() * PACKETS;
    assert!(certain * 10 > all * 9, "only {certain} of {all} were certain");
    assert!(by_strangers * 20 > all, "rules of strangers decide too rarely to show anything: {by_strangers} of {all}");
}

/// Random lists of both families.
fn cidrs(seed: u64) -> Vec<Cidr> {
    let mut random = Random::new(seed);
    Family::ALL.into_iter().flat_map(|family| random.cidrs(family, 12)).collect()
}

/// A second address of the node that strangers translate to.
fn add_second_ipv6_address(lab: &Lab) {
    if lab.families().contains(&Family::Ipv6) {
        // Deprecated, so that masquerading never picks it.
        shell(lab, &Directory::new(), "ip addr add 2001:db8:1::9/128 dev e0 preferred_lft 0");
    }
}

fn predictions_hold(engine: Engine, stack: Stack, seed: u64) {
    let cidrs = cidrs(seed);
    let config = config_of(&cidrs);
    let lab = Lab::open().unwrap();
    add_second_ipv6_address(&lab);
    let flags = Flags { enable_ipv6: true, random_fully: false, ..Flags::default() };
    let _agent = engine.start(&lab, &flags, Some(&config));
    hold(&lab, &config, &cidrs, stack, seed + 1);
}

#[test]
fn predictions_hold_with_the_nftables_backend() {
    predictions_hold(Engine::Nftables, Stack::Nft, 11);
}

#[test]
fn predictions_hold_with_the_nftables_backend_beside_iptables_legacy() {
    predictions_hold(Engine::Nftables, Stack::Legacy, 21);
}

#[test]
fn predictions_hold_with_the_iptables_backend_on_the_nft_stack() {
    predictions_hold(Engine::Iptables(Stack::Nft), Stack::Nft, 31);
}

#[test]
fn predictions_hold_with_the_iptables_backend_on_the_legacy_stack() {
    predictions_hold(Engine::Iptables(Stack::Legacy), Stack::Legacy, 41);
}
