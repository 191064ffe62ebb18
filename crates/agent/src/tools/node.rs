//! The node as the daemon would see it: what the config means there, and the backend that carries it out.

use anyhow::Result;
use masq::config::{Config, Parsed, Rejected, Source};
use masq::diagnostic::Diagnostic;
use serde_json::{Value, json};

use super::input;
use crate::backend::{self, Backend};
use crate::cli::NodeOptions;

/// The config that a tool is pointed at.
#[derive(Debug)]
pub(super) struct Reading {
    /// The files, none if there are none.
    pub sources: Vec<Source>,
    /// Errors first.
    pub findings: Vec<Diagnostic>,
    /// What they mean; `None` if they are refused.
    pub config: Option<Config>,
}

/// Reads the config as the daemon would with the same flags.
///
/// # Errors
/// It cannot be read, or nothing is where `--config` points.
pub(super) fn read(options: &NodeOptions) -> Result<Reading> {
    Ok(parse(input::read(options.config_path.as_deref())?, options))
}

/// What was read, parsed as the options ask for.
pub(super) fn parse(sources: Vec<Source>, options: &NodeOptions) -> Reading {
    let parsed = Config::parse(&sources, &options.policy);
    let parsed = if options.strict { parsed.and_then(Parsed::strict) } else { parsed };
    let (config, findings) = match parsed {
        Ok(Parsed { config, warnings }) => (Some(config), warnings),
        Err(Rejected { errors, warnings }) => (None, errors.into_iter().chain(warnings).collect()),
    };
    Reading { sources, findings, config }
}

/// Opens the backend that the daemon would choose with the same flags; nothing is changed.
///
/// # Errors
/// As [`Backend::open`].
pub(super) fn open(options: &NodeOptions) -> Result<Backend> {
    Backend::open(backend::Options {
        choice: options.backend,
        chain: options.masq_chain.clone(),
        protect: false,
        count_cidrs: false,
        interrupt: None,
    })
}

/// The backend and the reasons for it, for programs; the keys are an interface.
pub(super) fn backend_json(backend: &Backend) -> Value {
    let choice = backend.choice();
    json!({
        "name": choice.chosen.name(),
        "reason": choice.reason,
        "stack": backend.stack().map(|stack| json!({ "name": stack.chosen.to_string(), "reason": stack.reason })),
    })
}
