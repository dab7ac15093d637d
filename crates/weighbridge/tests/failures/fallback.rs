//! FAIL-3: when one route cannot serve a request, which others may, and with what.

use crate::shared::{SOON, ask, attempts, gateway, pool, send, state};
use std::time::Duration;
use weighbridge_test_engine::client::{Request, Response, chat_stream, messages};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// Routes `r` over A and `s` over B; `r` falls back to `s` on `on`.
fn falling(a: &Upstream, b: &Upstream, (on, more): (&str, &str)) -> Gateway {
    let quick = [
        "breaker: false",
        "cooldown: {default: 1ms}",
        "timeouts: {first_byte: 1s, total: 1s}",
    ];
    let pools = pool("A", &[a], &quick) + &pool("B", &[b], &quick);
    // What closes a connection that was idle for a while would be asked once more.
    let more = if more.is_empty() {
        ", retry: {resend: false}"
    } else {
        more
    };
    gateway(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [A], fallback: [{{route: s, on: [{on}]}}]{more}}}\n  \
         - {{name: s, targets: [B]}}\n"
    ))
}

fn stream(gateway: &Gateway) -> Request {
    Request::post(&gateway.url("/v1/chat/completions"), chat_stream("r", "hello"))
}

const WORDS: [&str; 5] = ["unavailable", "5xx", "429", "timeout", "context_length"];

/// A way to fail, the fallbacks it is a reason for, and the status of the client that has none.
const FAILURES: [(&str, &[&str], u16); 9] = [
    ("status=500", &["5xx"], 502),
    ("status=503", &["5xx"], 503),
    ("status=504", &["5xx", "timeout"], 504),
    ("status=429", &["429"], 429),
    ("status=529", &["5xx", "429"], 503),
    ("drop", &["5xx"], 502),
    ("ok_error", &["5xx"], 502),
    ("hang=headers", &["timeout"], 504),
    ("status=400", &[], 400),
];

#[test]
fn fail3_each_failure_is_a_reason_for_its_own_fallbacks() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    for word in WORDS {
        let gateway = falling(&a, &b, (word, ""));
        for (mode, reasons, status) in FAILURES {
            for streams in [false, true] {
                assert!(eventually(SOON, || state(&gateway, "A") == "live"));
                a.set_mode(mode);
                let request = if streams {
                    stream(&gateway)
                } else {
                    ask(&gateway, "r")
                };
                let answer = request.send();
                let said = format!("{mode} on {word}, stream {streams}: {}", answer.text());
                if reasons.contains(&word) {
                    assert_eq!((answer.status, answer.served_by()), (200, Some("B")), "{said}");
                    assert_eq!(answer.header("x-weighbridge-route"), Some("s"), "{said}");
                    assert_eq!(answer.header("x-weighbridge-attempts"), Some("2"), "{said}");
                } else {
                    assert_eq!(answer.status, status, "{said}");
                }
                let sent: usize = usize::from(reasons.contains(&word));
                assert_eq!((a.posts().len(), b.posts().len()), (1, sent), "{said}");
                a.reset();
                b.reset();
            }
        }
    }
}

/// What servers say of a prompt that does not fit, as a status with a body.
fn too_long(message: &str) -> String {
    format!("status=400,err_msg={}", message.replace(',', "%2C"))
}

#[test]
fn fail3_a_prompt_that_does_not_fit_goes_where_it_does() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = falling(&a, &b, ("context_length", ""));
    for message in [
        "This model's maximum context length is 4097 tokens. However, your messages resulted in 6164 tokens.",
        "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ] {
        for request in [ask(&gateway, "r"), stream(&gateway)] {
            a.set_mode(&too_long(message));
            assert_eq!(request.send().served_by(), Some("B"), "{message}");
            assert_eq!(a.posts()[0].body, b.posts()[0].body, "the original request");
            a.reset();
            b.reset();
        }
    }
    // As the first event of a stream, and to Anthropic's clients.
    a.set_mode("error_event=0,error_code=400,err_msg=This model's maximum context length is 1 token");
    assert_eq!(stream(&gateway).send().served_by(), Some("B"));
    a.set_mode("status=400,body=anthropic,err_msg=prompt is too long: 2 tokens > 1 maximum");
    let request = Request::post(&gateway.url("/v1/messages"), messages("r", "hello"));
    assert_eq!(request.send().served_by(), Some("B"));
    // Any other mistake is the client's own.
    a.set_mode("status=400,err_msg=temperature must be a number");
    let sent = b.posts().len();
    assert_eq!(send(&gateway, "r").status, 400);
    assert_eq!(b.posts().len(), sent);
}

