//! The first word of a command line: a tool's name, or what was probably meant for one.

use std::ffi::OsString;

use masq::nearest;

use super::options::{Command, Topic};

/// What the first word makes of a command line.
pub(super) enum FirstWord<'a> {
    /// The rest is for the daemon or a tool.
    Topic(Topic, &'a [OsString]),
    /// The command is complete.
    Command(Command),
    /// It is no tool's name, but close to one; the message is one line.
    Mistyped(String),
}

/// Reads the first word.
///
/// The reference ignores words that are no flags, and starts. So does the daemon, but for a word that is close to a tool's name: who asks
/// how things are must not get a second daemon for an answer, with all its powers.
pub(super) fn read(args: &[OsString]) -> FirstWord<'_> {
    let Some((first, rest)) = args.split_first() else { return FirstWord::Topic(Topic::Daemon, args) };
    let tool_named =
        |word: &OsString| Topic::TOOLS.into_iter().find(|tool| tool.word().is_some_and(|name| word == name));
    if let Some(tool) = tool_named(first) {
        return FirstWord::Topic(tool, rest);
    }
    match first.to_str() {
        Some("help") => FirstWord::Command(Command::Help(rest.first().and_then(tool_named).unwrap_or(Topic::Daemon))),
        Some("version") => FirstWord::Command(Command::Version),
        Some(word) if !word.starts_with('-') => match nearest(word, Topic::TOOLS.iter().filter_map(|tool| tool.word()))
        {
            Some(name) => FirstWord::Mistyped(format!(
                "there is no tool {word:?}; did you mean {name}? The daemon takes flags only, like --config PATH"
            )),
            None => FirstWord::Topic(Topic::Daemon, args),
        },
        Some(_) | None => FirstWord::Topic(Topic::Daemon, args),
    }
}
