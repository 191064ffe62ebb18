//! One reading of the config: from the path to a policy, or to the reasons why there is none.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use masq::config::{Config, Flags, Rejected, Source};
use masq::diagnostic::{Diagnostic, DiagnosticKind};

use crate::config_file;

/// What the config path held.
#[derive(Debug)]
pub struct Reading {
    /// Equal for two readings that held the same, so that nothing is said or done twice.
    pub fingerprint: u64,
    /// The names of the files; empty if there were none.
    pub files: Vec<String>,
    /// What they mean.
    pub result: Result<Config, NoConfig>,
    /// What the writer should know, errors not included.
    pub warnings: Vec<Diagnostic>,
}

/// Why a config cannot be used; one message per problem, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoConfig(pub Vec<String>);

impl Reading {
    /// Reads the path; `strict` makes an unknown key an error.
    ///
    /// Answers `None` if it holds the same as in the reading with the fingerprint `last`.
    pub fn take(path: &Path, flags: &Flags, strict: bool, last: Option<u64>) -> Option<Reading> {
        match config_file::read(path) {
            Ok(sources) => {
                let content: Vec<_> = sources.iter().map(|source| (&source.name, &source.bytes)).collect();
                let fingerprint = fingerprint(content);
                (last != Some(fingerprint)).then(|| Reading::of(&sources, fingerprint, flags, strict))
            }
            Err(error) => {
                let message = error.to_string();
                let fingerprint = fingerprint(&message);
                (last != Some(fingerprint)).then(|| Reading {
                    fingerprint,
                    files: Vec::new(),
                    result: Err(NoConfig(vec![message])),
                    warnings: Vec::new(),
                })
            }
        }
    }

    fn of(sources: &[Source], fingerprint: u64, flags: &Flags, strict: bool) -> Reading {
        let (result, warnings) = match Config::parse(sources, flags) {
            Ok(parsed) if strict => refuse_unknown_keys(parsed.config, parsed.warnings),
            Ok(parsed) => (Ok(parsed.config), parsed.warnings),
            Err(Rejected { errors, warnings }) => (Err(NoConfig::new(&errors)), warnings),
        };
        Reading { fingerprint, files: sources.iter().map(|source| source.name.clone()).collect(), result, warnings }
    }
}

impl NoConfig {
    fn new(errors: &[Diagnostic]) -> NoConfig {
        NoConfig(errors.iter().map(Diagnostic::to_string).collect())
    }
}

fn refuse_unknown_keys(config: Config, warnings: Vec<Diagnostic>) -> (Result<Config, NoConfig>, Vec<Diagnostic>) {
    let is_unknown = |finding: &Diagnostic| finding.kind == DiagnosticKind::UnknownKey;
    let (unknown, others): (Vec<Diagnostic>, Vec<Diagnostic>) = warnings.into_iter().partition(is_unknown);
    if unknown.is_empty() { (Ok(config), others) } else { (Err(NoConfig::new(&unknown)), others) }
}

/// Not a cryptographic hash: whoever can write the config can write what he likes anyway.
fn fingerprint(content: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
