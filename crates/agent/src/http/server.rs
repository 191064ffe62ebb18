//! The sockets of the server: one poll over all of them, and room for whoever comes next.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::connection::{Connection, Want};
use super::{Request, Response, head};

/// Most connections at a time; for one more, the least important goes. A node has a few Prometheus servers, a kubelet, and seldom
/// a person with a browser.
const MOST_CONNECTIONS: usize = 64;

/// Connections taken in one turn. Few enough that in a flood of connections a new one has several turns before it is the oldest.
const ACCEPTED_AT_ONCE: usize = 16;

/// How long no connection is taken after the kernel refused one, for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Most bytes of answers that wait to be fetched. Beyond it the clients that have taken longest lose theirs, but for the last one.
const MOST_UNSENT: usize = 4 << 20;

/// The server's sockets and what they are at.
#[derive(Debug)]
pub struct Server<A> {
    listener: TcpListener,
    answer: A,
    clients: Vec<Client>,
    /// No connection is taken before.
    accept_after: Option<Instant>,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    connection: Connection,
}

impl<A: Fn(&Request) -> Response> Server<A> {
    /// A server without clients.
    ///
    /// # Errors
    /// The listener cannot be made non-blocking.
    pub fn new(listener: TcpListener, answer: A) -> io::Result<Server<A>> {
        listener.set_nonblocking(true)?;
        Ok(Server { listener, answer, clients: Vec::new(), accept_after: None })
    }

    /// Serves for ever.
    pub fn run(mut self) -> ! {
        loop {
            self.turn();
        }
    }

    /// Waits until there is something to do, and does it: at most one request of each client.
    fn turn(&mut self) {
        let (has_connection, ready) = self.wait();
        for (index, ready) in ready.into_iter().enumerate() {
            // The answers to those before took their time.
            self.clients[index].attend(ready, &self.answer, Instant::now());
            self.bound_unsent();
        }
        self.clients.retain(|client| !client.connection.is_over());
        if has_connection {
            self.accept(Instant::now());
        }
    }

    /// Whether there is a connection to take, and of each client whether its socket is ready.
    fn wait(&mut self) -> (bool, Vec<bool>) {
        let now = Instant::now();
        self.accept_after = self.accept_after.filter(|&time| time > now);
        let mut sources: Vec<PollFd> = self.clients.iter().map(Client::source).collect();
        if self.accept_after.is_none() {
            sources.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        let deadlines = self.clients.iter().map(Client::deadline).chain(self.accept_after.map(Some));
        // An ordering in which None, something to do at once, comes first.
        let timeout =
            deadlines.min().map(|time| time.map_or(Duration::ZERO, |time| time.saturating_duration_since(now)));
        match ppoll(&mut sources, timeout.map(TimeSpec::from_duration), None) {
            // Events that nix has no name for are events.
            Ok(_) => {
                let mut ready: Vec<bool> = sources.iter().map(|source| source.any() != Some(false)).collect();
                let has_connection = ready.len() > self.clients.len() && ready.pop() == Some(true);
                (has_connection, ready)
            }
            Err(Errno::EINTR) => (false, vec![false; self.clients.len()]),
            Err(_) => {
                // The kernel is out of memory for a moment. Trying on at once would make it worse.
                thread::sleep(ACCEPT_PAUSE);
                (false, vec![false; self.clients.len()])
            }
        }
    }

    /// Takes connections, of which at least one waits.
    fn accept(&mut self, now: Instant) {
        let (mut has_accepted, mut has_made_room) = (false, false);
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.clients.len() == MOST_CONNECTIONS {
                        self.make_room();
                    }
                    // It fails for connections that are gone already.
                    self.clients.extend(Client::new(stream, now).ok());
                    has_accepted = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // Without a free descriptor the kernel does not look whether another connection waits. Poll will.
                Err(_) if has_accepted => return,
                Err(_) if !has_made_room && self.make_room() => has_made_room = true,
                Err(_) => {
                    // Poll would report the connection without end.
                    self.accept_after = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Closes the least important connection; `false` if there is none.
    fn make_room(&mut self) -> bool {
        let least = (0..self.clients.len()).min_by_key(|&index| self.clients[index].connection.importance());
        least.map(|index| self.clients.swap_remove(index)).is_some()
    }

    fn bound_unsent(&mut self) {
        let mut takers: Vec<&mut Connection> = self.clients.iter_mut().map(|client| &mut client.connection).collect();
        takers.retain(|taker| !taker.unsent().is_empty());
        let mut unsent: usize = takers.iter().map(|taker| taker.unsent().len()).sum();
        if unsent <= MOST_UNSENT {
            return;
        }
        takers.sort_by_key(|taker| taker.importance());
        let newest = takers.len() - 1;
        for taker in &mut takers[..newest] {
            if unsent > MOST_UNSENT {
                unsent -= taker.unsent().len();
                taker.give_up();
            }
        }
    }
}

impl Client {
    fn new(stream: TcpStream, now: Instant) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        // The end of an answer does not wait until the client has acknowledged its beginning.
        stream.set_nodelay(true)?;
        Ok(Client { stream, connection: Connection::new(now) })
    }

    fn source(&self) -> PollFd<'_> {
        let events = match self.connection.wants() {
            Want::Input => PollFlags::POLLIN,
            Want::Output => PollFlags::POLLOUT,
            Want::Turn => PollFlags::empty(),
        };
        PollFd::new(self.stream.as_fd(), events)
    }

    /// When something has to be done although nothing comes in; `None` is at once.
    fn deadline(&self) -> Option<Instant> {
        match self.connection.wants() {
            Want::Input | Want::Output => Some(self.connection.deadline()),
            Want::Turn => None,
        }
    }

    /// Does what can be done without waiting.
    fn attend(&mut self, ready: bool, answer: &impl Fn(&Request) -> Response, now: Instant) {
        let done = match self.connection.wants() {
            Want::Input if ready => self.read(now),
            Want::Output if ready => self.write(now),
            Want::Input | Want::Output | Want::Turn => Ok(()),
        };
        if done.is_err() {
            // Most of all: the client has gone.
            self.connection.give_up();
        }
        if self.connection.wants() == Want::Turn {
            self.connection.take_turn(answer, now);
            if self.write(now).is_err() {
                self.connection.give_up();
            }
        }
        self.connection.expire(now);
    }

    fn read(&mut self, now: Instant) -> io::Result<()> {
        let mut chunk = [0; head::MOST_BYTES];
        match self.stream.read(&mut chunk[..self.connection.room()]) {
            Ok(count) => self.connection.receive(&chunk[..count], now),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends what the kernel takes; the rest goes when poll says so.
    fn write(&mut self, now: Instant) -> io::Result<()> {
        if self.connection.unsent().is_empty() {
            return Ok(());
        }
        match self.stream.write(self.connection.unsent()) {
            Ok(count) if self.connection.advance(count, now) => self.stream.shutdown(Shutdown::Write),
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
