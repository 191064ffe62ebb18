//! Random CIDR lists and destinations that meet each other often, from a fixed seed, so that a failure comes again.

use std::fmt::Write;
use std::net::IpAddr;

use ip_masq_agent::lab::can_probe;
use masq::cidr::{Cidr, Family, number};

/// A generator of numbers that are as good as random (SplitMix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn address_number(&mut self, family: Family) -> u128 {
        ((u128::from(self.next()) << 64) | u128::from(self.next())) & family.max()
    }

    /// Up to `most` CIDRs of a family. A third lie near an earlier one, so that equal, nested and neighbouring ones are common.
    pub fn cidrs(&mut self, family: Family, most: u64) -> Vec<Cidr> {
        let mut cidrs: Vec<Cidr> = Vec::new();
        for _ in 0..self.below(most + 1) {
            let base = match cidrs.last() {
                Some(earlier) if self.below(3) == 0 => match self.below(3) {
                    0 => earlier.first(),
                    1 => earlier.last().saturating_add(1).min(family.max()),
                    _ => earlier.first() | (self.address_number(family) & (earlier.last() - earlier.first())),
                },
                Some(_) | None => self.address_number(family),
            };
            // Short prefixes cover nearly everything, so they are rare.
            let shortest = if self.below(20) == 0 { 0 } else { 4 };
            let bits = family.bits();
            let prefix_len = shortest + u8::try_from(self.below(u64::from(bits - shortest) + 1)).unwrap();
            let mask = family.max().checked_shr(u32::from(prefix_len)).unwrap_or(0);
            // What is no valid block, like an IPv4-mapped one, is left out.
            cidrs.extend(Cidr::new(family.address(base & !mask), prefix_len));
        }
        cidrs
    }

    /// A destination that can be probed: half of them at the edge of one of the CIDRs, a quarter inside one, the rest anywhere.
    pub fn destination(&mut self, family: Family, cidrs: &[Cidr]) -> IpAddr {
        // Most addresses can be probed, so this ends after a few rounds.
        loop {
            let anywhere = self.address_number(family);
            let chosen = match cidrs.len() {
                0 => anywhere,
                count => {
                    let cidr = cidrs[usize::try_from(self.below(count as u64)).unwrap()];
                    match self.below(8) {
                        0 => cidr.first(),
                        1 => cidr.last(),
                        2 => cidr.first().saturating_sub(1),
                        3 => cidr.last().saturating_add(1).min(family.max()),
                        4 | 5 => cidr.first() | (anywhere & (cidr.last() - cidr.first())),
                        _ => anywhere,
                    }
                }
            };
            let destination = family.address(chosen);
            if can_probe(destination) {
                return destination;
            }
        }
    }
}

/// A config file that lists these CIDRs as exempt.
pub fn config_of(cidrs: &[Cidr]) -> String {
    let mut text = String::from("cidrLimit: 100000\nnonMasqueradeCIDRs:\n");
    for cidr in cidrs {
        writeln!(text, "- {cidr}").unwrap();
    }
    if cidrs.is_empty() {
        text.insert_str(text.len() - 1, " []");
    }
    text
}

/// A thousand /24s, every second one from 172.16.0.0 on, so that none can be joined with another.
pub fn thousand_cidrs() -> Vec<Cidr> {
    every_second(0)
}

/// The thousand /24s between those.
pub fn thousand_gaps() -> Vec<Cidr> {
    every_second(1)
}

fn every_second(offset: u128) -> Vec<Cidr> {
    let base = number("172.16.0.0".parse().unwrap());
    (0..1000).map(|place| Cidr::new(Family::Ipv4.address(base + ((2 * place + offset) << 8)), 24).unwrap()).collect()
}
