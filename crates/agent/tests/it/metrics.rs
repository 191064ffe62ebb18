//! The page of metrics of the running daemon: its numbers against packets, its form against the programs that read it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::{Command, Stdio};

use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::lab::namespace::Namespace;
use ip_masq_agent::lab::{Host, Lab};
use masq::cidr::Family;
use masq::config::Flags;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::agent::Agent;
use crate::support::engine::{ENGINES, Engine};
use crate::support::iptables::{CHAIN, real};
use crate::support::program::{finish, run_in};
use crate::support::ruleset::{nft, table_text};
use crate::support::scrape::{HTTP, Scraper};

const DUAL_STACK: &str = "nonMasqueradeCIDRs: [10.0.0.0/8, 'fd00::/8']\n";
const ONE_MORE: &str = "nonMasqueradeCIDRs: [10.0.0.0/8, 'fd00::/8', 192.168.0.0/16]\n";

/// Connections from the pod, counted as they are made.
struct Traffic<'l> {
    lab: &'l Lab,
    masqueraded: u16,
    exempt: u16,
}

impl Traffic<'_> {
    /// Opens so many more connections of each verdict in each family, each to another destination.
    fn send(&mut self, masqueraded: u16, exempt: u16) {
        let mut destinations: Vec<IpAddr> = Vec::new();
        for number in self.masqueraded..self.masqueraded + masqueraded {
            let [high, low] = number.to_be_bytes();
            destinations.push(Ipv4Addr::new(198, 18, high, low).into());
            destinations.push(Ipv6Addr::new(0x2001, 0xdb8, 0x99, 0, 0, 0, 0, number).into());
        }
        for number in self.exempt..self.exempt + exempt {
            let [high, low] = number.to_be_bytes();
            destinations.push(Ipv4Addr::new(10, 9, high, low).into());
            destinations.push(Ipv6Addr::new(0xfd00, 0x9, 0, 0, 0, 0, 0, number).into());
        }
        let seen = self.lab.probe_many(Host::Pod, &destinations).unwrap();
        assert!(seen.iter().all(Option::is_some));
        (self.masqueraded, self.exempt) = (self.masqueraded + masqueraded, self.exempt + exempt);
    }

    /// Waits until the daemon's numbers are those.
    fn is_counted(&self, agent: &mut Agent, scraper: &Scraper<'_>) {
        let wanted = [("masquerade", self.masqueraded), ("exempt", self.exempt)];
        // A pass of the loop reads counters whose reading takes programs; scrapes have that done now and then.
        agent.signal(Signal::SIGHUP).unwrap();
        let mut found = Vec::new();
        let is_so = || {
            let samples = scraper.samples();
            found = self
                .lab
                .families()
                .iter()
                .flat_map(|family| {
                    let family = family_word(*family);
                    let sample = |verdict: &str| {
                        format!("ip_masq_agent_connections_total{{family=\"{family}\",verdict=\"{verdict}\"}}")
                    };
                    wanted.map(|(verdict, count)| (sample(verdict), samples.get(&sample(verdict)).copied(), count))
                })
                .collect::<Vec<_>>();
            found.iter().all(|(_, found, wanted)| *found == Some(f64::from(*wanted)))
        };
        let held = crate::support::agent::holds_in_time(is_so);
        assert!(held, "{found:?}{}", agent.log_tail());
    }
}

