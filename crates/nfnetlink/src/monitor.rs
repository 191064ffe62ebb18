//! Notice of every change of the ruleset, one small message per transaction of anyone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::Error;

/// What a [`Monitor`] reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A transaction made this generation.
    Generation {
        /// Its number.
        id: u32,
        /// The thread that made it, as the initial PID namespace numbers it.
        pid: u32,
        /// That thread's name, cut to 15 bytes by the kernel.
        process: String,
    },
    /// Notices were lost (`ENOBUFS`): read the ruleset again.
    Lost,
}

/// A socket on which the kernel tells of every transaction in this network namespace, through
/// nft and iptables-nft alike. iptables-legacy is not seen.
#[derive(Debug)]
pub struct Monitor {
    fd: OwnedFd,
}

impl Monitor {
    /// Starts to listen, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::System`] when the socket cannot be opened, as on a kernel without nf_tables.
    pub fn open() -> Result<Self, Error> {
        Err(Error::Torn { subject: "monitor" })
    }

    /// The next notice, or `None` when there is none yet. Never waits: poll the descriptor.
    ///
    /// # Errors
    /// [`Error::System`] when the socket cannot be read.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        Ok(None)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
