//! The health of the connection table, as the kernel tells it in /proc.

use std::fs;

/// How full the table is, and what has gone wrong with it since the start of the node, summed up over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conntrack {
    /// Entries it holds.
    pub entries: u64,
    /// The most entries it takes.
    pub limit: u64,
    /// Connections that could not be entered: two at the same time, or no port left to translate to.
    pub insert_failed: u64,
    /// Packets dropped because the table was full, or no port was left.
    pub drop: u64,
    /// Connections thrown out to make room for others.
    pub early_drop: u64,
}

/// Reads the table of the network namespace of the calling thread; `None` where connections are not tracked.
pub fn read() -> Option<Conntrack> {
    let number = |name: &str| {
        fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{name}")).ok()?.trim().parse::<u64>().ok()
    };
    let (entries, limit) = (number("count")?, number("max")?);
    let statistics = fs::read_to_string("/proc/thread-self/net/stat/nf_conntrack").unwrap_or_default();
    Some(Conntrack { entries, limit, ..sum(&statistics) })
}

/// Adds up the lines of the CPUs. Columns go by their names in the first line, since versions of Linux differ in which there are.
fn sum(statistics: &str) -> Conntrack {
    let mut lines = statistics.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let mut total = Conntrack::default();
    for line in lines {
        for (name, word) in names.iter().zip(line.split_whitespace()) {
            let Ok(count) = u64::from_str_radix(word, 16) else { continue };
            match *name {
                "insert_failed" => total.insert_failed += count,
                "drop" => total.drop += count,
                "early_drop" => total.early_drop += count,
                _ => {}
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_all_cpus_are_added_up_by_their_names() {
        let text = "entries  clashres insert_failed drop early_drop icmp_error\n\
                    00000005  00000000 0000000a 00000001 00000002 00000000\n\
                    00000005  00000000 00000006 00000001 00000000 00000000\n";
        let wanted = Conntrack { insert_failed: 16, drop: 2, early_drop: 2, ..Conntrack::default() };
        assert_eq!(sum(text), wanted);
        assert_eq!(sum(""), Conntrack::default());
        assert_eq!(sum("drop\nx\n"), Conntrack::default());
    }
}
