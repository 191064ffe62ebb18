//! The rtnetlink socket: a request out, its answers in, each parsed by whoever asked as just the kind that was asked for.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use netlink_packet_core::{
    DecodeError, Emitable, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, Parseable,
};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

/// The kernel answers a request before `sendto` returns; the timeout only turns a bug into an error.
const ANSWER_TIMEOUT_SECONDS: i64 = 5;

/// A dump of this many datagrams is no node's links, addresses or routes any more.
const MOST_DATAGRAMS: usize = 100_000;

/// The kernel makes messages of a dump no longer than this.
const BUFFER: usize = 32 * 1024;

/// A socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// Opens the socket in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn open() -> Result<Socket> {
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
            .context("cannot open an rtnetlink socket")?;
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::new(ANSWER_TIMEOUT_SECONDS, 0))
            .context("cannot set a timeout on the rtnetlink socket")?;
        Ok(Socket { fd, sequence: 0 })
    }

    /// Sends a message of `kind` (`RTM_...`) and collects the answers: all with `NLM_F_DUMP` among the flags, none with
    /// `NLM_F_ACK`, else one.
    ///
    /// # Errors
    /// The kernel refuses the request, which is an [`io::Error`] with its number, or cannot be asked.
    pub fn request(&mut self, kind: u16, flags: u16, body: &dyn Emitable) -> Result<Vec<Message>> {
        self.send(kind, flags, body)?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; BUFFER];
        for _ in 0..MOST_DATAGRAMS {
            let length =
                recv(self.fd.as_raw_fd(), &mut buffer, MsgFlags::empty()).context("no answer from rtnetlink")?;
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                let answer =
                    NetlinkMessage::<Message>::deserialize(rest).context("cannot read an answer of rtnetlink")?;
                let length = usize::try_from(answer.header.length)?.next_multiple_of(4).clamp(1, rest.len());
                rest = &rest[length..];
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => return Err(error.to_io().into()),
                    NetlinkPayload::Overrun(_) | NetlinkPayload::Noop | _ => bail!("rtnetlink answered with nothing"),
                }
                if flags & NLM_F_DUMP == 0 {
                    return Ok(answers);
                }
            }
        }
        bail!("the answer of rtnetlink does not end")
    }

    fn send(&mut self, kind: u16, flags: u16, body: &dyn Emitable) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = Message { kind, body: vec![0; body.buffer_len()] };
        body.emit(&mut message.body);
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        sendto(self.fd.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())
            .context("cannot send to rtnetlink")?;
        Ok(())
    }
}

/// The number that the kernel refused a request with, if that is what went wrong.
pub fn refusal(error: &anyhow::Error) -> Option<i32> {
    error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error)
}

/// A message not yet parsed. The library's enum of all messages would bring the parsers and printers of every kind there is into
/// the program, a tenth of its size, for the three kinds that it knows.
#[derive(Debug)]
pub struct Message {
    kind: u16,
    body: Vec<u8>,
}

impl Message {
    /// The message as one of `kind` (`RTM_...`).
    ///
    /// # Errors
    /// It is of another kind, or not well formed.
    pub fn parse<M: Parseable<[u8]>>(&self, kind: u16) -> Result<M> {
        M::parse(self.body(kind)?).context("cannot read an answer of rtnetlink")
    }

    /// What follows the netlink header in a message of `kind`.
    ///
    /// # Errors
    /// It is of another kind.
    pub fn body(&self, kind: u16) -> Result<&[u8]> {
        if self.kind != kind {
            bail!("rtnetlink answered with a message of type {} instead of {kind}", self.kind);
        }
        Ok(&self.body)
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Message, DecodeError> {
        Ok(Message { kind: header.message_type, body: payload.to_vec() })
    }
}
