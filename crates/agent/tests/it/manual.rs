//! The manual pages: what is in the tree is what the command line says, and programs that show manual pages take it.

#[path = "../../examples/manual/pages.rs"]
mod pages;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ip_masq_agent::cli::{Topic, flags};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man")
}

/// What mandoc prints, which has to find nothing to complain about.
fn mandoc(arguments: &[&str], page: &Path) -> String {
    let output = Command::new("mandoc").args(arguments).arg(page).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success() && stderr.is_empty(), "{}: {stdout}{stderr}", page.display());
    stdout
}

#[test]
fn the_pages_in_the_tree_are_those_that_the_command_line_makes() {
    let wanted: BTreeMap<String, String> = pages::all().into_iter().map(|page| (page.file_name(), page.text)).collect();
    assert!(wanted.contains_key("ip-masq-agent.8") && wanted.contains_key("ip-masq-agent-status.8"));
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap());
    let found: BTreeMap<String, String> =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap())).collect();
    let differ = wanted.keys().chain(found.keys()).filter(|name| wanted.get(*name) != found.get(*name));
    let differ: Vec<&String> = differ.collect();
    assert!(differ.is_empty(), "run `cargo run -p ip-masq-agent --example manual`; it changes {differ:?}");
}

#[test]
fn mandoc_finds_nothing_wrong_with_the_pages() {
    for page in pages::all() {
        mandoc(&["-Tlint", "-Wwarning"], &directory().join(page.file_name()));
    }
}

#[test]
fn every_page_shows_all_flags_of_its_command_so_that_they_can_be_copied() {
    for topic in [Topic::Daemon].into_iter().chain(Topic::TOOLS) {
        let file = format!("{}.8", topic.command().replace(' ', "-"));
        let text = without_overstrikes(&mandoc(&["-Tutf8", "-Owidth=200"], &directory().join(file)));
        for flag in flags() {
            let is_shown = text.lines().any(|line| line.split_whitespace().next() == Some(flag.dashed().as_str()));
            assert_eq!(is_shown, flag.commands.contains(&topic), "{} in {topic:?}:\n{text}", flag.name);
        }
        for example in topic.manual().examples {
            assert!(text.contains(example.line), "{}\n{text}", example.line);
        }
    }
}

/// Bold is a character struck twice, italics one over a line.
fn without_overstrikes(shown: &str) -> String {
    let mut text = String::new();
    for character in shown.chars() {
        match character {
            '\u{8}' => drop(text.pop()),
            other => text.push(other),
        }
    }
    text
}
