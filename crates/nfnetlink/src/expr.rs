//! The expressions of rules, as the kernel's nf_tables virtual machine knows them.

use std::fmt;

/// A register of the virtual machine, in the kernel's numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u32);

impl Register {
    /// Holds the verdict.
    pub const VERDICT: Self = Self(0);
    /// First register of 16 bytes; nft's first choice.
    pub const R1: Self = Self(1);
    /// Second register of 16 bytes.
    pub const R2: Self = Self(2);
    /// Third register of 16 bytes.
    pub const R3: Self = Self(3);
    /// Fourth register of 16 bytes.
    pub const R4: Self = Self(4);
}

/// What [`Expr::Meta`] loads (`NFT_META_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MetaKey(pub u32);

impl MetaKey {
    /// Packet mark, 4 bytes in host order.
    pub const MARK: Self = Self(3);
    /// Index of the input interface, 4 bytes in host order.
    pub const IIF: Self = Self(4);
    /// Index of the output interface, 4 bytes in host order.
    pub const OIF: Self = Self(5);
    /// Name of the input interface, 16 bytes padded with zeros.
    pub const IIFNAME: Self = Self(6);
    /// Name of the output interface, 16 bytes padded with zeros.
    pub const OIFNAME: Self = Self(7);
    /// Network protocol family, 1 byte: see [`NFPROTO_IPV4`] and [`NFPROTO_IPV6`].
    pub const NFPROTO: Self = Self(15);
    /// Transport protocol number, 1 byte.
    pub const L4PROTO: Self = Self(16);
}

/// Value of [`MetaKey::NFPROTO`] for IPv4.
pub const NFPROTO_IPV4: u8 = 2;
/// Value of [`MetaKey::NFPROTO`] for IPv6.
pub const NFPROTO_IPV6: u8 = 10;

/// What [`Expr::Ct`] loads (`NFT_CT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CtKey(pub u32);

impl CtKey {
    /// State bits, 4 bytes in host order.
    pub const STATE: Self = Self(0);
    /// Status bits (`IPS_*`), 4 bytes in host order.
    pub const STATUS: Self = Self(2);
    /// Connection mark, 4 bytes in host order.
    pub const MARK: Self = Self(3);
}

/// Status bit of a connection whose source is translated.
pub const IPS_SRC_NAT: u32 = 0x10;
/// Status bit of a connection whose destination is translated.
pub const IPS_DST_NAT: u32 = 0x20;

/// Comparison of [`Expr::Cmp`], bytewise, most significant byte first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CmpOp {
    /// Equal.
    Eq,
    /// Not equal.
    Neq,
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
    /// Greater.
    Gt,
    /// Greater or equal.
    Gte,
}

/// Test of [`Expr::Range`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RangeOp {
    /// Inside.
    Eq,
    /// Outside.
    Neq,
}

/// Header that [`Expr::Payload`] reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadBase {
    /// Link layer header.
    Link,
    /// Network header.
    Network,
    /// Transport header.
    Transport,
}

/// Result of [`Expr::Fib`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FibResult {
    /// Index of the output interface.
    Oif,
    /// Name of the output interface.
    OifName,
    /// Type of the address, 4 bytes in host order: see [`RTN_LOCAL`] and its siblings.
    AddressType,
}

/// Address type of an address of this host.
pub const RTN_LOCAL: u32 = 2;
/// Address type of a broadcast address.
pub const RTN_BROADCAST: u32 = 3;
/// Address type of an anycast address.
pub const RTN_ANYCAST: u32 = 4;
/// Address type of a multicast address.
pub const RTN_MULTICAST: u32 = 5;

/// What [`Expr::Fib`] looks up (`NFTA_FIB_F_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FibFlags(pub u32);

impl FibFlags {
    /// The source address.
    pub const SADDR: Self = Self(1);
    /// The destination address.
    pub const DADDR: Self = Self(2);
    /// Respect the packet mark.
    pub const MARK: Self = Self(4);
    /// Restrict to the input interface.
    pub const IIF: Self = Self(8);
    /// Restrict to the output interface.
    pub const OIF: Self = Self(16);
}

/// How a translation picks ports and addresses (`NF_NAT_RANGE_*`). The bits that say whether
/// addresses (1) or ports (2) are given follow from the registers and are never kept here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NatFlags(pub u32);

impl NatFlags {
    /// Random ports, per destination.
    pub const RANDOM: Self = Self(0x4);
    /// The same address for every connection of a client.
    pub const PERSISTENT: Self = Self(0x8);
    /// Random ports, per connection.
    pub const FULLY_RANDOM: Self = Self(0x10);
}

/// Direction of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NatKind {
    /// Of the source.
    Snat,
    /// Of the destination.
    Dnat,
}

/// Sequence of [`Expr::Numgen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumgenKind {
    /// 0, 1, 2 ... modulus - 1, 0 ...
    Incremental,
    /// Uniformly random.
    Random,
}

/// Direction of [`Expr::ByteOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrderOp {
    /// Network to host.
    Ntoh,
    /// Host to network.
    Hton,
}

