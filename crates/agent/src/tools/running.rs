//! Agents that run in the network namespace of the caller, as far as /proc shows them.

use std::fs;
use std::path::Path;

use crate::cli::Topic;

/// The name of the program, ours and the reference's, as the kernel keeps it.
const NAME: &str = "ip-masq-agent";

/// A process that is an agent by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Running {
    /// Its id, as the caller sees it.
    pub pid: u32,
    /// The words of its command line, the program's own name included.
    pub words: Vec<String>,
}

/// The agents in this network namespace, in order of their ids. None that is hidden, as in a container without the node's processes,
/// and no tool of ours.
pub(super) fn agents() -> Vec<Running> {
    let Ok(here) = fs::read_link("/proc/thread-self/ns/net") else { return Vec::new() };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut agents: Vec<Running> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let pid = path.file_name()?.to_str()?.parse().ok()?;
            // Of most processes the first question settles it.
            let running = Running { pid, words: agent_words(&path)? };
            (fs::read_link(path.join("ns/net")).ok()? == here).then_some(running)
        })
        .filter(|running| !is_tool(&running.words))
        .collect();
    agents.sort_by_key(|running| running.pid);
    agents
}

/// The words of its command line, if a process bears the name: in what it is called by, or in the file that it was started from.
fn agent_words(process: &Path) -> Option<Vec<String>> {
    let words = words(process);
    let called = words.first().is_some_and(|word| Path::new(word).file_name().is_some_and(|name| name == NAME));
    let started = || fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim_end() == NAME);
    (called || started()).then_some(words)
}

fn words(process: &Path) -> Vec<String> {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn is_tool(words: &[String]) -> bool {
    words.get(1).is_some_and(|word| Topic::TOOLS.iter().any(|tool| tool.word() == Some(word)))
}
