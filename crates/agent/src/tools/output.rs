//! Printing that does not mind a reader who has gone, so that `check | head` ends as quietly as any tool, but does mind a full disk.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::STATUS_CANNOT_LOOK;

/// Prints a result and answers the exit status: the given one, or 3 if the result, or a part of it, could not be written.
#[must_use]
pub fn finish(text: &str, status: u8) -> ExitCode {
    match print(text) {
        Ok(()) => ExitCode::from(status),
        Err(error) => {
            complain(&format!("ip-masq-agent: {error:#}\n"));
            ExitCode::from(STATUS_CANNOT_LOOK)
        }
    }
}

/// Prints to standard output.
///
/// # Errors
/// Not all could be written, though there is somebody who reads it.
pub(super) fn print(text: &str) -> Result<()> {
    match write(io::stdout().lock(), text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints to standard error.
pub fn complain(text: &str) {
    // There is nobody left to tell about a failure here, and the exit status has its own meaning.
    let _ = write(io::stderr().lock(), text);
}

/// The text without anything that a terminal would act on, or that would show it in another order: what it quotes may be a stranger's.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_acted_on) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_acted_on(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

fn is_acted_on(c: char) -> bool {
    // Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm.
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn write(mut out: impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
