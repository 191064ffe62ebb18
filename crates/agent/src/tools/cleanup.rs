//! `cleanup`: removes all of ours from the kernel, and nothing of anybody else.

use std::process::ExitCode;

use anyhow::{Error, anyhow};
use serde_json::{Value, json};

use super::output::{complain, finish, printable};
use super::running::{self, Running};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT};
use crate::backend::cleanup::{Cleanup, cleanup};
use crate::backend::iptables::sweep::{Removal, Sweep, Swept};
use crate::backend::nftables::desired::TABLE;
use crate::cli::{CleanupOptions, OutputFormat};

/// Removes, or with `--dry-run` tells, and says what it did.
///
/// Exit status: 0 nothing of ours is left, or would be; 1 something stays, or an agent still runs; 3 not all could be looked at.
pub fn run(options: &CleanupOptions) -> ExitCode {
    let removal = if options.dry_run { Removal::Dry } else { Removal::Real };
    let mut cleanup = cleanup(&options.masq_chain, options.all_generations, removal);
    tell_what_is_out_of_reach(&mut cleanup.chains);
    let report = Report { cleanup, removal, agents: running::agents() };
    match options.output {
        OutputFormat::Text => {
            let status = finish(&report.to_text(), report.status());
            report.remarks().iter().for_each(|remark| complain(&format!("cleanup: {}\n", printable(remark))));
            status
        }
        OutputFormat::Json => finish(&format!("{:#}\n", report.to_json()), report.status()),
    }
}

/// A table that no program can look into may hold rules of ours, or not.
fn tell_what_is_out_of_reach(sweep: &mut Sweep) {
    for (family, stack) in std::mem::take(&mut sweep.out_of_reach) {
        sweep.unseen.push(anyhow!(
            "the {family} nat table of {stack} is there, and no iptables-legacy-save and -restore to look into it with; run cleanup where \
             they are installed"
        ));
    }
}

/// All there is to say.
struct Report {
    cleanup: Cleanup,
    removal: Removal,
    agents: Vec<Running>,
}

impl Report {
    fn status(&self) -> u8 {
        let chains = &self.cleanup.chains;
        if !chains.unseen.is_empty() {
            STATUS_CANNOT_LOOK
        } else if !chains.failures.is_empty() || !self.agents.is_empty() {
            STATUS_TO_REPORT
        } else {
            STATUS_FINE
        }
    }

    fn to_text(&self) -> String {
        let mut things: Vec<String> = self.cleanup.chains.removed.iter().map(chain_text).collect();
        things.extend(self.cleanup.table.then(|| format!("table inet {TABLE}")));
        let done = match self.removal {
            Removal::Real => "Removed",
            Removal::Dry => "Would remove",
        };
        let mut text: String = things.iter().map(|thing| format!("{done} {}.\n", printable(thing))).collect();
        let chains = &self.cleanup.chains;
        if things.is_empty() && chains.unseen.is_empty() && chains.failures.is_empty() {
            text.push_str("There is nothing of ours here.\n");
        }
        text
    }

    /// What people should know besides: what stays, and why.
    fn remarks(&self) -> Vec<String> {
        let chains = &self.cleanup.chains;
        let failures = chains.failures.iter().map(|error| format!("not removed: {error:#}"));
        let unseen = chains.unseen.iter().map(|error| format!("not looked at: {error:#}"));
        let kept = chains.kept.iter().map(ToString::to_string);
        let agent = |running: &Running| {
            format!("an agent runs here (process {}) and puts its rules back; stop it and clean up again", running.pid)
        };
        failures.chain(unseen).chain(kept).chain(self.agents.iter().map(agent)).collect()
    }

    /// The keys are an interface: they stay as they are, and all of them are always there.
    fn to_json(&self) -> Value {
        let errors = |errors: &[Error]| errors.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>();
        let chains = &self.cleanup.chains;
        json!({
            "dryRun": self.removal == Removal::Dry,
            "table": self.cleanup.table,
            "chains": chains.removed.iter().map(chain_json).collect::<Vec<_>>(),
            "kept": chains.kept.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "failures": errors(&chains.failures),
            "unseen": errors(&chains.unseen),
            "agents": self.agents.iter().map(|running| running.pid).collect::<Vec<_>>(),
        })
    }
}

fn chain_text(swept: &Swept) -> String {
    let Swept { stack, change, is_chain_ours } = swept;
    let (family, chain) = (change.family, &change.chain);
    if *is_chain_ours {
        let rules = swept.rules();
        let plural = if rules == 1 { "" } else { "s" };
        format!("the {family} chain {chain} of {stack} with {rules} rule{plural} and the jumps to it")
    } else {
        format!("the jumps in our name to the {family} chain {chain} of {stack}, which is somebody else's")
    }
}

fn chain_json(swept: &Swept) -> Value {
    json!({
        "stack": swept.stack.to_string(),
        "family": swept.change.family.to_string(),
        "chain": swept.change.chain,
        "rules": swept.rules(),
        "jumpsOnly": !swept.is_chain_ours,
    })
}
