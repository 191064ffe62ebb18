//! What a ruleset is made of: tables, chains, rules, sets with their elements, and named objects.

use crate::expr::Expr;

/// Address family of a table, as in `nfgenmsg.nfgen_family`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ProtocolFamily {
    /// Every family; only meaningful in dumps.
    #[default]
    Unspec,
    /// IPv4 and IPv6 in one table.
    Inet,
    /// IPv4.
    Ipv4,
    /// ARP.
    Arp,
    /// Ingress and egress of devices.
    Netdev,
    /// Bridged frames.
    Bridge,
    /// IPv6.
    Ipv6,
    /// A family this crate has no name for; never one of the numbers above.
    Other(u8),
}

impl ProtocolFamily {
    /// The number the kernel uses.
    pub fn number(self) -> u8 {
        match self {
            Self::Unspec => 0,
            Self::Inet => 1,
            Self::Ipv4 => 2,
            Self::Arp => 3,
            Self::Netdev => 5,
            Self::Bridge => 7,
            Self::Ipv6 => 10,
            Self::Other(number) => number,
        }
    }

    /// The family with that number; every number has one.
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Unspec,
            1 => Self::Inet,
            2 => Self::Ipv4,
            3 => Self::Arp,
            5 => Self::Netdev,
            7 => Self::Bridge,
            10 => Self::Ipv6,
            other => Self::Other(other),
        }
    }
}

/// A table by family and name, the way every operation addresses one.
pub type TableRef<'a> = (ProtocolFamily, &'a str);

/// Flags of a table (`NFT_TABLE_F_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TableFlags(pub u32);

impl TableFlags {
    /// The chains of the table see no packets.
    pub const DORMANT: Self = Self(1);
    /// Only the socket that made the table may change it, and it goes with that socket (Linux 5.12).
    pub const OWNER: Self = Self(2);
    /// An owned table stays, without owner, when its socket closes (Linux 6.9).
    pub const PERSIST: Self = Self(4);

    /// Both flag sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Address family.
    pub family: ProtocolFamily,
    /// Name, at most 255 bytes.
    pub name: String,
    /// Flags.
    pub flags: TableFlags,
    /// User data as the kernel keeps it: TLVs, by convention.
    pub userdata: Vec<u8>,
    /// The kernel's number for this table; ignored when the table is sent.
    pub handle: Option<u64>,
    /// Netlink port of the owning socket; ignored when the table is sent.
    pub owner: Option<u32>,
}

impl Table {
    /// A table without flags.
    pub fn new(family: ProtocolFamily, name: impl Into<String>) -> Self {
        Self { family, name: name.into(), ..Self::default() }
    }

    /// The pair by which operations address this table.
    pub fn reference(&self) -> TableRef<'_> {
        (self.family, &self.name)
    }

    /// Equality without the handle and the owner, which the kernel chooses.
    pub fn same_definition(&self, other: &Self) -> bool {
        let bare = |table: &Self| Self { handle: None, owner: None, ..table.clone() };
        bare(self) == bare(other)
    }
}

/// Where a base chain is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseChain {
    /// Chain type: `filter`, `nat` or `route`.
    pub kind: String,
    /// Hook number; see [`BaseChain::POSTROUTING`] and its siblings.
    pub hook: u32,
    /// Priority among the chains of the hook; lower runs earlier.
    pub priority: i32,
    /// Verdict at the end of the chain: [`BaseChain::DROP`] or [`BaseChain::ACCEPT`]. `None` lets
    /// the kernel choose, which means accept.
    pub policy: Option<u32>,
}

impl BaseChain {
    /// `NF_INET_PRE_ROUTING`.
    pub const PREROUTING: u32 = 0;
    /// `NF_INET_LOCAL_IN`.
    pub const INPUT: u32 = 1;
    /// `NF_INET_FORWARD`.
    pub const FORWARD: u32 = 2;
    /// `NF_INET_LOCAL_OUT`.
    pub const OUTPUT: u32 = 3;
    /// `NF_INET_POST_ROUTING`.
    pub const POSTROUTING: u32 = 4;
    /// Policy drop (`NF_DROP`).
    pub const DROP: u32 = 0;
    /// Policy accept (`NF_ACCEPT`).
    pub const ACCEPT: u32 = 1;
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Name, at most 255 bytes.
    pub name: String,
    /// Where the chain is attached; `None` for a chain that is only jumped to.
    pub base: Option<BaseChain>,
    /// Flags (`NFT_CHAIN_*`) without `NFT_CHAIN_BASE`, which follows from `base`.
    pub flags: u32,
    /// User data as the kernel keeps it.
    pub userdata: Vec<u8>,
    /// The kernel's number for this chain; ignored when the chain is sent.
    pub handle: Option<u64>,
}