/// What becomes of the packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Ends this base chain; later base chains still see the packet.
    Accept,
    /// Drops the packet.
    Drop,
    /// Goes on with the next rule.
    Continue,
    /// Goes back to the calling chain, or to the policy.
    Return,
    /// Calls a chain.
    Jump(String),
    /// Continues in a chain and does not come back.
    Goto(String),
}

/// One expression of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expr {
    /// Loads a property of the packet.
    Meta {
        /// What to load.
        key: MetaKey,
        /// Where to.
        dreg: Register,
    },
    /// Sets a property of the packet.
    MetaSet {
        /// What to set.
        key: MetaKey,
        /// Where from.
        sreg: Register,
    },
    /// Loads a property of the connection.
    Ct {
        /// What to load.
        key: CtKey,
        /// Where to.
        dreg: Register,
        /// Original (0) or reply (1), for keys that differ by it.
        direction: Option<u8>,
    },
    /// Loads bytes of the packet.
    Payload {
        /// Where to.
        dreg: Register,
        /// Header to count from.
        base: PayloadBase,
        /// First byte.
        offset: u32,
        /// Number of bytes, at most 16 at a time (64 in concatenations).
        len: u32,
    },
    /// Asks the routing table.
    Fib {
        /// Where to.
        dreg: Register,
        /// What to load.
        result: FibResult,
        /// What to look up.
        flags: FibFlags,
    },
    /// Ends the rule unless a register compares as wanted.
    Cmp {
        /// What to compare.
        sreg: Register,
        /// How.
        op: CmpOp,
        /// What with.
        value: Vec<u8>,
    },
    /// Ends the rule unless a register is inside (or outside) a range.
    Range {
        /// What to test.
        sreg: Register,
        /// How.
        op: RangeOp,
        /// Lowest value.
        from: Vec<u8>,
        /// Highest value.
        to: Vec<u8>,
    },
    /// Ends the rule unless a register is in (or not in) a set.
    Lookup {
        /// The key.
        sreg: Register,
        /// Name of the set.
        set: String,
        /// Whether the key must not be in the set.
        invert: bool,
    },
    /// `dreg = (sreg & mask) ^ xor`.
    Bitwise {
        /// Where from.
        sreg: Register,
        /// Where to.
        dreg: Register,
        /// Number of bytes.
        len: u32,
        /// Mask of that length.
        mask: Vec<u8>,
        /// Exclusive-or of that length.
        xor: Vec<u8>,
    },
    /// Changes byte order.
    ByteOrder {
        /// Where from.
        sreg: Register,
        /// Where to.
        dreg: Register,
        /// Direction.
        op: ByteOrderOp,
        /// Number of bytes in all.
        len: u32,
        /// Number of bytes of each number.
        size: u32,
    },
    /// Makes a number from `offset` to `offset + modulus - 1`, in host order.
    Numgen {
        /// Where to.
        dreg: Register,
        /// How many different numbers.
        modulus: u32,
        /// Sequence.
        kind: NumgenKind,
        /// Added to the number.
        offset: u32,
    },
    /// Loads a constant.
    Immediate {
        /// Where to.
        dreg: Register,
        /// The constant, at most 16 bytes.
        value: Vec<u8>,
    },
    /// Counts, in the rule.
    Counter {
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Counts, in the counter of that name.
    CounterRef(String),
    /// Translates the source to an address of the output interface.
    Masquerade {
        /// How ports are picked.
        flags: NatFlags,
        /// Registers with the first and the last port, each 2 bytes, most significant first.
        ports: Option<(Register, Register)>,
    },
    /// Translates an address.
    Nat {
        /// Source or destination.
        kind: NatKind,
        /// IPv4 or IPv6.
        family: crate::ProtocolFamily,
        /// Registers with the first and the last address.
        addresses: Option<(Register, Register)>,
        /// Registers with the first and the last port.
        ports: Option<(Register, Register)>,
        /// How they are picked.
        flags: NatFlags,
    },
    /// Ends the rule with a verdict.
    Verdict(Verdict),
    /// An expression, or a form of one, that this crate does not take apart.
    Unknown {
        /// Name of the expression.
        name: String,
        /// Its attributes as the kernel sent them.
        attributes: Vec<u8>,
    },
}

/// Gives each enum of the kernel's numbers both directions from one table.
macro_rules! numbered {
    ($name:ident { $($variant:ident = $number:literal),+ $(,)? }) => {
        impl $name {
            pub(crate) fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)+
                }
            }

            pub(crate) fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

numbered!(CmpOp { Eq = 0, Neq = 1, Lt = 2, Lte = 3, Gt = 4, Gte = 5 });
numbered!(RangeOp { Eq = 0, Neq = 1 });
numbered!(PayloadBase { Link = 0, Network = 1, Transport = 2 });
numbered!(FibResult { Oif = 1, OifName = 2, AddressType = 3 });
numbered!(NatKind { Snat = 0, Dnat = 1 });
numbered!(NumgenKind { Incremental = 0, Random = 1 });
numbered!(ByteOrderOp { Ntoh = 0, Hton = 1 });

impl Expr {
    /// Equality without what counters hold.
    pub fn same_definition(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Counter { .. }, Self::Counter { .. }) => true,
            (mine, others) => mine == others,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("accept"),
            Self::Drop => f.write_str("drop"),
            Self::Continue => f.write_str("continue"),
            Self::Return => f.write_str("return"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}
