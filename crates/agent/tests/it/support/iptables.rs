//! A node with one or both iptables stacks and a lock file of its own, and the recorded behaviour of the reference on it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use ip_masq_agent::backend::Look;
use ip_masq_agent::backend::iptables::version::Stack;
use ip_masq_agent::backend::iptables::{Iptables, Options, Outcome};
use ip_masq_agent::cli::{self, Command as Parsed};
use ip_masq_agent::lab::daemon::{self, Daemon};
use ip_masq_agent::lab::namespace::Namespace;
use masq::cidr::Family;
use masq::config::{Config, Source};
use masq::policy::Policy;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;

use super::agent;
use super::directory::Directory;

pub const CHAIN: &str = "IP-MASQ-AGENT";

/// Where the real programs are.
const PROGRAMS: &str = "/usr/sbin";

/// The recorded behaviour.
pub static VECTORS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../../masq/tests/vectors.json")).unwrap());

/// The lines of a recorded rule list.
pub fn ruleset(name: &str) -> Vec<String> {
    let lines = VECTORS["rulesets"][name].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// A network namespace with its own /run, so that nothing is locked against anybody else, and a directory of programs.
pub struct Node {
    pub namespace: Namespace,
    pub programs: Directory,
    /// The programs of its stack, whatever is done to those in [`Node::programs`].
    untouched: Directory,
    /// The stack that `iptables` in [`Node::programs`] is.
    pub stack: Stack,
}

impl Node {
    /// A node on which `iptables`, and no other name, is the program of this stack.
    pub fn new(stack: Stack) -> Node {
        let node = Node::without_programs(stack);
        link_programs(node.programs.path(), stack, "");
        node
    }

    /// A node with the programs of both stacks under their own names, and `iptables` being those of `stack`.
    pub fn with_both_stacks(stack: Stack) -> Node {
        let node = Node::new(stack);
        for stack in Stack::ALL {
            link_programs(node.programs.path(), stack, suffix(stack));
        }
        node
    }

    /// A node without any programs of its own yet.
    pub fn without_programs(stack: Stack) -> Node {
        let namespace = Namespace::open("node").unwrap();
        namespace.run(|| {
            let none: Option<&str> = None;
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        });
        let untouched = Directory::new();
        link_programs(untouched.path(), stack, "");
        Node { namespace, programs: Directory::new(), untouched, stack }
    }

    /// Replaces one of the node's programs by a shell script. `$REAL` in it is the real program.
    pub fn script(&self, program: &str, script: &str) {
        let (base, end) = match program.split_once('-') {
            Some((base, end)) => (base, format!("-{end}")),
            None => (program, String::new()),
        };
        let text = format!("#!/bin/sh\nREAL={}\n{script}\n", real(base, self.stack, &end).display());
        write_program(&self.programs, program, &text);
    }

    /// Makes every program note its name and arguments before it does its work.
    pub fn note_calls(&self) {
        for base in ["iptables", "ip6tables"] {
            for end in ["", "-save", "-restore"] {
                let note = format!("echo \"{base}{end} $*\" >> {}\nexec \"$REAL\" \"$@\"", self.calls_path().display());
                self.script(&format!("{base}{end}"), &note);
            }
        }
    }

    /// The calls noted since the last time.
    pub fn take_calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.calls_path()).unwrap_or_default();
        let _ = fs::remove_file(self.calls_path());
        text.lines().map(str::to_owned).collect()
    }

    fn calls_path(&self) -> PathBuf {
        self.programs.join("calls")
    }

    pub fn options(&self, chain: &str) -> Options {
        Options::new(chain, self.programs.path())
    }

    /// Loads a nat table's lines into a family on a stack, keeping what is there, as a program of another time would have.
    pub fn load(&self, stack: Stack, family: Family, lines: &str) {
        let program = match family {
            Family::Ipv4 => "iptables",
            Family::Ipv6 => "ip6tables",
        };
        let restore = real(program, stack, "-restore");
        let text = format!("*nat\n{lines}COMMIT\n");
        self.shell(&format!("{} --noflush <<'END'\n{text}END", restore.display()));
    }

    /// Opens the backend on the node.
    pub fn open(&self, chain: &str) -> Opened<'_> {
        self.open_with(self.options(chain))
    }

    pub fn open_with(&self, options: Options) -> Opened<'_> {
        let iptables = self.namespace.run(|| Iptables::open(options).unwrap());
        Opened { node: self, iptables: Some(iptables) }
    }

    /// Starts the built agent on the node with the iptables backend and this config, and no other programs on its PATH than the
    /// node's.
    pub fn start_daemon(&self, args: &[&str], config: &str) -> Daemon {
        fs::write(self.config_path(), config).unwrap();
        start_daemon(&self.namespace, &self.programs, &self.config_path(), args)
    }

    /// The daemon's config file.
    pub fn config_path(&self) -> PathBuf {
        self.untouched.join("config")
    }

    /// Runs a program on the node as a stranger would, `iptables...` being that of the node's stack. Answers whether it succeeded.
    pub fn try_run(&self, words: &[&str]) -> Result<String, String> {
        self.try_run_on(self.stack, words)
    }

    pub fn try_run_on(&self, stack: Stack, words: &[&str]) -> Result<String, String> {
        let (first, arguments) = words.split_first().unwrap();
        let program = match first.split_once("tables") {
            Some((ip, end)) => real(&format!("{ip}tables"), stack, end),
            None => Path::new(PROGRAMS).join(first),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        let output = self.namespace.run(move || command.output().unwrap());
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    pub fn run(&self, words: &[&str]) -> String {
        self.try_run(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// A shell script on the node, its `iptables` being the one of the node's stack.
    pub fn shell(&self, script: &str) {
        let output = self.spawn(script).wait_with_output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The same, without waiting for its end.
    pub fn spawn(&self, script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.untouched.path().display());
        command.arg("-ec").arg(script).env("PATH", path).stderr(Stdio::piped());
        self.namespace.run(move || command.spawn().unwrap())
    }

    /// The family's nat table in the reduced form of the recordings.
    pub fn save(&self, family: Family) -> Vec<String> {
        self.save_on(self.stack, family)
    }

    pub fn save_on(&self, stack: Stack, family: Family) -> Vec<String> {
        let text = self.try_run_on(stack, &[save_program(family), "-t", "nat"]).unwrap();
        reduce(&text)
    }

    /// The same with the counters of every rule.
    pub fn save_counters(&self, family: Family) -> String {
        let text = self.run(&[save_program(family), "-t", "nat", "-c"]);
        text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
    }
}

fn start_daemon(namespace: &Namespace, programs: &Directory, config: &Path, args: &[&str]) -> Daemon {
    let arguments = daemon::arguments(config, ["--backend=iptables"].iter().chain(args));
    Daemon::start(namespace, &wrap_agent(programs), &arguments, programs.path()).unwrap()
}

/// Puts the programs of a stack, under the names without it, into a directory, and besides them an agent that sees no others; the
/// path of that.
pub fn agent_with_programs(programs: &Directory, stack: Stack) -> PathBuf {
    link_programs(programs.path(), stack, "");
    wrap_agent(programs)
}

/// The built agent as a program that finds no iptables programs at all, as in an image that holds nothing else.
pub fn agent_without_programs(programs: &Directory) -> PathBuf {
    wrap_agent(programs)
}

/// The built agent as a program that finds these programs alone, with a lock of their own.
fn wrap_agent(programs: &Directory) -> PathBuf {
    let (path, agent) = (programs.path().display(), agent::program().display());
    let script = format!("#!/bin/sh\nexport PATH={path} XTABLES_LOCKFILE={path}/lock\nexec {agent} \"$@\"\n");
    write_program(programs, "agent", &script);
    programs.join("agent")
}

/// Puts an executable into a directory. Written elsewhere and renamed, for a process forked off by another test may hold a file being
/// written open for a moment.
pub fn write_program(directory: &Directory, name: &str, text: &str) {
    let fresh = directory.join("fresh");
    fs::write(&fresh, text).unwrap();
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(fresh, directory.join(name)).unwrap();
}

fn save_program(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "iptables-save",
        Family::Ipv6 => "ip6tables-save",
    }
}

fn link_programs(directory: &Path, stack: Stack, suffix: &str) {
    for base in ["iptables", "ip6tables"] {
        for end in ["", "-save", "-restore"] {
            symlink(real(base, stack, end), directory.join(format!("{base}{suffix}{end}"))).unwrap();
        }
    }
}

pub fn real(base: &str, stack: Stack, end: &str) -> PathBuf {
    Path::new(PROGRAMS).join(format!("{base}{}{end}", suffix(stack)))
}

fn suffix(stack: Stack) -> &'static str {
    match stack {
        Stack::Nft => "-nft",
        Stack::Legacy => "-legacy",
    }
}

/// Rules and chains of our own making alone, counters zeroed.
pub fn reduce(save: &str) -> Vec<String> {
    let built_in = ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"];
    let lines = save.lines().filter(|line| line.starts_with("-A") || line.starts_with(':'));
    let lines = lines.filter(|line| !built_in.iter().any(|chain| line.starts_with(&format!(":{chain} "))));
    lines
        .map(|line| {
            line.split_once(" [")
                .filter(|_| line.starts_with(':'))
                .map_or(line.to_owned(), |(name, _)| format!("{name} [0:0]"))
        })
        .collect()
}

/// The backend on a node: what it does it does in the node's namespace.
pub struct Opened<'n> {
    node: &'n Node,
    iptables: Option<Iptables>,
}

