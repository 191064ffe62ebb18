//! Which backend suits the node, and which of the two iptables stacks: decided on facts, with the reason in words.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;

use masq::cidr::Family;
use nfnetlink::{ProtocolFamily, Socket};

use super::iptables::exec::Runner;
use super::iptables::programs::{ProgramError, Tools, Variant, exist};
use super::iptables::save::strangers_rules;
use super::iptables::version::{Stack, Version};

/// What `--backend=auto` comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// nftables over netlink.
    Nftables,
    /// The iptables programs.
    Iptables,
}

impl Backend {
    /// Its name, as `--backend` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Nftables => "nftables",
            Backend::Iptables => "iptables",
        }
    }
}

/// What was decided, and why, for the log and for `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<T> {
    /// The decision.
    pub chosen: T,
    /// The reason: a sentence without an end.
    pub reason: String,
}

impl<T> Choice<T> {
    fn new(chosen: T, reason: impl Into<String>) -> Choice<T> {
        Choice { chosen, reason: reason.into() }
    }
}

/// Chooses the backend for `--backend=auto`: iptables where its programs are on the search path, so that users find the rules where
/// every guide tells them to look.
pub fn backend(search_path: &OsStr) -> Choice<Backend> {
    let variants = [Variant::Plain, Variant::Named(Stack::Nft), Variant::Named(Stack::Legacy)];
    if variants.iter().any(|variant| exist(Family::Ipv4, *variant, search_path)) {
        Choice::new(Backend::Iptables, "the iptables programs are on PATH")
    } else {
        Choice::new(Backend::Nftables, "there are no iptables programs on PATH")
    }
}

/// What the choice of a stack rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// What the node's `iptables` writes to, if there is one.
    pub plain: Option<Stack>,
    /// Whether there are programs for iptables-nft, under any name.
    pub has_nft: bool,
    /// Whether there are programs for iptables-legacy, under any name.
    pub has_legacy: bool,
    /// Whether kubelet left its hint in iptables-nft.
    pub nft_hint: bool,
    /// Whether kubelet left its hint in iptables-legacy.
    pub legacy_hint: bool,
    /// How many rules others than the agent have in iptables-nft. Counted only where iptables-legacy holds any.
    pub nft_rules: usize,
    /// How many rules others than the agent have in iptables-legacy.
    pub legacy_rules: usize,
}

/// Chooses the stack: where kubelet is, else where most rules of others are, else what the node's `iptables` is. The agent's own
/// rules never count, or a wrong choice would confirm itself for ever.
pub fn stack(facts: &Facts) -> Choice<Stack> {
    match facts {
        Facts { has_legacy: false, .. } => Choice::new(Stack::Nft, "only the programs of iptables-nft are installed"),
        Facts { has_nft: false, .. } => {
            Choice::new(Stack::Legacy, "only the programs of iptables-legacy are installed")
        }
        Facts { nft_hint: true, .. } => Choice::new(Stack::Nft, "kubelet's hint chain is in iptables-nft"),
        Facts { legacy_hint: true, .. } => Choice::new(Stack::Legacy, "kubelet's hint chain is in iptables-legacy"),
        Facts { legacy_rules, nft_rules, .. } if legacy_rules > nft_rules => Choice::new(
            Stack::Legacy,
            format!("other programs have {legacy_rules} rules in iptables-legacy and {nft_rules} in iptables-nft"),
        ),
        Facts { nft_rules: 1.., .. } => {
            Choice::new(Stack::Nft, "other programs have most of their rules in iptables-nft")
        }
        Facts { plain: Some(plain), .. } => {
            Choice::new(*plain, format!("nobody else has rules, and the node's iptables is {plain}"))
        }
        Facts { plain: None, .. } => Choice::new(Stack::Nft, "nobody else has rules, and iptables-nft is the default"),
    }
}

/// The programs of the node, and the stack they are used on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    search_path: OsString,
    /// What the node's own `iptables` is, if there is one.
    plain: Option<Version>,
    /// The stack, and why this one.
    pub stack: Choice<Stack>,
}

impl Programs {
    /// Looks at the node: which programs there are, who has rules, and which stack follows.
    ///
    /// # Errors
    /// There are no programs, or they cannot be run.
    pub fn detect(search_path: OsString, runner: &Runner) -> Result<Programs, ProgramError> {
        let plain = match Tools::find(Family::Ipv4, Variant::Plain, &search_path) {
            Ok(tools) => Ok(Some(tools.version(runner)?)),
            Err(missing) => Err(missing),
        };
        let has = |stack| {
            plain.as_ref().is_ok_and(|plain| plain.is_some_and(|version| version.stack == stack))
                || exist(Family::Ipv4, Variant::Named(stack), &search_path)
        };
        let (has_nft, has_legacy) = (has(Stack::Nft), has(Stack::Legacy));
        let plain = match plain {
            Ok(plain) => plain,
            Err(_) if has_nft || has_legacy => None,
            Err(missing) => return Err(missing),
        };
        let mut facts = Facts { plain: plain.map(|version| version.stack), has_nft, has_legacy, ..Facts::default() };
        let undecided = Choice::new(Stack::Nft, "");
        let mut programs = Programs { search_path, plain, stack: undecided };
        if has_nft && has_legacy {
            programs.look_for_others(runner, &mut facts);
        }
        programs.stack = stack(&facts);
        Ok(programs)
    }

