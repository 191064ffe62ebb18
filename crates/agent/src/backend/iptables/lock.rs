//! Who holds the lock of iptables-legacy, as far as /proc can tell.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::sys::stat::{major, minor};

/// The lock file of iptables-legacy, unless the environment names another.
pub const DEFAULT_PATH: &str = "/run/xtables.lock";

/// Where the programs that the agent runs look for the lock file.
pub fn path() -> PathBuf {
    env::var_os("XTABLES_LOCKFILE").map_or_else(|| PathBuf::from(DEFAULT_PATH), PathBuf::from)
}

/// The name and process id of the lock's holder, such as `kube-proxy[123]`; `None` where it cannot be told, as when it lives in
/// another PID namespace.
pub fn holder() -> Option<String> {
    let file = fs::metadata(path()).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = holder_of(&locks, (major(file.dev()), minor(file.dev())), file.ino())?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{}[{pid}]", name.trim().escape_debug()))
}

/// Looks for `1: FLOCK  ADVISORY  WRITE 18190 00:27:2 0 EOF`. Those who wait have an arrow behind the number.
fn holder_of(locks: &str, device: (u64, u64), inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words.as_slice() else { return None };
        let mut parts = file.split(':');
        let hex = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
        let same = hex(parts.next()) == Some(device.0) && hex(parts.next()) == Some(device.1);
        (same && parts.next()?.parse() == Ok(inode)).then(|| pid.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_among_other_locks() {
        let locks = "\
1: FLOCK  ADVISORY  WRITE 111 fe:00:2 0 EOF
2: -> FLOCK  ADVISORY  WRITE 222 00:27:2 0 EOF
3: POSIX  ADVISORY  WRITE 333 00:27:2 0 EOF
4: FLOCK  ADVISORY  WRITE 18190 00:27:2 0 EOF
";
        assert_eq!(holder_of(locks, (0, 0x27), 2), Some(18190));
        assert_eq!(holder_of(locks, (0, 0x27), 3), None);
        assert_eq!(holder_of("nonsense\n\n1: FLOCK", (0, 0x27), 2), None);
    }
}
