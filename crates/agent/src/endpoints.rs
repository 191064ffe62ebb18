//! What the daemon answers over HTTP: metrics, health and the status page.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::accept::{self, Offer};
use crate::backend::reader::Reader;
use crate::board::Board;
use crate::cli::{DaemonOptions, NodeOptions, OutputFormat};
use crate::doctor::conntrack;
use crate::health::{self, Check};
use crate::http::{self, Request, Response, Status};
use crate::metrics::exposition::{self, Format};
use crate::metrics::page::Numbers;
use crate::metrics::process::Process;
use crate::snat::sampler::Sampler;
use crate::survey::Survey;

/// How long after the first failure the address is tried again: most often it is an earlier agent's that is about to end.
const BIND_SOON: Duration = Duration::from_millis(100);

/// How long after many failures.
const BIND_AGAIN: Duration = Duration::from_secs(10);

/// How long whoever asks for the status page waits for it. Everybody else waits meanwhile, and kubelet gives probes a second.
const PAGE_PATIENCE: Duration = Duration::from_millis(500);

/// All paths that are answered.
const PATHS: [&str; 5] = ["/metrics", "/livez", "/healthz", "/readyz", "/statusz"];

/// What is offered to those who ask for the status page.
const PAGE_OFFERS: [Offer<OutputFormat>; 2] = [
    Offer { answer: OutputFormat::Text, media_type: "text/plain", versions: &[] },
    Offer { answer: OutputFormat::Json, media_type: "application/json", versions: &[] },
];

/// Serves on threads of their own for as long as the process lives. An address that cannot be had is tried again and again: the daemon's work
/// does not depend on it.
///
/// # Errors
/// There is no new thread to be had.
pub fn serve(options: &DaemonOptions, board: &Arc<Board>, sampler: Option<Sampler>) -> Result<()> {
    let Some(address) = options.http_bind_address else { return Ok(()) };
    // What is ready says that it is, and then somebody connects: so this is the one thing that the start waits for.
    let listener = bind(address).map_err(|error| {
        log::warn!(
            "Nothing is served over HTTP yet, {address} cannot be had: {error}. It is tried again at least every {} s; \
             --http-bind-address names another one, or none",
            BIND_AGAIN.as_secs()
        );
    });
    let (config_path, about, board) = (options.config_path.clone(), about_this_node(options), Arc::clone(board));
    let work = move || -> Result<Infallible> {
        let survey = Survey::start(config_path, about, Arc::clone(&board), sampler.clone());
        let survey = survey.context("cannot start a thread")?;
        let endpoints = Endpoints { board, survey, sampler, reader: Mutex::default() };
        let listener = listener.unwrap_or_else(|()| bind_at_last(address));
        http::serve(listener, |request| endpoints.answer(request)).context("cannot serve")
    };
    let work = move || {
        let Err(error) = work();
        log::error!(err:% = format!("{error:#}"); "Nothing is served over HTTP");
    };
    thread::Builder::new().name("http".to_owned()).spawn(work).context("cannot start a thread").map(|_| ())
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // Port 0 lets the kernel choose one.
    log::info!("Serving {} on http://{}", PATHS.join(", "), listener.local_addr().unwrap_or(address));
    Ok(listener)
}

fn bind_at_last(address: SocketAddr) -> TcpListener {
    let mut pause = BIND_SOON;
    loop {
        thread::sleep(pause);
        if let Ok(listener) = bind(address) {
            return listener;
        }
        pause = (pause * 2).min(BIND_AGAIN);
    }
}

/// The status page is about what the daemon itself was told.
fn about_this_node(options: &DaemonOptions) -> NodeOptions {
    NodeOptions {
        policy: options.policy.clone(),
        config_path: Some(options.config_path.clone()),
        strict: options.strict,
        backend: options.backend,
        masq_chain: options.masq_chain.clone(),
        output: OutputFormat::Text,
    }
}

/// What answers are made of.
#[derive(Debug)]
struct Endpoints {
    board: Arc<Board>,
    survey: Survey,
    sampler: Option<Sampler>,
    reader: Mutex<Reader>,
}

impl Endpoints {
    fn answer(&self, request: &Request) -> Response {
        match request.path.as_str() {
            "/metrics" => self.metrics(&request.accept),
            "/livez" => checked("livez", &health::liveness(&self.board.facts(), Instant::now())),
            "/healthz" => checked("healthz", &health::liveness(&self.board.facts(), Instant::now())),
            "/readyz" => checked("readyz", &health::readiness(&self.board.facts(), Instant::now())),
            "/statusz" => self.status(request),
            _ => Response::not_found(&PATHS),
        }
    }

    fn metrics(&self, accept: &str) -> Response {
        let format: Format = accept::choose(accept, &exposition::OFFERS);
        let facts = self.board.facts();
        if !facts.counters_take_long() {
            self.board.count(&mut self.reader.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let numbers = Numbers {
            facts,
            counted: self.board.counts().totals(),
            cidrs: self.board.cidr_counts().totals(),
            foreign: self.survey.foreign_rules(),
            conntrack: conntrack::read().ok(),
            sample: self.sampler.as_ref().and_then(Sampler::latest),
            process: Process::read(),
        };
        Response { status: Status::Ok, content_type: format.content_type(), body: numbers.text(format).into_bytes() }
    }

    fn status(&self, request: &Request) -> Response {
        let format = match request.parameter("format") {
            Some("json") => OutputFormat::Json,
            Some("text") => OutputFormat::Text,
            Some(_) => return Response::text(Status::BadRequest, "format is text or json\n"),
            None => accept::choose(&request.accept, &PAGE_OFFERS),
        };
        let Some(page) = self.survey.page(PAGE_PATIENCE) else {
            return Response::text(Status::ServiceUnavailable, "Still looking at the node; ask again in a moment\n");
        };
        let facts = self.board.facts();
        let now = Instant::now();
        let checks = [health::liveness(&facts, now), health::readiness(&facts, now)].concat();
        match format {
            OutputFormat::Text => {
                let text = format!("{}\nThis agent:\n{}", page.text, health::text("statusz", &checks));
                Response::text(Status::Ok, text)
            }
            OutputFormat::Json => {
                let mut value = page.json.clone();
                value["daemon"] = health::json(&checks);
                Response {
                    status: Status::Ok,
                    content_type: "application/json",
                    body: format!("{value:#}\n").into_bytes(),
                }
            }
        }
    }
}

fn checked(endpoint: &str, checks: &[Check]) -> Response {
    let is_ok = checks.iter().all(|check| check.is_ok);
    let status = if is_ok { Status::Ok } else { Status::ServiceUnavailable };
    Response::text(status, health::text(endpoint, checks))
}
