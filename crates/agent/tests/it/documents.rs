//! The documents: their links lead somewhere, their shell examples are shell, and the commands of this program in them are understood.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ip_masq_agent::cli;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Every document of the project.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![root().join("docs"), root().join("deploy")];
    ahead.extend(fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    assert!(found.len() > 10, "the documents are found");
    found.sort();
    found
}

/// What a document holds that can be checked.
#[derive(Debug, Default)]
struct Document {
    links: Vec<String>,
    headings: BTreeSet<String>,
    /// The fenced blocks that are said to be shell.
    shell: Vec<String>,
    /// Fenced blocks that do not say what they are.
    untold: usize,
}

impl Document {
    fn read(path: &Path) -> Document {
        let text = fs::read_to_string(path).unwrap();
        let mut document = Document::default();
        let (mut heading, mut block): (Option<String>, Option<String>) = (None, None);
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => document.headings.extend(heading.take().map(|text| anchor(&text))),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => match language.as_ref() {
                    "sh" | "bash" | "shell" => block = Some(String::new()),
                    "" => document.untold += 1,
                    _ => {}
                },
                Event::End(TagEnd::CodeBlock) => document.shell.extend(block.take()),
                Event::Text(text) | Event::Code(text) => {
                    heading.iter_mut().chain(block.iter_mut()).for_each(|open| open.push_str(&text));
                }
                _ => {}
            }
        }
        document
    }
}

/// What a heading is called in links.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}

/// Every document's findings by `look`, with its path from the root.
fn in_all_documents(look: impl Fn(&Path, &Document) -> Vec<String>) {
    let found: Vec<String> = documents()
        .iter()
        .flat_map(|path| {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            look(path, &Document::read(path)).into_iter().map(move |finding| format!("{name}: {finding}"))
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_link_within_the_project_leads_somewhere() {
    in_all_documents(|path, document| {
        let inside = document.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        inside
            .filter(|link| {
                let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
                let has = |fragment: &str| Document::read(&target).headings.contains(fragment);
                !target.exists() || !(fragment.is_empty() || has(fragment))
            })
            .cloned()
            .collect()
    });
}

#[test]
fn every_shell_example_is_shell() {
    in_all_documents(|_, document| {
        let refused = |script: &String| {
            let mut shell = Command::new("bash");
            shell.arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped());
            let mut child = shell.spawn().unwrap();
            child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            (!output.status.success()).then(|| format!("{script}: {}", String::from_utf8_lossy(&output.stderr)))
        };
        document.shell.iter().filter_map(refused).collect()
    });
}

#[test]
fn every_command_of_this_program_in_an_example_is_understood() {
    let mut understood = 0;
    for path in documents() {
        for line in Document::read(&path).shell.iter().flat_map(|script| script.lines()) {
            let Some(words) = own_words(line) else { continue };
            let args: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert!(cli::parse(&args).is_ok(), "{}: {line}", path.display());
            understood += 1;
        }
    }
    assert!(understood > 10, "{understood}");
}

/// The words behind the program's name where a line runs it; a comment and what follows a pipe are left out.
fn own_words(line: &str) -> Option<Vec<&str>> {
    let line = line.split(" #").next().unwrap_or_default();
    let line = line.split(['|', '>', ';', '&']).next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_program =
        |word: &&str| matches!(*word, "ip-masq-agent" | "/ip-masq-agent") || word.ends_with("release/ip-masq-agent");
    let place = words.iter().position(is_program)?;
    // Behind other words it is run by them only where they are known to run it; else it is the name of something else.
    let runs = |word: &&str| matches!(*word, "sudo" | "--");
    (place == 0 || runs(&words[place - 1])).then(|| words[place + 1..].to_vec())
}

#[test]
fn every_fenced_block_says_what_it_is() {
    in_all_documents(|_, document| {
        (document.untold > 0)
            .then(|| format!("{} fenced blocks say no language; output is `text`", document.untold))
            .into_iter()
            .collect()
    });
}
