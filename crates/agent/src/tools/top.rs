//! `top`: who uses the source ports of this node, live in a terminal or once; nothing is changed.

mod json;
mod page;
mod screen;
mod view;
mod watch;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use masq::config::{Config, Parsed};
use masq::ports::PortRanges;

use self::screen::{Input, Screen};
use self::view::{Order, View};
use self::watch::Watch;
use super::output::{complain, print};
use super::{STATUS_CANNOT_LOOK, STATUS_FINE, STATUS_TO_REPORT, input};
use crate::cli::{Grouping, OutputFormat, SortKey, TopOptions};

/// Shows the connections until it is told to end; with `--once`, or without a terminal, one table with the rates of one interval.
///
/// Exit status: 0 fine, 1 with one table: nearly all ports to a destination are in use, 3 the connections cannot be looked at.
pub fn run(options: &TopOptions) -> ExitCode {
    let outcome = match options.output {
        OutputFormat::Json if !options.once => stream(options),
        OutputFormat::Text if !options.once && has_terminal() => live(options),
        OutputFormat::Text | OutputFormat::Json => once(options),
    };
    outcome.map(ExitCode::from).unwrap_or_else(|error| {
        complain(&format!("top: {error:#}\n"));
        ExitCode::from(STATUS_CANNOT_LOOK)
    })
}

fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

fn once(options: &TopOptions) -> Result<u8> {
    let mut watch = Watch::open(to_ports(options)?)?;
    watch.look()?;
    thread::sleep(options.interval);
    let view = watch.look()?;
    match options.output {
        OutputFormat::Text => print(&page::text(&view, order(options)))?,
        OutputFormat::Json => print(&format!("{:#}\n", json::value(&view, order(options))))?,
    }
    Ok(if view.destinations.iter().any(|it| it.is_nearly_used_up()) { STATUS_TO_REPORT } else { STATUS_FINE })
}

/// One document per line, until nobody reads them any more.
fn stream(options: &TopOptions) -> Result<u8> {
    let mut watch = Watch::open(to_ports(options)?)?;
    let mut out = io::stdout().lock();
    loop {
        let line = json::value(&watch.look()?, order(options));
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            return Ok(STATUS_FINE);
        }
        thread::sleep(options.interval);
    }
}

fn live(options: &TopOptions) -> Result<u8> {
    let mut watch = Watch::open(to_ports(options)?)?;
    let mut view = watch.look()?;
    let mut order = order(options);
    let mut screen = Screen::open()?;
    let mut due = Instant::now() + options.interval;
    // A terminal that cannot be written to has gone.
    while draw(&mut screen, &view, order).is_ok() {
        for input in screen.wait(due.saturating_duration_since(Instant::now()))? {
            match input {
                Input::Key(b'q' | CONTROL_C) | Input::Leave => return Ok(STATUS_FINE),
                Input::Key(key) => order = chosen(order, key),
                Input::Resized => {}
            }
        }
        if Instant::now() >= due {
            view = watch.look()?;
            due = Instant::now() + options.interval;
        }
    }
    Ok(STATUS_FINE)
}

/// What the terminal sends for Ctrl-C while it is told to send all keys.
const CONTROL_C: u8 = 3;

fn draw(screen: &mut Screen, view: &View, order: Order) -> io::Result<()> {
    let (width, height) = screen.size();
    screen.draw(&page::lines(view, order, width, height))
}

/// The order after a key; other keys change nothing.
fn chosen(order: Order, key: u8) -> Order {
    match key {
        b'd' => Order { by: Grouping::Destination, ..order },
        b's' => Order { by: Grouping::Source, ..order },
        b'u' => Order { sort: SortKey::Used, ..order },
        b'n' => Order { sort: SortKey::New, ..order },
        b'a' => Order { sort: SortKey::Name, ..order },
        _ => order,
    }
}

fn order(options: &TopOptions) -> Order {
    Order { by: options.by, sort: options.sort }
}

/// The ranges that the daemon has the kernel pick ports from. A config that is refused is none of this tool's business.
fn to_ports(options: &TopOptions) -> Result<PortRanges> {
    let sources = input::read(options.config_path.as_deref())?;
    Ok(match Config::parse(&sources, &options.policy) {
        Ok(Parsed { config, .. }) => config.to_ports,
        Err(_) => options.policy.to_ports.clone(),
    })
}
