//! What help texts, manual pages and completions say about each command, written once for all of them.

use super::options::Topic;

/// One command in words.
#[derive(Debug)]
pub struct Manual {
    /// What it does, as a phrase that begins with a verb.
    pub summary: &'static str,
    /// What stands behind its name on a command line.
    pub words: &'static str,
    /// What there is to know about it, as one paragraph.
    pub about: &'static str,
    /// What each exit status means.
    pub exit_status: &'static [(u8, &'static str)],
    /// Command lines to begin with.
    pub examples: &'static [Example],
}

/// A command line to begin with.
#[derive(Debug)]
pub struct Example {
    /// What it is good for.
    pub purpose: &'static str,
    /// The line for a shell.
    pub line: &'static str,
}

impl Topic {
    /// The command in words.
    pub fn manual(self) -> &'static Manual {
        match self {
            Topic::Daemon => &DAEMON,
            Topic::Check => &CHECK,
            Topic::Render => &RENDER,
            Topic::Diff => &DIFF,
            Topic::Status => &STATUS,
            Topic::Explain => &EXPLAIN,
            Topic::Top => &TOP,
            Topic::Cleanup => &CLEANUP,
            Topic::Demo => &DEMO,
            Topic::Completion => &COMPLETION,
        }
    }
}

const FLAGS: &str = "[FLAGS]";
const WRONG_USAGE: (u8, &str) = (2, "wrong usage");
const CANNOT_LOOK: (u8, &str) = (3, "cannot look");

const DAEMON: Manual = Manual {
    summary: "run the daemon: masquerade what leaves the node, but for the exempt CIDRs",
    words: FLAGS,
    about: "Keeps rules in the kernel that let connections to the exempt CIDRs leave with the address they have, a pod's, and \
        all others with the node's. Config and kernel are watched: a change of the config is in force at once, and rules that \
        somebody else changed or removed are put back. A config that is refused weakens nothing: the last good one stays in \
        force. At exit the rules stay, unless --cleanup-on-exit is given. Words behind the flags are ignored with a warning.",
    exit_status: &[
        (0, "a signal ended it, or with --once: the kernel holds the policy"),
        (
            1,
            "a flag has a value that no kernel takes, the daemon cannot go on, or with --once: the config is refused or the kernel \
            does not hold the policy",
        ),
        (2, "wrong usage, or a log file that cannot be opened"),
    ],
    examples: &[
        Example { purpose: "masquerade IPv6 too, and log what changes", line: "ip-masq-agent --enable-ipv6 --v=2" },
        Example {
            purpose: "apply a config once, without a daemon",
            line: "ip-masq-agent --once --config ./ip-masq-agent.yaml",
        },
    ],
};

const CHECK: Manual = Manual {
    summary: "say what is wrong with a config, or what it means",
    words: FLAGS,
    about: "Reads the config as the daemon would, with the same flags, and prints every error and warning with its place.",
    exit_status: &[(0, "fine or warnings only"), (1, "errors (with --strict: warnings too)"), WRONG_USAGE, CANNOT_LOOK],
    examples: &[
        Example {
            purpose: "a file before it is deployed",
            line: "ip-masq-agent check --config ./ip-masq-agent.yaml --enable-ipv6",
        },
        Example {
            purpose: "the config of a cluster",
            line: "kubectl get configmap -n kube-system ip-masq-agent -o jsonpath='{.data.config}' | ip-masq-agent check --config -",
        },
    ],
};

const RENDER: Manual = Manual {
    summary: "print what the daemon would load into the kernel",
    words: FLAGS,
    about: "Prints the rules that the daemon would load for this config and these flags; nothing is changed.",
    exit_status: &[(0, "printed"), (1, "the config is refused"), WRONG_USAGE, CANNOT_LOOK],
    examples: &[Example {
        purpose: "whether nft takes them",
        line: "ip-masq-agent render --config ./ip-masq-agent.yaml | nft --check -f -",
    }],
};

const DIFF: Manual = Manual {
    summary: "say how the kernel differs from the policy",
    words: FLAGS,
    about: "Compares what the kernel holds with what the daemon would have it hold for this config and these flags, line by line; \
        what other versions and the other backend left counts as a difference. Nothing is changed. Flags that are not \
        given are those of the daemon that runs here, if one is seen. Text is coloured on a terminal, unless NO_COLOR is set.",
    exit_status: &[(0, "in sync"), (1, "the kernel differs or the config is refused"), WRONG_USAGE, CANNOT_LOOK],
    examples: &[Example {
        purpose: "what a new config would change on this node",
        line: "ip-masq-agent diff --config ./new-config.yaml --enable-ipv6",
    }],
};

