//! Reading the config from disk: a file, or a directory of them, without ever waiting on it.

use std::fmt;
use std::path::{Path, PathBuf};

use masq::config::Source;

/// Reads the config file or directory at `path`; no file at all is an empty list.
///
/// # Errors
/// What is there cannot be read, is no regular file, is too large, or changes faster than it can be read.
pub fn read(path: &Path) -> Result<Vec<Source>, ReadError> {
    Err(ReadError { path: path.to_owned(), reason: Reason::Changing })
}

/// Why a config could not be read; the message names the path, the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    Changing,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.path, self.reason)
    }
}

impl std::error::Error for ReadError {}
