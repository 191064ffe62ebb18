//! Dumps: everything of one kind, and whether all of it belongs to one generation.

use nix::libc;

use super::request::Request;
use super::{Refused, Socket};
use crate::decode::{self, ElementReader};
use crate::error::Error;
use crate::object::{
    Chain, Counter, Elements, Flowtable, Interval, NamedObject, ObjectKind, ProtocolFamily, Rule, Set, Table, TableRef,
};
use crate::uapi;
use crate::wire::{Attributes, Message, Messages, Writer};

/// What a dump found. Its messages belong to one generation, else it is [`Error::Torn`]; to be
/// sure of what is in them, too, use [`Socket::snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump<T> {
    /// What was found; nothing when the table (or set) is missing.
    pub items: T,
    /// Low 16 bits of the generation it belongs to; `None` when nothing was found, for then the
    /// kernel does not say.
    pub generation_low16: Option<u16>,
}

/// Something that a dump over all tables found, and the table it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// Family of the table.
    pub family: ProtocolFamily,
    /// Name of the table.
    pub table: String,
    /// What was found.
    pub item: T,
}

impl<T> Located<T> {
    fn new(family: u8, table: String, item: T) -> Self {
        Self { family: ProtocolFamily::from_number(family), table, item }
    }
}

/// Dumps of the ruleset. Each fails with [`Error::Torn`] when the ruleset changed meanwhile, or as
/// any request; [`Socket::snapshot`] runs several that belong together.
impl Socket {
    /// All tables of a family ([`ProtocolFamily::Unspec`]: of all families).
    ///
    /// # Errors
    /// See above.
    pub fn tables(&mut self, family: ProtocolFamily) -> Result<Dump<Vec<Table>>, Error> {
        let request = Request { kind: uapi::NFT_MSG_GETTABLE, family, action: "dump tables" };
        self.collect(request, |_| {}, |family, found| decode::table(family, found).map(Some))
    }

    /// The chains of a table.
    ///
    /// # Errors
    /// See above.
    pub fn chains(&mut self, table: TableRef<'_>) -> Result<Dump<Vec<Chain>>, Error> {
        let request = of(table, uapi::NFT_MSG_GETCHAIN, "dump chains");
        self.collect_of(request, (table, uapi::NFTA_CHAIN_TABLE), decode::chain)
    }

    /// The chains of all tables of all families, in the order in which they were made, table by table.
    ///
    /// # Errors
    /// See above.
    pub fn all_chains(&mut self) -> Result<Dump<Vec<Located<Chain>>>, Error> {
        let request =
            Request { kind: uapi::NFT_MSG_GETCHAIN, family: ProtocolFamily::Unspec, action: "dump all chains" };
        self.collect(
            request,
            |_| {},
            |family, found| {
                let chain = decode::chain(found)?;
                Some(Some(Located::new(family, found.text(uapi::NFTA_CHAIN_TABLE)?, chain)))
            },
        )
    }

