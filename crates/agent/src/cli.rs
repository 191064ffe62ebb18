//! The command line, from words to checked options, as a pure function.

mod chain_name;
mod completion;
mod first_word;
mod flags;
mod go_flags;
mod go_values;
mod inherited;
mod klog_table;
mod manual;
mod options;
mod question;
mod table;
mod usage;

use std::ffi::OsString;
use std::time::Duration;

use masq::ports::PortRanges;

pub use self::completion::completion;
use self::first_word::FirstWord;
use self::flags::Flags;
pub use self::flags::{Flag, Origin};
use self::go_flags::{Stop, Words};
pub use self::inherited::inherited;
pub use self::manual::{Example, Manual};
pub use self::options::{
    BackendChoice, CheckOptions, CleanupOptions, Command, DEFAULT_CONFIG_PATH, DaemonOptions, DemoOptions,
    ExplainOptions, Grouping, NodeOptions, OutputFormat, RenderOptions, Shell, SortKey, TopOptions, Topic,
};
pub use self::question::{Endpoint, Question};
pub use self::table::flags;
pub use self::usage::usage;
use crate::log::LogOptions;

/// Reads the words behind the program's name.
///
/// A tool's name counts only as the first word. For the daemon the words behind the flags are not an error, since the
/// reference takes them too; a tool refuses them.
///
/// # Errors
/// The words are no valid usage, or a value would be refused by every kernel.
pub fn parse(args: &[OsString]) -> Result<Command, Refusal> {
    let (topic, args) = match first_word::read(args) {
        FirstWord::Topic(topic, rest) => (topic, rest),
        FirstWord::Command(command) => return Ok(command),
        FirstWord::Mistyped(message) => return Err(Refusal::Usage { topic: Topic::Daemon, message }),
    };
    let mut flags = Flags::default();
    let parse = if topic == Topic::Explain { go_flags::parse_mixed } else { go_flags::parse };
    let words = match parse(topic, args, &mut flags) {
        Ok(words) => words,
        Err(Stop::Help) => return Ok(Command::Help(topic)),
        Err(Stop::Bad(message)) => return Err(Refusal::Usage { topic, message }),
    };
    let usage = |message| Refusal::Usage { topic, message };
    match topic {
        Topic::Daemon if flags.version => Ok(Command::Version),
        Topic::Daemon => daemon(flags, &words).map(|options| Command::Daemon(Box::new(options))),
        Topic::Check => check(flags, &words).map(Command::Check).map_err(usage),
        Topic::Render => render(flags, &words).map(Command::Render).map_err(usage),
        Topic::Diff => node(flags, &words).map(Command::Diff).map_err(usage),
        Topic::Explain => explain(flags, &words).map(Command::Explain).map_err(usage),
        Topic::Status => node(flags, &words).map(Command::Status).map_err(usage),
        Topic::Top => top(flags, &words).map(Command::Top).map_err(usage),
        Topic::Cleanup => cleanup(flags, &words).map(Command::Cleanup).map_err(usage),
        Topic::Demo => demo(flags, &words).map(Command::Demo).map_err(usage),
        Topic::Completion => shell(&words).map(Command::Completion).map_err(usage),
    }
}

/// A command line that starts nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// Wrong usage, exit status 2: the message and the usage text belong on standard error.
    Usage {
        /// Whose usage text.
        topic: Topic,
        /// What is wrong, as one line.
        message: String,
    },
    /// A value that no kernel would take, exit status 1: the message is the last line of the log that these flags ask for.
    Fatal {
        /// What is wrong, as one line.
        message: String,
        /// Where to log it.
        log: Box<LogOptions>,
        /// Every flag with its value, sorted by name.
        flag_dump: Vec<(String, String)>,
    },
}

fn daemon(flags: Flags, words: &Words) -> Result<DaemonOptions, Refusal> {
    let flag_dump = dump(&flags);
    let policy = match policy(&flags, words) {
        Ok(policy) => policy,
        Err(message) => return Err(Refusal::Fatal { message, log: Box::new(flags.log), flag_dump }),
    };
    Ok(DaemonOptions {
        policy,
        masq_chain: flags.masq_chain,
        config_path: flags.config,
        backend: flags.backend,
        strict: flags.strict,
        once: flags.once,
        http_bind_address: flags.http_bind_address,
        log: flags.log,
        cleanup_on_exit: flags.cleanup_on_exit,
        protect_table: flags.protect_table,
        cidr_metrics: flags.cidr_metrics,
        conntrack_interval: (flags.conntrack_interval > 0).then(|| Duration::from_secs(flags.conntrack_interval)),
        ignored_words: words.rest.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        flag_dump,
    })
}

