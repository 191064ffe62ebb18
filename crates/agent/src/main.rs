//! The program: parses the command line and runs the daemon or a tool.

fn main() {}
