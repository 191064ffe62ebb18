//! The completion script for bash, which needs nothing but bash itself.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{HELP, Offer, flags_of, offer, tools, words};
use crate::cli::options::Topic;
use crate::cli::table;

/// Finds out which word is being written, and behind which. With = among COMP_WORDBREAKS, `--flag=value` is three words, else one.
const HEAD: &str = r#"# Completes ip-masq-agent in bash.
_ip_masq_agent() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} prefix= joined= flags= words= name=
    local -a offer=()
    COMPREPLY=()
    if [[ $word == = ]]; then
        joined=1 word=
    elif [[ $before == = ]]; then
        joined=1 before=${COMP_WORDS[COMP_CWORD-2]}
    elif [[ $word == -*=* ]]; then
        joined=1 before=${word%%=*} prefix=${word%%=*}= word=${word#*=}
    fi
    case ${COMP_WORDS[1]} in
"#;

const BEHIND_A_FLAG: &str = r#"    esac
    name=${before#-}
    name=${name#-}
    [[ $before == -* && " $flags " == *" "?(-)"-$name "* ]] || name=
    case $name in
"#;

const TAIL: &str = r#"    esac
    if (( ${#offer[@]} == 0 )); then
        if [[ -n $joined ]]; then return; fi
        if (( COMP_CWORD == 1 )) && [[ $word != -* ]]; then flags=; fi
        offer=(-W "$words $flags")
    fi
    if [[ ${offer[0]} != -W ]]; then compopt -o filenames 2>/dev/null; fi
    mapfile -t COMPREPLY < <(compgen -P "$prefix" "${offer[@]}" -- "$word")
}
complete -F _ip_masq_agent ip-masq-agent
"#;

/// The whole script.
pub(super) fn script() -> String {
    let mut text = HEAD.to_owned();
    for (tool, word) in tools() {
        text += &command(word, tool, &words(tool));
    }
    let names: Vec<&str> = tools().map(|(_, word)| word).collect();
    text += &command("*", Topic::Daemon, &names);
    text += BEHIND_A_FLAG;
    text += &values();
    text + TAIL
}

/// The cases of the flags that take a value, by what is offered for it.
fn values() -> String {
    let mut flags: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for flag in table::flags() {
        let offered = match offer(flag) {
            Offer::Words(words) => format!("offer=(-W '{}')", words.join(" ")),
            Offer::Boolean => "if [[ -n $joined ]]; then offer=(-W 'true false'); fi".to_owned(),
            Offer::Files => "offer=(-f)".to_owned(),
            Offer::Directories => "offer=(-d)".to_owned(),
            Offer::Nothing => "return".to_owned(),
        };
        flags.entry(offered).or_default().push(flag.name);
    }
    let mut text = String::new();
    for (offered, names) in flags {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "        {}) {offered} ;;", names.join("|"));
    }
    text
}

/// The case of a command: the words that may stand behind it, apart from values.
fn command(pattern: &str, topic: Topic, words: &[&str]) -> String {
    let flags: Vec<String> = flags_of(topic).map(|flag| flag.dashed()).collect();
    format!("        {pattern}) flags='{} --{}' words='{}' ;;\n", flags.join(" "), HELP.0, words.join(" "))
}
