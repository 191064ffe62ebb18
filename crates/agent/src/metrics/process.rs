//! The daemon as a process, by the metrics that all programs share.

use std::fs;
use std::time::{Duration, SystemTime};

use nix::unistd::{SysconfVar, sysconf};

/// What the kernel says of this process; `None` where /proc cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Process {
    /// CPU time used, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory in RAM, in bytes.
    pub resident_bytes: Option<f64>,
    /// Open file descriptors.
    pub open_fds: Option<f64>,
    /// Threads.
    pub threads: Option<f64>,
    /// When it was started, in seconds since 1970.
    pub started_at: Option<f64>,
}

impl Process {
    /// Asks about this process.
    pub fn read() -> Process {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let constant = |name| sysconf(name).ok().flatten().map(|value| value as f64);
        let (tick, page) = (constant(SysconfVar::CLK_TCK), constant(SysconfVar::PAGE_SIZE));
        let of = |number: usize| field(&stat, number);
        Process {
            cpu_seconds: of(UTIME).zip(of(STIME)).zip(tick).map(|((user, system), tick)| (user + system) / tick),
            resident_bytes: of(RSS).zip(page).map(|(pages, page)| pages * page),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1) as f64),
            threads: of(NUM_THREADS),
            started_at: of(STARTTIME).zip(tick).and_then(|(ticks, tick)| started_at(ticks / tick, &uptime)),
        }
    }
}

/// Numbers of fields as proc(5) counts them.
const UTIME: usize = 14;
const STIME: usize = 15;
const NUM_THREADS: usize = 20;
const STARTTIME: usize = 22;
const RSS: usize = 24;

/// The second field, the name in brackets, may hold anything.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    behind_name.split(' ').nth(number.checked_sub(3)?)?.parse().ok()
}

fn started_at(after_boot: f64, uptime: &str) -> Option<f64> {
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    // The clock may be set while the process runs; a whole second hides that the two numbers are not read at once.
    Some((now.as_secs_f64() - uptime + after_boot).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_a_name_that_may_hold_anything() {
        let stat = "42 (a) 1 ( b) S 1 42 42 0 -1 4194560 100 0 0 0 7 9 0 0 20 0 4 0 12345 1000000 512 0";
        let found = [UTIME, STIME, NUM_THREADS, STARTTIME, RSS].map(|number| field(stat, number));
        assert_eq!(found, [7.0, 9.0, 4.0, 12345.0, 512.0].map(Some));
        assert_eq!(field("", UTIME), None);
    }

    #[test]
    fn this_process_is_known() {
        let Process { cpu_seconds, resident_bytes, open_fds, threads, started_at } = Process::read();
        assert!(cpu_seconds.is_some() && resident_bytes > Some(100_000.0));
        assert!(open_fds >= Some(3.0) && threads >= Some(1.0));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(started_at.is_some_and(|at| at <= now + 1.0 && at > now - 3600.0), "{started_at:?}");
    }
}