impl Chain {
    /// Equality without the handle; an absent policy equals accept.
    pub fn same_definition(&self, other: &Self) -> bool {
        let bare = |chain: &Self| {
            let mut chain = Self { handle: None, ..chain.clone() };
            if let Some(base) = &mut chain.base {
                base.policy = Some(base.policy.unwrap_or(BaseChain::ACCEPT));
            }
            chain
        };
        bare(self) == bare(other)
    }
}

/// Flags of a set (`NFT_SET_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SetFlags(pub u32);

impl SetFlags {
    /// Has no name of its own and lives as long as the rule that reads it.
    pub const ANONYMOUS: Self = Self(0x1);
    /// Cannot be changed once a rule reads it.
    pub const CONSTANT: Self = Self(0x2);
    /// Holds intervals.
    pub const INTERVAL: Self = Self(0x4);
    /// Maps keys to values.
    pub const MAP: Self = Self(0x8);
    /// Elements may expire.
    pub const TIMEOUT: Self = Self(0x10);
    /// Rules may add elements.
    pub const EVAL: Self = Self(0x20);
    /// Maps keys to named objects.
    pub const OBJECT: Self = Self(0x40);
    /// Keys are concatenations of fields.
    pub const CONCAT: Self = Self(0x80);
    /// Elements carry expressions.
    pub const EXPR: Self = Self(0x100);

    /// Both flag sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A set or a map, without its elements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Set {
    /// Name, at most 255 bytes.
    pub name: String,
    /// Flags.
    pub flags: SetFlags,
    /// nft's number for the type of the keys, such as [`Set::IPV4_ADDR`]. The kernel only keeps it.
    pub key_type: u32,
    /// Length of a key in bytes.
    pub key_len: u32,
    /// nft's number for the type of the values, in maps.
    pub data_type: Option<u32>,
    /// Length of a value in bytes, in maps.
    pub data_len: Option<u32>,
    /// Kind of the objects that an object map points to.
    pub object_kind: Option<ObjectKind>,
    /// Most elements the set may hold.
    pub size: Option<u32>,
    /// Lengths in bytes of the fields of a concatenation.
    pub field_lens: Vec<u32>,
    /// Optimise for memory (1) instead of speed (0).
    pub policy: Option<u32>,
    /// Default lifetime of an element in milliseconds.
    pub timeout: Option<u64>,
    /// Milliseconds between two collections of expired elements.
    pub gc_interval: Option<u32>,
    /// Expressions that every new element gets.
    pub expressions: Vec<Expr>,
    /// User data as the kernel keeps it.
    pub userdata: Vec<u8>,
    /// The kernel's number for this set; ignored when the set is sent.
    pub handle: Option<u64>,
}

impl Set {
    /// nft's key type `ipv4_addr`.
    pub const IPV4_ADDR: u32 = 7;
    /// nft's key type `ipv6_addr`.
    pub const IPV6_ADDR: u32 = 8;
    /// nft's key type `inet_proto`.
    pub const INET_PROTO: u32 = 12;
    /// nft's key type `inet_service`.
    pub const INET_SERVICE: u32 = 13;
    /// nft's key type `ifname`.
    pub const IFNAME: u32 = 41;

    /// An interval set of IPv4 addresses, the same that nft makes of
    /// `type ipv4_addr; flags interval;`.
    pub fn ipv4_intervals(name: impl Into<String>) -> Self {
        Self::new(name, SetFlags::INTERVAL, Self::IPV4_ADDR, 4)
    }

    /// An interval set of IPv6 addresses, the same that nft makes of
    /// `type ipv6_addr; flags interval;`.
    pub fn ipv6_intervals(name: impl Into<String>) -> Self {
        Self::new(name, SetFlags::INTERVAL, Self::IPV6_ADDR, 16)
    }

