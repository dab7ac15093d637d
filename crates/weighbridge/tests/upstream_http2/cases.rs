//! The cases that reach from the client to the engine, for every way to speak to the engine.

use crate::engine::{Engine, in_every_way, stands_still, to_either};
use crate::support::{
    Api, PATIENCE, SOON, address, chat_bytes, expect_error_last, expect_idle, expect_outcomes, expect_whole,
    narrow_client, wait_running,
};
use std::io::Write as _;
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{End, get};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::upstream::Record;
use weighbridge_test_engine::{Upstream, eventually, par};

/// Waits until every request that `upstream` got has ended because its peer left, soon after `left`.
fn expect_noticed(upstream: &Upstream, left: Instant) {
    let noticed = eventually(SOON, || {
        upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
    });
    assert!(noticed, "the engine works for nobody: {:?}", upstream.posts());
    for post in upstream.posts() {
        let late = post.ended().unwrap().saturating_duration_since(left);
        assert!(late < SOON, "noticed only after {late:?}");
        if post.version == "HTTP/2" {
            const CANCEL: u32 = 8;
            assert_eq!(post.reset_by_peer, Some(CANCEL), "{post:?}");
        }
    }
    assert_eq!(upstream.stats().in_flight, 0);
}

fn expect_spoken(upstream: &Upstream, version: &str) {
    let posts = upstream.posts();
    assert!(!posts.is_empty());
    for post in posts {
        assert_eq!(post.version, version, "{post:?}");
    }
}

fn opened(gateway: &Gateway) -> bool {
    let endpoint = [("pool", "m"), ("endpoint", "a"), ("state", "open")];
    gateway.metrics().value("weighbridge_endpoint_state", &endpoint) == 1.0
}

const CLOCKS: &str = "timeouts: {connect: 2s, first_byte: 1500ms, idle: 1s, total: 2s}";

