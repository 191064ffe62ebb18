//! What a tool takes over from the daemon that it is asked about.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::flags::{Flag, Flags};
use super::options::Topic;
use super::{go_flags, table};

/// The flags that a daemon was started with and a tool takes too, each as one word. `path_of` answers by which path the daemon's config
/// is to be read; `None` if it has none now, which means the defaults to both.
///
/// Put before the tool's own flags they hold where those say nothing, since the last one wins. Words that no daemon would have
/// started with come to nothing.
pub fn inherited(
    tool: Topic,
    daemon_args: &[OsString],
    path_of: impl FnOnce(&Path) -> Option<PathBuf>,
) -> Vec<OsString> {
    let mut flags = Flags::default();
    let Ok(words) = go_flags::parse(Topic::Daemon, daemon_args, &mut flags) else { return Vec::new() };
    let is_taken = |flag: &&Flag| flag.name != "config" && flag.commands.contains(&tool);
    let mut given: Vec<&Flag> = words.given.into_iter().filter(is_taken).collect();
    if let Some(path) = path_of(&flags.config) {
        flags.config = path;
        given.extend(table::flags().find(|flag| flag.name == "config"));
    }
    given.iter().map(|flag| flag.word(&flags)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited_by(tool: Topic, args: &[&str]) -> Vec<OsString> {
        inherited(tool, &args.iter().map(OsString::from).collect::<Vec<_>>(), |_| None)
    }

    #[test]
    fn flags_that_the_tool_takes_too_are_taken_over_and_others_are_not() {
        let args = ["--enable-ipv6", "--v", "2", "--to-ports=1-9", "--once", "--masq-chain", "IP-MASQ"];
        assert_eq!(inherited_by(Topic::Diff, &args), ["--enable-ipv6=true", "--to-ports=1-9", "--masq-chain=IP-MASQ"]);
        assert_eq!(inherited_by(Topic::Diff, &["--no-such-flag"]), [""; 0]);
    }

    #[test]
    fn the_config_is_read_where_the_caller_finds_it() {
        let seen = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            inherited(Topic::Status, &args, |path| {
                Some(Path::new("/proc/7/root").join(path.strip_prefix("/").unwrap()))
            })
        };
        assert_eq!(seen(&[]), ["--config=/proc/7/root/etc/config/ip-masq-agent"]);
        assert_eq!(seen(&["--config=/a"]).last().unwrap(), "--config=/proc/7/root/a");
    }
}
