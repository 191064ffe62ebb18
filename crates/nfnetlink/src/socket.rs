//! The netfilter socket: commits batches, and answers which generation the ruleset has.

use std::os::fd::{AsFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::SockFlag;

use crate::batch::Batch;
use crate::encode::{self, EncodedBatch};
use crate::error::{Error, Refusal, attribute_path};
use crate::netlink::Netlink;
use crate::object::Generation;
use crate::uapi;
use crate::wire::{Attributes, MESSAGE_HEADER, Message, Messages};

mod dump;
mod request;

pub use dump::{Dump, Located};

/// A netfilter socket, in the network namespace of the thread that opened it.
///
/// Closing one that changed the ruleset waits for an RCU grace period (4 to 16 ms), so keep it.
/// After [`Error::TimedOut`] or [`Error::Malformed`] open a new one: this one may still receive
/// what was asked before.
#[derive(Debug)]
pub struct Socket {
    netlink: Netlink,
    sequence: u32,
}

impl Socket {
    /// Opens a socket.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel has no netfilter netlink, or refuses.
    pub fn open() -> Result<Self, Error> {
        let netlink = Netlink::open(0, SockFlag::empty(), |_| Ok(()))?;
        Ok(Self { netlink, sequence: 0 })
    }

    /// Applies a batch as one transaction, provided that the ruleset is still of the generation
    /// `expected`, if that is given. Answers the generation after this commit, if `expected` was
    /// given: the next one, or `expected` itself when there was nothing to change.
    ///
    /// # Errors
    /// [`Error::StaleGeneration`], [`Error::Refused`], [`Error::Unencodable`] and
    /// [`Error::BatchTooLarge`]: nothing was applied. [`Error::UnknownOutcome`],
    /// [`Error::TimedOut`]: it may have been applied.
    pub fn commit(&mut self, batch: &Batch, expected: Option<Generation>) -> Result<Option<Generation>, Error> {
        if batch.is_empty() {
            return Ok(expected);
        }
        let (first, encoded) = self.encode(batch, expected)?;
        self.netlink.send(&encoded.bytes)?;
        self.outcome(batch, &encoded, first, expected)?;
        match expected {
            None => Ok(None),
            // A batch that changes nothing makes no generation, and the kernel does not say so.
            Some(before) if self.generation()? == before => Ok(Some(before)),
            Some(before) => Ok(Some(before.next())),
        }
    }

    /// Applies several batches as one transaction each, all of which change something, with as little as possible between
    /// them: whoever waits for his turn meanwhile may hold it for an RCU grace period (4 to 20 ms), as every
    /// program does that ends right after a change. Tells `made` the generation of each transaction as it is applied.
    ///
    /// # Errors
    /// As [`Socket::commit`]; what was told `made` is applied, the rest is not.
    pub fn commit_in_turn<'b>(
        &mut self,
        batches: impl IntoIterator<Item = &'b Batch>,
        expected: Generation,
        mut made: impl FnMut(Generation),
    ) -> Result<(), Error> {
        let mut generation = expected;
        let mut prepared = Vec::new();
        for batch in batches {
            prepared.push((batch, self.encode(batch, Some(generation))?, generation));
            generation = generation.next();
        }
        for (batch, (first, encoded), expected) in prepared {
            self.netlink.send(&encoded.bytes)?;
            self.outcome(batch, &encoded, first, Some(expected))?;
            made(expected.next());
        }
        Ok(())
    }

    fn encode(&mut self, batch: &Batch, expected: Option<Generation>) -> Result<(u32, EncodedBatch), Error> {
        let first = self.sequence.wrapping_add(1);
        let encoded = encode::batch(batch, first, expected.map(|generation| generation.0))?;
        let count = u32::try_from(encoded.messages.len()).unwrap_or(u32::MAX);
        self.sequence = first.wrapping_add(count).wrapping_add(1);
        Ok((first, encoded))
    }

    /// Runs `read`, which may make several dumps, until the ruleset did not change meanwhile, at
    /// most `attempts` times; answers what was read and the generation all of it belongs to.
    ///
    /// This sees more than a dump alone can: a change within the last message of a dump shows in
    /// none of its messages, and a transaction is still at work for a while after its generation
    /// has begun. Only a transaction that touched the same set and then failed goes unnoticed.
    ///
    /// # Errors
    /// [`Error::Torn`] when every attempt was overtaken by a change; else what `read` answers.
    pub fn snapshot<T>(
        &mut self,
        attempts: u32,
        read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, Generation), Error> {
        self.read_between(attempts, Self::settled, read)
    }

    /// As [`Socket::snapshot`], but does not wait for a transaction that is at work, which may take an RCU grace period. What is
    /// found then may be a mixture of before and after that transaction; the notice of it, for those who
    /// [listen](crate::Monitor), comes when it is over.
    ///
    /// # Errors
    /// As [`Socket::snapshot`].
    pub fn glance<T>(
        &mut self,
        attempts: u32,
        read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, Generation), Error> {
        self.read_between(attempts, |socket| socket.generation().map(Some), read)
    }

    fn read_between<T>(
        &mut self,
        attempts: u32,
        mut generation: impl FnMut(&mut Self) -> Result<Option<Generation>, Error>,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, Generation), Error> {
        for _ in 0..attempts {
            let Some(before) = generation(self)? else { continue };
            match read(self) {
                Err(Error::Torn { .. }) => {}
                Err(error) => return Err(error),
                Ok(found) if generation(self)? == Some(before) => return Ok((found, before)),
                Ok(_) => {}
            }
        }
        Err(Error::Torn { subject: "several parts of it" })
    }

    /// The generation, once no transaction is at work; `None` if one overtook us. A batch without
    /// operations waits for its turn like any other, and is refused if its generation is over.
    fn settled(&mut self) -> Result<Option<Generation>, Error> {
        let generation = self.generation()?;
        let first = self.sequence.wrapping_add(1);
        let encoded = encode::batch(&Batch::new(), first, Some(generation.0))?;
        self.sequence = first.wrapping_add(1);
        self.netlink.send(&encoded.bytes)?;
        match self.outcome(&Batch::new(), &encoded, first, Some(generation)) {
            Ok(()) => Ok(Some(generation)),
            Err(Error::StaleGeneration { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads what the kernel says of a batch. It has handled the batch by now, and every refused
    /// message is answered besides the acknowledged one, which is answered even then. A batch
    /// without operations asks for no acknowledgement.
    fn outcome(
        &mut self,
        batch: &Batch,
        encoded: &EncodedBatch,
        first: u32,
        expected: Option<Generation>,
    ) -> Result<(), Error> {
        let mut answers = 0_usize;
        let mut refused: Vec<Refused> = Vec::new();
        // One answer at most for each message, and one for the whole batch.
        let limit = encoded.messages.len() + 2;
        while answers < limit {
            let Some(datagram) = self.netlink.receive("change the ruleset", answers == 0 && !batch.is_empty())? else {
                break;
            };
            for message in Messages(datagram).filter(|message| message.kind == uapi::NLMSG_ERROR) {
                let position = usize::try_from(message.sequence.wrapping_sub(first));
                let Some(position) = position.ok().filter(|&it| it < limit) else { continue };
                answers += 1;
                refused.extend(Refused::read(position, message));
            }
        }
        match (refused.first(), expected) {
            (None, _) => Ok(()),
            (Some(Refused { position: 0, errno: libc::ERESTART, .. }), Some(Generation(expected))) => {
                Err(Error::StaleGeneration { expected })
            }
            (Some(cause), _) => Err(cause.explain(batch, encoded, refused.len() - 1)),
        }
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

/// The kernel's refusal of one message.
#[derive(Debug)]
struct Refused {
    /// Place of the message in its batch; the batch begin is 0.
    position: usize,
    errno: i32,
    /// Offset in the message of the attribute that is to blame.
    offset: Option<usize>,
    text: Option<String>,
}

impl Refused {
    /// Reads an error message, or `None` if it acknowledges.
    fn read(position: usize, message: Message<'_>) -> Option<Self> {
        let (&code, rest) = message.payload.split_first_chunk()?;
        let errno = i32::from_ne_bytes(code).checked_neg()?;
        if errno == 0 {
            return None;
        }
        let details = error_details(message, rest).unwrap_or_default();
        let offset = details.get(uapi::NLMSGERR_ATTR_OFFS).and_then(|it| it.try_into().ok());
        let offset = offset.and_then(|it| usize::try_from(u32::from_ne_bytes(it)).ok());
        Some(Self { position, errno, offset, text: details.text(uapi::NLMSGERR_ATTR_MSG) })
    }

    fn explain(&self, batch: &Batch, encoded: &EncodedBatch, others: usize) -> Error {
        let message = self.position.checked_sub(1).and_then(|index| encoded.messages.get(index));
        let bytes = message.and_then(|&(start, _)| encoded.bytes.get(start..));
        let operation = message.and_then(|&(_, index)| batch.operations().get(index));
        Error::Refused(Box::new(Refusal {
            operation: match operation {
                Some(operation) => format!("{operation:#}"),
                None => "take the batch".to_owned(),
            },
            attribute: self.attribute(bytes),
            message: self.text.clone(),
            errno: self.errno,
            others,
        }))
    }

    /// The attribute to blame, in a request that starts with `request`.
    fn attribute(&self, request: Option<&[u8]>) -> Option<String> {
        let message = Messages(request?).next()?;
        let len = MESSAGE_HEADER + message.payload.len();
        attribute_path(message.kind, request?.get(..len)?, self.offset?)
    }
}

/// The attributes behind an error. They come after the header of the request, and after all of
/// the request if the kernel repeats it.
fn error_details<'a>(message: Message<'_>, rest: &'a [u8]) -> Option<Attributes<'a>> {
    if message.flags & uapi::NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let header = rest.first_chunk::<MESSAGE_HEADER>()?;
    let &[l0, l1, l2, l3, ..] = header;
    let request = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
    let capped = message.flags & uapi::NLM_F_CAPPED != 0;
    let skip = if capped { MESSAGE_HEADER } else { request.checked_next_multiple_of(4)? };
    rest.get(skip..).map(Attributes)
}
