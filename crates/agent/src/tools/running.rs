//! Agents that run in the network namespace of the caller, as far as /proc shows them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::{self, Topic};

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

/// A tool's words with the flags of the agent that runs here put before the tool's own: without them it would hold another policy
/// against the kernel than the agent does. Where no agent is seen, or several, nothing is put there. Anybody may give a process an agent's
/// name, so it takes the power to program the kernel to be heeded.
///
/// The config is the file that the agent sees, which in a container is another one than the node's of the same name.
pub fn with_flags_of_the_agent(args: Vec<OsString>) -> Vec<OsString> {
    let Some((word, own)) = args.split_first() else { return args };
    let tool = [Topic::Status, Topic::Diff, Topic::Explain, Topic::Top]
        .into_iter()
        .find(|tool| tool.word().is_some_and(|w| word == w));
    let Some(tool) = tool else { return args };
    let agents: Vec<Running> = agents().into_iter().filter(Running::may_program_the_kernel).collect();
    let [agent] = agents.as_slice() else { return args };
    let mut all = vec![word.clone()];
    all.extend(cli::inherited(tool, &agent.flags(), |path| agent.sees(path)));
    all.extend_from_slice(own);
    all
}

impl Running {
    /// Whether the process has CAP_NET_ADMIN in the user namespace of the caller.
    fn may_program_the_kernel(&self) -> bool {
        const NET_ADMIN: u64 = 1 << 12;
        let process = Path::new("/proc").join(self.pid.to_string());
        let namespaces = [process.join("ns/user"), PathBuf::from("/proc/thread-self/ns/user")].map(fs::read_link);
        let [Ok(theirs), Ok(ours)] = namespaces else { return false };
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
        theirs == ours && effective.is_some_and(|bits| bits & NET_ADMIN != 0)
    }

    fn flags(&self) -> Vec<OsString> {
        self.words.iter().skip(1).map(OsString::from).collect()
    }

    /// The path by which the caller gets at a file of the agent's; `None` if there is none.
    fn sees(&self, path: &Path) -> Option<PathBuf> {
        let process = Path::new("/proc").join(self.pid.to_string());
        let namespaces = [process.join("ns/mnt"), PathBuf::from("/proc/thread-self/ns/mnt")].map(fs::read_link);
        let path = match namespaces {
            [Ok(theirs), Ok(ours)] if theirs != ours => process.join("root").join(path.strip_prefix("/").ok()?),
            // A path that is not absolute begins where the agent was started.
            _ => process.join("cwd").join(path),
        };
        path.exists().then_some(path)
    }
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
    // Each word ends with a zero, and one in between may be empty.
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn is_tool(words: &[String]) -> bool {
    words.get(1).is_some_and(|word| Topic::TOOLS.iter().any(|tool| tool.word() == Some(word)))
}
