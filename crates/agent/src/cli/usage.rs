//! The help texts, made from the flag table.

use std::fmt::Write;

use super::flags::{Flag, Origin};
use super::options::Topic;
use super::table;

/// The help text of the daemon or of a tool.
pub fn usage(topic: Topic) -> String {
    let mut text = String::from(heading(topic));
    let flags = || table::flags().filter(move |flag| flag.commands.contains(&topic));
    text.push_str("\nFlags (--flag=VALUE or --flag VALUE; without VALUE only --flag or --flag=false):\n");
    flags().filter(|flag| flag.origin != Origin::Klog).for_each(|flag| describe(flag, &mut text));
    if topic == Topic::Daemon {
        text.push_str("\nLog flags, as of klog; times are in UTC:\n");
        flags().filter(|flag| flag.origin == Origin::Klog).for_each(|flag| describe(flag, &mut text));
    }
    text
}

fn heading(topic: Topic) -> &'static str {
    match topic {
        Topic::Daemon => {
            "Usage of ip-masq-agent:\n  \
             ip-masq-agent [FLAGS]         run the daemon: masquerade what leaves the node, but for the exempt CIDRs\n  \
             ip-masq-agent check [FLAGS]   say what is wrong with a config, or what it means\n  \
             ip-masq-agent render [FLAGS]  print what the daemon would load into the kernel\n  \
             ip-masq-agent diff [FLAGS]    say how the kernel differs from the policy\n  \
             ip-masq-agent status [FLAGS]  show one page about this node, and what is wrong on it\n  \
             ip-masq-agent explain SRC DST say what becomes of a packet on this node, and why\n  \
             ip-masq-agent cleanup [FLAGS] remove all of ours from the kernel\n  \
             ip-masq-agent demo [FLAGS]    show it at work on real packets, in private namespaces\n\
             Each tool has its own --help.\n"
        }
        Topic::Check => {
            "Usage of ip-masq-agent check:\n  \
             ip-masq-agent check [FLAGS]\n\
             Reads the config as the daemon would, with the same flags, and prints every error and warning with its place.\n\
             Exit status: 0 fine or warnings only, 1 errors (with --strict: warnings too), 2 wrong usage, 3 cannot look.\n\n\
             Example:\n  \
             ip-masq-agent check --config ./ip-masq-agent.yaml --enable-ipv6\n  \
             kubectl get configmap -n kube-system ip-masq-agent -o jsonpath='{.data.config}' | ip-masq-agent check --config -\n"
        }
        Topic::Render => {
            "Usage of ip-masq-agent render:\n  \
             ip-masq-agent render [FLAGS]\n\
             Prints the rules that the daemon would load for this config and these flags; nothing is changed.\n\
             Exit status: 0 printed, 1 the config is refused, 2 wrong usage, 3 cannot look.\n\n\
             Example:\n  \
             ip-masq-agent render --config ./ip-masq-agent.yaml | nft --check -f -\n"
        }
        Topic::Diff => {
            "Usage of ip-masq-agent diff:\n  \
             ip-masq-agent diff [FLAGS]\n\
             Compares what the kernel holds with what the daemon would have it hold for this config and these flags, line by line;\n\
             what other versions and the other backend left counts as a difference. Nothing is changed.\n\
             Give it, of the flags below, those that the daemon has. Text is coloured on a terminal, unless NO_COLOR is set.\n\
             Exit status: 0 in sync, 1 the kernel differs or the config is refused, 2 wrong usage, 3 cannot look.\n\n\
             Example:\n  \
             ip-masq-agent diff --config ./new-config.yaml --enable-ipv6\n\
             shows what a new config would change on this node.\n"
        }
        Topic::Explain => {
            "Usage of ip-masq-agent explain:\n  \
             ip-masq-agent explain SRC[:PORT] DST[:PORT[/PROTOCOL]] [FLAGS]\n\
             Says what becomes of the first packet of a connection that this node routes from SRC, a pod's address, to DST: its route,\n\
             the deciding CIDR, the address and port it leaves with, other programs' rules that have a say, and what the live\n\
             connections are. DST is an endpoint's address, not a Service's; names are not looked up. An IPv6 address with a port\n\
             stands in brackets; the protocol is tcp unless given. The packet is taken to bear no mark of another program.\n\
             Give it the daemon's own policy flags. Nothing is changed.\n\
             Exit status: 0 as the policy says, 1 something contradicts it, 2 wrong usage, 3 not all could be looked at.\n\n\
             Example:\n  \
             ip-masq-agent explain 10.244.1.17 8.8.8.8:53/udp\n  \
             ip-masq-agent explain --host 192.0.2.10 198.51.100.7:443\n"
        }
        Topic::Status => {
            "Usage of ip-masq-agent status:\n  \
             ip-masq-agent status [FLAGS]\n\
             Shows config, backend, whether the kernel holds the policy, whether an agent is seen, other programs' rules that can change\n\
             the source of what leaves, counters (nftables backend) and the connection table, and then what is wrong, with a remedy.\n\
             Works with and without a running agent and changes nothing. Give it, of the flags below, those that the agent has.\n\
             Exit status: 0 nothing to report but notes, 1 warnings, 2 the policy is not in force (or wrong usage), 3 cannot look.\n\n\
             Example:\n  \
             ip-masq-agent status -o json | jq '.findings[].sentence'\n"
        }
        Topic::Cleanup => {
            "Usage of ip-masq-agent cleanup:\n  \
             ip-masq-agent cleanup [FLAGS]\n\
             Removes our nftables table, and our iptables chain with the jumps to it from both families and both stacks.\n\
             Rules of other programs are left alone. Stop the agent first, or it puts its rules back. Of the policy flags only\n\
             --masq-chain matters here; the others are taken, as by every tool, and change nothing.\n\
             Exit status: 0 nothing of ours is left (with --dry-run: would be), 1 something stays or an agent still runs,\n\
             2 wrong usage, 3 cannot look.\n\n\
             Example:\n  \
             ip-masq-agent cleanup --all-generations --dry-run\n"
        }
        Topic::Demo => {
            "Usage of ip-masq-agent demo:\n  \
             ip-masq-agent demo [FLAGS]\n\
             Makes a pod, a node and an outside in private namespaces, runs the daemon there and sends real packets.\n\
             Nothing outside the namespaces changes.\n\
             Exit status: 0 as the config says, 1 a packet was treated otherwise, 2 wrong usage, 3 no namespaces to be had.\n\n\
             Example:\n  \
             ip-masq-agent demo --config ./ip-masq-agent.yaml --to-ports 40000-49999\n"
        }
    }
}

fn describe(flag: &Flag, text: &mut String) {
    let value = flag.value.map(|value| format!(" {value}")).unwrap_or_default();
    let default = flag.default();
    let default =
        if default.is_empty() || default == "false" { String::new() } else { format!(" (default {default})") };
    let dashes = if flag.name.len() == 1 { "-" } else { "--" };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {dashes}{}{value}\n        {}{default}", flag.name, flag.help);
}
