//! What a checked command line asks for: one type per command.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::question::Question;
use crate::log::LogOptions;

/// Where the config is read from unless `--config` names another place.
pub const DEFAULT_CONFIG_PATH: &str = "/etc/config/ip-masq-agent";

/// A command line that asks for something.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Run the daemon.
    Daemon(Box<DaemonOptions>),
    /// Parse the config and say what is wrong with it.
    Check(CheckOptions),
    /// Print what the daemon would load.
    Render(RenderOptions),
    /// Say how the kernel differs from the policy.
    Diff(NodeOptions),
    /// Show how masquerading on this node is.
    Status(NodeOptions),
    /// Say what becomes of a packet, and why.
    Explain(ExplainOptions),
    /// Show who uses the source ports.
    Top(TopOptions),
    /// Remove all of ours from the kernel.
    Cleanup(CleanupOptions),
    /// Show the whole thing at work in private namespaces.
    Demo(DemoOptions),
    /// Print a shell's completion script.
    Completion(Shell),
    /// Print the version.
    Version,
    /// Print a help text.
    Help(Topic),
}

/// What a help text is about: the daemon, or one of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// The program run without a tool's name.
    Daemon,
    /// `check`.
    Check,
    /// `render`.
    Render,
    /// `diff`.
    Diff,
    /// `status`.
    Status,
    /// `explain`.
    Explain,
    /// `top`.
    Top,
    /// `cleanup`.
    Cleanup,
    /// `demo`.
    Demo,
    /// `completion`.
    Completion,
}

impl Topic {
    /// The tools, in the order in which help lists them.
    pub const TOOLS: [Topic; 9] = [
        Topic::Check,
        Topic::Render,
        Topic::Diff,
        Topic::Status,
        Topic::Explain,
        Topic::Top,
        Topic::Cleanup,
        Topic::Demo,
        Topic::Completion,
    ];

    /// The first word that chooses the tool; the daemon has none.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Topic::Daemon => None,
            Topic::Check => Some("check"),
            Topic::Render => Some("render"),
            Topic::Diff => Some("diff"),
            Topic::Status => Some("status"),
            Topic::Explain => Some("explain"),
            Topic::Top => Some("top"),
            Topic::Cleanup => Some("cleanup"),
            Topic::Demo => Some("demo"),
            Topic::Completion => Some("completion"),
        }
    }

    /// The words that run the command.
    pub fn command(self) -> String {
        let tool = self.word().map(|word| format!(" {word}")).unwrap_or_default();
        format!("ip-masq-agent{tool}")
    }
}

/// Everything the daemon is told on its command line.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonOptions {
    /// The flags that shape the policy together with the config.
    pub policy: masq::config::Flags,
    /// The name of the iptables chain: 1 to 28 bytes that iptables takes as a chain's name.
    pub masq_chain: String,
    /// The config file, or a directory of them.
    pub config_path: PathBuf,
    /// Which backend programs the kernel.
    pub backend: BackendChoice,
    /// Whether an unknown key is an error.
    pub strict: bool,
    /// Apply the policy, then exit.
    pub once: bool,
    /// Where HTTP is to be served; `None` is nowhere.
    pub http_bind_address: Option<SocketAddr>,
    /// Where and how to log.
    pub log: LogOptions,
    /// Remove our rules at exit.
    pub cleanup_on_exit: bool,
    /// Make the kernel refuse other programs' changes to our table.
    pub protect_table: bool,
    /// Count connections by CIDR.
    pub cidr_metrics: bool,
    /// How far looks at all connections are apart at least; `None` is never to look.
    pub conntrack_interval: Option<Duration>,
    /// The words behind the flags, which the daemon does not act on.
    pub ignored_words: Vec<String>,
    /// Every flag with the value in force, sorted by name: the log's `FLAG:` lines.
    pub flag_dump: Vec<(String, String)>,
}

