//! The way of a packet through the chains of one hook: which rule translates it, and which ones might.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ptr;

use masq::cidr::Family;

use super::condition::{Answer, Assumed, Packet};
use super::{Action, Chain, Entry, Hook, Kind, Rule, Ruleset, Table};

/// The kernel lets jumps nest 16 deep.
const DEEPEST: u32 = 20;

/// More steps than this no packet is worth; a text of iptables-legacy may hold jumps in circles that no kernel has.
const MOST_STEPS: u32 = 100_000;

/// What our rules do to the packet, as it is decided elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ours {
    /// They translate it.
    Translate,
    /// They let it pass; rules behind them are asked.
    Pass,
    /// They are taken as they stand in the kernel, like anybody's.
    AsTheyStand,
}

/// What becomes of the packet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Way<'r> {
    /// The rule that surely settles it, unless one of `possible` does before; `None` if it goes through as it is.
    pub settled: Option<Step<'r>>,
    /// Rules that come before and may settle it, each once: conditions of theirs, or on the way to them, cannot be told.
    pub possible: Vec<Step<'r>>,
    /// Whether our rules were asked.
    pub asked_ours: Answer,
    /// A rule that ended the way through the base chain with our rules, or may have, before they were asked.
    pub ended: Option<Step<'r>>,
    /// Whether a rule surely marks it.
    pub is_marked: bool,
    /// Whether the way is too long to follow to its end.
    pub is_cut: bool,
}

/// A rule that translates the packet, drops it, or keeps it untracked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step<'r> {
    /// The rule's table.
    pub table: &'r Table,
    /// Its chain.
    pub chain: &'r Chain,
    /// The rule.
    pub rule: &'r Rule,
    /// Whether our rules were asked before it.
    pub is_after_ours: bool,
}

/// Answers whether an address is in a set of a table, where that can be found out.
pub type Sets<'s> = dyn FnMut(&Table, &str, IpAddr) -> Option<bool> + 's;

impl Ruleset {
    /// Follows a packet through all base chains of a kind at a hook.
    pub fn walk(&self, kind: Kind, hook: Hook, packet: &Packet, ours: Ours, sets: &mut Sets<'_>) -> Way<'_> {
        self.walk_through(self.entries(kind, hook), packet, ours, sets)
    }

    /// Follows a packet through these base chains, in this order.
    pub fn walk_through<'r>(
        &'r self,
        entries: Vec<Entry<'r>>,
        packet: &Packet,
        ours: Ours,
        sets: &mut Sets<'_>,
    ) -> Way<'r> {
        let family = Family::of(packet.destination);
        let assumed = Assumed { mark: packet.mark };
        let mut walker = Walker { packet, ours, sets, assumed, way: Way::default(), told: BTreeSet::new(), steps: 0 };
        for entry in entries.into_iter().filter(|entry| entry.table.sees(family)) {
            let passage = walker.chain(entry, entry.chain, Answer::Yes, 0);
            if passage == Passage::Over || walker.way.is_cut {
                break;
            }
        }
        walker.way
    }
}

struct Walker<'r, 'p> {
    packet: &'p Packet,
    ours: Ours,
    sets: &'p mut Sets<'p>,
    assumed: Assumed,
    way: Way<'r>,
    /// The addresses of the possible rules: jumps from everywhere may lead to one of them thousands of times.
    told: BTreeSet<usize>,
    steps: u32,
}

/// How a packet leaves a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    /// It comes back to where it came from.
    Back,
    /// It may come back, or its way through the base chain may be over.
    Perhaps,
    /// Its way through the base chain is over.
    Ended,
    /// Its fate is settled.
    Over,
}

