//! Which messages are written: `--v` and `--vmodule`.

use ::log::{Level, LevelFilter};

use super::event::Place;
use super::options::LogOptions;

/// The name under which `--vmodule` means all our source files: the reference's whole program is one file of that name.
const WHOLE_PROGRAM: &str = "ip-masq-agent";

/// The n of the `V(n)` that a level stands for.
pub(super) fn of(level: Level) -> i32 {
    match level {
        Level::Error | Level::Warn | Level::Info => 0,
        Level::Debug => 2,
        Level::Trace => 4,
    }
}

/// The verbosity at a place. As with klog, `--vmodule` raises it only; 0 is written always, even with a negative `--v`.
pub(super) fn at(options: &LogOptions, place: Place) -> i32 {
    let matches = |pattern: &str| glob(pattern, place.module()) || glob(pattern, WHOLE_PROGRAM);
    let module = options.modules.iter().find(|module| matches(&module.pattern));
    module.map_or(0, |module| module.verbosity).max(options.verbosity).max(0)
}

/// The most verbose level that is written anywhere.
pub(super) fn max_level(options: &LogOptions) -> LevelFilter {
    let modules = options.modules.iter().map(|module| module.verbosity);
    match modules.max().unwrap_or(0).max(options.verbosity) {
        ..2 => LevelFilter::Info,
        2..4 => LevelFilter::Debug,
        4.. => LevelFilter::Trace,
    }
}

/// Whether a pattern with `*` and `?` matches a whole name. Goes back to the last `*` only, so that the work is bounded by the
/// product of both lengths.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::super::options::ModuleVerbosity;
    use super::*;

    const AGENT: Place = Place { file: "src/agent.rs", line: 1 };

    fn options(verbosity: i32, modules: &[(&str, i32)]) -> LogOptions {
        let modules =
            modules.iter().map(|&(pattern, verbosity)| ModuleVerbosity { pattern: pattern.to_owned(), verbosity });
        LogOptions { verbosity, modules: modules.collect(), ..LogOptions::default() }
    }

    #[test]
    fn a_module_raises_the_verbosity_of_its_file_alone() {
        assert_eq!(at(&options(1, &[("agent", 4)]), AGENT), 4);
        assert_eq!(at(&options(1, &[("other", 4)]), AGENT), 1);
        assert_eq!(at(&options(3, &[("agent", 2)]), AGENT), 3);
        assert_eq!(at(&options(0, &[("a*t", 2), ("agent", 4)]), AGENT), 2);
        assert_eq!(max_level(&options(0, &[("agent", 4)])), LevelFilter::Trace);
    }

    #[test]
    fn the_program_s_name_stands_for_all_its_files() {
        assert_eq!(at(&options(0, &[("ip-masq-agent", 2)]), AGENT), 2);
    }

    #[test]
    fn a_negative_verbosity_still_writes_events() {
        assert_eq!(at(&options(-5, &[]), AGENT), 0);
        assert_eq!(max_level(&options(-5, &[])), LevelFilter::Info);
    }

    #[test]
    fn wildcards_match_as_in_a_shell() {
        for (pattern, name) in
            [("*", ""), ("a*", "agent"), ("*t", "agent"), ("a?e*t", "agent"), ("**a**", "a"), ("", "")]
        {
            assert!(glob(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "agent"), ("?", ""), ("*x", "agent"), ("a?", "a"), ("", "a")] {
            assert!(!glob(pattern, name), "{pattern} {name}");
        }
        assert!(!glob(&"*a".repeat(500), &"a".repeat(499)));
    }
}
