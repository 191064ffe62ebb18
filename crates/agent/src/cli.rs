//! The command line, from words to checked options, as a pure function.

mod options;

pub use options::{
    BackendChoice, CheckOptions, Command, DEFAULT_CONFIG_PATH, DaemonOptions, DemoOptions,
    OutputFormat, RenderOptions, Topic,
};
