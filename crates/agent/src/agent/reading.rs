//! One reading of the config: from the path to a policy, or to the reasons why there is none.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use masq::config::{Config, Flags, Parsed, Rejected, Source};
use masq::diagnostic::Diagnostic;

use crate::config_file;

/// What the config path held.
#[derive(Debug)]
pub struct Reading {
    /// Equal for two readings that held the same, so that nothing is said or done twice.
    pub fingerprint: u64,
    /// Of the content of the files; `None` if it could not be read.
    pub hash: Option<String>,
    /// The files it was read from.
    pub files: Files,
    /// What they mean.
    pub result: Result<Config, NoConfig>,
    /// What the writer should know, errors not included.
    pub warnings: Vec<Diagnostic>,
}

/// The files of a reading, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// There are none.
    Missing,
    /// They hold nothing but blanks.
    Empty(Vec<String>),
    /// They hold something.
    Filled(Vec<String>),
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
                    hash: None,
                    files: Files::Missing,
                    result: Err(NoConfig(vec![message])),
                    warnings: Vec::new(),
                })
            }
        }
    }

    fn of(sources: &[Source], fingerprint: u64, flags: &Flags, strict: bool) -> Reading {
        let parsed = Config::parse(sources, flags).and_then(|parsed| if strict { parsed.strict() } else { Ok(parsed) });
        let (result, warnings) = match parsed {
            Ok(Parsed { config, warnings }) => (Ok(config), warnings),
            Err(Rejected { errors, warnings }) => (Err(NoConfig::new(&errors)), warnings),
        };
        Reading { fingerprint, hash: Some(config_file::hash(sources)), files: Files::of(sources), result, warnings }
    }
}

impl Files {
    fn of(sources: &[Source]) -> Files {
        let names = sources.iter().map(|source| source.name.clone()).collect();
        if sources.is_empty() {
            Files::Missing
        } else if sources.iter().all(|source| source.bytes.trim_ascii().is_empty()) {
            Files::Empty(names)
        } else {
            Files::Filled(names)
        }
    }
}

impl NoConfig {
    fn new(errors: &[Diagnostic]) -> NoConfig {
        NoConfig(errors.iter().map(Diagnostic::to_string).collect())
    }
}

/// Not a cryptographic hash: whoever can write the config can write what he likes anyway.
fn fingerprint(content: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