fn retry_after(answer: &Response) -> u64 {
    answer.header("retry-after").unwrap().parse().unwrap()
}

#[test]
fn fail3_a_route_whose_engines_all_cool_falls_back_on_429() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = falling(&a, &b, ("429", ""));
    a.script(["status=429,retry_after=30"]);
    for count in 1..=3 {
        let answer = send(&gateway, "r");
        assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
        // Only the first was sent to an engine that said no.
        let expected = if count == 1 { "2" } else { "1" };
        assert_eq!(answer.header("x-weighbridge-attempts"), Some(expected));
    }
    assert_eq!((a.posts().len(), b.posts().len()), (1, 3));
    // When the other one cools too, its wait is the answer.
    b.script(["status=429,retry_after=9"]);
    let answer = send(&gateway, "r");
    assert_eq!(
        (answer.status, retry_after(&answer)),
        (429, 9),
        "{}",
        answer.text()
    );
    let answer = send(&gateway, "r");
    assert_eq!(answer.status, 429);
    assert!(
        (7..=9).contains(&retry_after(&answer)),
        "{}",
        retry_after(&answer)
    );
    assert_eq!(
        (a.posts().len(), b.posts().len()),
        (1, 4),
        "nothing is sent while all cool"
    );
}

/// What the client and the log hear of a failure whose fallback sends the request nowhere: the failure.
#[test]
fn fail3_a_fallback_that_cannot_take_it_does_not_hide_the_failure() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    for (word, mode, status, outcome) in [
        (
            "context_length",
            "status=400,err_msg=maximum context length is 1 token",
            400,
            "client_error",
        ),
        ("5xx", "status=500", 502, "upstream_error"),
        ("timeout", "status=504", 504, "timeout"),
        ("timeout", "hang=headers", 504, "timeout"),
        ("429", "status=429,retry_after=30", 429, "upstream_rate_limited"),
    ] {
        a.reset();
        b.reset();
        let gateway = falling(&a, &b, (word, ""));
        b.script(["status=429,retry_after=60"]);
        assert_eq!(send(&gateway, "s").status, 429);
        a.set_mode(mode);
        let answer = send(&gateway, "r");
        let text = answer.text();
        assert_eq!(answer.status, status, "{mode}: {text}");
        assert!(!text.contains("at its limit"), "{mode}: {text}");
        for (name, value) in [("route", "r"), ("target", "A"), ("attempts", "1")] {
            let name = format!("x-weighbridge-{name}");
            assert_eq!(answer.header(&name), Some(value), "{mode}");
        }
        let wait = (status == 429).then_some("30");
        assert_eq!(answer.header("retry-after"), wait, "{mode}");
        assert_eq!((a.posts().len(), b.posts().len()), (1, 1));
        let line = gateway.wait_log(SOON, |line| line["target"] == "A");
        assert_eq!(line["route"], "r", "{line}");
        assert_eq!(
            (&line["status"], &line["outcome"]),
            (&status.into(), &outcome.into()),
            "{line}"
        );
        let reason = line["reason"].as_str().unwrap();
        assert!(!reason.contains("limit"), "{line}");
        if mode == "hang=headers" {
            assert_eq!(reason, "timeouts.total ran out");
        }
    }
}

#[test]
fn fail3_a_full_route_falls_back_on_429() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let pools = pool("A", &[&a], &["max_inflight: 1"]) + &pool("B", &[&b], &[]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [A], fallback: [{{route: s, on: [429]}}]}}\n  \
         - {{name: s, targets: [B]}}\n"
    ));
    a.set_mode("delay=20");
    let running = ask(&gateway, "r").begin().unwrap();
    assert!(eventually(SOON, || a.stats().in_flight == 1));
    assert_eq!(send(&gateway, "r").served_by(), Some("B"));
    running.abort();
}

#[test]
fn fail3_a_stream_that_has_begun_stays_where_it_is() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = falling(&a, &b, ("5xx, timeout, unavailable", ""));
    for mode in ["cut=3", "error_event=3,error_code=500"] {
        a.set_mode(mode);
        let answer = stream(&gateway).send();
        assert_eq!((answer.status, answer.served_by()), (200, Some("A")));
        assert!(answer.text().contains("\"error\""), "{}", answer.text());
    }
    assert_eq!(b.posts().len(), 0);
}

