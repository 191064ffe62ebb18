//! The syntax of flags as Go's package flag reads it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use masq::nearest;

use super::flags::{Flag, Flags};
use super::go_values::parse_bool;
use super::options::Topic;
use super::table;

/// What the words of a command line came to, besides the values.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The flags that were given, in the order given; twice where they were given twice.
    pub(super) given: Vec<&'static Flag>,
    /// The words behind the flags.
    pub(super) rest: Vec<OsString>,
}

impl Words {
    pub(super) fn gave(&self, name: &str) -> bool {
        self.given.iter().any(|flag| flag.name == name)
    }
}

/// Why parsing ended before the last word.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// `-h`, `--help` or one of their spellings.
    Help,
    /// A word that is no flag or a value that its flag does not take; the message is one line.
    Bad(String),
}

/// Reads flags into `flags` up to the first word that is none. A flag given twice: the last one wins.
pub(super) fn parse(topic: Topic, args: &[OsString], flags: &mut Flags) -> Result<Words, Stop> {
    let mut left: VecDeque<&OsString> = args.iter().collect();
    let mut words = Words::default();
    while let Some(word) = left.front().filter(|word| is_flag(word)) {
        let word = *word;
        left.pop_front();
        if word == "--" {
            break;
        }
        let (name, value) = split(word)?;
        let flag = find(topic, name)?;
        let value = match (value, flag.value) {
            (Some(value), _) => Some(value),
            (None, None) => Some(OsStr::new("true")),
            // Whatever the next word looks like, it is the value: `--masq-chain --enable-ipv6` names the chain.
            (None, Some(_)) => left.pop_front().map(OsString::as_os_str),
        };
        let value = value.ok_or_else(|| Stop::Bad(format!("flag needs an argument: -{}", flag.name)))?;
        (flag.set)(flags, value).map_err(|remedy| bad_value(flag, value, &remedy))?;
        words.given.push(flag);
    }
    words.rest = left.into_iter().cloned().collect();
    Ok(words)
}

/// No tool takes more words than this; behind them flags are not looked for.
const MOST_WORDS: usize = 2;

/// As [`parse`], for a tool that takes words: flags may stand before, between and behind them.
pub(super) fn parse_mixed(topic: Topic, args: &[OsString], flags: &mut Flags) -> Result<Words, Stop> {
    let mut all = Words::default();
    let mut ahead = args.to_vec();
    for _ in 0..=MOST_WORDS {
        let words = parse(topic, &ahead, flags)?;
        all.given.extend(words.given);
        ahead = words.rest;
        if all.rest.len() < MOST_WORDS && !ahead.is_empty() {
            all.rest.push(ahead.remove(0));
        }
    }
    all.rest.extend(ahead);
    Ok(all)
}

fn is_flag(word: &OsStr) -> bool {
    word.len() >= 2 && word.as_bytes().starts_with(b"-")
}

fn split(word: &OsStr) -> Result<(&OsStr, Option<&OsStr>), Stop> {
    let bytes = word.as_bytes();
    let name = bytes.strip_prefix(b"--").unwrap_or(&bytes[1..]);
    if matches!(name.first(), None | Some(b'-' | b'=')) {
        return Err(Stop::Bad(format!("bad flag syntax: {}", shown(word))));
    }
    Ok(match name.iter().position(|&byte| byte == b'=') {
        Some(at) => (OsStr::from_bytes(&name[..at]), Some(OsStr::from_bytes(&name[at + 1..]))),
        None => (OsStr::from_bytes(name), None),
    })
}

fn find(topic: Topic, name: &OsStr) -> Result<&'static Flag, Stop> {
    let known = || table::flags().filter(|flag| flag.commands.contains(&topic));
    if let Some(flag) = known().find(|flag| name == flag.name) {
        return Ok(flag);
    }
    if name == "h" || name == "help" {
        return Err(Stop::Help);
    }
    let hint = match nearest(&name.to_string_lossy(), known().map(|flag| flag.name)) {
        Some(near) => format!("; did you mean -{near}?"),
        None if table::flags().any(|flag| name == flag.name) => "; it is not a flag of this command".to_owned(),
        None => String::new(),
    };
    Err(Stop::Bad(format!("flag provided but not defined: -{}{hint}", shown(name))))
}

fn bad_value(flag: &Flag, value: &OsStr, remedy: &str) -> Stop {
    let boolean = flag.value.is_none() && value.to_str().is_none_or(|text| parse_bool(text).is_none());
    let (kind, preposition) = if boolean { ("boolean value", "for") } else { ("value", "for flag") };
    Stop::Bad(format!("invalid {kind} {value:?} {preposition} -{}: {remedy}", flag.name))
}

