//! nf_tables over netlink: batches, sets, rules, dumps and the generation monitor, as typed values.
//!
//! The values of [`object`] and [`expr`] say what a ruleset holds, a [`Batch`] says how to change
//! one, a [`Socket`] commits batches and dumps what the kernel holds, and a [`Monitor`] tells when
//! anybody changed it. Text forms are those of nft(8); words are those of netfilter.

pub mod object;

pub mod expr;

mod extension;

mod batch;
mod syntax;

mod decode;
mod encode;
mod uapi;
mod wire;

mod conntrack;
mod error;
mod monitor;
mod netlink;
mod socket;

pub use batch::{Batch, Operation};
pub use conntrack::{Connection, Conntrack, Direction, Found, Statistics, TableSize, Tuple, TupleFilter};
pub use error::{Error, Refusal};
pub use expr::Expr;
pub use extension::{Extension, ExtensionKind};
pub use monitor::{Event, Monitor};
pub use object::{
    BaseChain, Chain, Counter, Elements, Flowtable, Generation, Interval, NamedObject, ObjectKind, ProtocolFamily,
    Rule, Set, SetFlags, Table, TableFlags, TableRef,
};
pub use socket::{Dump, Located, Socket};
