//! Printing that does not mind a reader who has gone: `check | head` ends as quietly as any tool.

use std::borrow::Cow;
use std::io::{self, Write};

/// Prints to standard output.
pub fn print(text: &str) {
    write(io::stdout().lock(), text);
}

/// Prints to standard error.
pub fn complain(text: &str) {
    write(io::stderr().lock(), text);
}

/// The text without anything that a terminal would act on: what it quotes may be a stranger's.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

fn write(mut out: impl Write, text: &str) {
    // There is nobody left to tell about a failure here, and the exit status has its own meaning.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
