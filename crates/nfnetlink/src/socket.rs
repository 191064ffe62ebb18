//! The netfilter socket: commits batches, dumps tables.

use std::os::fd::OwnedFd;

use crate::batch::Batch;
use crate::error::Error;
use crate::object::{
    Chain, Counter, Elements, Flowtable, Generation, NamedObject, ProtocolFamily, Rule, Set, Table, TableRef,
};

/// What a dump found. All of it belongs to one generation; a dump that does not is
/// [`Error::Torn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump<T> {
    /// What was found; nothing when the table (or set) is missing.
    pub items: T,
    /// Low 16 bits of the generation it belongs to; `None` when nothing was found, for then the
    /// kernel does not say.
    pub generation_low16: Option<u16>,
}

/// A netfilter socket, in the network namespace of the thread that opened it.
///
/// Closing one that changed the ruleset waits for an RCU grace period (4 to 16 ms), so keep it.
#[derive(Debug)]
pub struct Socket {
    #[expect(dead_code)]
    fd: OwnedFd,
}

impl Socket {
    /// Opens a socket.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel has no netfilter netlink, or refuses.
    pub fn open() -> Result<Self, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The current generation.
    ///
    /// # Errors
    /// As any request: refused, timed out, or malformed.
    pub fn generation(&mut self) -> Result<Generation, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// Applies a batch as one transaction, provided that the ruleset is still of the generation
    /// `expected`, if that is given. Answers the generation that this commit made, if `expected`
    /// was given: `expected` itself when the kernel found that there was nothing to change.
    ///
    /// # Errors
    /// [`Error::StaleGeneration`], [`Error::Refused`], [`Error::Unencodable`] and
    /// [`Error::BatchTooLarge`]: nothing was applied. [`Error::UnknownOutcome`],
    /// [`Error::TimedOut`]: it may have been applied.
    pub fn commit(&mut self, _batch: &Batch, _expected: Option<Generation>) -> Result<Option<Generation>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// Runs `read`, which may make several dumps, until the ruleset did not change meanwhile, at
    /// most `attempts` times; answers what was read and the generation all of it belongs to.
    ///
    /// # Errors
    /// [`Error::Torn`] when every attempt was overtaken by a change; else what `read` answers.
    pub fn snapshot<T>(
        &mut self,
        _attempts: u32,
        _read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, Generation), Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The table of that name, if there is one.
    ///
    /// # Errors
    /// As any request.
    pub fn table(&mut self, _table: TableRef<'_>) -> Result<Option<Table>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// All tables of a family ([`ProtocolFamily::Unspec`]: of all families).
    ///
    /// # Errors
    /// [`Error::Torn`], or as any request; so do the dumps below.
    pub fn tables(&mut self, _family: ProtocolFamily) -> Result<Dump<Vec<Table>>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The chains of a table.
    pub fn chains(&mut self, _table: TableRef<'_>) -> Result<Dump<Vec<Chain>>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The rules of a table, chain by chain and in order of evaluation.
    pub fn rules(&mut self, _table: TableRef<'_>) -> Result<Dump<Vec<Rule>>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The sets and maps of a table, anonymous ones included.
    pub fn sets(&mut self, _table: TableRef<'_>) -> Result<Dump<Vec<Set>>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The elements of a set; of `set` the name, the flags and the key length are read.
    pub fn elements(&mut self, _table: TableRef<'_>, _set: &Set) -> Result<Dump<Elements>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// Whether a lookup of `key` in a set finds an element, asked of the kernel.
    ///
    /// # Errors
    /// A missing table or set is [`Error::Refused`].
    pub fn get_element(&mut self, _table: TableRef<'_>, _set: &Set, _key: u128) -> Result<bool, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The named counters of a table and their values.
    pub fn counters(&mut self, _table: TableRef<'_>) -> Result<Dump<Vec<Counter>>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The named objects of a table, of every kind.
    pub fn objects(&mut self, _table: TableRef<'_>) -> Result<Dump<Vec<NamedObject>>, Error> {
        Err(Error::Torn { subject: "socket" })
    }

    /// The flow tables of a table.
    pub fn flowtables(&mut self, _table: TableRef<'_>) -> Result<Dump<Vec<Flowtable>>, Error> {
        Err(Error::Torn { subject: "socket" })
    }
}