    /// A set of single transport protocol numbers, the same that nft makes of `type inet_proto;`.
    pub fn protocols(name: impl Into<String>) -> Self {
        Self::new(name, SetFlags::default(), Self::INET_PROTO, 1)
    }

    /// The same with a counter in every element, which counts the packets that find it; takes Linux 5.12.
    pub fn counting(mut self) -> Self {
        self.flags.0 |= SetFlags::EXPR.0;
        self.expressions = vec![Expr::Counter { packets: 0, bytes: 0 }];
        self
    }

    fn new(name: impl Into<String>, flags: SetFlags, key_type: u32, key_len: u32) -> Self {
        let userdata = crate::encode::set_userdata(key_type);
        Self { name: name.into(), flags, key_type, key_len, userdata, ..Self::default() }
    }

    /// Equality without the handle.
    pub fn same_definition(&self, other: &Self) -> bool {
        let bare = |set: &Self| Self { handle: None, ..set.clone() };
        bare(self) == bare(other)
    }
}

/// The numbers from `first` to `last`, both included; keys of a set as big-endian numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    /// Lowest number.
    pub first: u128,
    /// Highest number, not below `first`.
    pub last: u128,
}

impl Interval {
    /// The interval of one number.
    pub const fn single(number: u128) -> Self {
        Self { first: number, last: number }
    }
}

/// The elements of a set, as packets meet them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Elements {
    /// What the set matches, in rising order. In an interval set this is what a lookup finds: a
    /// start without an end reaches to the next start or to the top of the range.
    pub intervals: Vec<Interval>,
    /// Whether the set has the `*` element, which matches every key.
    pub catch_all: bool,
}

/// A rule of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Chain the rule is in.
    pub chain: String,
    /// The expressions, in order of evaluation.
    pub expressions: Vec<Expr>,
    /// Comment, at most 253 bytes (128 in nft).
    pub comment: Option<String>,
    /// User data besides the comment: TLVs, by convention.
    pub userdata: Vec<u8>,
    /// The kernel's number for this rule; ignored when the rule is added.
    pub handle: Option<u64>,
}

impl Rule {
    /// Equality without the handle and without what counters hold.
    pub fn same_definition(&self, other: &Self) -> bool {
        self.chain == other.chain
            && self.comment == other.comment
            && self.userdata == other.userdata
            && self.expressions.len() == other.expressions.len()
            && self.expressions.iter().zip(&other.expressions).all(|(mine, others)| mine.same_definition(others))
    }
}

/// A named counter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counter {
    /// Name, at most 255 bytes.
    pub name: String,
    /// Packets counted.
    pub packets: u64,
    /// Bytes counted.
    pub bytes: u64,
}

/// Kind of a named object (`NFT_OBJECT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKind(pub u32);

impl ObjectKind {
    /// Counter.
    pub const COUNTER: Self = Self(1);
    /// Quota.
    pub const QUOTA: Self = Self(2);
    /// Conntrack helper.
    pub const CT_HELPER: Self = Self(3);
    /// Limit.
    pub const LIMIT: Self = Self(4);
    /// Connection limit.
    pub const CONNLIMIT: Self = Self(5);
    /// Tunnel.
    pub const TUNNEL: Self = Self(6);
    /// Conntrack timeout.
    pub const CT_TIMEOUT: Self = Self(7);
    /// Secmark.
    pub const SECMARK: Self = Self(8);
    /// Conntrack expectation.
    pub const CT_EXPECT: Self = Self(9);
    /// SYN proxy.
    pub const SYNPROXY: Self = Self(10);
}

/// A named object of any kind, without what it holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedObject {
    /// Kind.
    pub kind: ObjectKind,
    /// Name.
    pub name: String,
}

/// A flow table, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flowtable {
    /// Name.
    pub name: String,
}

/// Number of the ruleset's state: it rises with every transaction of anyone, and is never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Generation(pub u32);

impl Generation {
    /// The generation that the next transaction makes.
    pub const fn next(self) -> Self {
        match self.0.wrapping_add(1) {
            0 => Self(1),
            number => Self(number),
        }
    }

    /// The part of the number that the messages of a dump carry.
    pub const fn low16(self) -> u16 {
        self.0 as u16
    }
}