const STATUS: Manual = Manual {
    summary: "show one page about this node, and what is wrong on it",
    words: FLAGS,
    about: "Shows config, backend, whether the kernel holds the policy, whether an agent is seen, other programs' rules that can \
        change the source of what leaves, counters and the connection table, and then what is wrong, with a remedy. Works with and \
        without a running agent and changes nothing. Flags that are not given are those of the agent that runs here, if one is seen.",
    exit_status: &[
        (0, "nothing to report but notes"),
        (1, "warnings"),
        (2, "the policy is not in force (or wrong usage)"),
        CANNOT_LOOK,
    ],
    examples: &[Example {
        purpose: "what is wrong, one line each",
        line: "ip-masq-agent status -o json | jq '.findings[].sentence'",
    }],
};

const EXPLAIN: Manual = Manual {
    summary: "say what becomes of a packet on this node, and why",
    words: "SRC[:PORT] DST[:PORT[/PROTOCOL]] [FLAGS]",
    about: "Says what becomes of the first packet of a connection that this node routes from SRC, a pod's address, to DST: its \
        route, the deciding CIDR, the address and port it leaves with, other programs' rules that have a say, and what the live \
        connections are. DST is an endpoint's address, not a Service's; names are not looked up. An IPv6 address with a port \
        stands in brackets; the protocol is tcp unless given. The packet is taken to bear no mark, unless NAT rules on its way \
        set one. Flags that are not given are those of the daemon that runs here, if one is seen. With --backend, rules that our other backend left count as a stranger's. Nothing is changed.",
    exit_status: &[
        (0, "as the policy says"),
        (1, "something contradicts it"),
        WRONG_USAGE,
        (3, "not all could be looked at"),
    ],
    examples: &[
        Example { purpose: "a pod that asks a name server", line: "ip-masq-agent explain 10.244.1.17 8.8.8.8:53/udp" },
        Example {
            purpose: "a connection of the node itself",
            line: "ip-masq-agent explain --host 192.0.2.10 198.51.100.7:443",
        },
    ],
};

const TOP: Manual = Manual {
    summary: "show who uses the source ports of this node",
    words: FLAGS,
    about: "Shows the connections whose source is translated: for each destination how many source ports are in use and how many \
        there are, or for each source, a pod most often, how many connections it has; and how fast new ones come. On a terminal \
        the table is live, and d, s, u, n and a choose what it shows and in which order; q ends it. With --once, or without a \
        terminal, one table is printed after one interval. With -o json there is one document per line. Connections of protocols \
        without ports, pings among them, are not counted. Works without a running agent; where one is seen, its --to-ports and \
        config hold if none are given. Nothing is changed.",
    exit_status: &[
        (0, "fine"),
        (1, "with one table: 80 % or more of the ports to a destination are in use"),
        WRONG_USAGE,
        CANNOT_LOOK,
    ],
    examples: &[
        Example { purpose: "which pods open connections fastest", line: "ip-masq-agent top --by source --sort new" },
        Example {
            purpose: "destinations with more than half of their ports in use",
            line: "ip-masq-agent top --once -o json | jq '.destinations[] | select(.ratio > 0.5)'",
        },
    ],
};

const CLEANUP: Manual = Manual {
    summary: "remove all of ours from the kernel",
    words: FLAGS,
    about: "Removes our nftables table, and our iptables chain with the jumps to it from both families and both stacks. Rules of \
        other programs are left alone. Stop the agent first, or it puts its rules back. Of the policy flags only --masq-chain \
        matters here; the others are taken, as by every tool, and change nothing.",
    exit_status: &[
        (0, "nothing of ours is left (with --dry-run: would be)"),
        (1, "something stays or an agent still runs"),
        WRONG_USAGE,
        CANNOT_LOOK,
    ],
    examples: &[Example {
        purpose: "what would go, of all versions",
        line: "ip-masq-agent cleanup --all-generations --dry-run",
    }],
};

const DEMO: Manual = Manual {
    summary: "show it at work on real packets, in private namespaces",
    words: FLAGS,
    about: "Makes a pod, a node and an outside in private namespaces, runs the daemon there and sends real packets. Without \
        --config it shows a config of its own. Nothing outside the namespaces changes.",
    exit_status: &[
        (0, "as the config says"),
        (1, "a packet was treated otherwise"),
        WRONG_USAGE,
        (3, "no namespaces to be had"),
    ],
    examples: &[Example {
        purpose: "a config of your own, with a range of ports",
        line: "ip-masq-agent demo --config ./ip-masq-agent.yaml --to-ports 40000-49999",
    }],
};

const COMPLETION: Manual = Manual {
    summary: "print what lets a shell complete this command line",
    words: "bash|zsh|fish",
    about: "Prints a script for the named shell. With it the shell completes the tools, the flags of each, and the values of \
        flags that have fixed ones or name a file.",
    exit_status: &[(0, "printed"), WRONG_USAGE],
    examples: &[
        Example { purpose: "bash, in this session", line: "source <(ip-masq-agent completion bash)" },
        Example {
            purpose: "zsh, from the next session on",
            line: "ip-masq-agent completion zsh > /usr/local/share/zsh/site-functions/_ip-masq-agent",
        },
        Example {
            purpose: "fish, from now on",
            line: "ip-masq-agent completion fish > $HOME/.config/fish/completions/ip-masq-agent.fish",
        },
    ],
};
