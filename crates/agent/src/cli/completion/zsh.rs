//! The completion script for zsh: to be sourced, or a file `_ip-masq-agent` on its `fpath`.

use std::fmt::Write;

use super::{HELP, Offer, flags_of, offer, tools, words};
use crate::cli::flags::Flag;
use crate::cli::options::Topic;

const HEAD: &str = "#compdef ip-masq-agent
_ip-masq-agent() {
    local -a tools=(
";

/// A tool's name is taken off the front, so that its flags and words are counted from there.
const COMMANDS: &str = "    )
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe -t commands tool tools
        return
    fi
    if [[ $words[2] != -* ]]; then
        shift words
        (( CURRENT-- ))
    fi
    case $words[1] in
";

/// As a file of `fpath` the script is the body of the function, as a sourced one it has to announce it.
const TAIL: &str = "    esac
}
if [[ $funcstack[1] == _ip-masq-agent ]]; then
    _ip-masq-agent \"$@\"
else
    compdef _ip-masq-agent ip-masq-agent
fi
";

/// The whole script.
pub(super) fn script() -> String {
    let mut text = HEAD.to_owned();
    for (tool, word) in tools() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "        {}", quoted(&format!("{word}:{}", tool.manual().summary)));
    }
    text += COMMANDS;
    tools().for_each(|(tool, word)| text += &command(word, tool));
    text += &command("*", Topic::Daemon);
    text + TAIL
}

fn command(pattern: &str, topic: Topic) -> String {
    let mut text = format!("        {pattern}) _arguments");
    let word = match words(topic).as_slice() {
        // Without words that it expects, `_arguments` would offer no flags behind an address.
        [] if topic == Topic::Explain => Some("*:address:_guard \"^-*\" address".to_owned()),
        [] => None,
        words => Some(format!("1:word:({})", words.join(" "))),
    };
    let (help, about) = HELP;
    let help = format!("(- *)--{help}[{about}]");
    for spec in flags_of(topic).map(specification).chain([help]).chain(word) {
        let _ = write!(text, " \\\n            {}", quoted(&spec));
    }
    text + "\n            ;;\n"
}

/// What `_arguments` is told about a flag: whether `=` joins the value, the help, and what the value is.
fn specification(flag: &Flag) -> String {
    let (name, help) = (flag.dashed(), bracketed(flag.help));
    let message = flag.value.unwrap_or_default().replace(':', "\\:");
    match offer(flag) {
        Offer::Words(words) => format!("{name}=[{help}]:{message}:({})", words.join(" ")),
        Offer::Boolean => format!("{name}=-[{help}]::boolean:(true false)"),
        Offer::Files => format!("{name}=[{help}]:{message}:_files"),
        Offer::Directories => format!("{name}=[{help}]:{message}:_files -/"),
        Offer::Nothing => format!("{name}=[{help}]:{message}: "),
    }
}

fn bracketed(text: &str) -> String {
    text.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
