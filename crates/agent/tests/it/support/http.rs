//! A client of HTTP that hides nothing: bytes out, the answer's parts in.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use ip_masq_agent::lab::namespace::Namespace;

use super::agent::PATIENCE;

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The header fields, by their names in small letters.
    pub fields: BTreeMap<String, String>,
    pub body: String,
}

impl Client {
    pub fn connect(namespace: &Namespace, server: SocketAddr) -> Client {
        let stream = namespace.run(move || TcpStream::connect_timeout(&server, PATIENCE)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Asks for a path with further header fields, each ended by CRLF.
    pub fn get(&mut self, path: &str, fields: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: node\r\n{fields}\r\n"));
        self.answer()
    }

    /// Reads one answer to GET.
    pub fn answer(&mut self) -> Answer {
        let (status, fields) = self.head();
        let mut body = vec![0; fields["content-length"].parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        Answer { status, fields, body: String::from_utf8(body).unwrap() }
    }

    /// Reads the head of an answer.
    pub fn head(&mut self) -> (u16, BTreeMap<String, String>) {
        let line = self.line();
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
        let mut fields = BTreeMap::new();
        loop {
            let field = self.line();
            let Some((name, value)) = field.split_once(": ") else {
                assert_eq!(field, "", "no field");
                return (status.unwrap_or_else(|| panic!("no status: {line:?}")), fields);
            };
            assert!(fields.insert(name.to_lowercase(), value.to_owned()).is_none(), "{name} comes twice");
        }
    }

    /// Everything up to the end that the server makes.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        self.stream.read_to_string(&mut text).unwrap();
        text
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("no whole line: {line:?}")).to_owned()
    }
}
