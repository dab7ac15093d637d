use proptest::prelude::*;

use super::*;

/// What a PUB of libzmq 4.3 sends before its first message, from its specification.
fn peer(socket: &str) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
    ready.extend(u32::try_from(socket.len()).unwrap().to_be_bytes());
    ready.extend(socket.as_bytes());
    ready.extend(b"\x08Identity\0\0\0\0");
    bytes.extend([4, u8::try_from(ready.len()).unwrap()]);
    bytes.extend(ready);
    bytes
}

fn run(role: Role, bytes: &[u8]) -> (Result<Vec<Received>, ZmtpError>, Vec<u8>) {
    let mut out = Vec::new();
    let mut zmtp = Zmtp::new(role, &mut out);
    let mut buffer = BytesMut::from(bytes);
    let mut all = Vec::new();
    loop {
        match zmtp.receive(&mut buffer, &mut out) {
            Err(error) => return (Err(error), out),
            Ok(Received::Nothing) => return (Ok(all), out),
            Ok(received) => all.push(received),
        }
    }
}

#[test]
fn a_subscriber_greets_says_what_it_is_and_subscribes_to_all() {
    let (received, sent) = run(Role::Subscriber, &peer("PUB"));
    assert_eq!(received, Ok(vec![Received::Ready]));
    assert_eq!(sent[..12], [0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0]);
    assert_eq!(sent[12..32], *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(sent[32..64], [0; 32]);
    assert_eq!(
        sent[64..],
        *b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB\x00\x01\x01"
    );
}

#[test]
fn messages_come_in_parts_and_wherever_they_are_cut() {
    let mut bytes = peer("ROUTER");
    let long = vec![7; 300];
    message(&[b"", b"x", &long], &mut bytes);
    message(&[b"y"], &mut bytes);
    let (whole, sent) = run(Role::Dealer, &bytes);
    let part = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let expected = vec![
        Received::Ready,
        Received::Message(vec![part(b""), part(b"x"), part(&long)]),
        Received::Message(vec![part(b"y")]),
    ];
    assert_eq!(whole, Ok(expected.clone()));
    let mut out = Vec::new();
    let mut zmtp = Zmtp::new(Role::Dealer, &mut out);
    let mut buffer = BytesMut::new();
    let mut all = Vec::new();
    for byte in &bytes {
        buffer.extend_from_slice(&[*byte]);
        while let received = zmtp.receive(&mut buffer, &mut out).unwrap()
            && received != Received::Nothing
        {
            all.push(received);
        }
    }
    assert_eq!((all, out), (expected, sent));
}

#[test]
fn a_ping_is_answered() {
    let mut bytes = peer("PUB");
    bytes.extend(b"\x04\x0b\x04PING\x00\x0aabcd");
    bytes.extend(b"\x04\x06\x05OTHER");
    let (received, sent) = run(Role::Subscriber, &bytes);
    assert_eq!(received, Ok(vec![Received::Ready]));
    assert!(sent.ends_with(b"\x04\x09\x04PONGabcd"));
}

#[test]
fn what_does_not_belong_ends_the_connection() {
    let error = |role, bytes: &[u8]| run(role, bytes).0.unwrap_err();
    assert_eq!(error(Role::Subscriber, b"GET / HTTP/1.1\r\n"), ZmtpError::NotZmtp);
    assert_eq!(
        error(Role::Subscriber, &peer("REP")),
        ZmtpError::WrongPeer { role: "SUB" }
    );
    assert_eq!(
        error(Role::Dealer, &peer("PUB")),
        ZmtpError::WrongPeer { role: "DEALER" }
    );
    let mut curve = peer("PUB");
    curve[12..17].copy_from_slice(b"CURVE");
    assert_eq!(error(Role::Subscriber, &curve), ZmtpError::Mechanism);
    let mut old = peer("PUB");
    old[10] = 1;
    assert_eq!(error(Role::Subscriber, &old), ZmtpError::NotZmtp);
    let early = [&peer("PUB")[..64], b"\x00\x01x"].concat();
    assert_eq!(
        error(Role::Subscriber, &early),
        ZmtpError::Broken("a message before the peer has said what it is")
    );
    let refused = [&peer("PUB")[..64], b"\x04\x07\x05ERROR\0"].concat();
    assert_eq!(error(Role::Subscriber, &refused), ZmtpError::Refused);
}

#[test]
fn nothing_grows_without_end() {
    let with = |more: &[u8]| run(Role::Subscriber, &[&peer("PUB"), more].concat()).0;
    // An announced length is not waited for.
    assert_eq!(
        with(b"\x02\x3f\xff\xff\xff\xff\xff\xff\xff"),
        Err(ZmtpError::TooLarge)
    );
    assert_eq!(
        with(b"\x06\x00\x00\x00\x00\x00\x01\x00\x00"),
        Err(ZmtpError::TooLarge)
    );
    assert_eq!(with(&b"\x01\x00".repeat(PARTS_MAX + 1)), Err(ZmtpError::TooLarge));
    let half = MESSAGE_BYTES_MAX / 2 + 1;
    let mut halves = Vec::new();
    message(&[&vec![0; half], &vec![0; half]], &mut halves);
    assert_eq!(with(&halves), Err(ZmtpError::TooLarge));
    let mut whole = Vec::new();
    message(&[&vec![0; half], &vec![0; half - 2]], &mut whole);
    assert_eq!(with(&whole).map(|all| all.len()), Ok(2));
}

proptest! {
    #[test]
    fn any_bytes_are_taken(greeted: bool, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let before = if greeted { peer("PUB") } else { Vec::new() };
        let _ = run(Role::Subscriber, &[before, bytes].concat());
    }
}
