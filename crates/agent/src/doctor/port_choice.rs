//! Whether the source ports that masquerading picks are wanted by somebody else on the node.

use masq::ports::PortRange;

use super::{Facts, Finding, Severity, listed};
use crate::foreign::Ruleset;

/// What Kubernetes hands out as NodePorts unless it is told otherwise.
const NODE_PORTS: PortRange = PortRange { first: 30_000, last: 32_767 };

/// Overlaps with NodePorts and with `ip_local_reserved_ports`. Without `--to-ports` the kernel picks from all unprivileged ports, which
/// is a note where it matters; a range that was chosen to overlap is a warning.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let node_ports = Wanted {
        id: "node-ports",
        name: "the NodePorts 30000-32767".to_owned(),
        ports: &[NODE_PORTS],
        are_used: has_node_ports(facts.ruleset),
    };
    let reserved: Vec<String> = facts.reserved_ports.iter().map(ToString::to_string).collect();
    let reserved_ports = Wanted {
        id: "reserved-ports",
        name: format!("the ports of ip_local_reserved_ports ({})", listed(&reserved)),
        ports: facts.reserved_ports,
        are_used: !reserved.is_empty(),
    };
    let chosen = &facts.policy.masquerade.to_ports.0;
    [node_ports, reserved_ports].into_iter().filter_map(|wanted| wanted.finding(chosen)).collect()
}

/// Ports that are wanted by somebody else.
struct Wanted<'w> {
    id: &'static str,
    /// What to call them.
    name: String,
    ports: &'w [PortRange],
    /// Whether somebody surely uses them.
    are_used: bool,
}

impl Wanted<'_> {
    fn finding(&self, chosen: &[PortRange]) -> Option<Finding> {
        let Wanted { id, name, ports, are_used } = self;
        let touched: Vec<String> = chosen
            .iter()
            .filter(|range| ports.iter().any(|wanted| overlap(range, wanted)))
            .map(ToString::to_string)
            .collect();
        if !touched.is_empty() {
            let sentence = format!(
                "--to-ports {} overlaps {name}: masqueraded connections may take such a port",
                listed(&touched)
            );
            let remedy = "leave these ports out of --to-ports".to_owned();
            return Some(Finding { id, severity: Severity::Warning, sentence, remedy });
        }
        (chosen.is_empty() && *are_used).then(|| Finding {
            id,
            severity: Severity::Note,
            sentence: format!(
                "masqueraded connections may take any port from 1024 on, {name}, of which some may be in use, among them"
            ),
            remedy: "if that does harm, name the ports to use, like --to-ports=1024-29999,32768-65535".to_owned(),
        })
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
