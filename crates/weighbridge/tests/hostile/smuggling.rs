//! Requests that two readers could divide differently: the upstream gets what one reading gives, framed anew, or nothing.

use crate::support::{CHAT, Scene, chat, request, statuses};

/// One way to say something about a body, and what the gateway makes of it.
struct Case {
    /// What stands between `host` and the empty line.
    headers: String,
    body: String,
    /// Statuses of the answers.
    expect: &'static [u16],
    /// Prompts that reach the upstream.
    reach: &'static [&'static str],
}

/// Runs all cases and tells of all that come out otherwise.
fn check(cases: impl IntoIterator<Item = Case>) {
    let scene = Scene::new("");
    let mut wrong = Vec::new();
    for case in cases {
        let Case { headers, body, .. } = &case;
        let text = scene.talk(format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\n{headers}\r\n{body}"));
        let (got, reached) = (statuses(&text), scene.prompts());
        if got != case.expect || reached != case.reach {
            wrong.push(format!("{headers:?} {body:?}: {got:?}, reached {reached:?}"));
        }
        scene.serves();
        assert_eq!(scene.prompts().len(), 1);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// A request that must never be taken for one.
fn hidden() -> String {
    request("hidden", "connection: close\r\n")
}

const REFUSED: &[u16] = &[400];
const NOBODY: &[&str] = &[];

#[test]
fn of_a_body_with_two_framings_the_chunks_count_and_nothing_behind_it_is_read() {
    let hidden = hidden();
    let refused = |headers: &str, body: String| Case {
        headers: headers.to_owned(),
        body,
        expect: REFUSED,
        reach: NOBODY,
    };
    let length = chat("outer").len();
    check([
        refused(
            &format!(
                "content-length: {}\r\ntransfer-encoding: chunked\r\n",
                5 + hidden.len()
            ),
            format!("0\r\n\r\n{hidden}"),
        ),
        refused(
            &format!(
                "transfer-encoding: chunked\r\ncontent-length: {}\r\n",
                5 + hidden.len()
            ),
            format!("0\r\n\r\n{hidden}"),
        ),
        // As RFC 9112, section 6.3 has it; the connection ends with the answer.
        Case {
            headers: "transfer-encoding: chunked\r\ncontent-length: 4\r\n".to_owned(),
            body: format!("{}{hidden}", chunked(&chat("outer"))),
            expect: &[200],
            reach: &["outer"],
        },
        refused(
            &format!("content-length: {length}\r\ncontent-length: 0\r\n"),
            format!("{}{hidden}", chat("outer")),
        ),
        refused(
            &format!("content-length: 0\r\ncontent-length: {length}\r\n"),
            format!("{}{hidden}", chat("outer")),
        ),
    ]);
}

#[test]
fn a_length_is_one_whole_number() {
    let hidden = hidden();
    let length = chat("outer").len();
    let of = |value: String| Case {
        headers: format!("content-length: {value}\r\n"),
        body: format!("{}{hidden}", chat("outer")),
        expect: REFUSED,
        reach: NOBODY,
    };
    check(
        [
            format!("{length}, {length}"),
            format!("+{length}"),
            format!("-{length}"),
            format!("0x{length:x}"),
            format!("{length} {length}"),
            format!("{length}.0"),
            "18446744073709551616".to_owned(),
            "99999999999999999999999".to_owned(),
        ]
        .map(of),
    );
    // The same length twice says the same.
    check([Case {
        headers: format!("content-length: {length}\r\ncontent-length: {length}\r\nconnection: close\r\n"),
        body: chat("outer"),
        expect: &[200],
        reach: &["outer"],
    }]);
}

#[test]
fn a_transfer_coding_is_chunked_or_refused() {
    let hidden = hidden();
    let refused = |headers: &str| Case {
        headers: format!("{headers}\r\n"),
        body: format!("{}{hidden}", chunked(&chat("outer"))),
        expect: REFUSED,
        reach: NOBODY,
    };
    check(
        [
            "transfer-encoding: chunked, identity",
            "transfer-encoding: xchunked",
            "transfer-encoding: chunkedx",
            "transfer-encoding: identity",
            "transfer-encoding: gzip",
            "transfer-encoding: ",
            "transfer-encoding: chunked;q=1",
            "transfer-encoding: \"chunked\"",
            "transfer-encoding: chunked\r\ntransfer-encoding: identity",
            "transfer-encoding: x\u{b}chunked",
        ]
        .map(refused),
    );
    let taken = |headers: &str| Case {
        headers: format!("{headers}\r\nconnection: close\r\n"),
        body: chunked(&chat("outer")),
        expect: &[200],
        reach: &["outer"],
    };
    check(
        [
            "transfer-encoding: chunked",
            "Transfer-Encoding: CHUNKED",
            "transfer-encoding:\tchunked \t",
        ]
        .map(taken),
    );
}

#[test]
fn chunks_are_framed_strictly() {
    let hidden = hidden();
    let body = chat("outer");
    let length = body.len();
    let refused = |begin: String| Case {
        headers: "transfer-encoding: chunked\r\n".to_owned(),
        body: format!("{begin}{hidden}"),
        expect: REFUSED,
        reach: NOBODY,
    };
    check(
        [
            format!("-{length:x}\r\n{body}\r\n0\r\n\r\n"),
            format!("+{length:x}\r\n{body}\r\n0\r\n\r\n"),
            format!("0x{length:x}\r\n{body}\r\n0\r\n\r\n"),
            format!("\r\n{body}\r\n0\r\n\r\n"),
            format!(";x\r\n{body}\r\n0\r\n\r\n"),
            format!("{length:x}\n{body}\r\n0\r\n\r\n"),
            format!("{length:x};a=\n{body}\r\n0\r\n\r\n"),
            format!("{length:x}\r\n{body}0\r\n\r\n"),
            format!("{length:x}\r\n{body}\n0\n\n"),
            format!("{:x}\r\n{body}\r\n0\r\n\r\n", length - 1),
            format!("fffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
            format!("10000000000000000\r\n{body}\r\n0\r\n\r\n"),
            format!("{length:x};{}\r\n{body}\r\n0\r\n\r\n", "e".repeat(20_000)),
            format!("{length:x} 1\r\n{body}\r\n0\r\n\r\n"),
        ]
        .map(refused),
    );
    let taken = |body: String| Case {
        headers: "transfer-encoding: chunked\r\nconnection: close\r\n".to_owned(),
        body,
        expect: &[200],
        reach: &["outer"],
    };
    check([
        taken(format!("{length:X};name=value;\"q\"\r\n{body}\r\n0;x\r\n\r\n")),
        taken(format!("000{length:x}\r\n{body}\r\n000\r\n\r\n")),
        // Trailers are read and dropped, whatever they claim.
        taken(format!(
            "{length:x}\r\n{body}\r\n0\r\ncontent-length: 5\r\ntransfer-encoding: identity\r\nhost: evil\r\nauthorization: Bearer x\r\n\r\n"
        )),
    ]);
}

#[test]
fn trailers_have_a_bound() {
    let scene = Scene::new("");
    let body = chat("outer");
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    let trailers = "x: y\r\n".repeat(50_000);
    let text = scene.talk(format!("{head}{:x}\r\n{body}\r\n0\r\n{trailers}\r\n", body.len()));
    assert_eq!(statuses(&text), REFUSED, "{text}");
    assert_eq!(scene.prompts(), NOBODY);
    scene.serves();
}

#[test]
fn a_head_is_read_strictly() {
    let hidden = hidden();
    let body = chat("outer");
    let length = body.len();
    let refused = |headers: String| Case {
        headers,
        body: format!("{body}{hidden}"),
        expect: REFUSED,
        reach: NOBODY,
    };
    check(
        [
            format!("content-length : {length}\r\n"),
            format!(" content-length: {length}\r\n"),
            format!("content-length\t: {length}\r\n"),
            format!("x: a\r\n\tfolded: b\r\ncontent-length: {length}\r\n"),
            format!("x: a\r\n b\r\ncontent-length: {length}\r\n"),
            format!("x: a\0b\r\ncontent-length: {length}\r\n"),
            format!("x: a\rb\r\ncontent-length: {length}\r\n"),
            format!("x: a\u{1}b\r\ncontent-length: {length}\r\n"),
            format!("x: a\u{7f}b\r\ncontent-length: {length}\r\n"),
            format!("x\0y: a\r\ncontent-length: {length}\r\n"),
            format!("x y: a\r\ncontent-length: {length}\r\n"),
            format!("x(y): a\r\ncontent-length: {length}\r\n"),
            format!(": a\r\ncontent-length: {length}\r\n"),
            format!("no colon\r\ncontent-length: {length}\r\n"),
        ]
        .map(refused),
    );
}

#[test]
fn a_bare_line_feed_ends_a_line_of_the_head_as_the_standard_allows() {
    let scene = Scene::new("");
    let body = chat("outer");
    let text = scene.talk(format!(
        "POST {CHAT} HTTP/1.1\nhost: x\ncontent-length: {}\nconnection: close\n\n{body}",
        body.len()
    ));
    assert_eq!(
        (statuses(&text), scene.prompts()),
        (vec![200], vec!["outer".to_owned()])
    );
    // The upstream's head is written anew.
    scene.talk(format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nx-a: 1\nx-b: 2\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    let posts = scene.upstream.posts();
    assert_eq!(
        (posts[0].header("x-a"), posts[0].header("x-b")),
        (Some("1"), Some("2"))
    );
    scene.serves();
}

#[test]
fn old_http_knows_no_chunks() {
    let scene = Scene::new("");
    let body = chunked(&chat("outer"));
    let text = scene.talk(format!(
        "POST {CHAT} HTTP/1.0\r\ntransfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n{body}{}",
        hidden()
    ));
    assert_eq!((statuses(&text), scene.prompts()), (REFUSED.to_vec(), Vec::new()));
    scene.serves();
}
