//! One connection as a machine without a socket: bytes and the time in, bytes to send and deadlines out.

use std::time::{Duration, Instant};

use super::head::{self, Head};
use super::{Method, Request, Response, Status};

/// How long a client may take to send a request, counted from its first byte, so that dripping bytes gains nothing.
const RECEIVING: Duration = Duration::from_secs(5);

/// How long a client may take to fetch an answer: Prometheus gives up after as long by default.
const SENDING: Duration = Duration::from_secs(10);

/// How long a connection is kept between requests: longer than most scrape intervals. It is closed sooner if others need the room.
const IDLE: Duration = Duration::from_secs(90);

/// How long what a client sends after its last answer is still taken. Closing at once would make the kernel send a reset, on which
/// clients throw away the answer that says what was wrong.
const DRAINING: Duration = Duration::from_secs(1);

/// Most bytes that are taken after the last answer.
const MOST_DRAINED: usize = 64 << 10;

/// A connection's state.
#[derive(Debug)]
pub struct Connection {
    /// Received, but not understood yet: at most [`head::MOST_BYTES`].
    input: Vec<u8>,
    /// There is input that was not looked at since it came.
    is_fresh: bool,
    output: Vec<u8>,
    sent: usize,
    phase: Phase,
    since: Instant,
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There will be nothing more.
    Over,
    /// The last answer is out, and what comes in is thrown away; so far, this many bytes.
    Draining(usize),
    /// Nothing of a next request is here.
    Idle,
    /// Part of a request is here.
    Receiving,
    /// An answer is to be sent.
    Sending {
        /// No other answer will follow.
        is_last: bool,
    },
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Bytes from the client.
    Input,
    /// That the client takes bytes.
    Output,
    /// Nothing: it wants to take its turn.
    Turn,
}

impl Connection {
    /// A connection that a client has just made.
    pub fn new(now: Instant) -> Connection {
        Connection { input: Vec::new(), is_fresh: false, output: Vec::new(), sent: 0, phase: Phase::Idle, since: now }
    }

    /// What it waits for.
    pub fn wants(&self) -> Want {
        match self.phase {
            Phase::Sending { .. } => Want::Output,
            Phase::Receiving if self.is_fresh => Want::Turn,
            Phase::Over | Phase::Draining(_) | Phase::Idle | Phase::Receiving => Want::Input,
        }
    }

    /// How many bytes [`Connection::receive`] may be given: at least one while it wants input.
    pub fn room(&self) -> usize {
        head::MOST_BYTES - self.input.len()
    }

    /// Takes what the client has sent; nothing means that the client will send no more.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) {
        match self.phase {
            Phase::Draining(before) if !bytes.is_empty() && before < MOST_DRAINED => {
                self.phase = Phase::Draining(before + bytes.len());
            }
            Phase::Idle | Phase::Receiving if !bytes.is_empty() => {
                if self.phase == Phase::Idle {
                    self.enter(Phase::Receiving, now);
                }
                self.input.extend_from_slice(bytes);
                self.is_fresh = true;
            }
            Phase::Over | Phase::Draining(_) | Phase::Idle | Phase::Receiving | Phase::Sending { .. } => self.give_up(),
        }
    }

    /// Answers the first request if all of it is here. At most one, for the other connections want their turn too.
    pub fn take_turn(&mut self, answer: &impl Fn(&Request) -> Response, now: Instant) {
        if self.wants() != Want::Turn {
            return;
        }
        self.is_fresh = false;
        match head::parse(&self.input) {
            Head::Unfinished => {}
            Head::Whole { request, length, is_last } => {
                self.input.drain(..length);
                self.send(&answer(&request), request.method, is_last, now);
            }
            Head::Refused(response) => self.send(&response, Method::Get, true, now),
        }
    }

    /// What is to be sent, and nothing if there is nothing.
    pub fn unsent(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Takes note that `count` bytes more are sent. Returns whether those were the last of this connection.
    pub fn advance(&mut self, count: usize, now: Instant) -> bool {
        self.sent += count;
        let Phase::Sending { is_last } = self.phase else { return false };
        if self.sent < self.output.len() {
            return false;
        }
        self.output = Vec::new();
        self.sent = 0;
        if is_last {
            self.enter(Phase::Draining(0), now);
        } else if self.input.is_empty() {
            self.input = Vec::new();
            self.enter(Phase::Idle, now);
        } else {
            self.is_fresh = true;
            self.enter(Phase::Receiving, now);
        }
        is_last
    }

    /// When [`Connection::expire`] will end the current phase.
    pub fn deadline(&self) -> Instant {
        self.since
            + match self.phase {
                Phase::Over => Duration::ZERO,
                Phase::Draining(_) => DRAINING,
                Phase::Idle => IDLE,
                Phase::Receiving => RECEIVING,
                Phase::Sending { .. } => SENDING,
            }
    }

    /// Ends what has taken too long. A client that did not finish its request is told so.
    pub fn expire(&mut self, now: Instant) {
        if now < self.deadline() {
            return;
        }
        match self.phase {
            Phase::Receiving => {
                let text =
                    format!("The request was not complete {} seconds after its first byte.\n", RECEIVING.as_secs());
                self.send(&Response::text(Status::RequestTimeout, text), Method::Get, true, now);
            }
            Phase::Over | Phase::Draining(_) | Phase::Idle | Phase::Sending { .. } => self.give_up(),
        }
    }

    /// Ends the connection and frees its memory.
    pub fn give_up(&mut self) {
        self.phase = Phase::Over;
        self.input = Vec::new();
        self.output = Vec::new();
        self.sent = 0;
    }

    /// Whether the socket is to be closed.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The smaller, the sooner it makes room for others: those that wait for nothing first, of these the oldest.
    pub fn importance(&self) -> impl Ord + use<> {
        let rank = match self.phase {
            Phase::Over => 0,
            Phase::Draining(_) => 1,
            Phase::Idle => 2,
            Phase::Receiving => 3,
            Phase::Sending { .. } => 4,
        };
        (rank, self.since)
    }

    fn send(&mut self, response: &Response, method: Method, is_last: bool, now: Instant) {
        if is_last {
            self.input = Vec::new();
            self.is_fresh = false;
        }
        self.output = response.encode(method, is_last);
        self.sent = 0;
        self.enter(Phase::Sending { is_last }, now);
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }
}

#[cfg(test)]
mod tests;
