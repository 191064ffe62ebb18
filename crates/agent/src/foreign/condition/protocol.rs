//! Names of transport protocols.

/// The name of a protocol; its number where it is none of the common ones.
pub fn protocol_name(number: u8) -> String {
    let name = PROTOCOLS.iter().find(|(_, known)| *known == number).map(|(name, _)| *name);
    name.map_or_else(|| number.to_string(), str::to_owned)
}

/// The number of a protocol, given as a name or a number.
pub fn protocol_number(word: &str) -> Option<u8> {
    let number = PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
    number.or_else(|| word.parse().ok())
}

const PROTOCOLS: [(&str, u8); 10] = [
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("sctp", 132),
    ("udplite", 136),
];
