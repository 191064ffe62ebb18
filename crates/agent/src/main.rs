//! The program: reads the command line and runs the daemon or a tool.

use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;

use ip_masq_agent::cli::{self, Command, DaemonOptions, Refusal, Topic};
use ip_masq_agent::lab::daemon::{DIE_WITH_PARENT, die_with_parent};
use ip_masq_agent::tools::output::{complain, finish};
use ip_masq_agent::{agent, log as agent_log, tools};

/// Wrong usage, and a log file that cannot be opened: as the reference has it.
const STATUS_WRONG_USAGE: u8 = 2;
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|first| first == DIE_WITH_PARENT) {
        return replaced(die_with_parent(args.into_iter().skip(1)));
    }
    match cli::parse(&tools::running::with_flags_of_the_agent(args)) {
        Ok(Command::Daemon(options)) => daemon(*options),
        Ok(Command::Check(options)) => tools::check::run(&options),
        Ok(Command::Render(options)) => tools::render::run(&options),
        Ok(Command::Diff(options)) => tools::diff::run(&options),
        Ok(Command::Explain(options)) => tools::explain::run(&options),
        Ok(Command::Status(options)) => tools::status::run(&options),
        Ok(Command::Top(options)) => tools::top::run(&options),
        Ok(Command::Cleanup(options)) => tools::cleanup::run(&options),
        Ok(Command::Demo(options)) => tools::demo::run(&options),
        Ok(Command::Completion(shell)) => finish(&cli::completion(shell), 0),
        Ok(Command::Version) => finish(&format!("ip-masq-agent {VERSION}\n"), 0),
        // The reference's --help goes to standard error; ours are ours.
        Ok(Command::Help(Topic::Daemon)) => {
            complain(&cli::usage(Topic::Daemon));
            ExitCode::SUCCESS
        }
        Ok(Command::Help(topic)) => finish(&cli::usage(topic), 0),
        Err(Refusal::Usage { topic, message }) => {
            complain(&format!("{message}\n{}", cli::usage(topic)));
            ExitCode::from(STATUS_WRONG_USAGE)
        }
        Err(Refusal::Fatal { message, log, flag_dump }) => with_log(*log, || {
            introduce(&flag_dump);
            log::error!(target: agent_log::FATAL, "{message}");
            ExitCode::FAILURE
        }),
    }
}

fn daemon(options: DaemonOptions) -> ExitCode {
    with_log(options.log.clone(), || {
        introduce(&options.flag_dump);
        for word in &options.ignored_words {
            log::warn!("The word {word:?} is ignored: it stands behind the end of the flags. {}", advice(word));
        }
        agent::run(options)
    })
}

/// Runs with the log open, and leaves nothing unsaid at the end.
fn with_log(options: agent_log::LogOptions, run: impl FnOnce() -> ExitCode) -> ExitCode {
    if let Err(error) = agent_log::init(options) {
        complain(&format!("{error}\n"));
        return ExitCode::from(STATUS_WRONG_USAGE);
    }
    let status = run();
    log::logger().flush();
    status
}

/// The first lines of the log, as the reference writes them.
fn introduce(flag_dump: &[(String, String)]) {
    log::info!("ip-masq-agent version: {VERSION}");
    for (name, value) in flag_dump {
        log::info!("FLAG: --{name}={value:?}");
    }
}

fn advice(word: &str) -> &'static str {
    if Topic::TOOLS.iter().any(|tool| tool.word() == Some(word)) {
        "A tool's name has to be the first word"
    } else if word.starts_with('-') {
        "Put flags before the first word that is none"
    } else {
        "The value of a boolean flag is written --flag=false, in one word"
    }
}

fn replaced(failure: anyhow::Result<Infallible>) -> ExitCode {
    match failure {
        Ok(never) => match never {},
        Err(error) => {
            complain(&format!("{error:#}\n"));
            ExitCode::from(STATUS_WRONG_USAGE)
        }
    }
}
