//! A CIDR block that is aligned by construction, read by the rules of Go's `net.ParseCIDR`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address family, as the kernel and `iptables`/`ip6tables` keep them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both families, IPv4 first.
    pub const ALL: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// The family of an address. An IPv4-mapped IPv6 address is IPv6, as it is on the wire.
    pub fn of(addr: IpAddr) -> Family {
        match addr {
            IpAddr::V4(_) => Family::Ipv4,
            IpAddr::V6(_) => Family::Ipv6,
        }
    }

    /// The length of an address in bits: 32 or 128.
    pub fn bits(self) -> u8 {
        match self {
            Family::Ipv4 => 32,
            Family::Ipv6 => 128,
        }
    }

    /// The highest address as a number.
    pub fn max(self) -> u128 {
        u128::MAX >> (128 - u32::from(self.bits()))
    }

    /// The address with this number. Bits above the family's length are dropped.
    pub fn address(self, number: u128) -> IpAddr {
        match self {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::from_bits((number & u128::from(u32::MAX)) as u32)),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        })
    }
}

/// The address as a number: the value the partition and the kernel's interval sets order by.
pub fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// A CIDR block whose address is its network address: an unaligned one cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    network: IpAddr,
    prefix_len: u8,
}

impl Cidr {
    /// The block of `network` with the first `prefix_len` bits fixed.
    ///
    /// # Errors
    /// `prefix_len` is above 32 or 128, bits behind the prefix are set, or the block is made of IPv4-mapped IPv6 addresses.
    pub fn new(network: IpAddr, prefix_len: u8) -> Result<Cidr, CidrError> {
        let family = Family::of(network);
        if prefix_len > family.bits() {
            return Err(CidrError::PrefixTooLong { family, max: family.bits() });
        }
        let aligned = family.address(number(network) & !host_mask(family, prefix_len));
        let block = Cidr { network: aligned, prefix_len };
        // Before the alignment check: Go takes such a block for IPv4, and which bits count is then a different question.
        if block.is_ipv4_mapped(network) {
            return Err(CidrError::Ipv4Mapped);
        }
        if aligned != network {
            return Err(CidrError::Unaligned { address: network, network: block });
        }
        Ok(block)
    }

    fn is_ipv4_mapped(self, as_written: IpAddr) -> bool {
        matches!(as_written, IpAddr::V6(v6) if self.prefix_len >= 96 && v6.to_ipv4_mapped().is_some())
    }

    /// The family of the block.
    pub fn family(self) -> Family {
        Family::of(self.network)
    }

    /// The lowest address of the block.
    pub fn network(self) -> IpAddr {
        self.network
    }

    /// The prefix length in bits: 0 to 32 or 128.
    pub fn prefix_len(self) -> u8 {
        self.prefix_len
    }

    /// The lowest address as a number.
    pub fn first(self) -> u128 {
        number(self.network)
    }

    /// The highest address as a number.
    pub fn last(self) -> u128 {
        self.first() | host_mask(self.family(), self.prefix_len)
    }

    /// Whether the block holds the address; never true across families.
    pub fn contains(self, addr: IpAddr) -> bool {
        self.family() == Family::of(addr) && (self.first()..=self.last()).contains(&number(addr))
    }
}

/// The bits behind the prefix, all set.
fn host_mask(family: Family, prefix_len: u8) -> u128 {
    family.max().checked_shr(u32::from(prefix_len)).unwrap_or(0)
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Reads `ADDRESS/PREFIX` as Go's `net.ParseCIDR` does and then wants it aligned.
    ///
    /// Stricter than Go in two places where the reference passes on what the kernel reads otherwise: a prefix with a leading
    /// zero (iptables reads it as octal) and IPv4-mapped IPv6 blocks (`iptables` refuses them).
    fn from_str(text: &str) -> Result<Cidr, CidrError> {
        /// Far more than any block is written with; a list may repeat a longer text as often as it likes.
        const LONGEST: usize = 256;
        if text.len() > LONGEST {
            return Err(CidrError::NotACidr);
        }
        let (address, prefix) = text.split_once('/').ok_or_else(|| match text.parse::<IpAddr>() {
            Ok(addr) => CidrError::NoPrefix { hint: Family::of(addr).bits() },
            Err(_) => CidrError::NotACidr,
        })?;
        let address: IpAddr = address.parse().map_err(|_| CidrError::BadAddress)?;
        Cidr::new(address, parse_prefix(prefix, Family::of(address))?)
    }
}

