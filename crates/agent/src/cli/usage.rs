//! The help texts, made from the manual and the flag table.

use std::fmt::Write;

use super::flags::{Flag, Origin};
use super::options::Topic;
use super::table;

/// Columns of a help text's paragraphs.
const WIDTH: usize = 120;

/// The help text of the daemon or of a tool.
pub fn usage(topic: Topic) -> String {
    let mut text = heading(topic);
    let flags: Vec<&Flag> = table::flags().filter(|flag| flag.commands.contains(&topic)).collect();
    let (logging, others): (Vec<_>, Vec<_>) = flags.into_iter().partition(|flag| flag.origin == Origin::Klog);
    let sections = [
        ("Flags (--flag=VALUE or --flag VALUE; without VALUE only --flag or --flag=false)", others),
        ("Log flags, as of klog; times are in UTC", logging),
    ];
    for (title, flags) in sections.iter().filter(|(_, flags)| !flags.is_empty()) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{title}:");
        flags.iter().for_each(|flag| describe(flag, topic, &mut text));
    }
    text
}

fn heading(topic: Topic) -> String {
    let (name, manual) = (topic.command(), topic.manual());
    let mut text = format!("Usage of {name}:\n  {name} {}\n", manual.words);
    text += &fill(manual.about);
    if topic == Topic::Daemon {
        text += "\nTools, each with its own --help:\n";
        for tool in Topic::TOOLS {
            let _ = writeln!(text, "  {:<26}{}", tool.command(), tool.manual().summary);
        }
        text += "\n";
    }
    let statuses: Vec<String> =
        manual.exit_status.iter().map(|(status, meaning)| format!("{status} {meaning}")).collect();
    text += &fill(&format!("Exit status: {}.", statuses.join("; ")));
    text += "\nExample:\n";
    for example in manual.examples {
        let _ = writeln!(text, "  # {}\n  {}", example.purpose, example.line);
    }
    text
}

/// A paragraph, broken into lines.
fn fill(paragraph: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split(' ') {
        let space = if column == 0 {
            ""
        } else if column + 1 + word.len() > WIDTH {
            column = 0;
            "\n"
        } else {
            column += 1;
            " "
        };
        text += space;
        text += word;
        column += word.len();
    }
    text + "\n"
}

fn describe(flag: &Flag, topic: Topic, text: &mut String) {
    let value = flag.value.map(|value| format!(" {value}")).unwrap_or_default();
    let _ = writeln!(text, "  {}{value}\n        {}", flag.dashed(), flag.help_for(topic));
}
