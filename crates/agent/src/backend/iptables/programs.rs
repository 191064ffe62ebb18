//! The iptables programs of a family and stack: where they are, what they are asked, and what their failures mean.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use masq::cidr::Family;
use nix::unistd::{AccessFlags, access};

use super::exec::{ExecError, Finished, Runner};
use super::lock;
use super::remedy::remedy;
use super::save::{Observed, POSTROUTING};
use super::version::{Stack, Version};

/// How long a restore waits for the lock, in seconds. The daemon does nothing else meanwhile, and tries again by itself.
const LOCK_WAIT: &str = "1";

/// What to call the programs of one family: `iptables`, `iptables-nft` or `iptables-legacy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Whatever the node's `iptables` is.
    Plain,
    /// The one that carries its stack in its name.
    Named(Stack),
}

impl Variant {
    fn suffix(self) -> &'static str {
        match self {
            Variant::Plain => "",
            Variant::Named(Stack::Nft) => "-nft",
            Variant::Named(Stack::Legacy) => "-legacy",
        }
    }
}

/// What netlink tells of a table that iptables-nft cannot print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glimpse {
    /// Whether the agent's chain is there.
    pub has_chain: bool,
    /// How many rules of POSTROUTING jump to it.
    pub jumps: usize,
}

/// The three programs of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    family: Family,
    iptables: PathBuf,
    save: PathBuf,
    restore: PathBuf,
}

/// Why the programs did not do what they were asked.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// One is not there.
    #[error("there is no program {name} on PATH ({}); install iptables, or choose --backend=nftables", .search_path.display())]
    Missing {
        /// Its name.
        name: String,
        /// Where it was looked for.
        search_path: OsString,
    },
    /// One could not be run to its end.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// It does not say which version it is.
    #[error("{command} printed {printed:?}, which is no version of iptables, and exited with status {status}")]
    NoVersion {
        /// The command line.
        command: String,
        /// What it printed, and what it complained about.
        printed: String,
        /// Its exit status.
        status: i32,
    },
    /// What iptables-nft cannot print could not be looked at over netlink either.
    #[error(
        "iptables cannot read some rules of the {family} nat table, and the kernel did not tell them either: {source}"
    )]
    Unreadable {
        /// Whose nat table it is.
        family: Family,
        /// What went wrong.
        source: nfnetlink::Error,
    },
    /// Somebody else holds the lock of iptables-legacy.
    #[error("{} holds the xtables lock, and {command} gave up waiting for it", .holder.as_deref().unwrap_or("another process"))]
    LockHeld {
        /// The command line.
        command: String,
        /// Name and process id of the holder, where they can be told.
        holder: Option<String>,
    },
    /// It refused, or the kernel did.
    #[error("{command} exited with status {status}: {complaint}{}", .remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
    Refused {
        /// The command line.
        command: String,
        /// Its exit status.
        status: i32,
        /// What it complained about.
        complaint: String,
        /// What to do, where the complaint is a known one.
        remedy: Option<String>,
    },
}

