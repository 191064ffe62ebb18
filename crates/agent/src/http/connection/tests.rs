//! The connection's machine, fed with requests and garbage in pieces of every size.

use proptest::prelude::*;

use super::*;

const REQUEST: &str = "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n";

fn echo(request: &Request) -> Response {
    Response::text(Status::Ok, format!("{:?} {} {}", request.method, request.path, request.query))
}

/// Takes all turns and all output there is, and returns it.
fn exchange(connection: &mut Connection, now: Instant) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        connection.take_turn(&echo, now);
        let unsent = connection.unsent().to_vec();
        if unsent.is_empty() {
            return taken;
        }
        taken.extend_from_slice(&unsent);
        connection.advance(unsent.len(), now);
    }
}

/// All that comes back when `bytes` arrive in pieces of these sizes, the last one repeated.
fn answers(bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
    let now = Instant::now();
    let mut connection = Connection::new(now);
    let mut pieces = pieces.iter().copied().chain(std::iter::repeat(*pieces.last().unwrap()));
    let mut ahead = bytes;
    let mut taken = Vec::new();
    while !ahead.is_empty() && !connection.is_over() {
        let length = pieces.next().unwrap().min(ahead.len()).min(connection.room());
        assert!(length > 0, "there is room while input is wanted");
        connection.receive(&ahead[..length], now);
        ahead = &ahead[length..];
        taken.extend(exchange(&mut connection, now));
        assert!(connection.input.len() <= head::MOST_BYTES);
    }
    taken
}

fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => Just(REQUEST.as_bytes().to_vec()),
        2 => Just(b"HEAD /?a=b HTTP/1.1\nhost:\tx\nAccept: */*\n\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec()),
        1 => Just(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".to_vec()),
        1 => Just(b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec()),
        1 => Just([b"GET /".to_vec(), vec![b'a'; 9_000]].concat()),
        2 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => "[ -~\r\n]{0,80}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn what_is_answered_does_not_depend_on_how_the_bytes_arrive(
        bytes in some_bytes(),
        pieces in proptest::collection::vec(1_usize..200, 1..20),
    ) {
        prop_assert_eq!(answers(&bytes, &pieces), answers(&bytes, &[usize::MAX]));
    }

    #[test]
    fn no_bytes_make_it_panic_or_keep_more_than_its_limit(bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
        answers(&bytes, &[1_000]);
    }

    #[test]
    fn whatever_is_left_unfinished_ends_in_time(bytes in some_bytes(), closes in any::<bool>()) {
        let mut now = Instant::now();
        let mut connection = Connection::new(now);
        connection.receive(&bytes[..bytes.len().min(connection.room())], now);
        let mut steps = 0;
        while !connection.is_over() {
            // A client that takes nothing, or one that takes all.
            if closes {
                exchange(&mut connection, now);
            } else {
                connection.take_turn(&echo, now);
            }
            now = connection.deadline();
            connection.expire(now);
            steps += 1;
            prop_assert!(steps < 5, "still {:?}", connection.phase);
        }
    }
}

#[test]
fn requests_sent_at_once_are_answered_in_order_and_one_in_a_turn() {
    let now = Instant::now();
    let mut connection = Connection::new(now);
    connection.receive(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3", now);
    for path in ["/1", "/2"] {
        assert_eq!(connection.wants(), Want::Turn);
        connection.take_turn(&echo, now);
        assert_eq!(connection.wants(), Want::Output, "nothing is read before the answer is taken");
        let answer = String::from_utf8(connection.unsent().to_vec()).unwrap();
        assert!(answer.ends_with(&format!("Get {path} ")), "{answer}");
        assert!(!connection.advance(answer.len(), now));
    }
    connection.take_turn(&echo, now);
    assert_eq!(connection.wants(), Want::Input);
}

#[test]
fn the_time_for_a_request_counts_from_its_first_byte() {
    let begin = Instant::now();
    let mut connection = Connection::new(begin);
    for (second, byte) in REQUEST.bytes().take(5).enumerate() {
        let now = begin + Duration::from_secs(second as u64);
        connection.receive(&[byte], now);
        connection.take_turn(&echo, now);
        connection.expire(now);
        assert_eq!(connection.wants(), Want::Input, "after {second} s");
    }
    connection.expire(begin + RECEIVING);
    assert!(connection.unsent().starts_with(b"HTTP/1.1 408 "));
}

#[test]
fn the_last_answer_says_so_and_what_comes_after_it_is_thrown_away_up_to_a_limit() {
    let now = Instant::now();
    let mut connection = Connection::new(now);
    connection.receive(b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n", now);
    let answer = String::from_utf8(exchange(&mut connection, now)).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1);
    assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    for _ in 0..=MOST_DRAINED / 1_000 {
        connection.receive(&[b'x'; 1_000], now);
        assert!(!connection.is_over());
    }
    connection.receive(b"x", now);
    assert!(connection.is_over());
}

#[test]
fn the_answer_to_head_has_the_length_of_the_body_but_not_the_body() {
    let answer = |method: &str| answers(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), &[usize::MAX]);
    let (get, head) = (String::from_utf8(answer("GET")).unwrap(), String::from_utf8(answer("HEAD")).unwrap());
    assert!(get.contains("\r\nContent-Length: 6\r\n") && get.ends_with("\r\n\r\nGet / "), "{get}");
    assert!(head.contains("\r\nContent-Length: 7\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}
