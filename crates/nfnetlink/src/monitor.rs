//! Notice of every change of the ruleset, one small message per transaction of anyone.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::SockFlag;
use socket2::{SockFilter, SockRef};

use crate::error::Error;
use crate::netlink::Netlink;
use crate::uapi;
use crate::wire::{Message, Messages, nftables};

/// What a [`Monitor`] reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A transaction made this generation.
    Generation {
        /// Its number.
        id: u32,
        /// The thread that made it, as the initial PID namespace numbers it; 0 if unknown.
        pid: u32,
        /// That thread's name, cut to 15 bytes by the kernel.
        process: String,
    },
    /// Notices were lost (`ENOBUFS`): read the ruleset again.
    Lost,
}

/// A socket on which the kernel tells of every transaction in this network namespace, through
/// nft and iptables-nft alike. Changes by iptables-legacy are not told.
#[derive(Debug)]
pub struct Monitor {
    netlink: Netlink,
}

impl Monitor {
    /// Starts to listen, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::System`] when the socket cannot be opened, as on a kernel without nf_tables.
    pub fn open() -> Result<Self, Error> {
        let group = 1 << (uapi::NFNLGRP_NFTABLES - 1);
        let netlink = Netlink::open(group, SockFlag::SOCK_NONBLOCK, pass_generations_only)?;
        Ok(Self { netlink })
    }

    /// The next notice, or `None` when there is none yet. Never waits: poll the descriptor.
    ///
    /// # Errors
    /// [`Error::System`] when the socket cannot be read.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        // Whatever else came through is skipped, but not for ever: the descriptor stays readable.
        for _ in 0..MOST_SKIPPED {
            match self.netlink.receive("tell of changes", false) {
                Ok(None) => return Ok(None),
                Err(Error::UnknownOutcome) => return Ok(Some(Event::Lost)),
                Err(error) => return Err(error),
                Ok(Some(datagram)) => {
                    if let Some(event) = Messages(datagram).find_map(generation) {
                        return Ok(Some(event));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// The filter passes nothing else, so more than a few would be somebody's flood.
const MOST_SKIPPED: usize = 100;

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

fn generation(message: Message<'_>) -> Option<Event> {
    if message.kind != nftables(uapi::NFT_MSG_NEWGEN) {
        return None;
    }
    let (_, _, attributes) = message.nfnetlink()?;
    Some(Event::Generation {
        id: attributes.u32(uapi::NFTA_GEN_ID)?,
        pid: attributes.u32(uapi::NFTA_GEN_PROC_PID).unwrap_or_default(),
        process: attributes.text(uapi::NFTA_GEN_PROC_NAME).unwrap_or_default(),
    })
}

/// Lets the kernel drop the notices of single objects before they are queued: 100,000 elements
/// would overflow the receive buffer.
fn pass_generations_only(fd: BorrowedFd<'_>) -> io::Result<()> {
    const LOAD_HALF_WORD: u16 = 0x28;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Offset of `nlmsg_type`.
    const TYPE: u32 = 4;
    // The filter machine reads big-endian, netlink headers are in host order.
    let wanted = u16::from_be_bytes(nftables(uapi::NFT_MSG_NEWGEN).to_ne_bytes());
    SockRef::from(&fd).attach_filter(&[
        SockFilter::new(LOAD_HALF_WORD, 0, 0, TYPE),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(wanted)),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ])
}
