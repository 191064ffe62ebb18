//! Requests that ask for one thing.

use nix::libc;

use super::{Refused, Socket};
use crate::decode;
use crate::encode;
use crate::error::{Error, Refusal};
use crate::object::{Generation, ProtocolFamily, Set, Table, TableRef};
use crate::uapi;
use crate::wire::{Attributes, Header, Messages, Writer, nftables};

impl Socket {
    /// The current generation.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TimedOut`] or [`Error::Malformed`], as any request.
    pub fn generation(&mut self) -> Result<Generation, Error> {
        let request =
            Request { kind: uapi::NFT_MSG_GETGEN, family: ProtocolFamily::Unspec, action: "read the generation" };
        let number = self.ask(request, |_| {}, |_, reply| reply.u32(uapi::NFTA_GEN_ID))?;
        Ok(Generation(number))
    }

    /// The table of that name, if there is one.
    ///
    /// # Errors
    /// As any request.
    pub fn table(&mut self, (family, name): TableRef<'_>) -> Result<Option<Table>, Error> {
        let request = Request { kind: uapi::NFT_MSG_GETTABLE, family, action: "read a table" };
        let body = |writer: &mut Writer| writer.put_text(uapi::NFTA_TABLE_NAME, name);
        match self.ask(request, body, decode::table) {
            Err(Error::Refused(refusal)) if refusal.errno == libc::ENOENT => Ok(None),
            other => other.map(Some),
        }
    }

    /// Whether a lookup of `key` in a set finds an element, asked of the kernel.
    ///
    /// # Errors
    /// As any request; a missing table or set is [`Error::Refused`].
    pub fn get_element(&mut self, (family, table): TableRef<'_>, set: &Set, key: u128) -> Result<bool, Error> {
        let action = "look up an element";
        let request = Request { kind: uapi::NFT_MSG_GETSETELEM, family, action };
        let body = |writer: &mut Writer| {
            writer.put_text(uapi::NFTA_SET_ELEM_LIST_TABLE, table);
            writer.put_text(uapi::NFTA_SET_ELEM_LIST_SET, &set.name);
            writer.nest(uapi::NFTA_SET_ELEM_LIST_ELEMENTS, |writer| {
                writer.nest(uapi::NFTA_LIST_ELEM, |writer| {
                    encode::put_key(writer, set, uapi::NFTA_SET_ELEM_KEY, key);
                });
            });
        };
        match self.ask(request, body, |_, _| Some(())) {
            Ok(()) => Ok(true),
            // The kernel blames the element, if the table and the set are there.
            Err(Error::Refused(refusal))
                if refusal.errno == libc::ENOENT
                    && !matches!(
                        refusal.attribute.as_deref(),
                        Some("NFTA_SET_ELEM_LIST_TABLE" | "NFTA_SET_ELEM_LIST_SET")
                    ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a request that has one message as its answer, and reads that.
    fn ask<T>(
        &mut self,
        request: Request,
        body: impl FnOnce(&mut Writer),
        read: impl Fn(u8, Attributes<'_>) -> Option<T>,
    ) -> Result<T, Error> {
        let action = request.action;
        let sequence = self.next_sequence();
        let sent = request.encode(sequence, 0, body)?;
        self.netlink.send(&sent)?;
        // Late answers to earlier requests are skipped.
        for _ in 0..MOST_LATE_ANSWERS {
            let datagram = self.netlink.receive(action, true)?.unwrap_or_default();
            let Some(message) = Messages(datagram).find(|it| it.sequence == sequence) else {
                continue;
            };
            if message.kind == uapi::NLMSG_ERROR {
                let refused = Refused::read(0, message);
                return Err(request.refusal(refused, &sent));
            }
            let reply = message.nfnetlink().and_then(|(family, _, reply)| read(family, reply));
            return reply.ok_or(Error::Malformed { action, reason: "an attribute is missing" });
        }
        Err(Error::Malformed { action, reason: "only answers to other requests came" })
    }
}

/// More answers than this to earlier requests cannot wait in a receive buffer of default size.
const MOST_LATE_ANSWERS: usize = 10_000;

/// A request outside a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// Type of the message.
    pub(super) kind: u16,
    /// Family asked for.
    pub(super) family: ProtocolFamily,
    /// What it is for, for errors.
    pub(super) action: &'static str,
}

impl Request {
    /// The bytes of the request.
    pub(super) fn encode(self, sequence: u32, flags: u16, body: impl FnOnce(&mut Writer)) -> Result<Vec<u8>, Error> {
        let header = Header {
            kind: nftables(self.kind),
            flags: uapi::NLM_F_REQUEST | flags,
            sequence,
            family: self.family.number(),
            resource: 0,
        };
        let mut writer = Writer::default();
        writer.message(header, body);
        match writer.defect() {
            None => Ok(writer.into_bytes()),
            Some(reason) => Err(Error::Unencodable { operation: format!("the request to {}", self.action), reason }),
        }
    }

    /// The error for an answer that refuses, or that acknowledges where a value was asked for.
    pub(super) fn refusal(self, refused: Option<Refused>, sent: &[u8]) -> Error {
        match refused {
            None => Error::Malformed { action: self.action, reason: "it holds no value" },
            Some(refused) => Error::Refused(Box::new(Refusal {
                operation: self.action.to_owned(),
                attribute: refused.attribute(Some(sent)),
                message: refused.text,
                errno: refused.errno,
                others: 0,
            })),
        }
    }
}
