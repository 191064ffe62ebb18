//! What takes a while to find out, found out beside the loop and the HTTP server: by a thread that sleeps until somebody asks.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use masq::cidr::Family;
use nfnetlink::{Generation, Socket};

use crate::backend::detect::legacy_tables;
use crate::backend::reader::Reader;
use crate::backend::search_path;
use crate::board::Board;
use crate::cli::NodeOptions;
use crate::foreign::{self, Position};
use crate::snat::sampler::Sampler;
use crate::tools::status::{self, Page};

/// How old the numbers may get before a scrape has them renewed.
const NUMBERS_KEEP: Duration = Duration::from_secs(10);

/// How old the status page may get.
const PAGE_KEEPS: Duration = Duration::from_secs(1);

/// Rules of other programs that can translate the source of what leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForeignRules {
    /// Those that the kernel asks before ours.
    pub before: usize,
    /// Those that it asks after ours.
    pub after: usize,
}

/// The thread's findings, and how to ask it for more.
#[derive(Debug, Clone)]
pub struct Survey {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    findings: Mutex<Findings>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Findings {
    wants_numbers: bool,
    wants_page: bool,
    numbers_at: Option<Instant>,
    foreign: Option<ForeignRules>,
    /// When it was finished, and the page.
    page: Option<(Instant, Arc<Page>)>,
}

impl Survey {
    /// Starts the thread, in the network namespace of the caller. The status page is about `options` and the config at
    /// `config_path`.
    ///
    /// # Errors
    /// There is no new thread to be had.
    pub fn start(
        config_path: PathBuf,
        options: NodeOptions,
        board: Arc<Board>,
        sampler: Option<Sampler>,
    ) -> io::Result<Survey> {
        let survey = Survey { shared: Arc::default() };
        let shared = Arc::clone(&survey.shared);
        let surveyor = Surveyor { config_path, options, board, sampler, reader: Reader::default(), seen_in: None };
        thread::Builder::new().name("survey".to_owned()).spawn(move || surveyor.work(&shared)).map(|_| survey)
    }

    /// The rules of others as they were last seen. Answers at once, and has older findings renewed, as well as sums of counters whose
    /// reading takes long.
    pub fn foreign_rules(&self) -> Option<ForeignRules> {
        let mut findings = self.shared.findings();
        if findings.numbers_at.is_none_or(|at| at.elapsed() > NUMBERS_KEEP) {
            findings.wants_numbers = true;
            self.shared.changed.notify_all();
        }
        findings.foreign
    }

    /// The status page, not older than a second; `None` if that takes longer than `patience`.
    pub fn page(&self, patience: Duration) -> Option<Arc<Page>> {
        let asked = Instant::now();
        let mut findings = self.shared.findings();
        loop {
            if let Some((finished, page)) = &findings.page
                && finished.checked_add(PAGE_KEEPS).is_none_or(|until| asked < until)
            {
                return Some(Arc::clone(page));
            }
            findings.wants_page = true;
            self.shared.changed.notify_all();
            let left = patience.checked_sub(asked.elapsed())?;
            (findings, _) = self.shared.changed.wait_timeout(findings, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    fn findings(&self) -> MutexGuard<'_, Findings> {
        // Each finding is set on its own, so a panic elsewhere cannot leave half of one.
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread carries along.
struct Surveyor {
    /// Where the daemon reads its config.
    config_path: PathBuf,
    options: NodeOptions,
    board: Arc<Board>,
    sampler: Option<Sampler>,
    reader: Reader,
    /// The generation of the ruleset in which others' rules were last looked at.
    seen_in: Option<Generation>,
}

impl Surveyor {
    fn work(mut self, shared: &Shared) -> ! {
        let mut findings = shared.findings();
        loop {
            if findings.wants_numbers {
                let known = findings.foreign;
                drop(findings);
                self.count();
                let foreign = self.foreign_rules(known);
                findings = shared.findings();
                (findings.wants_numbers, findings.numbers_at, findings.foreign) =
                    (false, Some(Instant::now()), foreign);
            }
            if findings.wants_page {
                drop(findings);
                let page = Arc::new(status::page(&self.config_path, &self.options, self.sampler.as_ref()));
                findings = shared.findings();
                (findings.wants_page, findings.page) = (false, Some((Instant::now(), page)));
                shared.changed.notify_all();
            }
            if !findings.wants_numbers && !findings.wants_page {
                findings = shared.changed.wait(findings).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Reads counters where that takes long; where it does not, scrapes read them.
    fn count(&mut self) {
        if self.board.facts().counters_take_long() {
            self.board.count(&mut self.reader);
        }
    }

    /// Looks at others' rules, unless it is known that nobody has changed any since the last time.
    fn foreign_rules(&mut self, known: Option<ForeignRules>) -> Option<ForeignRules> {
        let generation = Socket::open().and_then(|mut socket| socket.generation()).ok();
        // Changes in iptables-legacy are told nobody.
        let is_told =
            Family::ALL.into_iter().all(|family| legacy_tables(family).is_some_and(|tables| tables.is_empty()));
        if known.is_some() && is_told && generation.is_some() && generation == self.seen_in {
            return known;
        }
        let reading = foreign::read(&search_path(), &self.options.masq_chain, Vec::new());
        if let Some(unseen) = reading.unseen.first() {
            log::debug!("Cannot see all rules of other programs: {:#}", unseen.error);
            return None;
        }
        self.seen_in = generation;
        let rules = reading.ruleset.foreign_rules();
        let at = |position| {
            rules.iter().filter(|rule| rule.may_translate_what_leaves() && rule.position == Some(position)).count()
        };
        Some(ForeignRules { before: at(Position::Before), after: at(Position::After) })
    }
}
