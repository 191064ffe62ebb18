//! Completions as the shells themselves make them: each is given the script and a line, and answers what it would write.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ip_masq_agent::cli::{Shell, Topic, flags};
use ip_masq_agent::lab::namespace::Namespace;

use crate::support::directory::Directory;
use crate::support::program::{finish, run};

/// Answers what a function of bash puts into COMPREPLY for the words of a line, the last of which is being written.
const BASH: &str =
    r#"source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _ip_masq_agent; printf '%s\n' "${COMPREPLY[@]}""#;

/// A real zsh at a terminal that is told to load the script, is sent each line and the tabulator key, and answers what became of the
/// line.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell 'PS1= TERM=dumb zsh -f -i'
zpty -w shell "autoload -Uz compinit; unsetopt beep; $0"
zpty -w shell 'show-line() { print -r -- "LI""NE<$BUFFER>"; BUFFER= }; zle -N show-line; bindkey "^T" show-line'
zpty -w shell 'print -r -- rea""dy'
zpty -r shell out '*ready*'
for line in "${@:2}"; do
    zpty -w -n shell "$line"$'\t\x14'
    zpty -r shell out '*LINE<*>*'
    print -r -- "${${out##*LINE<}%%>*}"
done
zpty -d shell
"#;

/// The script for a shell in a directory that is the shell's home as well.
struct Script {
    home: Directory,
    shell: Shell,
}

impl Script {
    fn new(shell: Shell) -> Script {
        let run = run(&["completion", shell.word()]);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
        let script = Script { home: Directory::new(), shell };
        fs::write(script.path(), run.stdout).unwrap();
        fs::write(script.home.join("file of mine"), "").unwrap();
        fs::create_dir(script.home.join("folder")).unwrap();
        script
    }

    fn path(&self) -> PathBuf {
        self.home.join("_ip-masq-agent")
    }

    /// What the shell answers to its script and these words, line by line.
    fn answers(&self, arguments: &[&str], words: &[&str]) -> Vec<String> {
        let mut command = Command::new(self.shell.word());
        command.args(arguments).arg(self.path()).args(words);
        command.current_dir(self.home.path()).env("HOME", self.home.path()).env("TERM", "dumb");
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "BASH_ENV", "ZDOTDIR"] {
            command.env_remove(name);
        }
        let run = finish(&Namespace::open("shell").unwrap(), command, "");
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{words:?}: {}", run.stdout);
        run.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    fn bash(&self, words: &[&str]) -> Vec<String> {
        self.answers(&["--noprofile", "--norc", "-c", BASH], &[&["ip-masq-agent"], words].concat())
    }

    /// What fish offers for the rest of a line, without the descriptions.
    fn fish(&self, line: &str) -> Vec<String> {
        let offers = self.answers(&["-c", "source $argv[1]; complete -C \"ip-masq-agent $argv[2]\""], &[line]);
        offers.iter().map(|offer| offer.split('\t').next().unwrap().to_owned()).collect()
    }
}

fn names(topic: Topic) -> BTreeSet<String> {
    let long = flags().filter(|flag| flag.commands.contains(&topic)).map(|flag| flag.dashed());
    long.chain(["--help".to_owned()]).filter(|name| name.starts_with("--")).collect()
}

fn line(topic: Topic) -> Vec<&'static str> {
    topic.word().into_iter().chain(["--"]).collect()
}