/// `--backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// Whichever fits the node.
    #[default]
    Auto,
    /// nftables over netlink.
    Nftables,
    /// The iptables programs.
    Iptables,
}

/// What `check` is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckOptions {
    /// The flags that shape the policy together with the config.
    pub policy: masq::config::Flags,
    /// The config file or directory as given; `-` is standard input, `None` the daemon's default place.
    pub config_path: Option<PathBuf>,
    /// Whether an unknown key is an error, and any warning something to report.
    pub strict: bool,
    /// Text or JSON.
    pub output: OutputFormat,
}

/// What `render` is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderOptions {
    /// The flags that shape the policy together with the config.
    pub policy: masq::config::Flags,
    /// The config file or directory as given; `-` is standard input, `None` the daemon's default place.
    pub config_path: Option<PathBuf>,
    /// The backend whose input is printed.
    pub backend: BackendChoice,
    /// The name of the iptables chain, as given: nothing is programmed with it.
    pub masq_chain: String,
    /// Text or JSON.
    pub output: OutputFormat,
}

/// What a tool is asked that looks at the node as the daemon would: `diff` and `status`.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOptions {
    /// The flags that shape the policy together with the config.
    pub policy: masq::config::Flags,
    /// The config file or directory as given; `-` is standard input, `None` the daemon's default place.
    pub config_path: Option<PathBuf>,
    /// Whether an unknown key is an error.
    pub strict: bool,
    /// The backend whose rules are looked for.
    pub backend: BackendChoice,
    /// The name of the iptables chain.
    pub masq_chain: String,
    /// Text or JSON.
    pub output: OutputFormat,
}

/// What `explain` is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainOptions {
    /// The flags that shape the policy together with the config.
    pub policy: masq::config::Flags,
    /// The config file or directory as given; `-` is standard input, `None` the daemon's default place.
    pub config_path: Option<PathBuf>,
    /// The backend whose rules are ours; with `Auto` those of both are.
    pub backend: BackendChoice,
    /// The name of the iptables chain.
    pub masq_chain: String,
    /// The packet.
    pub question: Question,
    /// Text or JSON.
    pub output: OutputFormat,
}

/// What `top` is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct TopOptions {
    /// The flags that shape the policy together with the config.
    pub policy: masq::config::Flags,
    /// The config file or directory as given; `-` is standard input, `None` the daemon's default place.
    pub config_path: Option<PathBuf>,
    /// Whether destinations or sources are shown.
    pub by: Grouping,
    /// What comes first.
    pub sort: SortKey,
    /// The time between two looks.
    pub interval: Duration,
    /// Show one table, then exit.
    pub once: bool,
    /// Text or JSON.
    pub output: OutputFormat,
}

/// `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Where connections go to.
    #[default]
    Destination,
    /// Where they come from.
    Source,
}

/// `--sort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// Those that use most ports, as a share of what there are.
    #[default]
    Used,
    /// Those with most new connections.
    New,
    /// By address and port.
    Name,
}

/// What `cleanup` is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanupOptions {
    /// The name of the iptables chain.
    pub masq_chain: String,
    /// Whether the chains that other versions and chain names left go, too.
    pub all_generations: bool,
    /// Whether it is only told what would be removed.
    pub dry_run: bool,
    /// Text or JSON.
    pub output: OutputFormat,
}

/// What `demo` is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoOptions {
    /// The flags that shape the policy together with the config.
    pub policy: masq::config::Flags,
    /// The config to show at work; `None` shows a built-in one.
    pub config_path: Option<PathBuf>,
    /// The policy flags as given, one `--name=value` word each, for the daemon that the demo starts.
    pub policy_words: Vec<OsString>,
    /// Text or JSON.
    pub output: OutputFormat,
}

/// A shell that `completion` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

impl Shell {
    /// All of them.
    pub const ALL: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
        }
    }
}

/// `-o`: for people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON whose keys stay the same from version to version.
    Json,
}
