//! The bare netlink socket: options, sending, and receiving with a deadline.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{ReceiveTimeout, SndBuf, SndBufForce};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, getsockopt, recvmsg, sendmsg,
    setsockopt, socket,
};
use nix::sys::time::TimeVal;
use nix::{setsockopt_impl, sockopt_impl};

use crate::error::Error;
use crate::uapi;

/// The kernel answers within microseconds; only a lost answer takes longer than this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The kernel never makes a message of a dump longer than this.
const BUFFER: usize = 32 * 1024;

/// What the kernel adds to the length of a message when it compares it with the send buffer.
const SEND_OVERHEAD: usize = 64;

sockopt_impl!(CapAck, SetOnly, libc::SOL_NETLINK, uapi::NETLINK_CAP_ACK, bool);
sockopt_impl!(ExtAck, SetOnly, libc::SOL_NETLINK, uapi::NETLINK_EXT_ACK, bool);

/// A netlink socket to netfilter.
#[derive(Debug)]
pub(crate) struct Netlink {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// The longest message that the send buffer takes.
    send_limit: usize,
}

impl Netlink {
    /// A socket that listens to the multicast groups of the mask. It is set up by `prepare` before
    /// it is bound, so that nothing unwanted is queued.
    pub(crate) fn open(
        groups: u32,
        flags: SockFlag,
        prepare: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Self, Error> {
        let failed = |action| move |errno: Errno| Error::System { action, errno: errno.into() };
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | flags,
            SockProtocol::NetlinkNetFilter,
        )
        .map_err(failed("open a netfilter netlink socket"))?;
        let set_up = "set up the netfilter netlink socket";
        setsockopt(&fd, CapAck, &true).map_err(failed(set_up))?;
        setsockopt(&fd, ExtAck, &true).map_err(failed(set_up))?;
        let seconds = i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX);
        setsockopt(&fd, ReceiveTimeout, &TimeVal::new(seconds, 0)).map_err(failed(set_up))?;
        prepare(fd.as_fd()).map_err(|errno| Error::System { action: set_up, errno })?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups)).map_err(failed("bind the netfilter netlink socket"))?;
        let send_limit = getsockopt(&fd, SndBuf).map_err(failed(set_up))? - SEND_OVERHEAD;
        Ok(Self { fd, buffer: vec![0; BUFFER], send_limit })
    }

    /// Sends messages in one piece, which the kernel handles before this returns.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.make_room(bytes.len())?;
        let kernel = NetlinkAddr::new(0, 0);
        loop {
            let fd = self.fd.as_raw_fd();
            match sendmsg(fd, &[IoSlice::new(bytes)], &[], MsgFlags::empty(), Some(&kernel)) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EMSGSIZE) => return Err(Error::BatchTooLarge { bytes: bytes.len() }),
                Err(Errno::ENOBUFS) => return Err(Error::UnknownOutcome),
                Err(errno) => {
                    let action = "send to the kernel";
                    return Err(Error::System { action, errno: errno.into() });
                }
            }
        }
    }

    /// Raises the send buffer if the message needs it, beyond net.core.wmem_max if we may.
    fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.send_limit {
            return Ok(());
        }
        let wanted = bytes + SEND_OVERHEAD;
        if setsockopt(&self.fd, SndBufForce, &wanted).is_err() {
            // Without the capability the kernel silently stops at its limit: what counts is what
            // is in force afterwards.
            let _ = setsockopt(&self.fd, SndBuf, &wanted);
        }
        let granted = getsockopt(&self.fd, SndBuf).unwrap_or_default();
        self.send_limit = self.send_limit.max(granted.saturating_sub(SEND_OVERHEAD));
        if bytes > self.send_limit {
            return Err(Error::BatchTooLarge { bytes });
        }
        Ok(())
    }

    /// The next datagram of the kernel; `None` when `wait` is false and there is none.
    pub(crate) fn receive(&mut self, action: &'static str, wait: bool) -> Result<Option<&[u8]>, Error> {
        let deadline = Instant::now() + PATIENCE;
        let flags = if wait { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
        while Instant::now() < deadline {
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let received = recvmsg::<NetlinkAddr>(self.fd.as_raw_fd(), &mut parts, None, flags);
            let (len, truncated, from_kernel) = match received {
                Ok(received) => (
                    received.bytes,
                    received.flags.contains(MsgFlags::MSG_TRUNC),
                    received.address.is_some_and(|sender| sender.pid() == 0),
                ),
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) if !wait => return Ok(None),
                Err(Errno::EAGAIN) => break,
                Err(Errno::ENOBUFS) => return Err(Error::UnknownOutcome),
                Err(errno) => {
                    let action = "receive from the kernel";
                    return Err(Error::System { action, errno: errno.into() });
                }
            };
            // Other processes can send to a netlink port, too.
            if !from_kernel {
                continue;
            }
            if truncated {
                return Err(Error::Malformed { action, reason: "a message is too long" });
            }
            return Ok(self.buffer.get(..len));
        }
        Err(Error::TimedOut { action, seconds: PATIENCE.as_secs() })
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