in_every_way! {
    fn str_1_a_client_that_leaves_is_noticed(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway("breaker: {consecutive: 1}");
        let base = gateway.url("");
        let mut streams: Vec<_> = Api::ALL
            .into_iter()
            .map(|api| api.stream(&base, "gap=0.1,chunks=300").open())
            .collect();
        for stream in &mut streams {
            assert!(stream.wait_events(4, PATIENCE), "{:?}", stream.text());
        }
        let waiting: Vec<_> = Api::ALL
            .into_iter()
            .flat_map(|api| {
                [
                    api.stream(&base, "hang=headers"),
                    api.stream(&base, "hang=body"),
                    api.whole(&base, "delay=20"),
                ]
            })
            .map(|request| request.begin().unwrap())
            .collect();
        wait_running(&engine.upstream, 16);
        let left = Instant::now();
        streams.into_iter().for_each(|stream| stream.abort());
        waiting.into_iter().for_each(|pending| pending.abort());
        expect_noticed(&engine.upstream, left);
        expect_outcomes(&gateway, "client_closed", 16.0);
        assert!(!opened(&gateway), "the breaker counted clients that left");
        expect_spoken(&engine.upstream, speaks.version());
        // Whoever stays is served on.
        assert_eq!(Api::Chat.whole(&base, "").send().status, 200);
    }

    fn str_2_an_upstream_that_dies_in_a_stream_is_told_of(speaks) {
        let engines = ["a", "b"].map(|name| Engine::start(speaks, name));
        let every = "{on: [connect, reset, timeout, '500', '502', '503']}";
        for (mode, outcome) in [
            ("cut=4", "upstream_stream_error"),
            ("cut=4,cut_kind=rst,gap=0.02", "upstream_stream_error"),
            ("cut=4,cut_kind=clean", "upstream_truncated"),
        ] {
            let gateway = to_either(&engines[0], &engines[1], (every, ""));
            for api in Api::ALL {
                let mut stream = api.stream(&gateway.url(""), mode).open();
                assert_eq!(stream.status, 200);
                stream.finish(PATIENCE);
                let (events, _) = expect_error_last(api, &stream);
                assert_eq!(events.len(), 4, "{api:?}: {}", stream.text());
                assert!(!stream.text().contains("b: "), "{}", stream.text());
            }
            expect_outcomes(&gateway, outcome, 4.0);
        }
        assert!(engines[1].upstream.posts().is_empty(), "a delivered request was sent again");
        expect_spoken(&engines[0].upstream, speaks.version());
    }

    fn str_2_a_cut_counts_as_one_failure_of_the_endpoint(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway("breaker: {consecutive: 2}, fail_open: false");
        let cut = || {
            let mut stream = Api::Chat.stream(&gateway.url(""), "cut=2").open();
            stream.finish(PATIENCE);
            stream.status
        };
        assert_eq!((cut(), opened(&gateway)), (200, false));
        assert_eq!((cut(), opened(&gateway)), (200, true));
        assert_eq!(cut(), 503);
    }

    fn obs_1_a_large_answer_is_whole_when_its_last_byte_has_come(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway("");
        for size in (300_000..340_000).step_by(2000) {
            let response = Api::Chat.whole(&gateway.url(""), &format!("big={size}")).send();
            assert!(response.body.len() >= size, "{} bytes", response.body.len());
        }
        expect_outcomes(&gateway, "ok", 20.0);
    }

    fn str_2_a_whole_answer_that_breaks_off_is_an_error(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway("breaker: false");
        for mode in ["short=10", "cut=10,split=10", "cut=10,split=10,cut_kind=rst"] {
            let response = Api::Chat.whole(&gateway.url(""), mode).send();
            assert_eq!(response.status, 502, "{mode}: {}", response.text());
        }
        expect_outcomes(&gateway, "upstream_error", 3.0);
        let mut long = Api::Chat
            .whole(&gateway.url(""), "big=2000000,cut=600000,split=100000")
            .open();
        assert_eq!((long.status, long.finish(PATIENCE)), (200, End::Premature));
        assert_eq!(long.body().len(), 600_000);
    }

    fn an_answer_has_at_most_200_header_lines(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway("breaker: false");
        let lines = |count: usize| vec!["h.x-many=y"; count].join(",");
        let ask = |mode: &str| Api::Chat.whole(&gateway.url(""), mode).send();
        assert_eq!(ask(&lines(150)).status, 200);
        let many = ask(&lines(201));
        assert_eq!(many.status, 502, "{}", many.text());
        assert_eq!(many.header("x-many"), None);
        assert_eq!(ask("").status, 200, "the next request is served");
    }

    fn str_5_clocks_ring_and_tell_the_engine(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway(CLOCKS);
        let base = gateway.url("");
        let cases: Vec<_> = Api::ALL
            .into_iter()
            .flat_map(|api| {
                [
                    (1.5, "first_byte", api.stream(&base, "hang=headers")),
                    (1.5, "first_byte", api.stream(&base, "hang=body")),
                    (2.0, "total", api.whole(&base, "delay=60")),
                    (2.0, "total", api.whole(&base, "delay_body=60")),
                ]
            })
            .collect();
        let began = Instant::now();
        par(cases.len(), |i| {
            let (due, clock, request) = &cases[i];
            let response = request.send();
            assert!(began.elapsed() >= Duration::from_secs_f64(*due), "{clock}");
            assert_eq!(response.status, 504, "{}", response.text());
            let error = &response.json()["error"];
            assert!(error["message"].as_str().unwrap().contains(clock), "{error}");
        });
        let mut stalled = Api::Chat.stream(&base, "hang=4").open();
        stalled.finish(PATIENCE);
        let (events, error) = expect_error_last(Api::Chat, &stalled);
        assert_eq!(events.len(), 4);
        assert!(error["message"].as_str().unwrap().contains("idle"), "{error}");
        let told = eventually(SOON, || {
            engine.upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
        });
        assert!(told, "{:?}", engine.upstream.posts());
        expect_outcomes(&gateway, "timeout", 17.0);
        let mut flowing = Api::Chat.stream(&base, "gap=0.4,chunks=8").open();
        expect_whole(Api::Chat, &mut flowing);
    }

    fn str_7_nothing_is_held_back(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway("");
        par(4, |i| {
            let api = Api::ALL[i];
            let mut stream = api.stream(&gateway.url(""), "gap=0.25,chunks=8").open();
            expect_whole(api, &mut stream);
            let events = stream.events();
            for pair in events.windows(2).take(events.len() - 3) {
                assert!(pair[0].at < pair[1].at, "two events at once: {}", stream.text());
            }
            assert_eq!(stream.header("x-accel-buffering"), Some("no"));
            assert_eq!(stream.header("content-length"), None);
        });
        expect_outcomes(&gateway, "ok", 4.0);
        let asked = engine.upstream.posts();
        assert!(asked.iter().all(|post| post.header("accept-encoding") == Some("identity")));
    }

    fn str_7_a_client_that_does_not_read_slows_its_own_stream_only(speaks) {
        const SIZE: u64 = 16_000_000;
        let engine = Engine::start(speaks, "a");
        // The engine is one thread, which makes a large answer before it does anything else.
        let gateway = engine.gateway("timeouts: {connect: 20s}");
        let unread: Vec<_> = (1..=3)
            .map(|n| {
                let mut client = narrow_client(address(&gateway));
                let request = chat_bytes(&format!("big={SIZE},chunks=1000"), true, "");
                client.write_all(request.as_bytes()).unwrap();
                wait_running(&engine.upstream, n);
                client
            })
            .collect();
        let sent = stands_still(&engine.upstream);
        assert!(sent.iter().all(|sent| *sent < SIZE), "{sent:?} bytes were taken");
        for _ in 0..5 {
            let mut stream = Api::Chat.stream(&gateway.url(""), "chunks=50").open();
            expect_whole(Api::Chat, &mut stream);
        }
        assert!(engine.upstream.posts()[..3].iter().all(Record::is_running));
        let left = Instant::now();
        drop(unread);
        let noticed = eventually(SOON, || engine.upstream.stats().in_flight == 0);
        assert!(noticed, "still running {:?} after they left", left.elapsed());
        expect_idle(&gateway);
    }

    fn fail2_a_refused_is_tried_elsewhere(speaks) {
        let [mut a, b] = ["a", "b"].map(|name| Engine::start(speaks, name));
        let gateway = to_either(&a, &b, ("{max_attempts: 3}", ""));
        a.refuse();
        for _ in 0..3 {
            let answer = Api::Chat.whole(&gateway.url(""), "").send();
            assert_eq!((answer.status, answer.served_by()), (200, Some("b")));
        }
        assert!(a.upstream.posts().is_empty());
        expect_spoken(&b.upstream, speaks.version());
    }

    fn fail2_b_c_delivered_is_not_tried_again_by_default(speaks) {
        for (mode, word, status) in [
            ("hang=headers", "timeout", 504),
            ("drop", "reset", 502),
            ("drop=rst", "reset", 502),
        ] {
            let [a, b] = ["a", "b"].map(|name| Engine::start(speaks, name));
            a.upstream.set_mode(mode);
            let clocks = "timeouts: {first_byte: 1s, total: 1s}";
            let by_default = to_either(&a, &b, ("{max_attempts: 3}", clocks));
            let told = to_either(&a, &b, (&format!("{{on: [{word}]}}"), clocks));
            for (at, ask) in [Api::stream, Api::whole].into_iter().enumerate() {
                let by_default = ask(Api::Chat, &by_default.url(""), "").send();
                assert_eq!(by_default.status, status, "{mode}");
                assert_eq!((a.upstream.posts().len(), b.upstream.posts().len()), (2 * at + 1, at));
                let told = ask(Api::Chat, &told.url(""), "").send();
                assert_eq!((told.status, told.served_by()), (200, Some("b")), "{mode}");
            }
        }
    }

    fn dis_1_running_streams_end_and_long_ones_are_told(speaks) {
        let engine = Engine::start(speaks, "a");
        let mut gateway = crate::support::gateway(&format!(
            "server: {{drain_timeout: 3s}}\npools: [{}]",
            engine.pool("m", "")
        ));
        let base = gateway.url("");
        let mut short = Api::Chat.stream(&base, "gap=0.15,chunks=10").open();
        let mut long = Api::Chat.stream(&base, "gap=0.2,chunks=300").open();
        assert!(short.wait_events(1, PATIENCE) && long.wait_events(1, PATIENCE));
        gateway.sigterm();
        assert!(eventually(SOON, || get(&gateway.url("/ready"), &[]).status == 503));
        expect_whole(Api::Chat, &mut short);
        long.finish(PATIENCE);
        expect_error_last(Api::Chat, &long);
        assert_eq!(gateway.wait_exit(PATIENCE), Some(1), "{}", gateway.output());
        assert!(!gateway.stderr().contains("panicked"), "{}", gateway.stderr());
        let gone = || engine.upstream.posts().iter().any(|post| post.ended_as("peer_gone"));
        assert!(eventually(SOON, gone), "{:?}", engine.upstream.posts());
    }

    fn answers_of_every_kind_pass(speaks) {
        let engine = Engine::start(speaks, "a");
        let gateway = engine.gateway("");
        let base = gateway.url("");
        for api in Api::ALL {
            let whole = api.whole(&base, "big=3000000").send();
            assert_eq!(whole.status, 200);
            assert!(whole.end.is_whole() && whole.body.len() > 3_000_000);
            let error = api.whole(&base, "status=404").send();
            assert_eq!(error.status, 404, "{}", error.text());
            let mut stream = api.stream(&base, "chunks=500,comments=2,comment_gap=0").open();
            expect_whole(api, &mut stream);
        }
        expect_idle(&gateway);
        expect_spoken(&engine.upstream, speaks.version());
        // One connection of each of the gateway's threads, or one for each request at once.
        let most = 2 * u64::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
        assert!(engine.upstream.stats().conns <= most, "{:?}", engine.upstream.stats());
    }
}