fn check(flags: Flags, words: &Words) -> Result<CheckOptions, String> {
    no_words(words)?;
    Ok(CheckOptions {
        policy: policy(&flags, words)?,
        config_path: words.gave("config").then_some(flags.config),
        strict: flags.strict,
        output: flags.output,
    })
}

fn render(flags: Flags, words: &Words) -> Result<RenderOptions, String> {
    no_words(words)?;
    Ok(RenderOptions {
        policy: policy(&flags, words)?,
        config_path: words.gave("config").then_some(flags.config),
        backend: flags.backend,
        masq_chain: flags.masq_chain,
        output: flags.output,
    })
}

fn node(flags: Flags, words: &Words) -> Result<NodeOptions, String> {
    no_words(words)?;
    Ok(NodeOptions {
        policy: policy(&flags, words)?,
        config_path: words.gave("config").then_some(flags.config),
        strict: flags.strict,
        backend: flags.backend,
        masq_chain: flags.masq_chain,
        output: flags.output,
    })
}

fn explain(flags: Flags, words: &Words) -> Result<ExplainOptions, String> {
    Ok(ExplainOptions {
        policy: policy(&flags, words)?,
        config_path: words.gave("config").then_some(flags.config),
        backend: flags.backend,
        masq_chain: flags.masq_chain,
        question: Question::parse(&words.rest, flags.host)?,
        output: flags.output,
    })
}

fn top(flags: Flags, words: &Words) -> Result<TopOptions, String> {
    no_words(words)?;
    Ok(TopOptions {
        policy: policy(&flags, words)?,
        config_path: words.gave("config").then_some(flags.config),
        by: flags.by,
        sort: flags.sort,
        interval: Duration::from_secs(flags.interval),
        once: flags.once,
        output: flags.output,
    })
}

fn cleanup(flags: Flags, words: &Words) -> Result<CleanupOptions, String> {
    no_words(words)?;
    policy(&flags, words)?;
    Ok(CleanupOptions {
        masq_chain: flags.masq_chain,
        all_generations: flags.all_generations,
        dry_run: flags.dry_run,
        output: flags.output,
    })
}

fn demo(flags: Flags, words: &Words) -> Result<DemoOptions, String> {
    no_words(words)?;
    Ok(DemoOptions {
        policy: policy(&flags, words)?,
        policy_words: words.given.iter().filter(|flag| flag.shapes_policy()).map(|flag| flag.word(&flags)).collect(),
        config_path: words.gave("config").then_some(flags.config),
        output: flags.output,
    })
}

fn shell(words: &Words) -> Result<Shell, String> {
    let named = match words.rest.as_slice() {
        [word] => Shell::ALL.into_iter().find(|shell| word == shell.word()),
        _ => None,
    };
    named.ok_or_else(|| format!("write the name of one shell: {}", Shell::ALL.map(Shell::word).join(", ")))
}

fn no_words(words: &Words) -> Result<(), String> {
    match words.rest.first() {
        None => Ok(()),
        Some(word) => Err(format!("unexpected word {word:?}; a tool takes flags only, like --config PATH")),
    }
}

/// The policy flags, checked; the error is what the log's last line says.
fn policy(flags: &Flags, words: &Words) -> Result<masq::config::Flags, String> {
    chain_name::check(&flags.masq_chain)
        .map_err(|reason| format!("Invalid --masq-chain flag {:?}: {reason}", flags.masq_chain))?;
    let to_ports: PortRanges =
        flags.to_ports.parse().map_err(|reason| format!("Invalid --to-ports flag {:?}: {reason}", flags.to_ports))?;
    Ok(masq::config::Flags {
        enable_ipv6: flags.enable_ipv6,
        random_fully: flags.random_fully,
        to_ports,
        nomasq_all_reserved_ranges: flags.nomasq_all_reserved_ranges,
        resync_interval: words.gave("resync-interval").then_some(flags.resync_interval),
    })
}