#[test]
fn bash_completes_tools_flags_values_and_files() {
    let script = Script::new(Shell::Bash);
    for (words, offered) in [
        (&["sta"][..], &["status"][..]),
        (&["co"], &["completion"]),
        (&["completion", ""], &["bash", "zsh", "fish", "--help"]),
        (&["status", "--back"], &["--backend"]),
        (&["check", "--back"], &[]),
        (&["render", "--backend", "n"], &["nftables"]),
        (&["render", "-backend", "n"], &["nftables"]),
        (&["render", "--backend", "=", "ip"], &["iptables"]),
        (&["render", "--backend", "="], &["auto", "nftables", "iptables"]),
        (&["render", "--backend=ip"], &["--backend=iptables"]),
        (&["--backend=nftables", "--log-format", "j"], &["json"]),
        (&["check", "-o", ""], &["text", "json"]),
        (&["check", "--backend", "n"], &[]),
        (&["--random-fully", "=", "f"], &["false"]),
        (&["--masq-chain", ""], &[]),
        (&["check", "--config", "fi"], &["file of mine"]),
        (&["check", "--config=fi"], &["--config=file of mine"]),
        (&["--log_dir", "f"], &["folder"]),
        (&["explain", "10.0.0.1", "--ho"], &["--host"]),
    ] {
        assert_eq!(script.bash(words), offered, "{words:?}");
    }
    let first = script.bash(&[""]);
    assert_eq!(first, Topic::TOOLS.map(|tool| tool.word().unwrap()));
}

#[test]
fn fish_completes_tools_flags_values_and_files() {
    let script = Script::new(Shell::Fish);
    for (line, offered) in [
        ("sta", &["status"][..]),
        ("completion ", &["bash", "fish", "zsh"]),
        ("status --back", &["--backend"]),
        ("check --back", &[]),
        ("render --backend n", &["nftables"]),
        ("render --backend=n", &["--backend=nftables"]),
        ("check -o ", &["json", "text"]),
        ("--log-format j", &["json"]),
        ("check --config fi", &["file of mine"]),
        ("--log_dir f", &["folder/"]),
        ("explain 10.0.0.1 --ho", &["--host"]),
    ] {
        assert_eq!(script.fish(line), offered, "{line}");
    }
}

#[test]
fn bash_and_fish_offer_each_command_all_of_its_flags_and_no_others() {
    let (bash, fish) = (Script::new(Shell::Bash), Script::new(Shell::Fish));
    for topic in [Topic::Daemon].into_iter().chain(Topic::TOOLS) {
        let words = line(topic);
        assert_eq!(bash.bash(&words).into_iter().collect::<BTreeSet<_>>(), names(topic), "{topic:?}");
        assert_eq!(fish.fish(&words.join(" ")).into_iter().collect::<BTreeSet<_>>(), names(topic), "{topic:?}");
    }
}

#[test]
fn zsh_completes_tools_flags_values_and_files() {
    let cases = [
        ("sta", "status "),
        ("completion f", "completion fish "),
        ("status --ba", "status --backend="),
        ("check --ba", "check --ba"),
        ("render --backend nf", "render --backend nftables "),
        ("render --backend=nf", "render --backend=nftables "),
        ("check -o j", "check -o json "),
        ("--log-f", "--log-format="),
        ("--random-fully=f", "--random-fully=false "),
        ("check --config fil", "check --config file\\ of\\ mine "),
        ("--log_dir=fo", "--log_dir=folder/"),
        ("explain 10.0.0.1 --ho", "explain 10.0.0.1 --host="),
    ];
    let lines: Vec<String> = cases.iter().map(|(line, _)| format!("ip-masq-agent {line}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let answers = zsh("compinit -D -u; source ./_ip-masq-agent", &lines);
    let wanted: Vec<String> = cases.iter().map(|(_, whole)| format!("ip-masq-agent {whole}")).collect();
    assert_eq!(answers, wanted);
}

#[test]
fn zsh_takes_the_script_from_its_path_of_functions_too() {
    assert_eq!(zsh("fpath=($PWD $fpath); compinit -D -u", &["ip-masq-agent sta"]), ["ip-masq-agent status "]);
}

fn zsh(load: &str, lines: &[&str]) -> Vec<String> {
    Script::new(Shell::Zsh).answers(&["-f", "-c", ZSH, load], lines)
}

#[test]
fn a_shell_that_is_not_known_is_wrong_usage() {
    for words in [&["completion"][..], &["completion", "tcsh"], &["completion", "bash", "zsh"]] {
        let run = run(words);
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(run.stderr.starts_with("write the name of one shell: bash, zsh, fish\n"), "{run:?}");
    }
}
