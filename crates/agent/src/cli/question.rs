//! What `explain` is asked: a packet, by addresses and ports.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv6Addr};

use masq::cidr::Family;

use crate::foreign::condition::protocol_number;

/// The first packet of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Where it comes from.
    pub source: Endpoint,
    /// Where it goes; of the same family.
    pub destination: Endpoint,
    /// Number of the transport protocol; `None` where only addresses were given.
    pub protocol: Option<u8>,
    /// Whether it is said to be the node's own.
    pub is_host: bool,
}

/// An address, perhaps with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port, where one was given.
    pub port: Option<u16>,
}

/// The protocol of a port that is given without one.
const TCP: u8 = 6;

impl Question {
    /// Reads `SRC[:PORT]` and `DST[:PORT[/PROTOCOL]]`.
    ///
    /// # Errors
    /// There are not two words, or one is no such thing: the message is one line that says what to write.
    pub(super) fn parse(words: &[OsString], is_host: bool) -> Result<Question, String> {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let [source, destination] = words.as_slice() else {
            return Err(format!("explain takes two addresses, SRC and DST, but was given {}", words.len()));
        };
        let source = endpoint(source, source)?;
        let (destination, protocol) = destination_of(destination)?;
        let protocol = match protocol {
            None if source.port.is_some() || destination.port.is_some() => Some(TCP),
            given => given,
        };
        if Family::of(source.address) != Family::of(destination.address) {
            return Err(format!(
                "{} and {} are of different families; no packet goes from one to the other",
                source.address, destination.address
            ));
        }
        Ok(Question { source, destination, protocol, is_host })
    }
}

fn destination_of(word: &str) -> Result<(Endpoint, Option<u8>), String> {
    let Some((rest, protocol)) = word.split_once('/') else { return Ok((endpoint(word, word)?, None)) };
    let destination = endpoint(rest, word)?;
    if destination.port.is_none() {
        return Err(format!("{word:?} has no port before the slash; write one address, or DST:PORT/PROTOCOL"));
    }
    match protocol_number(protocol) {
        Some(number) => Ok((destination, Some(number))),
        None => Err(format!("{protocol:?} in {word:?} is no protocol; write tcp, udp, sctp or a number below 256")),
    }
}

/// `ADDRESS`, `IPV4:PORT` or `[IPV6]:PORT`; `word` is all that was written.
fn endpoint(text: &str, word: &str) -> Result<Endpoint, String> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (address, port) = match bracketed {
        Some((address, "")) => (address, None),
        Some((address, port)) => (address, Some(port.strip_prefix(':').ok_or_else(|| no_address(word))?)),
        None if text.matches(':').count() == 1 => {
            text.split_once(':').map_or((text, None), |(address, port)| (address, Some(port)))
        }
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| no_address(word))?;
    if let Some(plain) = mapped(address) {
        return Err(format!("{word:?} is an IPv4-mapped address, which never appears on the wire; write {plain}"));
    }
    let port = port.map(|port| port.parse::<u16>().map_err(|_| no_port(port, word))).transpose()?;
    Ok(Endpoint { address, port })
}

fn mapped(address: IpAddr) -> Option<std::net::Ipv4Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Ipv6Addr::to_ipv4_mapped(&address),
    }
}

fn no_address(word: &str) -> String {
    format!(
        "{word:?} is not an IP address; names are not looked up: write an address, like 192.0.2.1, 192.0.2.1:53/udp or [2001:db8::1]:443"
    )
}

fn no_port(port: &str, word: &str) -> String {
    format!("{port:?} in {word:?} is not a port; write a number from 0 to 65535")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str, destination: &str) -> Result<Question, String> {
        Question::parse(&[source.into(), destination.into()], false)
    }

    #[test]
    fn addresses_ports_and_protocols_are_read() {
        let question = parse("10.244.0.2", "8.8.8.8:53/udp").unwrap();
        assert_eq!((question.destination.port, question.protocol), (Some(53), Some(17)));
        let question = parse("10.244.0.2:51820", "8.8.8.8").unwrap();
        assert_eq!((question.source.port, question.destination.port, question.protocol), (Some(51820), None, Some(6)));
        let question = parse("fd00::2", "[2001:db8::1]:443/132").unwrap();
        assert_eq!((question.destination.port, question.protocol), (Some(443), Some(132)));
        assert_eq!(parse("fd00::2", "2001:db8::1").unwrap().protocol, None);
        assert_eq!(parse("[fd00::2]", "[2001:db8::1]").unwrap(), parse("fd00::2", "2001:db8::1").unwrap());
    }

    #[test]
    fn each_mistake_is_named_with_what_to_write() {
        for (source, destination, part) in [
            ("10.0.0.1", "example.org", "names are not looked up"),
            ("10.0.0.1", "example.org:443", "names are not looked up"),
            ("10.0.0.1", "10.0.0.0/8", "has no port before the slash"),
            ("10.0.0.1", "10.0.0.2:70000", "a number from 0 to 65535"),
            ("10.0.0.1", "10.0.0.2:53/dns", "is no protocol"),
            ("10.0.0.1", "fd00::1", "different families"),
            ("::ffff:10.0.0.1", "fd00::1", "write 10.0.0.1"),
            ("10.0.0.1", "[10.0.0.2]53", "is not an IP address"),
            ("", "", "is not an IP address"),
        ] {
            let message = parse(source, destination).unwrap_err();
            assert!(message.contains(part), "{source} {destination}: {message}");
        }
        let message = Question::parse(&["10.0.0.1".into()], false).unwrap_err();
        assert!(message.contains("was given 1"), "{message}");
    }
}
