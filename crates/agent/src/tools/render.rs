//! `render`: what the daemon would load, as text; nothing is changed and no privilege is needed.

use std::process::ExitCode;

use masq::config::{Config, Parsed, Rejected};
use masq::policy::Policy;
use serde_json::json;

use super::output::{complain, finish};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT, input};
use crate::backend::{iptables, nftables};
use crate::cli::{BackendChoice, OutputFormat, RenderOptions};

/// Prints the policy as `nft -f` reads it, or `iptables-restore` and `ip6tables-restore`; remarks on the config go to standard error, so
/// that the output can be piped on.
///
/// Exit status: 0 printed; 1 the config is refused; 3 it could not be read.
pub fn run(options: &RenderOptions) -> ExitCode {
    let sources = match input::read(options.config_path.as_deref()) {
        Ok(sources) => sources,
        Err(error) => {
            complain(&format!("render: {error:#}\n"));
            return ExitCode::from(STATUS_CANNOT_LOOK);
        }
    };
    let (config, findings) = match Config::parse(&sources, &options.policy) {
        Ok(Parsed { config, warnings }) => (Some(config), warnings),
        Err(Rejected { errors, warnings }) => (None, errors.into_iter().chain(warnings).collect()),
    };
    findings.iter().for_each(|finding| complain(&format!("{finding}\n")));
    let Some(config) = config else {
        return ExitCode::from(STATUS_TO_REPORT);
    };
    let policy = Policy::new(&config);
    let (backend, text) = match options.backend {
        // What `auto` comes to is a matter of the node, and this may not be the node.
        BackendChoice::Auto | BackendChoice::Nftables => ("nftables", nftables::render(&policy)),
        BackendChoice::Iptables => ("iptables", iptables::render(&policy, &options.masq_chain)),
    };
    match options.output {
        OutputFormat::Text => finish(&text, STATUS_FINE),
        OutputFormat::Json => finish(&format!("{:#}\n", json!({ "backend": backend, "text": text })), STATUS_FINE),
    }
}