    /// What cannot be looked at counts as not there, as in the scripts that other programs choose with.
    fn look_for_others(&self, runner: &Runner, facts: &mut Facts) {
        facts.nft_hint = has_hint_in_nft();
        // Without tables there is nothing to read, and to ask for a table would make it.
        if facts.nft_hint
            || Family::ALL.into_iter().all(|family| legacy_tables(family).is_none_or(|tables| tables.is_empty()))
        {
            return;
        }
        let saves = |stack| -> Vec<String> {
            let tools = Family::ALL.into_iter().filter_map(|family| self.tools(family, stack).ok());
            tools.filter_map(|tools| tools.save_existing(runner, None).ok()).collect()
        };
        let legacy = saves(Stack::Legacy);
        facts.legacy_hint = legacy.iter().any(|text| has_hint(text));
        facts.legacy_rules = legacy.iter().map(|text| strangers_rules(text)).sum();
        if !facts.legacy_hint && facts.legacy_rules > 0 {
            facts.nft_rules = saves(Stack::Nft).iter().map(|text| strangers_rules(text)).sum();
        }
    }

    /// The version of a family's programs on a stack, where it is known without asking them.
    pub fn version(&self, family: Family, stack: Stack) -> Option<Version> {
        self.plain.filter(|version| family == Family::Ipv4 && version.stack == stack)
    }

    /// The programs of a family on a stack: the node's own `iptables` where it is of that stack, for an administrator may have put
    /// something of their own in its place.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn tools(&self, family: Family, stack: Stack) -> Result<Tools, ProgramError> {
        let is_plain = self.plain.is_some_and(|version| version.stack == stack);
        let variant = if is_plain { Variant::Plain } else { Variant::Named(stack) };
        Tools::find(family, variant, &self.search_path)
    }
}

/// The chains by which kubelet marks the stack that it uses.
const HINT_CHAINS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

fn has_hint(save: &str) -> bool {
    let mut chains = save.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
    chains.any(|chain| HINT_CHAINS.contains(&chain))
}

/// Asked over netlink, for that starts no program.
fn has_hint_in_nft() -> bool {
    let Ok(mut socket) = Socket::open() else { return false };
    [ProtocolFamily::Ipv4, ProtocolFamily::Ipv6].into_iter().any(|family| {
        socket
            .chains((family, "mangle"))
            .is_ok_and(|dump| dump.items.iter().any(|chain| HINT_CHAINS.contains(&chain.name.as_str())))
    })
}

/// The tables that iptables-legacy has in a family, which the kernel makes when they are first asked for; `None` where this process
/// may not know.
pub fn legacy_tables(family: Family) -> Option<Vec<String>> {
    let file = match family {
        Family::Ipv4 => "ip_tables_names",
        Family::Ipv6 => "ip6_tables_names",
    };
    // A thread may be in another network namespace than the process as a whole.
    match fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
        Ok(names) => Some(names.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Facts = Facts {
        plain: Some(Stack::Nft),
        has_nft: true,
        has_legacy: true,
        nft_hint: false,
        legacy_hint: false,
        nft_rules: 0,
        legacy_rules: 0,
    };

    #[test]
    fn kubelets_hint_decides_before_everything_else() {
        let facts = Facts { legacy_hint: true, nft_rules: 100, ..BOTH };
        assert_eq!(stack(&facts).chosen, Stack::Legacy);
        assert_eq!(stack(&Facts { nft_hint: true, legacy_rules: 100, ..facts }).chosen, Stack::Nft);
    }

    #[test]
    fn without_a_hint_the_stack_with_more_rules_of_others_is_chosen() {
        assert_eq!(stack(&Facts { legacy_rules: 2, nft_rules: 1, ..BOTH }).chosen, Stack::Legacy);
        assert_eq!(stack(&Facts { legacy_rules: 2, nft_rules: 2, ..BOTH }).chosen, Stack::Nft);
    }

    #[test]
    fn without_any_rules_the_nodes_own_iptables_decides() {
        assert_eq!(stack(&BOTH).chosen, Stack::Nft);
        assert_eq!(stack(&Facts { plain: Some(Stack::Legacy), ..BOTH }).chosen, Stack::Legacy);
        assert_eq!(stack(&Facts { plain: None, ..BOTH }).chosen, Stack::Nft);
    }

    #[test]
    fn what_is_not_installed_is_not_chosen() {
        assert_eq!(stack(&Facts { has_legacy: false, legacy_hint: true, ..BOTH }).chosen, Stack::Nft);
        assert_eq!(stack(&Facts { has_nft: false, nft_hint: true, ..BOTH }).chosen, Stack::Legacy);
    }

    #[test]
    fn the_hint_is_a_chain_and_not_a_word() {
        assert!(has_hint("*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n"));
        assert!(has_hint("*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n"));
        assert!(!has_hint("*mangle\n:X - [0:0]\n-A X -m comment --comment KUBE-IPTABLES-HINT\nCOMMIT\n"));
    }

    #[test]
    fn without_programs_nftables_is_chosen() {
        let choice = backend(OsStr::new("/nonexistent"));
        assert_eq!(choice.chosen, Backend::Nftables);
        assert!(!choice.reason.is_empty());
    }
}
