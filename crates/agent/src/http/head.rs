//! The head of a request: bytes in; a request, the reason to refuse it, or nothing yet out.

use std::str;

use super::{Method, Request, Response, Status};

/// Longest request line and header fields together. Prometheus and the kubelet send less than 500 bytes, browsers with all their
/// cookies seldom more than 4 KiB.
pub const MOST_BYTES: usize = 8 << 10;

/// Most header fields. Browsers behind several proxies send about 30.
const MOST_FIELDS: usize = 64;

/// What the bytes received so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub enum Head {
    /// The beginning of a request.
    Unfinished,
    /// A request.
    Whole {
        /// What is asked for.
        request: Request,
        /// How many bytes it took; the next request begins behind them.
        length: usize,
        /// The client wants no other answer on this connection.
        is_last: bool,
    },
    /// None that can be answered. Where the next one would begin is not known, so the connection ends with this answer.
    Refused(Response),
}

/// Reads the first request of `received`, which holds at most [`MOST_BYTES`].
pub fn parse(received: &[u8]) -> Head {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(received) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if received.len() < MOST_BYTES => return Head::Unfinished,
        Ok(httparse::Status::Partial) => return Head::Refused(too_long(head.version.is_some())),
        Err(error) => return Head::Refused(malformed(error)),
    };
    match understand(&head) {
        Ok((request, is_last)) => Head::Whole { request, length, is_last },
        Err(response) => Head::Refused(response),
    }
}

fn too_long(line_is_whole: bool) -> Response {
    let (status, what) = if line_is_whole {
        (Status::HeaderFieldsTooLarge, "request line and header fields take")
    } else {
        (Status::UriTooLong, "request line takes")
    };
    Response::text(status, format!("The {what} more than {MOST_BYTES} bytes.\n"))
}

fn malformed(error: httparse::Error) -> Response {
    match error {
        httparse::Error::TooManyHeaders => {
            Response::text(Status::HeaderFieldsTooLarge, format!("There are more than {MOST_FIELDS} header fields.\n"))
        }
        httparse::Error::Version => {
            Response::text(Status::VersionNotSupported, "Only HTTP/1.1 and HTTP/1.0 are spoken here.\n")
        }
        httparse::Error::HeaderName
        | httparse::Error::HeaderValue
        | httparse::Error::NewLine
        | httparse::Error::Status
        | httparse::Error::Token => bad(&format!("This is no HTTP request: {error}.")),
    }
}

/// The request that a well-formed head makes, and whether it is the connection's last.
fn understand(head: &httparse::Request) -> Result<(Request, bool), Response> {
    let fields = Fields::collect(head.headers)?;
    let is_old = head.version == Some(0);
    if !is_old && fields.hosts != 1 {
        return Err(bad("A request has exactly one field Host."));
    }
    let Some((path, query)) = target(head.path.unwrap_or_default()) else {
        return Err(bad("The request target is neither a path that begins with / nor a URL that begins with http://."));
    };
    let method = match head.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => return Err(Response::text(Status::MethodNotAllowed, "Only GET and HEAD are answered here.\n")),
    };
    if fields.has_body {
        return Err(Response::text(Status::ContentTooLarge, "A request has no body here.\n"));
    }
    // A client of HTTP/1.0 that wants to go on would have to be told so; that it has to connect anew it knows.
    Ok((Request { method, path, query, accept: fields.accept }, is_old || fields.closes))
}

/// The path and the query of a target, which proxies write as a whole URL.
fn target(target: &str) -> Option<(String, String)> {
    const SCHEME: &str = "http://";
    let local = if target.starts_with('/') {
        target
    } else {
        let scheme = target.get(..SCHEME.len())?;
        let rest = &target[SCHEME.len()..];
        let host = rest.find(['/', '?']).unwrap_or(rest.len());
        (scheme.eq_ignore_ascii_case(SCHEME) && host > 0).then(|| &rest[host..])?
    };
    let (path, query) = local.split_once('?').unwrap_or((local, ""));
    Some((if path.is_empty() { "/" } else { path }.to_owned(), query.to_owned()))
}

/// What the header fields say that matters here.
#[derive(Default)]
struct Fields {
    hosts: usize,
    accept: String,
    closes: bool,
    has_body: bool,
}

impl Fields {
    fn collect(headers: &[httparse::Header]) -> Result<Fields, Response> {
        let mut fields = Fields::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = String::from_utf8_lossy(header.value);
            if is("host") {
                fields.hosts += 1;
            } else if is("accept") {
                let separator = if fields.accept.is_empty() { "" } else { "," };
                fields.accept.push_str(separator);
                fields.accept.push_str(&value);
            } else if is("connection") {
                fields.closes |= value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
            } else if is("content-length") {
                if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(bad("The value of Content-Length is no number."));
                }
                fields.has_body |= value.bytes().any(|digit| digit != b'0');
            } else if is("transfer-encoding") {
                fields.has_body = true;
            }
        }
        Ok(fields)
    }
}

