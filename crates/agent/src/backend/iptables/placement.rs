//! Where the one jump to the agent's chain stands in POSTROUTING, and which jumps have to go.

use super::meaning::{Ends, is_jump_of_a_generation, is_todays_jump};
use super::plan::Difference;
use super::render;
use super::save::{Observed, POSTROUTING, SavedRule};

/// What has to be done to POSTROUTING.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// What was found to differ; empty if the one jump stands where it should.
    pub differences: Vec<Difference>,
    /// The lines of a restore that put it right, in order.
    pub lines: String,
}

impl Placement {
    /// Compares POSTROUTING with the one jump that it should hold.
    ///
    /// The jump is appended, as the reference does, but before the first stranger's rule that no packet gets past. Where it
    /// stands already it stays, so it is never moved past a stranger's conditional rule.
    pub fn new(chain: &str, observed: &Observed) -> Placement {
        let seen = Seen::new(chain, observed);
        let mut placement = Placement::default();
        match seen.kept() {
            Kept::At(kept) => placement.remove(&seen, |index| index != kept),
            Kept::Beyond => placement.remove(&seen, |_| true),
            Kept::None => {
                placement.explain(&seen);
                placement.remove(&seen, |index| !seen.todays.contains(&index));
                placement.put_anew(chain, &seen);
            }
        }
        placement
    }

    fn explain(&mut self, seen: &Seen<'_>) {
        let timely = seen.todays.iter().any(|&index| seen.is_in_time(index));
        match seen.stop {
            _ if seen.todays.is_empty() && !seen.beyond => self.differences.push(Difference::JumpMissing),
            Some(stop) if !timely => {
                self.differences.push(Difference::JumpBehind { rule: seen.rules[stop].text.clone() });
            }
            Some(_) | None => {}
        }
        self.differences.extend((1..seen.todays.len()).map(|_| Difference::JumpDoubled));
    }

    /// Deletes the chosen ones of our jumps. By text and not by number: another program may change the chain between our reading
    /// and our writing, and a number would then hit one of its rules.
    fn remove(&mut self, seen: &Seen<'_>, chosen: impl Fn(usize) -> bool) {
        for rule in seen.ours.iter().filter(|&&index| chosen(index)).map(|&index| &seen.rules[index]) {
            let rule_text = rule.text.clone();
            self.differences.push(if is_jump_of_a_generation(rule) {
                Difference::JumpOutdated { rule: rule_text }
            } else {
                Difference::JumpForeign { rule: rule_text }
            });
            self.lines += &format!("-D {POSTROUTING} {}\n", rule.text);
        }
    }

    /// Deletes all jumps of today and makes one where it belongs.
    fn put_anew(&mut self, chain: &str, seen: &Seen<'_>) {
        let jump = render::jump(chain);
        for _ in 0..seen.todays.len().max(usize::from(seen.beyond)) {
            self.lines += &format!("-D {POSTROUTING} {jump}\n");
        }
        let slot = seen.slot();
        let strangers = |indices: std::ops::Range<usize>| indices.filter(|index| !seen.ours.contains(index)).count();
        self.lines += &match strangers(slot..seen.rules.len()) {
            0 => format!("-A {POSTROUTING} {jump}\n"),
            _ => format!("-I {POSTROUTING} {} {jump}\n", strangers(0..slot) + 1),
        };
    }
}

/// POSTROUTING from the jump's point of view; indices are places in `rules`.
struct Seen<'o> {
    rules: &'o [SavedRule],
    /// The first stranger's rule that no packet gets past.
    stop: Option<usize>,
    /// Everything that leads to our chain.
    ours: Vec<usize>,
    /// Those among them that are as they should be.
    todays: Vec<usize>,
    /// Whether there is one as it should be behind what could be read.
    beyond: bool,
}

/// The jump that stays where it is.
enum Kept {
    At(usize),
    Beyond,
    None,
}

impl<'o> Seen<'o> {
    fn new(chain: &str, observed: &'o Observed) -> Seen<'o> {
        let rules = observed.postrouting();
        let mut ends = Ends::new(observed);
        let stop = rules.iter().position(|rule| !rule.leads_to(chain) && ends.every_packet(rule));
        let ours: Vec<usize> = (0..rules.len()).filter(|&index| rules[index].leads_to(chain)).collect();
        let todays: Vec<usize> = ours.iter().copied().filter(|&index| is_todays_jump(&rules[index], chain)).collect();
        Seen { rules, stop, beyond: observed.has_jump_beyond && todays.is_empty(), ours, todays }
    }

    fn is_in_time(&self, index: usize) -> bool {
        self.stop.is_none_or(|stop| index < stop)
    }

    /// Of several the same none can be kept: a deletion by text takes the first, whichever was meant.
    fn kept(&self) -> Kept {
        match self.todays.as_slice() {
            [only] if self.is_in_time(*only) => Kept::At(*only),
            [] if self.beyond && self.stop.is_none() => Kept::Beyond,
            [..] => Kept::None,
        }
    }

    /// Where a new jump goes: to the place of one of ours, of today's rather than of others, else before the stop, else to the end.
    fn slot(&self) -> usize {
        let in_time = |jumps: &[usize]| jumps.iter().copied().find(|&index| self.is_in_time(index));
        in_time(&self.todays).or_else(|| in_time(&self.ours)).or(self.stop).unwrap_or(self.rules.len())
    }
}
