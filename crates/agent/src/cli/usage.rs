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
             Give it the daemon's own flags. Text is coloured on a terminal, unless NO_COLOR is set.\n\
             Exit status: 0 in sync, 1 the kernel differs or the config is refused, 2 wrong usage, 3 cannot look.\n\n\
             Example:\n  \
             ip-masq-agent diff --config ./new-config.yaml --enable-ipv6\n\
             shows what a new config would change on this node.\n"
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
