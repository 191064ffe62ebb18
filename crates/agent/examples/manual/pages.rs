//! The manual pages, made from what help texts and the flag table say; written here is only what those have no room for.

use ip_masq_agent::backend::iptables::lock;
use ip_masq_agent::cli::{DEFAULT_CONFIG_PATH, Flag, Origin, Topic, flags};
use roff::{Inline, Roff, bold, italic, roman};

/// The day on which the text of the pages was last looked over, which a page has to tell.
const LAST_REVIEW: &str = "2026-11-30";

/// The section of the manual: commands for the administrator.
const SECTION: &str = "8";

/// One page.
pub struct Page {
    /// What it is found under.
    pub name: String,
    /// The source, in roff.
    pub text: String,
}

impl Page {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("{}.{SECTION}", self.name)
    }
}

/// The page of the daemon and of each tool.
pub fn all() -> Vec<Page> {
    topics().map(page).collect()
}

fn topics() -> impl Iterator<Item = Topic> {
    [Topic::Daemon].into_iter().chain(Topic::TOOLS)
}

fn page(topic: Topic) -> Page {
    let (name, manual) = (page_name(topic), topic.manual());
    let mut page = Roff::new();
    page.control("TH", [name.to_uppercase().as_str(), SECTION, LAST_REVIEW, "ip-masq-agent", "System administration"]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {}", manual.summary))]);
    page.control("SH", ["SYNOPSIS"]).text([bold(topic.command()), roman(" "), italic(manual.words)]);
    if topic == Topic::Daemon {
        page.control("br", []).text([bold(topic.command()), roman(" "), italic("TOOL"), roman(" ...")]);
    }
    page.control("SH", ["DESCRIPTION"]).text([paragraph(manual.about)]);
    if topic == Topic::Daemon {
        tools(&mut page);
    }
    options(&mut page, topic);
    if topic == Topic::Daemon {
        list(&mut page, "SIGNALS", &SIGNALS);
        list(&mut page, "ENVIRONMENT", &ENVIRONMENT);
    }
    list(&mut page, "FILES", &files(topic));
    page.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in manual.exit_status {
        item(&mut page, [bold(status.to_string())], meaning);
    }
    page.control("SH", ["EXAMPLES"]);
    for example in manual.examples {
        page.control("TP", []).text([roman(example.purpose)]);
        page.control("EX", []).text([roman(example.line)]).control("EE", []);
    }
    see_also(&mut page, topic);
    Page { text: page.render(), name }
}

fn page_name(topic: Topic) -> String {
    topic.command().replace(' ', "-")
}

fn paragraph(text: &str) -> Inline {
    // A sentence a line, as roff likes it: the space between sentences is its business.
    roman(text.replace(". ", ".\n"))
}

fn item(page: &mut Roff, head: impl Into<Vec<Inline>>, text: &str) {
    page.control("TP", []).text(head).text([paragraph(text)]);
}

/// A section of terms and what they mean, if there are any.
fn list(page: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    if entries.is_empty() {
        return;
    }
    page.control("SH", [title]);
    entries.iter().for_each(|(term, meaning)| item(page, [bold(*term)], meaning));
}

fn tools(page: &mut Roff) {
    page.control("SH", ["TOOLS"]);
    for tool in Topic::TOOLS {
        item(page, [bold(page_name(tool)), roman(format!("({SECTION})"))], tool.manual().summary);
    }
}

fn options(page: &mut Roff, topic: Topic) {
    let of_command: Vec<&Flag> = flags().filter(|flag| flag.commands.contains(&topic)).collect();
    page.control("SH", ["OPTIONS"]).text([paragraph(HELP)]);
    if !of_command.is_empty() {
        page.text([paragraph(SYNTAX)]);
    }
    for title in [POLICY, OWN, LOG] {
        let flags: Vec<&Flag> = of_command.iter().copied().filter(|flag| group(flag) == title).collect();
        if flags.is_empty() {
            continue;
        }
        page.control("SS", [title]);
        for flag in flags {
            let mut head = vec![bold(flag.dashed())];
            head.extend(flag.value.into_iter().flat_map(|value| [roman(" "), italic(value)]));
            item(page, head, &flag.help_for(topic));
        }
    }
}

const POLICY: &str = "Config and policy, the same for the daemon and the tools";
const OWN: &str = "Of this command";
const LOG: &str = "Log, as of klog; times are in UTC";

fn group(flag: &Flag) -> &'static str {
    match flag.origin {
        Origin::Klog => LOG,
        Origin::Reference | Origin::AzureFork | Origin::Own if flag.is_for_all_tools() => POLICY,
        Origin::Reference | Origin::AzureFork | Origin::Own => OWN,
    }
}

const HELP: &str = "--help shows a help text.";
const SYNTAX: &str = "One dash or two begin a flag. A value stands behind an equals sign or is the next word; a flag without a value \
    is on, and --flag=false turns it off. Of equal flags the last one counts.";

const SIGNALS: [(&str, &str); 2] = [
    ("SIGTERM, SIGINT", "End at once; the rules stay, unless --cleanup-on-exit is given."),
    ("SIGHUP", "Read config and kernel anew."),
];

const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "Where the programs of iptables are looked for."),
    ("XTABLES_LOCKFILE", "The lock file of iptables-legacy, in place of the one under FILES."),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "Set by systemd: readiness and signs of life are reported to it."),
];

fn files(topic: Topic) -> Vec<(&'static str, &'static str)> {
    let config = (
        DEFAULT_CONFIG_PATH,
        "The config, YAML or JSON, unless --config names another place. Without it the defaults apply.",
    );
    let lock =
        (lock::DEFAULT_PATH, "The lock that all users of iptables-legacy share; in a pod it has to be the node's.");
    match topic {
        Topic::Daemon => vec![config, lock],
        Topic::Cleanup => vec![lock],
        Topic::Check | Topic::Render | Topic::Diff | Topic::Status | Topic::Explain | Topic::Top => vec![config],
        Topic::Demo | Topic::Completion => Vec::new(),
    }
}

fn see_also(page: &mut Roff, topic: Topic) {
    let own = topics().filter(|other| *other != topic).map(|other| (page_name(other), SECTION));
    let others: &[(&str, &str)] = match topic {
        Topic::Completion => &[("bash", "1"), ("fish", "1"), ("zsh", "1")],
        _ => &[("conntrack", "8"), ("iptables", "8"), ("nft", "8")],
    };
    let all = own.chain(others.iter().map(|(name, section)| ((*name).to_owned(), *section)));
    let mut line = Vec::new();
    for (name, section) in all {
        let separator = if line.is_empty() { "" } else { ",\n" };
        line.extend([roman(separator), bold(name), roman(format!("({section})"))]);
    }
    page.control("SH", ["SEE ALSO"]).text(line);
}