fn family_word(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

/// Removes the rules of both families behind the agent's back.
fn flush(engine: Engine, node: &Namespace) {
    match engine {
        Engine::Nftables => {
            nft(node, "delete table inet ip-masq-agent");
        }
        Engine::Iptables(stack) => {
            for program in ["iptables", "ip6tables"] {
                let mut command = Command::new(real(program, stack, ""));
                command.args(["-w", "10", "-t", "nat", "-F", CHAIN]);
                let run = finish(node, command, "");
                assert_eq!(run.status, Some(0), "{run:?}");
            }
        }
    }
}

fn start(engine: Engine, lab: &Lab) -> Agent {
    engine.start_with(lab, &Flags { enable_ipv6: true, ..Flags::default() }, Some(DUAL_STACK), &[HTTP])
}

#[test]
fn connections_are_counted_exactly_through_a_reload_and_a_heal() {
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let mut agent = start(engine, &lab);
        let scraper = Scraper::new(&lab.node);
        let mut traffic = Traffic { lab: &lab, masqueraded: 0, exempt: 0 };
        traffic.is_counted(&mut agent, &scraper);
        traffic.send(300, 200);
        traffic.is_counted(&mut agent, &scraper);
        agent.write_config(ONE_MORE);
        agent.wait_until("the config to be in force", || scraper.value("syncs_total{result=\"changed\"}") == Some(2.0));
        traffic.send(400, 300);
        traffic.is_counted(&mut agent, &scraper);
        flush(engine, &lab.node);
        agent.signal(Signal::SIGHUP).unwrap();
        // One look may come between the two programs that emptied the chains, and heal one family before the other needs it.
        let drifts = match engine {
            Engine::Nftables => 1,
            Engine::Iptables(_) => lab.families().len(),
        };
        agent.wait_until("both families to be healed", || scraper.drifts() >= drifts as f64);
        scraper.wait_for("/readyz", 200, "[+]kernel: holds the policy");
        traffic.send(300, 200);
        traffic.is_counted(&mut agent, &scraper);
        assert_eq!((traffic.masqueraded, traffic.exempt), (1_000, 700));
        let status = scraper.get("/statusz").body;
        assert!(status.contains("IPv4 connections: 200 exempt, 300 masqueraded"), "since the heal: {status}");
    }
}

#[test]
fn the_counters_of_thousands_of_cidrs_are_told_by_a_later_scrape() {
    let cidrs: String = (0..2_500).map(|number| format!("- 11.{}.{}.0/24\n", number / 250, number % 250)).collect();
    let config = format!("cidrLimit: 3000\nnonMasqueradeCIDRs:\n- 10.0.0.0/8\n- fd00::/8\n{cidrs}");
    let lab = Lab::open().unwrap();
    let flags = Flags { enable_ipv6: true, ..Flags::default() };
    let agent = Engine::Iptables(Stack::Nft).start_with(&lab, &flags, Some(&config), &[HTTP]);
    let scraper = Scraper::new(&lab.node);
    let name = "connections_total{family=\"ipv4\",verdict=\"exempt\"}";
    agent.wait_until("the counters to have been read once", || scraper.value(name) == Some(0.0));
    Traffic { lab: &lab, masqueraded: 0, exempt: 0 }.send(0, 5);
    agent.wait_until("the connections to be counted", || scraper.value(name) == Some(5.0));
}

#[test]
fn what_an_earlier_run_has_counted_is_not_counted_again() {
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let mut traffic = Traffic { lab: &lab, masqueraded: 0, exempt: 0 };
        let earlier = start(engine, &lab);
        traffic.send(20, 10);
        drop(earlier);
        let mut agent = start(engine, &lab);
        let scraper = Scraper::new(&lab.node);
        let mut traffic = Traffic { lab: &lab, masqueraded: 0, exempt: 0 };
        traffic.is_counted(&mut agent, &scraper);
        traffic.send(7, 5);
        traffic.is_counted(&mut agent, &scraper);
    }
}

