//! The house rules that a test can check: the invariants of ARCHITECTURE.md, file by file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longer files are to be split along a seam.
const LONGEST_FILE: usize = 450;

/// Packages that the program is built from, beyond the workspace's own.
const MOST_DEPENDENCIES: usize = 60;

const PERMISSIVE: [&str; 7] =
    ["Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "Unicode-3.0", "Zlib", "Apache-2.0 WITH LLVM-exception"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Every Rust file below `crates`, by its path from the root.
fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![root().join("crates")];
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    assert!(found.len() > 30, "the sources are found");
    found
}

fn production() -> impl Iterator<Item = (String, String)> {
    sources().into_iter().filter(|(name, _)| name.contains("/src/") && !name.ends_with("tests.rs")).map(
        |(name, text)| {
            let end = text.find("#[cfg(test)]").unwrap_or(text.len());
            (name, text[..end].to_owned())
        },
    )
}

/// Panics with all of them if there are any.
fn none(what: &str, offenders: impl IntoIterator<Item = String>) {
    let offenders: Vec<String> = offenders.into_iter().collect();
    assert!(offenders.is_empty(), "{what}:\n{}", offenders.join("\n"));
}

fn using(crate_folder: &str, word: &str) -> Vec<String> {
    let prefix = format!("crates/{crate_folder}/");
    production().filter(|(name, text)| name.starts_with(&prefix) && text.contains(word)).map(|(name, _)| name).collect()
}

#[test]
fn masq_and_nfnetlink_do_not_know_each_other_nor_the_agent() {
    none("masq knows nfnetlink", using("masq", "nfnetlink::"));
    none("nfnetlink knows masq", using("nfnetlink", "masq::"));
    for folder in ["masq", "nfnetlink"] {
        let manifest = fs::read_to_string(root().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let others = ["nfnetlink.workspace", "masq.workspace", "ip-masq-agent.workspace"];
        none(folder, others.into_iter().filter(|other| manifest.contains(other)).map(str::to_owned));
    }
}

#[test]
fn the_two_backends_do_not_know_each_other() {
    let backend = |name: &str, other: &str| {
        let mine = format!("crates/agent/src/backend/{name}");
        let theirs = format!("backend::{other}");
        let uses = production().filter(|(file, text)| file.starts_with(&mine) && text.contains(&theirs));
        uses.map(|(file, _)| file).collect::<Vec<_>>()
    };
    none("nftables uses iptables", backend("nftables", "iptables"));
    none("iptables uses nftables", backend("iptables", "nftables"));
}

#[test]
fn nobody_but_main_imports_the_loop() {
    let importers =
        production().filter(|(name, text)| name != "crates/agent/src/main.rs" && text.contains("crate::agent::"));
    none("imports agent.rs", importers.map(|(name, _)| name));
}

#[test]
fn there_is_no_unsafe_code() {
    let word = concat!("uns", "afe");
    let uses = |text: &str| {
        [format!("{word} {{"), format!("{word} fn"), format!("{word} impl")].iter().any(|use_| text.contains(use_))
    };
    none("not safe", sources().into_iter().filter(|(_, text)| uses(text)).map(|(name, _)| name));
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""));
}

#[test]
fn the_daemon_waits_in_one_place_only() {
    let waits = ["poll(", "thread::sleep", "recv_timeout"];
    let daemon = |name: &str| name.starts_with("crates/agent/src/agent") || name.starts_with("crates/agent/src/events");
    let waiting = production().filter(|(name, text)| {
        daemon(name) && name != "crates/agent/src/events.rs" && waits.iter().any(|wait| text.contains(wait))
    });
    none("waits", waiting.map(|(name, _)| name));
}

#[test]
fn every_file_opens_with_a_sentence_about_itself() {
    none("no //! line", sources().into_iter().filter(|(_, text)| !text.starts_with("//! ")).map(|(name, _)| name));
}

#[test]
fn no_file_is_too_long_to_read_at_a_sitting() {
    let long = sources().into_iter().filter(|(_, text)| text.lines().count() > LONGEST_FILE);
    none("too long", long.map(|(name, text)| format!("{name}: {} lines", text.lines().count())));
}

#[test]
fn no_file_is_called_mod_rs() {
    none("mod.rs", sources().into_keys().filter(|name| name.ends_with("/mod.rs")));
}

#[test]
fn nothing_is_left_open_in_the_code() {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("to", "do!("),
        concat!("unimplemen", "ted!("),
        concat!("#[ig", "nore"),
    ];
    let open = sources().into_iter().filter(|(_, text)| marks.iter().any(|mark| text.contains(mark)));
    none("left open", open.map(|(name, _)| name));
}

#[test]
fn words_without_a_meaning_name_nothing() {
    let mut offenders = BTreeSet::new();
    for (name, text) in production() {
        for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            for kind in ["fn ", "struct ", "enum ", "trait ", "mod "] {
                let Some((_, rest)) = line.split_once(kind) else { continue };
                let named: String =
                    rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>().to_lowercase();
                if ["manager", "handler", "helper", "util", "service"].iter().any(|word| named.contains(word))
                    || named.starts_with("do_")
                {
                    offenders.insert(format!("{name}: {named}"));
                }
            }
        }
    }
    none("says nothing", offenders);
}

#[test]
fn the_map_of_the_architecture_is_the_tree() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mapped: BTreeSet<String> = text
        .lines()
        .filter(|line| line.starts_with("| `crates/"))
        .filter_map(|line| line.split('`').nth(1))
        .filter(|word| word.starts_with("crates/") && word.ends_with(".rs"))
        .map(str::to_owned)
        .collect();
    let files: BTreeSet<String> = sources().into_keys().filter(|name| name.contains("/src/")).collect();
    none("in the tree, not on the map", files.difference(&mapped).cloned());
    none("on the map, not in the tree", mapped.difference(&files).cloned());
}

#[test]
fn every_dependency_is_permissive_explained_and_one_of_few() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = ["tree", "--offline", "--locked", "-p", "ip-masq-agent", "-e", "normal,build", "--prefix", "none"];
    let output = Command::new(cargo).args(tree).args(["--format", "{p}|{l}"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: BTreeSet<&str> =
        text.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.contains("(/")).collect();
    assert!(lines.len() > 10, "{text}");
    assert!(lines.len() <= MOST_DEPENDENCIES, "{} packages:\n{text}", lines.len());
    let is_permissive = |line: &&&str| {
        let licence = line.split('|').nth(1).unwrap().replace('/', " OR ").replace(['(', ')'], "");
        licence.split(" AND ").all(|all| all.split(" OR ").any(|one| PERMISSIVE.contains(&one.trim())))
    };
    none("no permissive licence", lines.iter().filter(|line| !is_permissive(line)).map(|line| (*line).to_owned()));
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    none(
        "direct, but not explained in ARCHITECTURE.md",
        direct_dependencies().into_iter().filter(|name| !architecture.contains(&format!("`{name}`"))),
    );
}

fn direct_dependencies() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["masq", "nfnetlink", "agent"] {
        let manifest = fs::read_to_string(root().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        names.extend(
            section
                .lines()
                .filter_map(|line| line.split(['.', ' ', '=']).next())
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
        );
    }
    names.remove("masq");
    names.remove("nfnetlink");
    names
}
