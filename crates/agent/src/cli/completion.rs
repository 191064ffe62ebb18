//! `completion`: scripts that let a shell complete the command line, made from the flag table.

mod bash;
mod fish;
mod zsh;

use super::flags::Flag;
use super::options::{Shell, Topic};
use super::table;

/// The script for a shell.
pub fn completion(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash::script(),
        Shell::Zsh => zsh::script(),
        Shell::Fish => fish::script(),
    }
}

/// `--help` is no row of the flag table, for it has no value to keep.
const HELP: (&str, &str) = ("help", "show a help text");

/// What a shell can offer as the value of a flag.
enum Offer {
    /// One of these.
    Words(Vec<&'static str>),
    /// `true` or `false`, behind an equals sign only.
    Boolean,
    /// A path of a file or a directory.
    Files,
    /// A path of a directory.
    Directories,
    /// Nothing: the value is a name or a number.
    Nothing,
}

fn offer(flag: &Flag) -> Offer {
    match flag.value {
        None => Offer::Boolean,
        Some("PATH") => Offer::Files,
        Some("DIRECTORY") => Offer::Directories,
        Some(words) if words.contains('|') => Offer::Words(words.split('|').collect()),
        Some(_) => Offer::Nothing,
    }
}

/// The words that a command takes besides flags, as far as they are fixed.
fn words(topic: Topic) -> Vec<&'static str> {
    match topic {
        Topic::Completion => Shell::ALL.map(Shell::word).to_vec(),
        Topic::Daemon
        | Topic::Check
        | Topic::Render
        | Topic::Diff
        | Topic::Status
        | Topic::Explain
        | Topic::Top
        | Topic::Cleanup
        | Topic::Demo => Vec::new(),
    }
}

fn flags_of(topic: Topic) -> impl Iterator<Item = &'static Flag> {
    table::flags().filter(move |flag| flag.commands.contains(&topic))
}

/// Each tool with its name.
fn tools() -> impl Iterator<Item = (Topic, &'static str)> {
    Topic::TOOLS.into_iter().filter_map(|tool| tool.word().map(|word| (tool, word)))
}