impl Opened<'_> {
    pub fn with<T: Send + 'static>(&mut self, job: impl FnOnce(&mut Iptables) -> T + Send + 'static) -> T {
        let mut iptables = self.iptables.take().unwrap();
        let (iptables, result) = self.node.namespace.run(move || {
            let result = job(&mut iptables);
            (iptables, result)
        });
        self.iptables = Some(iptables);
        result
    }

    pub fn want(&mut self, policy: &Policy) -> &mut Self {
        let policy = policy.clone();
        self.with(move |iptables| iptables.want(&policy));
        self
    }

    pub fn pass(&mut self) -> Outcome {
        self.with(|iptables| iptables.reconcile(Look::Afresh))
    }

    /// A pass that must not fail; answers what it changed, one text each.
    pub fn changes(&mut self) -> Vec<String> {
        let outcome = self.pass();
        let failures: Vec<String> = outcome.failures.iter().map(|error| format!("{error:#}")).collect();
        assert!(failures.is_empty(), "{failures:#?}");
        outcome.changes.iter().map(ToString::to_string).collect()
    }

    /// A pass that must fail; answers how.
    pub fn failures(&mut self) -> Vec<String> {
        let outcome = self.pass();
        assert!(!outcome.failures.is_empty(), "no failure, but {:?}", outcome.changes);
        outcome.failures.iter().map(|error| format!("{error:#}")).collect()
    }

    pub fn warnings(&mut self) -> Vec<String> {
        self.with(|iptables| iptables.warnings().map(ToString::to_string).collect())
    }
}

