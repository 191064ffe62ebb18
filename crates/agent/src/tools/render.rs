//! `render`: what the daemon would load, as text; nothing is changed and no privilege is needed.

use std::process::ExitCode;

use masq::config::{Config, Parsed, Rejected};
use masq::policy::Policy;
use serde_json::json;

use super::output::{complain, print};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT, input};
use crate::backend::nftables;
use crate::cli::{BackendChoice, OutputFormat, RenderOptions};

/// Prints the policy as `nft -f` reads it; remarks on the config go to standard error, so that the output can be piped on.
///
/// Exit status: 0 printed; 1 the config is refused; 3 it could not be read, or the backend is not there.
pub fn run(options: &RenderOptions) -> ExitCode {
    match options.backend {
        BackendChoice::Auto | BackendChoice::Nftables => {}
        BackendChoice::Iptables => {
            complain("render: this version has no iptables backend; leave --backend out\n");
            return ExitCode::from(STATUS_CANNOT_LOOK);
        }
    }
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
    let text = nftables::render(&Policy::new(&config));
    match options.output {
        OutputFormat::Text => print(&text),
        OutputFormat::Json => print(&format!("{:#}\n", json!({ "backend": "nftables", "text": text }))),
    }
    ExitCode::from(STATUS_FINE)
}
