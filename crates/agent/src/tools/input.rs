//! The config that a tool is pointed at.

use std::path::Path;

use anyhow::{Result, bail};
use masq::config::Source;

use crate::cli::DEFAULT_CONFIG_PATH;
use crate::config_file;

/// Reads what `--config` names, or the daemon's default place; `-` is standard input.
///
/// At the default place there may be nothing, which means the defaults. A path that was given has to lead somewhere: a tool
/// that calls a mistyped path fine would be worse than none.
///
/// # Errors
/// It cannot be read, or nothing is where `--config` points.
pub(super) fn read(given: Option<&Path>) -> Result<Vec<Source>> {
    let Some(path) = given else {
        return Ok(config_file::read(Path::new(DEFAULT_CONFIG_PATH))?);
    };
    if path == Path::new("-") {
        return Ok(vec![config_file::read_stdin()?]);
    }
    let sources = config_file::read(path)?;
    if sources.is_empty() && path.is_dir() {
        bail!("no file in {path:?} has a name that starts with ip-masq; rename the config or point --config at it");
    }
    if sources.is_empty() {
        bail!("there is no {path:?}; correct --config (the daemon would take a missing file for an empty one)");
    }
    Ok(sources)
}
