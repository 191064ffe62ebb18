//! Printing that does not mind a reader who has gone: `check | head` ends as quietly as any tool.

use std::io::{self, Write};

/// Prints to standard output.
pub fn print(text: &str) {
    write(io::stdout().lock(), text);
}

/// Prints to standard error.
pub fn complain(text: &str) {
    write(io::stderr().lock(), text);
}

fn write(mut out: impl Write, text: &str) {
    // There is nobody left to tell about a failure here, and the exit status has its own meaning.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
