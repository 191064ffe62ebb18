//! Alerts, their runbooks and the dashboard: held against promtool, each other, and the documented metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ip_masq_agent::lab::probe::Transport;
use ip_masq_agent::lab::{Host, Lab};
use serde_json::Value;

use crate::support::agent::{Agent, wait_until};
use crate::support::monitoring::{alerts, dashboard_expressions, monitoring, repository};
use crate::support::prometheus::Prometheus;
use crate::support::ruleset::nft;
use crate::support::scrape::HTTP;

const SECTIONS: [&str; 4] = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation"];

fn promtool(args: &[&str]) {
    let output = Command::new("promtool").args(args).current_dir(monitoring("")).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "promtool {}: {}", args.join(" "), String::from_utf8_lossy(&text));
}

fn runbook(alert: &str) -> PathBuf {
    repository().join(format!("docs/runbooks/{alert}.md"))
}

#[test]
fn promtool_finds_the_alerts_well_formed_and_firing_as_their_tests_say() {
    promtool(&["check", "rules", "--lint-fatal", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts_test.yaml"]);
}

#[test]
fn for_every_alert_a_case_is_written_in_which_it_fires_and_one_in_which_it_does_not() {
    let text = fs::read_to_string(monitoring("alerts_test.yaml")).unwrap();
    let cases: Vec<(&str, bool)> = text
        .split("- alertname: ")
        .skip(1)
        .map(|case| (case.lines().next().unwrap(), case.lines().nth(2).unwrap().trim() != "exp_alerts: []"))
        .collect();
    for alert in alerts() {
        for fires in [true, false] {
            assert!(cases.contains(&(alert.name.as_str(), fires)), "{}: no case with fires = {fires}", alert.name);
        }
    }
}

#[test]
fn every_alert_says_how_bad_it_is_and_leads_to_a_runbook_that_says_what_to_do() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        assert!(["critical", "warning", "info"].contains(&alert.severity.as_str()), "{alert:?}");
        assert!(alert.runbook.ends_with(&format!("/docs/runbooks/{}.md", alert.name)), "{alert:?}");
        let text = fs::read_to_string(runbook(&alert.name)).unwrap_or_else(|error| panic!("{}: {error}", alert.name));
        assert!(text.starts_with(&format!("# {}\n", alert.name)), "{}: another heading", alert.name);
        let places: Vec<usize> = SECTIONS.iter().filter_map(|section| text.find(section)).collect();
        assert!(places.len() == SECTIONS.len() && places.is_sorted(), "{}: sections {places:?}", alert.name);
        names.insert(format!("{}.md", alert.name));
    }
    let pages = fs::read_dir(repository().join("docs/runbooks")).unwrap();
    let pages: BTreeSet<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    names.insert("README.md".to_owned());
    assert_eq!(pages, names, "one page for each alert, and one for all");
}

#[test]
fn alerts_dashboard_and_runbooks_name_only_metrics_that_there_are() {
    let documented = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let mut documented = metrics(&documented);
    for name in documented.clone() {
        documented.extend([format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count")]);
    }
    let runbooks = alerts().into_iter().map(|alert| fs::read_to_string(runbook(&alert.name)).unwrap());
    let texts = alerts().into_iter().map(|alert| alert.expression).chain(dashboard_expressions()).chain(runbooks);
    let mut named = BTreeSet::new();
    for text in texts {
        for name in metrics(&text) {
            assert!(documented.contains(&name), "{name} is not in docs/metrics.md: {text}");
            named.insert(name);
        }
    }
    assert!(named.len() > 20, "{named:?}");
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("ip_masq_agent_") || word.starts_with("process_")).map(str::to_owned).collect()
}

#[test]
fn every_panel_says_what_it_shows_and_no_two_lie_upon_each_other() {
    let text = fs::read_to_string(monitoring("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24, "{title} is too wide");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{title} lies upon another panel at {place:?}");
        }
        if panel["type"] != "row" {
            assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{title}: no description");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}: no unit");
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
                assert!(target["expr"].as_str().unwrap().contains("$instance"), "{title}: {}", target["expr"]);
            }
        }
    }
}