#[test]
fn connections_are_counted_by_cidr_where_that_is_asked_for() {
    const NESTED: &str = "nonMasqueradeCIDRs: [10.1.0.0/16, 10.0.0.0/8, 172.16.0.0/12, 'fd00::/8']\n";
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let flags = Flags { enable_ipv6: true, ..Flags::default() };
        let agent = engine.start_with(&lab, &flags, Some(NESTED), &[HTTP, "--cidr-metrics"]);
        let send = |destinations: &[&str]| {
            let destinations: Vec<IpAddr> = destinations.iter().map(|text| text.parse().unwrap()).collect();
            assert!(lab.probe_many(Host::Pod, &destinations).unwrap().iter().all(Option::is_some));
        };
        send(&["10.1.0.9", "10.1.1.9", "10.1.255.255", "10.0.255.255", "10.2.0.0", "fd00::99", "198.18.0.1"]);
        let scraper = Scraper::new(&lab.node);
        let counted = |counts: [(&str, f64); 5]| {
            let is_so = |samples: &std::collections::BTreeMap<String, f64>| {
                counts.iter().all(|(cidr, count)| {
                    samples.get(&format!("ip_masq_agent_cidr_connections_total{{cidr=\"{cidr}\"}}")) == Some(count)
                })
            };
            agent.wait_until(&format!("{counts:?} with {engine}"), || is_so(&scraper.samples()));
        };
        let [specific, wide, never, link_local, six] =
            ["10.1.0.0/16", "10.0.0.0/8", "172.16.0.0/12", "169.254.0.0/16", "fd00::/8"];
        counted([(specific, 3.0), (wide, 2.0), (never, 0.0), (link_local, 0.0), (six, 1.0)]);
        // The part of 10.0.0.0/8 behind 10.1.0.0/16 is cut in two.
        agent.write_config(&NESTED.replace("10.1.0.0/16", "10.1.0.0/16, 10.4.0.0/16"));
        agent.wait_until("the config to be in force", || scraper.value("syncs_total{result=\"changed\"}") == Some(2.0));
        counted([("10.4.0.0/16", 0.0), (specific, 3.0), (wide, 2.0), (never, 0.0), (six, 1.0)]);
        assert_eq!(scraper.value("cidr_connections_total{cidr=\"198.18.0.0/15\"}"), None);
    }
}

#[test]
fn a_table_that_counts_by_cidr_is_in_sync_and_kept_by_a_run_without_a_good_config() {
    let node = Namespace::open("node").unwrap();
    let config = "nonMasqueradeCIDRs: [10.0.0.0/9, 10.128.0.0/9, 240.0.0.0/4]\n";
    let mut agent = Agent::start_ready(&node, &[HTTP, "--cidr-metrics"], Some(config));
    let scraper = Scraper::new(&node);
    agent.signal(Signal::SIGHUP).unwrap();
    agent.wait_until("another look", || scraper.value("syncs_total{result=\"in_sync\"}") >= Some(1.0));
    assert_eq!(scraper.value("syncs_total{result=\"changed\"}"), Some(1.0));
    let path = agent.config_path();
    let diff = run_in(&node, &["diff", "--backend=nftables", "--config", path.to_str().unwrap()], "", |_| {});
    assert_eq!(diff.status, Some(0), "{diff:?}");
    nft(&node, "flush set inet ip-masq-agent cidrs-ipv4");
    agent.wait_until("the set to be healed", || scraper.value("drifts_total{kind=\"element\"}") == Some(1.0));
    let before = table_text(&node);
    assert!(before.contains("cidrs-ipv4") && before.contains("240.0.0.0/4 counter"), "{before}");
    drop(agent);
    let next = Agent::start_ready(&node, &[HTTP, "--cidr-metrics"], Some("nonMasqueradeCIDRs: [x]\n"));
    next.wait_for_line("the rules of an earlier run stay in force");
    assert_eq!(table_text(&node), before);
    drop(next);
    let without = Agent::start_ready(&node, &[HTTP], Some(config));
    without.wait_for_line("Kernel updated");
    assert!(!table_text(&node).contains("cidrs-ipv4"));
}