/// A fallback is counted as one, of the route that was left, and as no retry of the one that took it.
#[test]
fn fail3_a_fallback_is_counted_once() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let pools: String = [&a, &b, &c]
        .map(|one| pool(one.name(), &[one], &["breaker: false"]))
        .concat();
    let gateway = gateway(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [A], fallback: [{{route: s, on: [5xx]}}]}}\n  \
         - {{name: s, targets: [B, {{pool: C, order: 2}}]}}\n"
    ));
    let counted = |what: &str, route: &str| {
        let name = format!("weighbridge_{what}_total");
        gateway.metrics().sum(&name, &[("route", route)])
    };
    a.set_mode("status=500");
    assert_eq!(send(&gateway, "r").served_by(), Some("B"));
    assert_eq!(counted("fallbacks", "r"), 1.0);
    assert_eq!((counted("retries", "r"), counted("retries", "s")), (0.0, 0.0));
    // What follows within the route that took it is a retry there.
    b.set_mode("status=503");
    assert_eq!(send(&gateway, "r").served_by(), Some("C"));
    assert_eq!((counted("retries", "r"), counted("retries", "s")), (0.0, 1.0));
    assert_eq!((counted("fallbacks", "r"), counted("fallbacks", "s")), (2.0, 0.0));
}

/// Retries and fallbacks are attempts, and `max_attempts` of the route that was asked for bounds them together.
#[test]
fn fail3_attempts_are_counted_over_all_routes() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let routes = |max: u32| {
        let pools: String = [&a, &b, &c]
            .map(|one| pool(one.name(), &[one], &["breaker: false"]))
            .concat();
        gateway(&format!(
            "pools:\n{pools}routes:\n  \
             - {{name: r, targets: [A, {{pool: B, order: 2}}], retry: {{max_attempts: {max}}}, fallback: [{{route: s, on: [5xx]}}]}}\n  \
             - {{name: s, targets: [C], retry: {{max_attempts: 9}}}}\n"
        ))
    };
    for (max, status, sent) in [(1, 503, [1, 0, 0]), (2, 503, [1, 1, 0]), (3, 200, [1, 1, 1])] {
        let gateway = routes(max);
        for one in [&a, &b, &c] {
            one.reset();
        }
        a.set_mode("status=503");
        b.set_mode("status=503");
        let answer = send(&gateway, "r");
        assert_eq!(answer.status, status, "{max}: {}", answer.text());
        assert_eq!([&a, &b, &c].map(|one| one.posts().len()), sent, "{max}");
        assert_eq!(attempts(&gateway, "C", "ok"), f64::from(u8::from(status == 200)));
    }
}

#[test]
fn fail3_the_budget_bounds_fallbacks_too() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let budget = ", retry: {budget: {ratio: 0, floor_per_second: 0.2, window: 10s}}";
    let gateway = falling(&a, &b, ("5xx", budget));
    a.set_mode("status=500");
    let statuses: Vec<_> = (0..5).map(|_| send(&gateway, "r").status).collect();
    assert_eq!(statuses, [200, 200, 502, 502, 502]);
    let fallbacks = gateway
        .metrics()
        .sum("weighbridge_fallbacks_total", &[("route", "r")]);
    assert_eq!(fallbacks, 2.0);
}

/// An error whose text never ends keeps its status and what it says of the time to come back.
#[test]
fn fail1_an_error_that_never_ends_keeps_its_status() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 64 * 1024];
                let _ = peer.read(&mut request);
                let _ = peer.write_all(
                    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\n\r\nslow down",
                );
                while matches!(peer.read(&mut request), Ok(1..)) {}
            });
        }
    });
    for timeouts in ["{total: 60s, first_byte: 60s}", "{total: 1s, first_byte: 1s}"] {
        for streams in [false, true] {
            let gateway = gateway(&format!(
                "pools: [{{name: r, kind: generic, health: false, timeouts: {timeouts}, endpoints: ['{url}']}}]"
            ));
            let request = if streams {
                stream(&gateway)
            } else {
                ask(&gateway, "r")
            };
            let answer = request.patience(Duration::from_secs(40)).send();
            assert_eq!(
                (answer.status, retry_after(&answer)),
                (429, 7),
                "{}",
                answer.text()
            );
            assert!(answer.text().contains("slow down"), "{}", answer.text());
            assert!(answer.elapsed < Duration::from_secs(20), "{:?}", answer.elapsed);
        }
    }
}
