//! What a hostile config may cost: time in proportion to its size, and memory up to a bound.
#![expect(clippy::unwrap_used, reason = "a clock or a counter that cannot be read fails the test")]

use std::sync::Mutex;
use std::time::Duration;

use masq::config::{Config, Flags, Source};
use nix::time::{ClockId, clock_gettime};

/// The tests measure their process, so one runs at a time.
static MEASURING: Mutex<()> = Mutex::new(());

/// A text of any size: what it begins with, what is repeated and what it ends with.
struct Shape {
    start: Start,
    piece: &'static str,
    end: &'static str,
}

enum Start {
    With(&'static str),
    /// The text between two parts is as long as half of the whole.
    Around(&'static str, char, &'static str),
}

impl Shape {
    fn text(&self, size: usize) -> String {
        let start = match self.start {
            Start::With(start) => start.to_owned(),
            Start::Around(before, c, behind) => format!("{before}{}{behind}", c.to_string().repeat(size / 2)),
        };
        let times = size.saturating_sub(start.len()) / self.piece.len();
        format!("{start}{}{}", self.piece.repeat(times), self.end)
    }
}

const fn shape(start: &'static str, piece: &'static str, end: &'static str) -> Shape {
    Shape { start: Start::With(start), piece, end }
}

const fn around(before: &'static str, c: char, behind: &'static str, piece: &'static str, end: &'static str) -> Shape {
    Shape { start: Start::Around(before, c, behind), piece, end }
}

/// What has cost, or could cost, a reader more than it is worth.
const SHAPES: [Shape; 40] = [
    // Findings in one long line.
    shape("nonMasqueradeCIDRs: [", "1,", "1]"),
    shape("nonMasqueradeCIDRs: [", "x, ", "x]"),
    shape("nonMasqueradeCIDRs: [", "::/0,", "]"),
    shape("nonMasqueradeCIDRs: [ é, ", "~, ", "1]"),
    shape("{\"nonMasqueradeCIDRs\":[", "1,", "1]}"),
    shape("{\"nonMasqueradeCIDRs\":[\"é\",", "\"x\",", "1]}"),
    shape("{", "\"cidrLimit\":1,", "\"a\":1}"),
    shape("# c\n{", "1.5: 1, ", "}"),
    shape("# c\n{é: 1, ", "x y: 1, ", "}"),
    // Aliases to something long.
    around("a: &a \"", 'x', "\"\n", "*a : 1\n", ""),
    around("a: &a 1.", '0', "1\n", "*a : 1\n", ""),
    around("a: &a {? \"", 'x', "\"\n : 1}\n", "<<: *a\n", ""),
    around("a: &a \"", 'x', "\"\nnonMasqueradeCIDRs: [", "*a, ", "]"),
    around("a: &a 1.", '0', "\nnonMasqueradeCIDRs: [", "*a, ", "]"),
    around("%TAG !e! ", 'x', "\n---\n", "- !e!x y\n", ""),
    // Many values, and tokens that are kept until it is known whether they are a key.
    shape("", "a: 1\n", ""),
    shape("", "a:\n", ""),
    shape("", "cidrLimit: 1\n", ""),
    shape("", "- &a\n", ""),
    shape("{\"a\":[", "[],", "1]}"),
    shape("[", "1,", ""),
    shape("? [", "1,", "1]"),
    shape("a:\n  [", "1,", "1]"),
    shape("a:\n  [", "a: x,", "1]"),
    shape("a:\n  [", "a:,", "1]"),
    shape("a:\n  {", "k: v\n,", "1}"),
    shape("a:\n  [", "*a ", "1]"),
    shape("a:\n  [", "\"\"\n", "]"),
    // Lines to be indented.
    shape("nonMasqueradeCIDRs: [\n", "1,\n", "1]"),
    shape("nonMasqueradeCIDRs: [\n", "\n", "1]"),
    shape("nonMasqueradeCIDRs: \"\n", "\n", "\""),
    shape("a: &a !!b {\n", "a: \"\n\",#\n", "}"),
    around("a: ", ' ', "[\n", "1,\n", "]"),
    // Long scalars, blanks and comments.
    shape("a: ", "x\n ", ""),
    shape("a: |\n", " \n", ""),
    shape("a: !!timestamp ", "1-", ""),
    shape("a: !!binary ", "AAAA", ""),
    shape("resyncInterval: ", "1h", ""),
    shape("cidrLimit: ", "1", ""),
    shape("#", "[,", ""),
];

fn parse(text: &str) {
    let source = Source { name: "f".to_owned(), bytes: text.as_bytes().to_vec() };
    // Whether it is taken or refused is not asked here.
    let _ = Config::parse(&[source], &Flags { enable_ipv6: true, ..Flags::default() });
}

/// The processor's time, which a busy machine does not lengthen as it does the time of day.
fn time_of_parsing(text: &str) -> Duration {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    let start = now();
    parse(text);
    now() - start
}

/// A text sixteen times as long takes sixteen times as long, or 256 times where the square of the length counts.
#[test]
fn time_grows_in_proportion_to_the_text() {
    const SMALL: usize = 4 << 10;
    const ATTEMPTS: usize = 5;
    let _alone = MEASURING.lock().unwrap();
    for shape in SHAPES {
        let (small, large) = (shape.text(SMALL), shape.text(16 * SMALL));
        let grows_in_proportion = || {
            let least = Duration::from_micros(200);
            time_of_parsing(&large) < 64 * time_of_parsing(&small).max(least)
        };
        let start: String = large.chars().take(40).collect();
        assert!((0..ATTEMPTS).any(|_| grows_in_proportion()), "{start:?}... with {:?}", shape.piece);
    }
}

#[test]
fn memory_stays_below_its_bound() {
    /// About where most values and tokens are taken; longer texts are refused sooner.
    const SIZE: usize = 310_000;
    /// The documented 100 MB, and room for the allocator and the texts.
    const MOST_KIB: u64 = 160 << 10;
    let _alone = MEASURING.lock().unwrap();
    let before = peak_memory_in_kib();
    for shape in SHAPES {
        let text = shape.text(SIZE);
        parse(&text);
        let start: String = text.chars().take(40).collect();
        let used = peak_memory_in_kib() - before;
        assert!(used < MOST_KIB, "{used} KiB for {start:?}... with {:?}", shape.piece);
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel's account of the process is a file")]
fn peak_memory_in_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}
