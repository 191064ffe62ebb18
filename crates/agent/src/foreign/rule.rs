//! One rule of a table, of whichever stack: its conditions, and what becomes of packets that meet them.

use std::net::IpAddr;

use super::condition::{Question, Test};

/// A rule, taken apart as far as we know its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What a packet has to meet, all of it.
    pub tests: Vec<Test>,
    /// What becomes of it then.
    pub action: Action,
    /// The rule as its program would show it.
    pub text: String,
    /// Its comment.
    pub comment: Option<String>,
    /// Whether this is the place where our policy is asked: the jump to our chain, or a rule of our table.
    pub is_ours: bool,
}

/// What a rule does to a packet that meets its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Goes on with the next rule.
    Continue,
    /// Goes on with the next rule, with a mark that is not known.
    SetMark,
    /// Translates the source to an address of the output interface.
    Masquerade,
    /// Translates the source.
    Snat(SnatTo),
    /// Translates in a way that is not about sources, or not taken apart.
    Translate,
    /// Keeps the packet untracked, so that nothing is ever translated.
    Notrack,
    /// Ends this base chain, and in iptables with it its whole nat table.
    Accept,
    /// Drops the packet.
    Drop,
    /// Goes back to the calling chain.
    Return,
    /// Calls a chain.
    Jump(String),
    /// Goes on in a chain and does not come back.
    Goto(String),
    /// Does something that is not taken apart.
    Opaque,
}

/// What a source is translated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnatTo {
    /// One of the addresses from the first to the last.
    Addresses(IpAddr, IpAddr),
    /// The packet's own source: nothing changes, and no later rule is asked.
    OwnSource,
    /// The packet's own address; only the port changes.
    Ports,
    /// Something that is not taken apart, such as a map.
    Unknown,
}

/// The most that a rule can do to the source of a packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Masquerades.
    MayMasquerade,
    /// Translates to a given address, or in a way that is not known.
    MayTranslate,
    /// Keeps packets untracked, so that they bypass all NAT.
    MayUntrack,
    /// Ends the way of packets through its chain or table.
    EndsTraversal,
    /// Nothing by itself.
    None,
}

/// When a rule does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Whenever a packet reaches it.
    Always,
    /// If the packet meets all of these.
    Conditional(Vec<Test>),
    /// If the packet meets these, some of which are not taken apart.
    Opaque(Vec<Test>),
}

impl Rule {
    /// The most that the rule can do.
    pub fn effect(&self) -> Effect {
        match &self.action {
            Action::Masquerade => Effect::MayMasquerade,
            Action::Snat(_) | Action::Translate | Action::Opaque => Effect::MayTranslate,
            Action::Notrack => Effect::MayUntrack,
            Action::Accept | Action::Drop | Action::Return => Effect::EndsTraversal,
            Action::Continue | Action::SetMark | Action::Jump(_) | Action::Goto(_) => Effect::None,
        }
    }

    /// When the rule does it.
    pub fn condition(&self) -> Condition {
        let is_opaque = |test: &Test| matches!(test.question, Question::Opaque(_));
        match self.tests.as_slice() {
            [] => Condition::Always,
            tests if tests.iter().any(is_opaque) => Condition::Opaque(tests.to_vec()),
            tests => Condition::Conditional(tests.to_vec()),
        }
    }
}