/// A word of the user's in a message: a control character in it must not reach the terminal.
fn shown(word: &OsStr) -> String {
    word.to_string_lossy()
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> (Flags, Result<Words, Stop>) {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let mut flags = Flags::default();
        let words = parse(Topic::Daemon, &args, &mut flags);
        (flags, words)
    }

    fn flags(args: &[&str]) -> Flags {
        let (flags, words) = run(args);
        assert!(words.is_ok(), "{args:?}: {words:?}");
        flags
    }

    fn rest(args: &[&str]) -> Vec<OsString> {
        run(args).1.unwrap().rest
    }

    fn complaint(args: &[&str]) -> String {
        match run(args).1 {
            Err(Stop::Bad(message)) => message,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn one_dash_and_two_are_the_same() {
        assert!(flags(&["-enable-ipv6"]).enable_ipv6);
        assert!(flags(&["--enable-ipv6"]).enable_ipv6);
        assert_eq!(flags(&["-masq-chain=A"]).masq_chain, "A");
        assert_eq!(flags(&["--masq-chain", "A"]).masq_chain, "A");
    }

    #[test]
    fn the_next_word_is_the_value_whatever_it_looks_like() {
        let flags = flags(&["--masq-chain", "--enable-ipv6"]);
        assert_eq!(flags.masq_chain, "--enable-ipv6");
        assert!(!flags.enable_ipv6);
    }

    #[test]
    fn a_value_may_hold_equals_signs_and_be_empty() {
        assert_eq!(flags(&["--masq-chain=a=b"]).masq_chain, "a=b");
        assert_eq!(flags(&["--masq-chain="]).masq_chain, "");
        assert_eq!(flags(&["--to-ports", ""]).to_ports, "");
    }

    #[test]
    fn a_boolean_takes_its_value_only_behind_an_equals_sign() {
        let (flags, words) = run(&["--random-fully", "false", "--enable-ipv6"]);
        assert!(flags.random_fully);
        assert!(!flags.enable_ipv6);
        assert_eq!(words.unwrap().rest, ["false", "--enable-ipv6"]);
    }

    #[test]
    fn parsing_ends_at_a_word_a_dash_an_empty_word_or_two_dashes() {
        assert_eq!(rest(&["foo", "--v=2"]), ["foo", "--v=2"]);
        assert_eq!(rest(&["-", "--v=2"]), ["-", "--v=2"]);
        assert_eq!(rest(&["", "--v=2"]), ["", "--v=2"]);
        assert_eq!(rest(&["--", "--v=2"]), ["--v=2"]);
        assert_eq!(rest(&["--v", "3", "--"]), [""; 0]);
    }

    #[test]
    fn the_last_of_equal_flags_wins() {
        assert_eq!(flags(&["--v=2", "--v=4"]).log.verbosity, 4);
        assert_eq!(flags(&["--vmodule=a=1", "--vmodule=b=2"]).log.modules.len(), 1);
    }

    #[test]
    fn help_has_four_spellings_and_any_value() {
        for word in ["-h", "--h", "-help", "--help", "--help=anything"] {
            assert_eq!(run(&[word]).1.unwrap_err(), Stop::Help, "{word}");
        }
    }

    #[test]
    fn bad_words_are_told_as_go_tells_them() {
        for word in ["---v", "-=x", "--=x", "---"] {
            assert_eq!(complaint(&[word]), format!("bad flag syntax: {word}"));
        }
        assert_eq!(complaint(&["--no-such-flag"]), "flag provided but not defined: -no-such-flag");
        assert_eq!(complaint(&["--masq-chain"]), "flag needs an argument: -masq-chain");
        assert_eq!(
            complaint(&["--enable-ipv6=yes"]),
            "invalid boolean value \"yes\" for -enable-ipv6: write true or false"
        );
        assert!(complaint(&["--enable-ipv6="]).starts_with("invalid boolean value \"\" for -enable-ipv6"));
        assert!(complaint(&["--v=x"]).starts_with("invalid value \"x\" for flag -v: "));
    }

    #[test]
    fn a_near_miss_is_answered_with_the_flag_that_was_meant() {
        assert!(complaint(&["--log-file=x"]).ends_with("; did you mean -log_file?"));
        assert!(complaint(&["--enable-ipv4"]).ends_with("; did you mean -enable-ipv6?"));
        assert!(complaint(&["-o", "json"]).ends_with("; it is not a flag of this command"));
    }

    #[test]
    fn a_control_character_in_a_flag_does_not_reach_the_terminal() {
        assert_eq!(complaint(&["--a\x1b[2J"]), "flag provided but not defined: -a\\u{1b}[2J");
    }

    #[test]
    fn a_name_is_taken_only_in_full_and_in_its_own_case() {
        for word in ["--masq", "--Enable-ipv6", "--V=2", "--log-dir=x"] {
            assert!(complaint(&[word]).starts_with("flag provided but not defined"), "{word}");
        }
    }

    #[test]
    fn klog_values_are_read_as_klog_reads_them() {
        assert_eq!(flags(&["--stderrthreshold=warning"]).log.stderr_threshold.0, 1);
        assert_eq!(flags(&["--stderrthreshold=7"]).log.stderr_threshold.0, 7);
        assert_eq!(flags(&["--log_file_max_size=0x10"]).log.file_max_size, 16);
        assert_eq!(flags(&["--vmodule=a=1,,b=0,"]).log.modules.len(), 1);
        assert_eq!(flags(&["--log_backtrace_at=a.go:5"]).log_backtrace_at, "a.go:5");
        for word in [
            "--vmodule=bad",
            "--vmodule=a=-1",
            "--vmodule==1",
            "--log_file_max_size=-1",
            "--log_backtrace_at=x",
            "--v=0x2",
        ] {
            assert!(complaint(&[word]).starts_with("invalid value"), "{word}");
        }
    }
}
