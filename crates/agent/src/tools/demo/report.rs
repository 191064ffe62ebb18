//! What the demo saw, as a page for people or as JSON for programs.

use std::fmt::Write;
use std::time::Duration;

use masq::policy::Policy;
use masq::verdict::{Verdict, decide};
use serde_json::{Value, json};

use super::changes::Change;
use super::destinations::Row;
use crate::lab::Host;
use crate::lab::judge::{Disagreement, compare, facts};
use crate::lab::probe::{Seen, Transport};

/// A row's packets: what was decided about them and what became of them.
#[derive(Debug)]
pub struct Observation {
    row: Row,
    expected: String,
    decided_by: String,
    udp: Packet,
    tcp: Packet,
}

#[derive(Debug)]
struct Packet {
    seen: Option<Seen>,
    disagreement: Option<Disagreement>,
}

impl Observation {
    /// Holds what was seen of a row's packets against the policy.
    pub fn new(policy: &Policy, row: Row, udp: Option<Seen>, tcp: Option<Seen>) -> Observation {
        let packet = |transport, seen| {
            let decision = decide(policy, &facts(row.destination, transport));
            Packet { seen, disagreement: compare(&decision, row.destination, seen).err() }
        };
        let decision = decide(policy, &facts(row.destination, Transport::Udp));
        let expected = match decision.verdict {
            Verdict::Untouched | Verdict::Exempt => decision.verdict.to_string(),
            Verdict::Masquerade(port) => format!("{}, port {port}", decision.verdict),
        };
        Observation {
            row,
            expected,
            decided_by: decision.reason.to_string(),
            udp: packet(Transport::Udp, udp),
            tcp: packet(Transport::Tcp, tcp),
        }
    }

    fn packets(&self) -> [(&'static str, &Packet); 2] {
        [("udp", &self.udp), ("tcp", &self.tcp)]
    }

    fn is_fine(&self) -> bool {
        self.packets().iter().all(|(_, packet)| packet.disagreement.is_none())
    }
}

/// Everything the demo found out.
#[derive(Debug)]
pub struct Report {
    /// What there is to know about the config, one line each.
    pub notes: Vec<String>,
    /// From the start of the daemon's process until it said that the kernel holds the policy.
    pub ready_after: Duration,
    /// The table.
    pub observations: Vec<Observation>,
    /// The changes, in the order they were made.
    pub changes: Vec<Change>,
    /// What else there is to say in the end.
    pub remarks: Vec<String>,
}

impl Report {
    /// Whether every packet and every change was as it should be.
    pub fn is_fine(&self) -> bool {
        self.observations.iter().all(Observation::is_fine)
            && self.changes.iter().all(|change| change.in_force_after.is_ok())
    }

    /// The page for people.
    pub fn to_text(&self) -> String {
        let mut page = String::new();
        for note in &self.notes {
            line(&mut page, note);
        }
        line(&mut page, &format!("The agent was ready {} after its start.\n", milliseconds(self.ready_after)));
        page.push_str(&table(&self.observations));
        line(&mut page, "");
        for change in &self.changes {
            line(&mut page, &sentence(change));
        }
        line(&mut page, &self.summary());
        for remark in &self.remarks {
            line(&mut page, remark);
        }
        page
    }

    /// The same as JSON, whose keys stay the same from version to version.
    pub fn to_json(&self) -> Value {
        json!({
            "ok": self.is_fine(),
            "readyAfterMilliseconds": as_milliseconds(self.ready_after),
            "notes": self.notes.iter().chain(&self.remarks).collect::<Vec<_>>(),
            "packets": self.observations.iter().flat_map(packets_as_json).collect::<Vec<_>>(),
            "changes": self.changes.iter().map(change_as_json).collect::<Vec<_>>(),
        })
    }

    fn summary(&self) -> String {
        let packets = self.observations.iter().flat_map(|observation| observation.packets());
        let (sent, wrong) = packets
            .fold((0, 0), |(sent, wrong), (_, packet)| (sent + 1, wrong + usize::from(packet.disagreement.is_some())));
        let late = self.changes.iter().filter(|change| change.in_force_after.is_err()).count();
        match (wrong, late) {
            (0, 0) => format!("All {sent} packets were treated as the policy says."),
            (wrong, 0) => format!("{wrong} of {sent} packets were NOT treated as the policy says."),
            (wrong, late) => format!(
                "{wrong} of {sent} packets were not treated as the policy says, and {late} of {} changes did not take \
                 effect.",
                self.changes.len()
            ),
        }
    }
}

fn table(observations: &[Observation]) -> String {
    let titles = ["FROM", "DESTINATION", "DECIDED BY", "EXPECTED", "SOURCE SEEN (UDP)", "SOURCE SEEN (TCP)", "OK"];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(observations.iter().map(|observation| {
        [
            host(observation.row.from).to_owned(),
            observation.row.destination.to_string(),
            observation.decided_by.clone(),
            observation.expected.clone(),
            source(&observation.udp),
            source(&observation.tcp),
            verdict(observation),
        ]
    }));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut page = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        line(&mut page, cells.join("  ").trim_end());
    }
    page
}

fn verdict(observation: &Observation) -> String {
    let wrong = observation.packets().into_iter().filter_map(|(transport, packet)| {
        packet.disagreement.as_ref().map(|disagreement| format!("{transport}: {disagreement}"))
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() { "ok".to_owned() } else { format!("WRONG: {}", wrong.join("; ")) }
}

fn source(packet: &Packet) -> String {
    packet.seen.map_or_else(|| "none".to_owned(), |seen| seen.source.to_string())
}

fn sentence(change: &Change) -> String {
    match &change.in_force_after {
        Ok(time) => format!("The demo {}: in force {} later.", change.what, milliseconds(*time)),
        Err(error) => format!("The demo {}: {error:#}.", change.what),
    }
}

fn packets_as_json(observation: &Observation) -> [Value; 2] {
    observation.packets().map(|(transport, packet)| {
        json!({
            "from": host(observation.row.from),
            "destination": observation.row.destination,
            "protocol": transport,
            "decidedBy": observation.decided_by,
            "expected": observation.expected,
            "sentFrom": packet.seen.map(|seen| seen.sent_from),
            "sourceSeen": packet.seen.map(|seen| seen.source),
            "ok": packet.disagreement.is_none(),
            "mismatch": packet.disagreement.as_ref().map(ToString::to_string),
        })
    })
}

fn change_as_json(change: &Change) -> Value {
    json!({
        "what": change.what,
        "ok": change.in_force_after.is_ok(),
        "inForceAfterMilliseconds": change.in_force_after.as_ref().ok().copied().map(as_milliseconds),
        "error": change.in_force_after.as_ref().err().map(|error| format!("{error:#}")),
    })
}

fn host(host: Host) -> &'static str {
    match host {
        Host::Pod => "pod",
        Host::Node => "node",
        Host::Outside => "outside",
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", as_milliseconds(time))
}

fn as_milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("writing to a string cannot fail");
}
