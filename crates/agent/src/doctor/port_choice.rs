//! Whether the source ports that masquerading picks are wanted by somebody else on the node.

use masq::ports::PortRange;

use super::{Facts, Finding, Severity, listed};
use crate::foreign::Ruleset;

/// What Kubernetes hands out as NodePorts unless it is told otherwise.
const NODE_PORTS: PortRange = PortRange { first: 30_000, last: 32_767 };

/// Overlaps with NodePorts and with `ip_local_reserved_ports`. Without `--to-ports` the kernel picks from all unprivileged ports, which
/// is a note where it matters; a range that was chosen to overlap is a warning.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let ranges = &facts.policy.masquerade.to_ports.0;
    let touched = |wanted: &[PortRange]| -> Vec<String> {
        let overlapping = |range: &&PortRange| wanted.iter().any(|wanted| overlap(range, wanted));
        ranges.iter().filter(overlapping).map(ToString::to_string).collect()
    };
    let mut findings = Vec::new();
    let node_ports = touched(&[NODE_PORTS]);
    if !node_ports.is_empty() {
        findings.push(overlaps("node-ports", &node_ports, "the NodePorts 30000-32767"));
    } else if ranges.is_empty() && has_node_ports(facts.ruleset) {
        findings.push(any("node-ports", "the NodePorts 30000-32767, of which some are in use"));
    }
    let reserved: Vec<String> = facts.reserved_ports.iter().map(ToString::to_string).collect();
    let reserved = format!("the ports of ip_local_reserved_ports ({})", listed(&reserved));
    let touched = touched(facts.reserved_ports);
    if !touched.is_empty() {
        findings.push(overlaps("reserved-ports", &touched, &reserved));
    } else if ranges.is_empty() && !facts.reserved_ports.is_empty() {
        findings.push(any("reserved-ports", &reserved));
    }
    findings
}

fn overlaps(id: &'static str, ranges: &[String], wanted: &str) -> Finding {
    Finding {
        id,
        severity: Severity::Warning,
        sentence: format!(
            "--to-ports {} overlaps {wanted}: masqueraded connections may take such a port",
            listed(ranges)
        ),
        remedy: "leave these ports out of --to-ports".to_owned(),
    }
}

fn any(id: &'static str, wanted: &str) -> Finding {
    Finding {
        id,
        severity: Severity::Note,
        sentence: format!("masqueraded connections may take any port from 1024 on, {wanted} among them"),
        remedy: "if that does harm, name the ports to use, like --to-ports=1024-29999,32768-65535".to_owned(),
    }
}

fn overlap(one: &PortRange, other: &PortRange) -> bool {
    one.first <= other.last && other.first <= one.last
}

/// kube-proxy keeps a chain for NodePorts at all times, and rules in it while there are any.
fn has_node_ports(ruleset: &Ruleset) -> bool {
    let chains = ruleset.tables.iter().flat_map(|table| &table.chains);
    chains.filter(|chain| chain.name == "KUBE-NODEPORTS").any(|chain| !chain.rules.is_empty())
}