impl<'r> Walker<'r, '_> {
    /// Goes through a chain that is reached, or may be.
    fn chain(&mut self, entry: Entry<'r>, chain: &'r Chain, reached: Answer, depth: u32) -> Passage {
        let mut here = reached;
        let mut may_have_ended = false;
        for rule in &chain.rules {
            self.steps += 1;
            if self.steps > MOST_STEPS || depth > DEEPEST {
                self.way.is_cut = true;
                return Passage::Perhaps;
            }
            let met = if rule.is_ours && self.ours != Ours::AsTheyStand { Answer::Yes } else { self.met(entry, rule) };
            let hit = met.min(here);
            if hit == Answer::No {
                continue;
            }
            let flow = self.rule(entry, chain, rule, hit, depth);
            match (flow, met) {
                (Flow::Settled, Answer::Yes) if here == Answer::Yes => return Passage::Over,
                (Flow::Settled | Flow::Back, Answer::Yes) => return back(may_have_ended),
                (Flow::Ended, Answer::Yes) if here == Answer::Yes => return Passage::Ended,
                (Flow::Ended, Answer::Yes) => return Passage::Perhaps,
                (Flow::Ended | Flow::PerhapsEnded, _) => {
                    may_have_ended = true;
                    here = Answer::Maybe;
                }
                (Flow::Back, _) => here = Answer::Maybe,
                (Flow::PerhapsGone, Answer::Yes) => return Passage::Perhaps,
                (Flow::PerhapsGone, _) => {
                    may_have_ended = true;
                    here = Answer::Maybe;
                }
                (Flow::Settled | Flow::Next, _) => {}
            }
        }
        back(may_have_ended)
    }

    fn met(&mut self, entry: Entry<'r>, rule: &Rule) -> Answer {
        let table = entry.table;
        let sets = &mut *self.sets;
        let mut set = |name: &str, address| sets(table, name, address);
        let (packet, assumed) = (self.packet, self.assumed);
        let mut met = Answer::Yes;
        for test in &rule.tests {
            met = met.min(test.answer(packet, assumed, &mut set));
            if met == Answer::No {
                break;
            }
        }
        met
    }

    fn rule(&mut self, entry: Entry<'r>, chain: &'r Chain, rule: &'r Rule, hit: Answer, depth: u32) -> Flow {
        if rule.is_ours && self.ours != Ours::AsTheyStand {
            let is_first = self.way.asked_ours == Answer::No;
            self.way.asked_ours = self.way.asked_ours.max(hit);
            if self.ours == Ours::Pass || !is_first {
                return Flow::Next;
            }
            return self.settle(entry, chain, rule, hit);
        }
        match &rule.action {
            Action::Continue => Flow::Next,
            Action::SetMark => {
                self.assumed.mark = None;
                self.way.is_marked |= hit == Answer::Yes;
                Flow::Next
            }
            Action::Masquerade | Action::Snat(_) | Action::Notrack | Action::Drop => {
                self.settle(entry, chain, rule, hit)
            }
            // It may be something else than a translation of the source.
            Action::Translate => {
                self.settle(entry, chain, rule, Answer::Maybe);
                Flow::Next
            }
            // It may be anything: a map of verdicts may translate the packet in another chain, or end its way.
            Action::Opaque => {
                self.settle(entry, chain, rule, Answer::Maybe);
                self.end(entry, chain, rule);
                Flow::PerhapsEnded
            }
            Action::Accept => {
                self.end(entry, chain, rule);
                Flow::Ended
            }
            Action::Return => {
                if depth == 0 {
                    self.end(entry, chain, rule);
                }
                Flow::Back
            }
            Action::Jump(name) => self.call(entry, name, hit, depth, false),
            Action::Goto(name) => self.call(entry, name, hit, depth, true),
        }
    }

    fn settle(&mut self, entry: Entry<'r>, chain: &'r Chain, rule: &'r Rule, hit: Answer) -> Flow {
        let is_after_ours = !rule.is_ours && self.way.asked_ours != Answer::No;
        let step = Step { table: entry.table, chain, rule, is_after_ours };
        match hit {
            Answer::Yes => self.way.settled = Some(step),
            Answer::Maybe if self.told.insert(ptr::from_ref(rule).addr()) => self.way.possible.push(step),
            Answer::Maybe => {}
            Answer::No => {}
        }
        Flow::Settled
    }

    fn end(&mut self, entry: Entry<'r>, chain: &'r Chain, rule: &'r Rule) {
        let leads_to_ours = entry.chain.rules.iter().any(|rule| rule.is_ours);
        if self.way.asked_ours == Answer::No && leads_to_ours {
            let step = Step { table: entry.table, chain, rule, is_after_ours: false };
            self.way.ended.get_or_insert(step);
        }
    }

    fn call(&mut self, entry: Entry<'r>, name: &str, hit: Answer, depth: u32, is_goto: bool) -> Flow {
        let Some(chain) = entry.table.chain(name) else { return Flow::Next };
        match (self.chain(entry, chain, hit, depth + 1), is_goto) {
            (Passage::Back, false) => Flow::Next,
            (Passage::Back, true) => Flow::Back,
            (Passage::Perhaps, false) => Flow::PerhapsEnded,
            (Passage::Perhaps, true) => Flow::PerhapsGone,
            (Passage::Ended, _) => Flow::Ended,
            (Passage::Over, _) => Flow::Settled,
        }
    }
}

fn back(may_have_ended: bool) -> Passage {
    if may_have_ended { Passage::Perhaps } else { Passage::Back }
}

/// What a rule that is met, or may be, does to the way through its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// On to the next rule.
    Next,
    /// Back to the calling chain.
    Back,
    /// The way through the base chain is over.
    Ended,
    /// On to the next rule, unless the way through the base chain is over.
    PerhapsEnded,
    /// Back to the calling chain, unless the way through the base chain is over.
    PerhapsGone,
    /// The packet's fate is settled.
    Settled,
}