#[test]
fn promtool_finds_nothing_to_complain_about() {
    for engine in ENGINES {
        let lab = Lab::open().unwrap();
        let agent = start(engine, &lab);
        let scraper = Scraper::new(&lab.node);
        agent.wait_until("others' rules to be looked at", || {
            scraper.value("foreign_nat_rules{position=\"after\"}").is_some()
        });
        let page = scraper.get("/metrics");
        assert_eq!(page.fields["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        let mut promtool = Command::new("promtool");
        promtool.args(["check", "metrics"]).stdin(Stdio::piped());
        let run = finish(&lab.node, promtool, &page.body);
        assert_eq!((run.status, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""), "{}", page.body);
    }
}

#[test]
fn openmetrics_is_for_those_who_ask_for_it() {
    let node = Namespace::open("node").unwrap();
    let _agent = Agent::start_ready(&node, &[HTTP], None);
    let scraper = Scraper::new(&node);
    let accept =
        "Accept: application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";
    let page = scraper.client().get("/metrics", accept);
    assert_eq!(page.fields["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(page.body.ends_with("\n# EOF\n"), "{}", page.body);
    assert!(page.body.contains("# TYPE ip_masq_agent_connections counter\n"), "{}", page.body);
    assert!(!scraper.get("/metrics").body.contains("# EOF"));
}

#[test]
fn what_others_do_shows_in_drifts_heals_and_syncs() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &[HTTP], None);
    let scraper = Scraper::new(&node);
    let before = scraper.samples();
    let value = |name: &str| before[&format!("ip_masq_agent_{name}")];
    assert_eq!((value("drifts_total{kind=\"table\"}"), value("heal_duration_seconds_count")), (0.0, 0.0));
    assert_eq!((value("syncs_total{result=\"changed\"}"), value("in_sync")), (1.0, 1.0));
    nft(&node, "delete table inet ip-masq-agent");
    agent.wait_until("the heal to be counted", || scraper.value("drifts_total{kind=\"table\"}") == Some(1.0));
    agent.wait_until("the pass to be over", || scraper.value("syncs_total{result=\"changed\"}") == Some(2.0));
    let after = scraper.samples();
    assert_eq!(after["ip_masq_agent_heal_duration_seconds_count"], 1.0);
    assert_eq!(after["ip_masq_agent_heal_duration_seconds_bucket{le=\"+Inf\"}"], 1.0);
    assert!(after["ip_masq_agent_heal_duration_seconds_sum"] > 0.0);
    assert!(after["ip_masq_agent_last_sync_timestamp_seconds"] > value("last_sync_timestamp_seconds"));
}

#[test]
fn the_config_shows_by_its_hash_its_warnings_and_its_cidrs() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &[HTTP], Some("nonMasqueradeCIDR: []\n"));
    let scraper = Scraper::new(&node);
    let hash = |scraper: &Scraper<'_>| {
        scraper.samples().into_keys().find(|name| name.starts_with("ip_masq_agent_config_info{")).unwrap()
    };
    assert_eq!(scraper.value("config_warnings"), Some(1.0));
    let (before, since) = (hash(&scraper), scraper.value("config_last_change_timestamp_seconds"));
    agent.write_config("nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12]\nmasqLinkLocal: true\n");
    agent.wait_until("the config to be read", || hash(&scraper) != before);
    agent.wait_until("the config to be in force", || {
        scraper.value("cidrs{family=\"ipv4\",list=\"nonMasqueradeCIDRs\"}") == Some(2.0)
    });
    assert_eq!(scraper.value("cidrs{family=\"ipv4\",list=\"linkLocal\"}"), Some(0.0));
    assert_eq!(scraper.value("config_warnings"), Some(0.0));
    assert!(scraper.value("config_last_change_timestamp_seconds") > since);
    assert!(!scraper.samples().keys().any(|name| name.contains("ipv6")), "IPv6 is off");
    let config = agent.config_path();
    let status = run_in(
        &node,
        &["status", "-o", "json", "--backend=nftables", "--config", config.to_str().unwrap()],
        "",
        |_| {},
    );
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(hash(&scraper), format!("ip_masq_agent_config_info{{hash={}}}", status["config"]["hash"]));
}