    /// The rules of all tables of all families for whose chain `wanted` is true, chain by chain and in order of evaluation. The
    /// kernel sends the others too, but they are not taken apart.
    ///
    /// # Errors
    /// See above.
    pub fn all_rules(
        &mut self,
        wanted: impl Fn(TableRef<'_>, &str) -> bool,
    ) -> Result<Dump<Vec<Located<Rule>>>, Error> {
        let request = Request { kind: uapi::NFT_MSG_GETRULE, family: ProtocolFamily::Unspec, action: "dump all rules" };
        self.collect(
            request,
            |_| {},
            |family, found| {
                let (table, chain) = (found.text(uapi::NFTA_RULE_TABLE)?, found.text(uapi::NFTA_RULE_CHAIN)?);
                if !wanted((ProtocolFamily::from_number(family), &table), &chain) {
                    return Some(None);
                }
                let rule = decode::rule(found)?;
                Some(Some(Located::new(family, table, rule)))
            },
        )
    }

    /// The rules of a table, chain by chain and in order of evaluation.
    ///
    /// # Errors
    /// See above.
    pub fn rules(&mut self, table: TableRef<'_>) -> Result<Dump<Vec<Rule>>, Error> {
        let request = of(table, uapi::NFT_MSG_GETRULE, "dump rules");
        self.collect_of(request, (table, uapi::NFTA_RULE_TABLE), decode::rule)
    }

    /// What `read` makes of each rule of one chain of a table, in order of evaluation. The rules are not kept: of a chain with
    /// thousands of them little may be wanted.
    ///
    /// # Errors
    /// See above.
    pub fn rules_of<T>(
        &mut self,
        table: TableRef<'_>,
        chain: &str,
        read: impl Fn(Rule) -> T,
    ) -> Result<Dump<Vec<T>>, Error> {
        let request = of(table, uapi::NFT_MSG_GETRULE, "dump rules of a chain");
        let body = |writer: &mut Writer| {
            writer.put_text(uapi::NFTA_RULE_TABLE, table.1);
            writer.put_text(uapi::NFTA_RULE_CHAIN, chain);
        };
        self.collect(request, body, |_, found| {
            let is_of_chain = found.text(uapi::NFTA_RULE_CHAIN)? == chain;
            if is_of_chain && belongs(found, uapi::NFTA_RULE_TABLE, table)? {
                decode::rule(found).map(|rule| Some(read(rule)))
            } else {
                Some(None)
            }
        })
    }

    /// The sets and maps of a table, anonymous ones included.
    ///
    /// # Errors
    /// See above.
    pub fn sets(&mut self, table: TableRef<'_>) -> Result<Dump<Vec<Set>>, Error> {
        let request = of(table, uapi::NFT_MSG_GETSET, "dump sets");
        self.collect_of(request, (table, uapi::NFTA_SET_TABLE), decode::set)
    }

    /// The elements of a set; of `set` the name, the flags and the key length are read.
    ///
    /// # Errors
    /// See above; [`Error::Malformed`] when the set has keys of another length, or of more than
    /// 16 bytes.
    pub fn elements(&mut self, table: TableRef<'_>, set: &Set) -> Result<Dump<Elements>, Error> {
        let (reader, generation_low16) = self.read_elements(table, set)?;
        Ok(Dump { items: reader.finish(), generation_low16 })
    }

    /// The elements of a [counting](Set::counting) set with the packets that found each.
    ///
    /// # Errors
    /// As [`Socket::elements`].
    pub fn counted_elements(&mut self, table: TableRef<'_>, set: &Set) -> Result<Dump<Vec<(Interval, u64)>>, Error> {
        let (reader, generation_low16) = self.read_elements(table, set)?;
        Ok(Dump { items: reader.finish_counted(), generation_low16 })
    }

    fn read_elements(&mut self, table: TableRef<'_>, set: &Set) -> Result<(ElementReader, Option<u16>), Error> {
        let request = of(table, uapi::NFT_MSG_GETSETELEM, "dump elements");
        let body = |writer: &mut Writer| {
            writer.put_text(uapi::NFTA_SET_ELEM_LIST_TABLE, table.1);
            writer.put_text(uapi::NFTA_SET_ELEM_LIST_SET, &set.name);
        };
        let mut reader = ElementReader::new(set);
        let generation_low16 = self.dump(request, body, |_, message| reader.read(message))?;
        Ok((reader, generation_low16))
    }

    /// The named counters of a table and their values.
    ///
    /// # Errors
    /// See above.
    pub fn counters(&mut self, table: TableRef<'_>) -> Result<Dump<Vec<Counter>>, Error> {
        let request = of(table, uapi::NFT_MSG_GETOBJ, "dump counters");
        let body = |writer: &mut Writer| {
            writer.put_text(uapi::NFTA_OBJ_TABLE, table.1);
            writer.put_u32(uapi::NFTA_OBJ_TYPE, ObjectKind::COUNTER.0);
        };
        self.collect(request, body, |_, found| {
            let counter = found.u32(uapi::NFTA_OBJ_TYPE)? == ObjectKind::COUNTER.0;
            if counter && belongs(found, uapi::NFTA_OBJ_TABLE, table)? {
                decode::counter(found).map(Some)
            } else {
                Some(None)
            }
        })
    }

    /// The named objects of a table, of every kind.
    ///
    /// # Errors
    /// See above.
    pub fn objects(&mut self, table: TableRef<'_>) -> Result<Dump<Vec<NamedObject>>, Error> {
        let request = of(table, uapi::NFT_MSG_GETOBJ, "dump named objects");
        self.collect_of(request, (table, uapi::NFTA_OBJ_TABLE), decode::named_object)
    }

    /// The flow tables of a table.
    ///
    /// # Errors
    /// See above.
    pub fn flowtables(&mut self, table: TableRef<'_>) -> Result<Dump<Vec<Flowtable>>, Error> {
        let request = of(table, uapi::NFT_MSG_GETFLOWTABLE, "dump flow tables");
        self.collect_of(request, (table, uapi::NFTA_FLOWTABLE_TABLE), decode::flowtable)
    }

    /// Everything that belongs to a table. The kernel is asked for nothing else, but kernels that
    /// do not filter send all of the family.
    fn collect_of<T>(
        &mut self,
        request: Request,
        (table, attribute): (TableRef<'_>, u16),
        read: impl Fn(Attributes<'_>) -> Option<T>,
    ) -> Result<Dump<Vec<T>>, Error> {
        let body = |writer: &mut Writer| writer.put_text(attribute, table.1);
        self.collect(
            request,
            body,
            |_, found| {
                if belongs(found, attribute, table)? { read(found).map(Some) } else { Some(None) }
            },
        )
    }

    /// Everything that `read` makes of the messages of a dump: `Some(None)` is left out, `None` is
    /// malformed.
    fn collect<T>(
        &mut self,
        request: Request,
        body: impl FnOnce(&mut Writer),
        read: impl Fn(u8, Attributes<'_>) -> Option<Option<T>>,
    ) -> Result<Dump<Vec<T>>, Error> {
        let mut items = Vec::new();
        let generation_low16 = self.dump(request, body, |family, message| {
            items.extend(read(family, message)?);
            Some(())
        })?;
        Ok(Dump { items, generation_low16 })
    }

    /// Runs a dump to its end, even when it is of no use any more: the socket can run but one.
    fn dump(
        &mut self,
        request: Request,
        body: impl FnOnce(&mut Writer),
        mut read: impl FnMut(u8, Attributes<'_>) -> Option<()>,
    ) -> Result<Option<u16>, Error> {
        let sequence = self.next_sequence();
        let sent = request.encode(sequence, uapi::NLM_F_DUMP, body)?;
        self.netlink.send(&sent)?;
        let mut state = Consistency::default();
        let mut malformed = false;
        for _ in 0..MOST_DATAGRAMS {
            let datagram = self.netlink.receive(request.action, true)?.unwrap_or_default();
            for message in Messages(datagram).filter(|it| it.sequence == sequence) {
                state.interrupted |= message.flags & uapi::NLM_F_DUMP_INTR != 0;
                match message.kind {
                    uapi::NLMSG_DONE | uapi::NLMSG_ERROR => {
                        end(request, message, &sent)?;
                        return state.verdict(request, malformed);
                    }
                    _ => {
                        let part = message.nfnetlink().and_then(|(family, generation, found)| {
                            state.part(generation);
                            read(family, found)
                        });
                        malformed |= part.is_none();
                    }
                }
            }
        }
        Err(Error::Malformed { action: request.action, reason: "it does not end" })
    }
}

/// A dump of this many datagrams, of up to 32 KiB each, is no ruleset any more.
const MOST_DATAGRAMS: usize = 1_000_000;

fn of(table: TableRef<'_>, kind: u16, action: &'static str) -> Request {
    Request { kind, family: table.0, action }
}

fn belongs(found: Attributes<'_>, attribute: u16, table: TableRef<'_>) -> Option<bool> {
    Some(found.text(attribute)? == table.1)
}

/// The end of a dump: an error, unless it says that the table or the set is missing.
fn end(request: Request, message: Message<'_>, sent: &[u8]) -> Result<(), Error> {
    match Refused::read(0, message) {
        None => Ok(()),
        Some(Refused { errno: libc::ENOENT, .. }) => Ok(()),
        refused => Err(request.refusal(refused, sent)),
    }
}

/// Whether the messages of a dump belong together. The flag alone does not tell: the kernel never
/// sets it in dumps of elements.
#[derive(Debug, Default)]
struct Consistency {
    interrupted: bool,
    generation: Option<u16>,
}

impl Consistency {
    fn part(&mut self, generation: u16) {
        let first = *self.generation.get_or_insert(generation);
        self.interrupted |= first != generation;
    }

    fn verdict(self, request: Request, malformed: bool) -> Result<Option<u16>, Error> {
        let Request { action, .. } = request;
        if self.interrupted {
            return Err(Error::Torn { subject: action.trim_start_matches("dump ") });
        }
        if malformed {
            return Err(Error::Malformed { action, reason: "an attribute is missing or odd" });
        }
        Ok(self.generation)
    }
}