fn dump(flags: &Flags) -> Vec<(String, String)> {
    let rows = table::flags().filter(|flag| flag.commands.contains(&Topic::Daemon));
    let mut dump: Vec<_> = rows.map(|flag| (flag.name.to_owned(), (flag.show)(flags))).collect();
    dump.sort();
    dump
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use proptest::strategy::Strategy;

    use super::*;

    fn parsed(args: &[&str]) -> Result<Command, Refusal> {
        parse(&args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn daemon_of(args: &[&str]) -> DaemonOptions {
        match parsed(args) {
            Ok(Command::Daemon(options)) => *options,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn no_flags_mean_the_defaults() {
        let options = daemon_of(&[]);
        assert_eq!(options.policy, masq::config::Flags::default());
        assert_eq!(options.masq_chain, "IP-MASQ-AGENT");
        assert_eq!(options.config_path.to_str(), Some("/etc/config/ip-masq-agent"));
        assert_eq!(options.log, LogOptions::default());
        assert_eq!(options.http_bind_address.map(|a| a.to_string()).as_deref(), Some("127.0.0.1:10268"));
        assert!(options.ignored_words.is_empty());
    }

    #[test]
    fn the_argument_lists_seen_in_the_field_work() {
        let gke = "--v=2 --logtostderr=false --log_file=/dev/stdout --log_file_max_size=0 --masq-chain=IP-MASQ --random-fully=false";
        let options = daemon_of(&gke.split(' ').collect::<Vec<_>>());
        assert_eq!(options.masq_chain, "IP-MASQ");
        assert!(!options.policy.random_fully && !options.log.to_stderr);
        assert_eq!((options.log.verbosity, options.log.file_max_size), (2, 0));
        assert!(daemon_of(&["--masq-chain=IP-MASQ", "--nomasq-all-reserved-ranges"]).policy.nomasq_all_reserved_ranges);
        assert_eq!(daemon_of(&["--resync-interval", "30"]).policy.resync_interval, Some(30));
    }

    #[test]
    fn the_dump_holds_all_flags_of_the_daemon_sorted_with_go_s_defaults() {
        let dump = daemon_of(&[]).flag_dump;
        assert!(dump.is_sorted());
        let of = |name: &str| dump.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        for (name, value) in [
            ("add_dir_header", "false"),
            ("alsologtostderr", "false"),
            ("alsologtostderrthreshold", "0"),
            ("enable-ipv6", "false"),
            ("legacy_stderr_threshold_behavior", "true"),
            ("log_backtrace_at", ":0"),
            ("log_dir", ""),
            ("log_file", ""),
            ("log_file_max_size", "1800"),
            ("logtostderr", "true"),
            ("masq-chain", "IP-MASQ-AGENT"),
            ("nomasq-all-reserved-ranges", "false"),
            ("one_output", "false"),
            ("random-fully", "true"),
            ("skip_headers", "false"),
            ("skip_log_headers", "false"),
            ("stderrthreshold", "2"),
            ("to-ports", ""),
            ("v", "0"),
            ("vmodule", ""),
            ("resync-interval", "60"),
        ] {
            assert_eq!(of(name), Some(value), "{name}");
        }
        assert_eq!(of("o"), None);
    }

    #[test]
    fn what_a_flag_shows_it_takes_back() {
        // klog refuses the `:0` that it shows for --log_backtrace_at, and so do we.
        for flag in table::flags().filter(|flag| flag.name != "log_backtrace_at") {
            let mut flags = Flags::default();
            let shown = flag.default();
            assert!((flag.set)(&mut flags, shown.as_ref()).is_ok(), "{}={shown}", flag.name);
            assert_eq!((flag.show)(&flags), shown, "{}", flag.name);
        }
    }

    #[test]
    fn a_tool_s_name_counts_only_as_the_first_word() {
        assert!(matches!(parsed(&["check"]), Ok(Command::Check(_))));
        assert!(matches!(parsed(&["render", "--backend=nftables"]), Ok(Command::Render(_))));
        assert_eq!(daemon_of(&["--v=2", "check"]).ignored_words, ["check"]);
        assert_eq!(daemon_of(&["nonsense"]).ignored_words, ["nonsense"]);
    }

    #[test]
    fn a_tool_refuses_words_and_the_daemon_s_flags() {
        for args in
            [&["check", "file.yaml"][..], &["check", "--once"], &["check", "-o", "xml"], &["render", "--strict"]]
        {
            assert!(
                matches!(parsed(args), Err(Refusal::Usage { topic: Topic::Check | Topic::Render, .. })),
                "{args:?}"
            );
        }
    }

    #[test]
    fn the_demo_hands_the_policy_flags_on_word_by_word() {
        let Ok(Command::Demo(options)) =
            parsed(&["demo", "-enable-ipv6", "--to-ports", "1-2", "--config", "f", "-o", "json"])
        else {
            panic!("no demo");
        };
        assert_eq!(options.policy_words, ["--enable-ipv6=true", "--to-ports=1-2"]);
        assert_eq!(options.config_path.as_deref(), Some("f".as_ref()));
        assert!(matches!(parsed(&["demo"]), Ok(Command::Demo(DemoOptions { config_path: None, .. }))));
    }

    #[test]
    fn a_value_that_no_kernel_takes_is_fatal_for_the_daemon_and_wrong_usage_for_a_tool() {
        for bad in ["--to-ports=42-41", "--masq-chain=A B"] {
            let Err(Refusal::Fatal { message, flag_dump, .. }) = parsed(&["--logtostderr=false", bad]) else {
                panic!("{bad} passed");
            };
            let (name, value) = bad[2..].split_once('=').unwrap();
            assert!(message.starts_with(&format!("Invalid --{name} flag {value:?}: ")), "{message}");
            assert!(!flag_dump.is_empty());
            assert!(matches!(parsed(&["check", bad]), Err(Refusal::Usage { .. })));
        }
    }

    #[test]
    fn an_http_address_is_an_address_and_a_port_or_nothing() {
        let off = daemon_of(&["--http-bind-address="]);
        assert_eq!(off.http_bind_address, None);
        let any = daemon_of(&["--http-bind-address=:80"]);
        assert_eq!(any.http_bind_address.map(|a| a.to_string()).as_deref(), Some("[::]:80"));
        assert!(matches!(parsed(&["--http-bind-address=localhost:80"]), Err(Refusal::Usage { .. })));
    }

    #[test]
    fn version_is_printed_only_when_all_flags_are_understood() {
        assert_eq!(parsed(&["--version"]), Ok(Command::Version));
        assert!(matches!(parsed(&["--version", "--nope"]), Err(Refusal::Usage { .. })));
        assert!(matches!(parsed(&["--version=false"]), Ok(Command::Daemon(_))));
    }

    #[test]
    fn every_usage_text_names_all_flags_of_its_command() {
        for topic in [Topic::Daemon].into_iter().chain(Topic::TOOLS) {
            let text = usage(topic);
            for flag in table::flags() {
                let mut rows = text.lines().filter_map(|line| line.strip_prefix("  -")?.split(' ').next());
                let named = rows.any(|name| name.trim_start_matches('-') == flag.name);
                assert_eq!(named, flag.commands.contains(&topic), "{} in {topic:?}", flag.name);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_command_line_makes_it_panic(words in proptest::collection::vec(word(), 0..6)) {
            let args: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            if let Ok(Command::Daemon(options)) = parse(&args) {
                proptest::prop_assert!(options.ignored_words.len() <= args.len());
                proptest::prop_assert!((1..=28).contains(&options.masq_chain.len()));
            }
        }
    }

    /// Words that are close to flags, so that every corner of the parser is reached.
    fn word() -> impl Strategy<Value = Vec<u8>> {
        let names: Vec<String> = table::flags().map(|flag| flag.name.to_owned()).collect();
        let value = proptest::sample::select(vec![
            "", "1", "true", "x", "a=1,b=2", "10-20", "-1", "0x", "\u{e9}", ":80", "json",
        ]);
        let flag = ("-{0,3}", proptest::sample::select(names), "=?", value)
            .prop_map(|(dashes, name, equals, value)| format!("{dashes}{name}{equals}{value}").into_bytes());
        proptest::prop_oneof![
            4 => flag,
            1 => proptest::sample::select(vec!["check", "render", "diff", "status", "cleanup", "explain", "demo", "completion"]).prop_map(|tool| tool.as_bytes().to_vec()),
            1 => proptest::collection::vec(proptest::num::u8::ANY, 0..8),
        ]
    }
}