/// A recorded case as far as it is about rules: the policy and the chain it leads to.
pub struct Case {
    pub chain: String,
    pub policy: Policy,
}

/// What a case's flags and file mean; `None` where the flags are refused or there is no plain file.
pub fn case(case: &Value) -> Option<Case> {
    let flags: Vec<std::ffi::OsString> =
        case["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap().into()).collect();
    let Ok(Parsed::Daemon(options)) = cli::parse(&flags) else { return None };
    let sources: Vec<Source> =
        config_bytes(case)?.into_iter().map(|bytes| Source { name: "config".to_owned(), bytes }).collect();
    let config = match Config::parse(&sources, &options.policy) {
        Ok(parsed) => parsed.config,
        Err(_) => Config::default_for(&options.policy),
    };
    Some(Case { chain: options.masq_chain, policy: Policy::new(&config) })
}

/// The file's content, or that there is no file; `None` where something else than a file is there.
fn config_bytes(case: &Value) -> Option<Option<Vec<u8>>> {
    if case["config_setup"].is_object() {
        return None;
    }
    if let Some(base64) = case["config_base64"].as_str() {
        return Some(Some(decode_base64(base64)));
    }
    let Some(pieces) = case["config_gen"].as_array() else {
        return Some(case["config"].as_str().map(|text| text.as_bytes().to_vec()));
    };
    let mut bytes = Vec::new();
    for piece in pieces {
        let number = |key: &str| usize::try_from(piece[key].as_u64().unwrap()).unwrap();
        if let Some(text) = piece["text"].as_str() {
            bytes.extend(text.as_bytes());
        } else if let Some(text) = piece["repeat"].as_str() {
            bytes.extend(text.as_bytes().repeat(number("times")));
        } else if piece["cidrs"].is_u64() {
            let line = |i: usize| format!("- {}.{}.{}.0/24\n", 11 + i / 65_536, i / 256 % 256, i % 256);
            bytes.extend((0..number("cidrs")).flat_map(|i| line(i).into_bytes()));
        } else {
            bytes.extend((0..number("bytes")).map(|i| ((i * number("a") + number("b")) % 256) as u8));
        }
    }
    Some(Some(bytes))
}

fn decode_base64(text: &str) -> Vec<u8> {
    const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |symbol: &u8| SYMBOLS.iter().position(|known| known == symbol).unwrap() as u32;
    let decode = |group: &[u8]| {
        let bits = group.iter().fold(0, |bits, symbol| bits << 6 | value(symbol)) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    text.trim_end_matches('=').as_bytes().chunks(4).flat_map(decode).collect()
}
