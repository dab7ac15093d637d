//! `cors`, `server.body_memory`, and keys that stand in the wrong place.

use crate::common::{bad, check_problems as check, good, load, pool, pool_with, warnings};
use weighbridge_config::masked;

fn origins(list: &str) -> serde_json::Value {
    masked(&good(&pool(&format!("auth: none\ncors: {{origins: {list}}}"))))["cors"]["origins"].clone()
}

#[test]
fn origins_are_kept_as_browsers_send_them() {
    for (given, kept) in [
        ("https://app.example", "https://app.example"),
        ("HTTPS://App.Example:443", "https://app.example"),
        ("http://localhost:5173", "http://localhost:5173"),
        ("http://localhost:80", "http://localhost"),
        ("https://h:80", "https://h:80"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("http://[::1]", "http://[::1]"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ("*", "*"),
    ] {
        assert_eq!(origins(&format!("[\"{given}\"]"))[0], kept);
    }
    assert_eq!(good(&pool("")).cors, None);
}

#[test]
fn what_is_no_origin_is_refused_where_it_stands() {
    const EXAMPLE: &str =
        "write scheme, host and port as the browser sends them, such as `https://app.example`";
    for (given, told) in [
        ("app.example", format!("the origin has no scheme | {EXAMPLE}")),
        ("https://app.example/", "an origin does not end with a slash, and no browser sends one | remove the slash".to_owned()),
        ("https://app.example/chat", "an origin has no path, query or fragment: it stands for all pages of its host | keep scheme, host and port only".to_owned()),
        ("https://app.example?x", "an origin has no path, query or fragment: it stands for all pages of its host | keep scheme, host and port only".to_owned()),
        ("https://u:p@app.example", format!("an origin holds no user name or password | {EXAMPLE}")),
        ("https://*.example", "an origin is compared as a whole: `*` inside it stands for nothing | write every origin, or `*` alone for all".to_owned()),
        ("null", "`null` is the origin of sandboxed frames and local files of anybody, so it is never allowed | serve the page over HTTP and write its origin".to_owned()),
        ("https://", "the origin's host is missing, or holds a character that no host has | write hosts of other alphabets in their `xn--` form".to_owned()),
        ("https://bücher.example", "the origin's host is missing, or holds a character that no host has | write hosts of other alphabets in their `xn--` form".to_owned()),
        ("https://h:99999", format!("the origin's port is no number from 1 to 65535 | {EXAMPLE}")),
        ("1a://h", format!("the origin's scheme is none | {EXAMPLE}")),
    ] {
        let expect = format!("cors.origins[1]: {told}");
        check(&pool(&format!("cors: {{origins: [\"http://fine\", \"{given}\"]}}")), &[&expect]);
    }
    check(
        &pool("cors: {origins: []}"),
        &[
            "cors.origins: no origin is named, so no page could call the gateway | name one, such as `https://app.example`, or remove `cors`",
        ],
    );
    check(
        &pool("cors: {}"),
        &["cors: the key `origins` is missing | add `origins: …`"],
    );
}

#[test]
fn every_origin_is_a_surprise_where_no_key_is_asked_for() {
    let any = warnings(&pool("cors: {origins: ['*']}"));
    assert!(any.len() == 1 && any[0].contains("any web page"), "{any:?}");
    assert!(warnings(&pool("keys: [{name: k, key: secret}]\ncors: {origins: ['*']}")).is_empty());
    let mixed = warnings(&pool(
        "keys: [{name: k, key: secret}]\ncors: {origins: ['*', 'http://h']}",
    ));
    assert!(
        mixed.len() == 1 && mixed[0].contains("the others have no effect"),
        "{mixed:?}"
    );
}

#[test]
fn the_memory_for_bodies_has_room_for_one() {
    assert_eq!(good(&pool("")).server.body_memory, None);
    assert_eq!(
        good(&pool("server: {body_memory: 64MiB}")).server.body_memory,
        Some(64 << 20)
    );
    check(
        &pool("server: {body_memory: 31MiB}"),
        &[
            "server.body_memory: less than one body of `server.max_body` fits into this | give at least as much as `server.max_body`, and room for several",
        ],
    );
}

#[test]
fn a_key_in_the_wrong_place_is_told_where_it_belongs() {
    let hint = |text: &str| bad(text)[0].hint.clone().unwrap();
    for (text, begins) in [
        (pool("max_body: 1MiB"), "`max_body` belongs to `server`"),
        (
            pool("listen: 127.0.0.1:1"),
            "`listen` belongs to `admin` or `server`",
        ),
        (
            pool_with("interval: 5s"),
            "`interval` belongs to `pools[].health` or `pools[].scrape`",
        ),
        (pool_with("log: {level: info}"), "`log` belongs to the top level"),
        (
            pool_with("first_byte: 5s"),
            "`first_byte` belongs to `pools[].timeouts`",
        ),
        (
            pool("server: {fail_open: true}"),
            "`fail_open` belongs to `pools[]`",
        ),
        (pool("nonsense: 1"), "known: version"),
    ] {
        assert!(hint(&text).starts_with(begins), "{}", hint(&text));
    }
}

#[test]
fn what_surprises_is_told_beside_what_is_wrong() {
    let problems = load(&pool(
        "routes: [{name: r, targets: [a, b]}]\nkeys: [{name: k, key: a}]\nauth: none",
    ))
    .unwrap_err();
    assert_eq!(problems.count(), 1);
    let told = |warning: &weighbridge_config::Problem| warning.message.contains("these keys have no effect");
    assert!(problems.warnings().iter().any(told));
}