fn parse_prefix(text: &str, family: Family) -> Result<u8, CidrError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CidrError::BadPrefix { max: family.bits() });
    }
    // Digits that do not fit are beyond every prefix, too.
    match text.parse::<u8>() {
        Ok(value) if value > family.bits() => Err(CidrError::PrefixTooLong { family, max: family.bits() }),
        Ok(value) if text.len() > 1 && text.starts_with('0') => Err(CidrError::LeadingZero { value }),
        Ok(value) => Ok(value),
        Err(_) => Err(CidrError::PrefixTooLong { family, max: family.bits() }),
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_len)
    }
}

/// Why a text is no CIDR block this agent takes. The message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}; {}", self.reason(), self.remedy())]
pub enum CidrError {
    /// Neither an address nor a slash.
    NotACidr,
    /// An address alone.
    NoPrefix {
        /// The prefix length that means this address alone.
        hint: u8,
    },
    /// The part before the slash is no address.
    BadAddress,
    /// The part behind the slash is no number.
    BadPrefix {
        /// The longest prefix of the family.
        max: u8,
    },
    /// The prefix is longer than an address.
    PrefixTooLong {
        /// The family of the address.
        family: Family,
        /// Its longest prefix.
        max: u8,
    },
    /// `/08`: Go reads 8, iptables reads octal.
    LeadingZero {
        /// The value read as decimal.
        value: u8,
    },
    /// Bits behind the prefix are set.
    Unaligned {
        /// As written.
        address: IpAddr,
        /// The block it lies in.
        network: Cidr,
    },
    /// `::ffff:10.0.0.0/104`.
    Ipv4Mapped,
}

impl CidrError {
    /// Why the text is not taken.
    pub fn reason(&self) -> String {
        match self {
            CidrError::NotACidr => "this is not a CIDR block".to_owned(),
            CidrError::NoPrefix { .. } => "the prefix length is missing".to_owned(),
            CidrError::BadAddress => "the part before the slash is not an IP address".to_owned(),
            CidrError::BadPrefix { .. } => "the prefix length is not a decimal number".to_owned(),
            CidrError::PrefixTooLong { family, max } => {
                format!("the prefix length is above {max}, the most for {family}")
            }
            CidrError::LeadingZero { .. } => {
                "the prefix length has a leading zero, which iptables reads as octal".to_owned()
            }
            CidrError::Unaligned { address, network } => {
                format!("{address} is not the first address of its block, {}", network.network())
            }
            CidrError::Ipv4Mapped => "IPv4-mapped IPv6 addresses never appear on the wire".to_owned(),
        }
    }

    /// What to write instead.
    pub fn remedy(&self) -> String {
        match self {
            CidrError::NotACidr => "write ADDRESS/PREFIX, like 10.0.0.0/8 or fd00::/8".to_owned(),
            CidrError::NoPrefix { hint } => format!("for this one address write /{hint} behind it"),
            CidrError::BadAddress => {
                "write four decimal octets without leading zeros, like 10.0.0.0, or an IPv6 address without brackets or zone"
                    .to_owned()
            }
            CidrError::BadPrefix { max } => format!("write 0 to {max} behind the slash, no netmask"),
            CidrError::PrefixTooLong { max, .. } => format!("write 0 to {max}"),
            CidrError::LeadingZero { value } => format!("write /{value}"),
            CidrError::Unaligned { network, .. } => format!("write {network}"),
            CidrError::Ipv4Mapped => "write the IPv4 block instead".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_counts_by_its_value_and_not_by_its_digits() {
        for (prefix, error) in [
            ("0008", CidrError::LeadingZero { value: 8 }),
            ("00", CidrError::LeadingZero { value: 0 }),
            ("33", CidrError::PrefixTooLong { family: Family::Ipv4, max: 32 }),
            ("000033", CidrError::PrefixTooLong { family: Family::Ipv4, max: 32 }),
            ("264", CidrError::PrefixTooLong { family: Family::Ipv4, max: 32 }),
            ("99999999999999999999", CidrError::PrefixTooLong { family: Family::Ipv4, max: 32 }),
            ("+8", CidrError::BadPrefix { max: 32 }),
        ] {
            assert_eq!(format!("10.0.0.0/{prefix}").parse::<Cidr>(), Err(error), "{prefix}");
        }
        assert_eq!("0.0.0.0/0".parse::<Cidr>().map(Cidr::prefix_len), Ok(0));
    }

    #[test]
    fn a_text_of_any_length_is_refused_without_reading_it_all() {
        assert_eq!("1".repeat(300).parse::<Cidr>(), Err(CidrError::NotACidr));
        assert_eq!(format!("{}/8", "1".repeat(300)).parse::<Cidr>(), Err(CidrError::NotACidr));
    }
}