impl Tools {
    /// Looks the programs up.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn find(family: Family, variant: Variant, search_path: &OsStr) -> Result<Tools, ProgramError> {
        let base = match family {
            Family::Ipv4 => "iptables",
            Family::Ipv6 => "ip6tables",
        };
        let find = |end: &str| {
            let name = format!("{base}{}{end}", variant.suffix());
            lookup(&name, search_path).ok_or(ProgramError::Missing { name, search_path: search_path.to_owned() })
        };
        Ok(Tools { family, iptables: find("")?, save: find("-save")?, restore: find("-restore")? })
    }

    /// Asks for the version.
    ///
    /// # Errors
    /// The program cannot be run, or prints no version.
    pub fn version(&self, runner: &Runner) -> Result<Version, ProgramError> {
        let finished = runner.run(&self.iptables, &["--version"], b"")?;
        let printed = String::from_utf8_lossy(&finished.stdout);
        Version::parse(&printed).filter(|_| finished.status == 0).ok_or_else(|| ProgramError::NoVersion {
            command: format!("{} --version", self.iptables.display()),
            printed: format!("{} {}", printed.trim(), finished.stderr).trim().to_owned(),
            status: finished.status,
        })
    }

    /// The family they are for.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Reads the nat table and what its rules have counted. It may be incomplete: the program of the nft stack ends in the middle with
    /// an error where a native rule is beyond it.
    ///
    /// # Errors
    /// The program cannot be run or refuses.
    pub fn observe(&self, runner: &Runner) -> Result<Observed, ProgramError> {
        let finished = runner.run(&self.save, &["-t", "nat", "-c"], b"")?;
        let observed = Observed::parse(&String::from_utf8_lossy(&finished.stdout));
        if finished.status != 0 && !observed.is_incomplete {
            return Err(refusal(&self.save, "-t nat -c", finished, self.family));
        }
        Ok(observed)
    }

    /// Reads POSTROUTING and `chain`, if there is such a chain, up to what the program does not understand, where reading the whole
    /// table did not work.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn observe_piecemeal(&self, runner: &Runner, chain: &str, glimpse: Glimpse) -> Result<Observed, ProgramError> {
        let mut observed = Observed { is_incomplete: true, ..Observed::default() };
        let list = |chain: &str| runner.run(&self.iptables, &["-t", "nat", "-S", chain], b"");
        // Of a missing chain the program says the same as of one that it does not understand.
        if glimpse.has_chain {
            let ours = list(chain)?;
            match ours.status {
                0 => observed.read_listing(&String::from_utf8_lossy(&ours.stdout)),
                _ => {
                    observed.unreadable.insert(chain.to_owned());
                }
            }
        }
        let postrouting = list(POSTROUTING)?;
        observed.read_listing(&String::from_utf8_lossy(&postrouting.stdout));
        let jumps = observed.postrouting().iter().filter(|rule| rule.leads_to(chain)).count();
        observed.has_jump_beyond = postrouting.status != 0 && glimpse.jumps > jumps;
        Ok(observed)
    }

    /// What is in a table that exists already, or in all of those, without making one.
    ///
    /// # Errors
    /// The program cannot be run or refuses.
    pub fn save_existing(&self, runner: &Runner, table: Option<&str>) -> Result<String, ProgramError> {
        let args = table.map_or_else(Vec::new, |table| vec!["-t", table]);
        let finished = runner.run(&self.save, &args, b"")?;
        if finished.status != 0 {
            return Err(refusal(&self.save, &args.join(" "), finished, self.family));
        }
        Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
    }

    /// Carries a restore out, leaving all that it does not name.
    ///
    /// # Errors
    /// The program cannot be run, or it or the kernel refuses: then nothing is changed.
    pub fn restore(&self, runner: &Runner, version: Version, text: &str) -> Result<(), ProgramError> {
        let args: &[&str] = if version.restore_waits() { &["-w", LOCK_WAIT, "--noflush"] } else { &["--noflush"] };
        let finished = runner.run(&self.restore, args, text.as_bytes())?;
        match finished.status {
            0 => Ok(()),
            _ => Err(refusal(&self.restore, &args.join(" "), finished, self.family)),
        }
    }
}

/// Whether a family's programs of a variant are all there.
pub fn exist(family: Family, variant: Variant, search_path: &OsStr) -> bool {
    Tools::find(family, variant, search_path).is_ok()
}

fn refusal(program: &Path, args: &str, finished: Finished, family: Family) -> ProgramError {
    let command = format!("{} {args}", program.display()).trim_end().to_owned();
    let Finished { status, stderr: complaint, .. } = finished;
    if complaint.contains("holding the xtables lock") {
        return ProgramError::LockHeld { command, holder: lock::holder() };
    }
    let remedy = remedy(&complaint, family);
    ProgramError::Refused { command, status, complaint: one_line(&complaint), remedy }
}

/// Complaints come in lines, and a log line is one.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { "it said nothing".to_owned() } else { lines.join(" / ") }
}

/// Relative directories on PATH are passed over: what they hold depends on where the daemon was started.
fn lookup(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    env::split_paths(search_path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_the_places_searched() {
        let error =
            Tools::find(Family::Ipv6, Variant::Named(Stack::Nft), OsStr::new("/nonexistent:relative")).unwrap_err();
        assert!(error.to_string().contains("ip6tables-nft on PATH (/nonexistent:relative)"), "{error}");
    }

    #[test]
    fn a_held_lock_is_told_from_other_refusals() {
        let complaint = "Another app is currently holding the xtables lock. Stopped waiting after 1s.";
        let finished = |stderr: &str| Finished { status: 4, stdout: Vec::new(), stderr: stderr.to_owned() };
        let error = refusal(Path::new("/sbin/r"), "-w 1", finished(complaint), Family::Ipv4);
        assert!(matches!(error, ProgramError::LockHeld { .. }), "{error}");
        let error = refusal(Path::new("/sbin/r"), "", finished("\nline 2: bad\n line 3: worse"), Family::Ipv4);
        assert_eq!(error.to_string(), "/sbin/r exited with status 4: line 2: bad / line 3: worse");
        let error = refusal(Path::new("/sbin/r"), "", finished(""), Family::Ipv4);
        assert_eq!(error.to_string(), "/sbin/r exited with status 4: it said nothing");
    }
}