fn bad(reason: &str) -> Response {
    Response::text(Status::BadRequest, format!("{reason}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Status {
        match parse(text.as_bytes()) {
            Head::Refused(response) => response.status,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn whole(text: &str) -> (Request, usize, bool) {
        match parse(text.as_bytes()) {
            Head::Whole { request, length, is_last } => (request, length, is_last),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn a_request_is_its_method_path_query_and_accept() {
        let text = "GET /statusz?format=json&x HTTP/1.1\r\nhost: a\r\nAccept: text/plain\r\nACCEPT: */*;q=0.1\r\n\r\n";
        let (request, length, is_last) = whole(&format!("{text}GET /next"));
        assert_eq!((request.method, request.path.as_str()), (Method::Get, "/statusz"));
        assert_eq!((request.query.as_str(), request.accept.as_str()), ("format=json&x", "text/plain,*/*;q=0.1"));
        assert_eq!((request.parameter("format"), request.parameter("x")), (Some("json"), Some("")));
        assert_eq!(request.parameter("form"), None);
        assert_eq!((length, is_last), (text.len(), false));
    }

    #[test]
    fn the_target_may_be_a_whole_url() {
        for (target, path, query) in [
            ("http://node:10268/metrics?a=b", "/metrics", "a=b"),
            ("HTTP://node/metrics", "/metrics", ""),
            ("http://node", "/", ""),
            ("http://node?a/b", "/", "a/b"),
            ("/a//b?", "/a//b", ""),
        ] {
            let (request, ..) = whole(&format!("HEAD {target} HTTP/1.1\r\nHost: node\r\n\r\n"));
            assert_eq!((request.path.as_str(), request.query.as_str()), (path, query), "{target}");
        }
        for target in ["*", "node:10268", "https://node/", "http:///metrics", "ünder"] {
            assert_eq!(
                refusal(&format!("GET {target} HTTP/1.1\r\nHost: node\r\n\r\n")),
                Status::BadRequest,
                "{target}"
            );
        }
    }

    #[test]
    fn a_client_of_http_1_0_or_one_that_says_so_gets_one_answer() {
        assert!(whole("GET / HTTP/1.0\n\n").2);
        assert!(whole("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close\r\n\r\n").2);
        assert!(!whole("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").2);
    }

    #[test]
    fn what_cannot_be_answered_is_refused_with_the_status_for_it() {
        let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        for (text, status) in [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), Status::BadRequest),
            (with("Host: b\r\n"), Status::BadRequest),
            (with("Content-Length: 5\r\n"), Status::ContentTooLarge),
            (with("Content-Length: 99999999999999999999999\r\n"), Status::ContentTooLarge),
            (with("Content-Length: -1\r\n"), Status::BadRequest),
            (with("Content-Length:\r\n"), Status::BadRequest),
            (with("Transfer-Encoding: chunked\r\n"), Status::ContentTooLarge),
            (with("no colon\r\n"), Status::BadRequest),
            (with(&"A: b\r\n".repeat(MOST_FIELDS)), Status::HeaderFieldsTooLarge),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), Status::MethodNotAllowed),
            ("PRI * HTTP/2.0\r\n\r\n".to_owned(), Status::VersionNotSupported),
            ("GET /\r\n\r\n".to_owned(), Status::BadRequest),
            ("\x16\x03\x01\x02".to_owned(), Status::BadRequest),
        ] {
            assert_eq!(refusal(&text), status, "{text:?}");
        }
        assert_eq!(whole(&with("Content-Length: 0\r\n")).0.path, "/");
    }

    #[test]
    fn what_is_too_long_is_refused_as_soon_as_the_limit_is_reached() {
        let filled = |begin: &str| {
            let mut text = begin.to_owned();
            text.push_str(&"a".repeat(MOST_BYTES - 1 - text.len()));
            assert_eq!(parse(text.as_bytes()), Head::Unfinished);
            text.push('a');
            refusal(&text)
        };
        assert_eq!(filled("GET /"), Status::UriTooLong);
        assert_eq!(filled("GET / HTTP/1.1\r\nHost: a\r\nA: "), Status::HeaderFieldsTooLarge);
        assert_eq!(refusal(&"\r\n".repeat(MOST_BYTES / 2)), Status::UriTooLong);
    }
}
