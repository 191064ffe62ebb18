//! The completion script for fish.

use std::fmt::Write;

use super::{HELP, Offer, offer, tools, words};
use crate::cli::flags::Flag;
use crate::cli::table;

/// Words of fish that begin a line for the program.
const COMPLETE: &str = "complete -c ip-masq-agent";

/// The whole script.
pub(super) fn script() -> String {
    let names: Vec<&str> = tools().map(|(_, word)| word).collect();
    let mut text = format!(
        "# Completes ip-masq-agent in fish.\n\
         function __ip_masq_agent_is\n    \
             set -l words (commandline -opc)\n    \
             set -l command daemon\n    \
             if contains -- \"$words[2]\" {}\n        \
                 set command $words[2]\n    \
             end\n    \
             contains -- $command $argv\n\
         end\n\
         {COMPLETE} -f\n",
        names.join(" ")
    );
    for (tool, word) in tools() {
        let first = "test (count (commandline -opc)) -eq 1";
        let summary = quoted(tool.manual().summary);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{COMPLETE} -n '{first}' -a {word} -d {summary}");
        let words = words(tool);
        if !words.is_empty() {
            let _ = writeln!(text, "{COMPLETE} -n '__ip_masq_agent_is {word}' -a '{}'", words.join(" "));
        }
    }
    table::flags().for_each(|flag| text += &option(flag));
    let (help, about) = HELP;
    let _ = writeln!(text, "{COMPLETE} -l {help} -d {}", quoted(about));
    text
}

fn option(flag: &Flag) -> String {
    let commands: Vec<&str> = flag.commands.iter().map(|topic| topic.word().unwrap_or("daemon")).collect();
    let kind = if flag.name.len() == 1 { "-s" } else { "-l" };
    let value = match offer(flag) {
        Offer::Words(words) => format!(" -x -a '{}'", words.join(" ")),
        Offer::Boolean => String::new(),
        Offer::Files => " -r -F".to_owned(),
        Offer::Directories => " -x -a '(__fish_complete_directories)'".to_owned(),
        Offer::Nothing => " -x".to_owned(),
    };
    format!(
        "{COMPLETE} -n '__ip_masq_agent_is {}' {kind} {} -d {}{value}\n",
        commands.join(" "),
        flag.name,
        quoted(flag.help)
    )
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