#[test]
fn every_expression_of_alerts_and_dashboard_finds_something_in_what_the_agent_tells_prometheus() {
    let lab = Lab::open().unwrap();
    let config = "nonMasqueradeCIDRs: [10.0.0.0/8, 'fd00::/8']\n";
    let _agent = Agent::start_ready(&lab.node, &["--enable-ipv6", HTTP], Some(config));
    let (_, address) = HTTP.split_once('=').unwrap();
    let prometheus = Prometheus::start(&lab.node, address, &monitoring("alerts.yaml"));
    // The expressions of alerts find nothing as long as all is well. What they compare is there all the same.
    let compared = alerts().into_iter().map(|alert| without_threshold(&alert.expression));
    for expression in compared.chain(dashboard_expressions().iter().map(|text| filled_in(text))) {
        wait_until(&format!("a number for {expression}"), || {
            // Rates and quantiles need things to happen between two scrapes.
            for destination in ["198.51.100.2", "10.1.2.3", "2001:db8:1::2", "fd00::1:2:3"] {
                lab.probe(Host::Pod, Transport::Udp, destination.parse().unwrap()).unwrap();
            }
            nft(&lab.node, "flush chain inet ip-masq-agent postrouting");
            let series = prometheus.query(&expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
            series.iter().any(|series| series["value"][1] != "NaN")
        });
    }
    let ailing = |rule: &Value| rule["health"] != "ok";
    wait_until("all rules to be evaluated", || !prometheus.rules().iter().any(ailing));
    assert_eq!(prometheus.rules().len(), alerts().len());
}

#[test]
fn six_connections_over_four_ports_raise_the_alerts_of_ports_and_of_lost_connections_and_no_other() {
    let lab = Lab::open().unwrap();
    let _agent = Agent::start_ready(&lab.node, &["--to-ports=40000-40003", HTTP], None);
    let (_, address) = HTTP.split_once('=').unwrap();
    let prometheus = Prometheus::start(&lab.node, address, &monitoring("alerts.yaml"));
    // An increase is one from a number that was seen.
    wait_until("a first scrape", || !prometheus.query("ip_masq_agent_conntrack_drop_total").unwrap().is_empty());
    let arrived =
        (0..6).filter(|_| lab.probe(Host::Pod, Transport::Udp, "203.0.113.5".parse().unwrap()).unwrap().is_some());
    assert_eq!(arrived.count(), 4);
    let expected = [
        "IpMasqAgentConntrackDrops firing",
        "IpMasqAgentInsertFailed firing",
        "IpMasqAgentSnatPortsExhausted pending",
        "IpMasqAgentSnatPortsFillingUp pending",
    ];
    wait_until("the alerts to be raised", || {
        let alerts = prometheus.query("ALERTS").unwrap();
        let word = |alert: &Value, label: &str| alert["metric"][label].as_str().unwrap().to_owned();
        let raised = alerts.iter().map(|alert| format!("{} {}", word(alert, "alertname"), word(alert, "alertstate")));
        raised.collect::<BTreeSet<_>>() == expected.map(str::to_owned).into()
    });
}

/// An alert's expression as a number that is there whether or not the alert fires.
fn without_threshold(expression: &str) -> String {
    match expression.strip_prefix("absent(").and_then(|rest| rest.strip_suffix(')')) {
        Some(metric) => metric.to_owned(),
        None => [" == ", " >= ", " > "]
            .into_iter()
            .find_map(|comparison| expression.rsplit_once(comparison))
            .map(|(compared, threshold)| {
                assert!(threshold.parse::<f64>().is_ok(), "{expression}: compared with more than a number");
                compared.to_owned()
            })
            .unwrap_or_else(|| panic!("no comparison: {expression}")),
    }
}

/// An expression of the dashboard as Grafana sends it for all instances.
fn filled_in(expression: &str) -> String {
    let filled = expression.replace("$__rate_interval", "1m").replace("$instance", ".*");
    assert!(!filled.contains('$'), "another variable: {filled}");
    filled
}
