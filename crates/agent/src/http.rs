//! An HTTP/1.1 server for metrics and health: one thread, few connections, and no client that can keep the others waiting.

mod connection;
mod head;
mod server;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;

use self::server::Server;

/// What a client asks for. Only requests without a body get this far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What to do with the path.
    pub method: Method,
    /// The path, which begins with a slash, as the client wrote it: nothing is decoded.
    pub path: String,
    /// What stands behind the first question mark; empty without one.
    pub query: String,
    /// All Accept fields, joined by commas; empty without any.
    pub accept: String,
}

/// The methods that are answered. They differ only in that the answer to HEAD is sent without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// How it went.
    pub status: Status,
    /// The value of the field Content-Type.
    pub content_type: &'static str,
    /// What was asked for.
    pub body: Vec<u8>,
}

/// The status codes in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 200
    Ok,
    /// 400
    BadRequest,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 408
    RequestTimeout,
    /// 413
    ContentTooLarge,
    /// 414
    UriTooLong,
    /// 431
    HeaderFieldsTooLarge,
    /// 500
    InternalServerError,
    /// 503
    ServiceUnavailable,
    /// 505
    VersionNotSupported,
}

/// Serves whatever connects to `listener`, for as long as the process lives.
///
/// `answer` is called for one request at a time; while it runs, all clients wait.
///
/// # Errors
/// The listener cannot be made non-blocking.
pub fn serve(listener: TcpListener, answer: impl Fn(&Request) -> Response) -> io::Result<Infallible> {
    Server::new(listener, answer)?.run()
}

impl Request {
    /// The value of a parameter of the query, as the client wrote it: of several the first, empty if it has none.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

impl Response {
    /// Plain text for people.
    pub fn text(status: Status, body: impl Into<Vec<u8>>) -> Response {
        Response { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    /// The answer to a path that is none of `endpoints`: it names them.
    pub fn not_found(endpoints: &[&str]) -> Response {
        Response::text(
            Status::NotFound,
            format!("There is nothing here. Try one of these:\n{}\n", endpoints.join("\n")),
        )
    }

    /// The answer as it goes over the wire. `is_last` tells the client that the connection ends with it.
    fn encode(&self, method: Method, is_last: bool) -> Vec<u8> {
        let (code, reason) = self.status.line();
        let mut text = format!("HTTP/1.1 {code} {reason}\r\nContent-Type: {}\r\n", self.content_type);
        text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        // What is told is true for the moment, and never a document that a browser should guess about.
        text.push_str("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
        match self.status {
            Status::MethodNotAllowed => text.push_str("Allow: GET, HEAD\r\n"),
            Status::Ok
            | Status::BadRequest
            | Status::NotFound
            | Status::RequestTimeout
            | Status::ContentTooLarge
            | Status::UriTooLong
            | Status::HeaderFieldsTooLarge
            | Status::InternalServerError
            | Status::ServiceUnavailable
            | Status::VersionNotSupported => {}
        }
        text.push_str(if is_last { "Connection: close\r\n\r\n" } else { "\r\n" });
        let mut bytes = text.into_bytes();
        match method {
            Method::Get => bytes.extend_from_slice(&self.body),
            Method::Head => {}
        }
        bytes
    }
}

impl Status {
    fn line(self) -> (u16, &'static str) {
        match self {
            Status::Ok => (200, "OK"),
            Status::BadRequest => (400, "Bad Request"),
            Status::NotFound => (404, "Not Found"),
            Status::MethodNotAllowed => (405, "Method Not Allowed"),
            Status::RequestTimeout => (408, "Request Timeout"),
            Status::ContentTooLarge => (413, "Content Too Large"),
            Status::UriTooLong => (414, "URI Too Long"),
            Status::HeaderFieldsTooLarge => (431, "Request Header Fields Too Large"),
            Status::InternalServerError => (500, "Internal Server Error"),
            Status::ServiceUnavailable => (503, "Service Unavailable"),
            Status::VersionNotSupported => (505, "HTTP Version Not Supported"),
        }
    }
}