#[test]
fn rules_of_others_are_counted_by_whether_they_come_before_ours_or_after() {
    for (engine, before, after) in [(ENGINES[0], 1.0, 1.0), (ENGINES[1], 0.0, 2.0)] {
        let lab = Lab::open().unwrap();
        let agent = engine.start_with(&lab, &Flags::default(), None, &[HTTP]);
        let mut iptables = Command::new(real("iptables", Stack::Nft, ""));
        iptables.args(["-t", "nat", "-A", "POSTROUTING", "-s", "10.99.0.0/16", "-j", "MASQUERADE"]);
        assert_eq!(finish(&lab.node, iptables, "").status, Some(0));
        nft(
            &lab.node,
            "add table ip late; add chain ip late post { type nat hook postrouting priority 300; }; \
             add rule ip late post ip saddr 10.98.0.0/16 masquerade",
        );
        let scraper = Scraper::new(&lab.node);
        let values = || ["before", "after"].map(|at| scraper.value(&format!("foreign_nat_rules{{position=\"{at}\"}}")));
        agent.wait_until("others' rules to be looked at", || values()[0].is_some());
        assert_eq!(values(), [Some(before), Some(after)], "{engine}");
    }
}

#[test]
fn the_status_page_is_what_the_tool_says_and_how_the_daemon_is() {
    let node = Namespace::open("node").unwrap();
    let agent = Agent::start_ready(&node, &[HTTP], Some("nonMasqueradeCIDRs: [10.0.0.0/8]\n"));
    let scraper = Scraper::new(&node);
    let page = scraper.get("/statusz?format=json");
    assert_eq!((page.status, page.fields["content-type"].as_str()), (200, "application/json"));
    let page: Value = serde_json::from_str(&page.body).unwrap();
    let config = agent.config_path();
    let run = run_in(
        &node,
        &["status", "-o", "json", "--backend=nftables", "--config", config.to_str().unwrap()],
        "",
        |_| {},
    );
    let tool: Value = serde_json::from_str(&run.stdout).unwrap();
    for key in ["verdict", "backend", "inSync", "agents", "foreign", "connections", "findings", "unseen"] {
        assert_eq!(page[key], tool[key], "{key}");
    }
    assert_eq!(page["config"]["hash"], tool["config"]["hash"]);
    assert!(page["daemon"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{page:#}");
    let text = scraper.get("/statusz");
    assert!(
        text.body.contains("in sync with the policy") && text.body.contains("[+]kernel: holds the policy"),
        "{text:?}"
    );
    assert_eq!(
        scraper.client().get("/statusz", "Accept: application/json\r\n").fields["content-type"],
        "application/json"
    );
    assert_eq!(scraper.get("/statusz?format=xml").status, 400);
    agent.remove_config();
    agent.wait_until("a page about the defaults", || scraper.get("/statusz").body.contains("no file: the defaults"));
}

#[test]
fn a_taken_port_is_a_warning_and_is_served_at_once_it_is_free() {
    let node = Namespace::open("node").unwrap();
    let scraper = Scraper::new(&node);
    let taken = node.run(|| TcpListener::bind("127.0.0.1:10268").unwrap());
    let agent = Agent::start_ready(&node, &[HTTP], None);
    let line = agent.wait_for_line("Nothing is served over HTTP yet, 127.0.0.1:10268 cannot be had");
    assert!(line.starts_with('W') && line.contains("every 10 s"), "{line}");
    drop(taken);
    agent.wait_for_line("Serving /metrics");
    assert_eq!(scraper.get("/metrics").status, 200);
}

#[test]
fn the_memory_of_the_agent_does_not_grow_with_scrapes() {
    let node = Namespace::open("node").unwrap();
    let _agent = Agent::start_ready(&node, &[HTTP], None);
    let scraper = Scraper::new(&node);
    let mut client = scraper.client();
    let mut scrape = |times: u32| {
        for _ in 0..times {
            assert_eq!(client.get("/metrics", "").status, 200);
        }
        scraper.samples()["process_resident_memory_bytes"]
    };
    let before = scrape(500);
    let after = scrape(3_000);
    assert!(after - before < 262_144.0, "{before} bytes became {after}");
}

#[test]
fn nothing_is_served_where_the_address_is_empty() {
    let node = Namespace::open("node").unwrap();
    Scraper::new(&node);
    // Where it is to serve, it does before it is ready.
    let _agent = Agent::start_ready(&node, &[], None);
    let refused = node.run(|| std::net::TcpStream::connect("127.0.0.1:10268").unwrap_err().kind());
    assert_eq!(refused, std::io::ErrorKind::ConnectionRefused);
}
