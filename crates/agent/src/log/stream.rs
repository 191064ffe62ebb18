//! Writing lines without ever waiting long for their reader.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// As much as a pipe that is ready takes at once without blocking.
const PIECE: usize = 4096;
/// How long in milliseconds a reader may make us wait before lines are dropped.
const PATIENCE: u16 = 100;

/// An open file to which lines are written, unbuffered. A reader that has stopped reading costs one short wait and then lines,
/// never the writer's time: the node's rules matter more than its log.
#[derive(Debug)]
pub(super) struct Stream<F> {
    out: F,
    /// The reader let us wait in vain: do not wait for it again until it reads.
    stalled: bool,
    /// The last line was cut off.
    torn: bool,
    lost: u64,
}

impl<F: AsFd> Stream<F> {
    pub(super) fn new(out: F) -> Stream<F> {
        Stream { out, stalled: false, torn: false, lost: 0 }
    }

    /// Writes one line with its line end, or drops it where the other side is gone, full or not reading.
    ///
    /// `notice` makes the line that tells how many were dropped, as soon as there is somebody to tell.
    pub(super) fn write(&mut self, line: &[u8], notice: &dyn Fn(u64) -> String) {
        if self.torn && self.write_all(b"\n").is_ok() {
            self.torn = false;
        }
        if self.lost > 0 && self.is_ready(0) && self.write_all(notice(self.lost).as_bytes()).is_ok() {
            self.lost = 0;
        }
        match self.write_all(line) {
            Ok(()) => self.stalled = false,
            Err(written) => {
                self.torn |= written > 0;
                self.lost += 1;
            }
        }
    }

    /// The error is the number of bytes that were written all the same.
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut written = 0;
        while written < bytes.len() {
            let patience = if self.stalled { 0 } else { PATIENCE };
            if !self.is_ready(patience) {
                self.stalled = true;
                return Err(written);
            }
            let piece = &bytes[written..bytes.len().min(written + PIECE)];
            match nix::unistd::write(&self.out, piece) {
                Ok(0) => return Err(written),
                Ok(n) => written += n,
                Err(Errno::EINTR) => {}
                Err(_) => return Err(written),
            }
        }
        Ok(())
    }

    fn is_ready(&self, patience: u16) -> bool {
        let mut fds = [PollFd::new(self.out.as_fd(), PollFlags::POLLOUT)];
        // A signal ends the wait early; the signals that end the daemon must not be kept waiting by a log line.
        let ready = poll(&mut fds, PollTimeout::from(patience)).is_ok_and(|n| n > 0);
        ready && fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLOUT))
    }
}

impl Stream<std::fs::File> {
    /// The size of the file in bytes.
    pub(super) fn size(&self) -> io::Result<u64> {
        self.out.metadata().map(|metadata| metadata.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::{Duration, Instant};

    use super::*;

    fn notice(lost: u64) -> String {
        format!("lost {lost}\n")
    }

    #[test]
    fn a_reader_that_stopped_costs_one_wait_and_is_told_of_the_loss_when_it_is_back() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut stream = Stream::new(writer);
        let start = Instant::now();
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        for _ in 0..10_000 {
            stream.write(&line, &notice);
        }
        assert!(start.elapsed() < Duration::from_secs(5), "waited {:?}", start.elapsed());
        let lost = stream.lost;
        assert!(lost > 9_000, "{lost}");

        let mut buffer = vec![0; 1 << 20];
        let n = reader.read(&mut buffer).unwrap();
        stream.write(b"back\n", &notice);
        drop(stream);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let text = String::from_utf8_lossy(&buffer[..n]) + rest.as_str();
        assert!(text.ends_with(&format!("x\nlost {lost}\nback\n")), "{:?}", &text[text.len() - 60..]);
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut stream = Stream::new(writer);
        stream.write(b"a\n", &notice);
        stream.write(b"b\n", &notice);
        assert_eq!(stream.lost, 2);
    }

    #[test]
    fn a_line_longer_than_a_pipe_arrives_whole_while_somebody_reads() {
        let (mut reader, writer) = io::pipe().unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).map(|_| text)
        });
        let mut stream = Stream::new(writer);
        let line = b"y".repeat(1 << 20);
        stream.write(&line, &notice);
        drop(stream);
        assert_eq!(reading.join().unwrap().unwrap().len(), line.len());
    }
}
