//! DIS-1 over every way: stopping lets answers end.

use crate::door::{Door, H2, H2_TLS, Way, one_pool, over_all};
use crate::support::{Api, CHUNKED, PATIENCE, SOON, canned, expect_error_last, expect_whole, wait_running};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Closed, Failure, Http};
use weighbridge_test_engine::{Upstream, eventually};

fn stopping(way: Way, upstream: &Upstream, server: &str) -> Door {
    Door::new(way, (server, &way.pool(upstream, "")))
}

fn ready(door: &Door) -> u16 {
    door.get("/ready").send().status
}

#[test]
fn dis_1_over_every_way_running_streams_end_and_new_requests_are_turned_away() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let mut door = stopping(way, &upstream, "drain_timeout: 60s");
        let open = |api: Api| (api, door.stream(api, "gap=0.4,chunks=12").open());
        let mut running = Api::ALL.map(open);
        for (_, stream) in &mut running {
            assert!(stream.wait_events(1, PATIENCE));
        }
        door.gateway.sigterm();
        assert!(eventually(SOON, || ready(&door) == 503));
        assert_eq!(door.get("/health").send().status, 200);
        for api in Api::ALL {
            let refused = door.whole(api, "").send();
            assert_eq!(refused.status, 503, "{way:?}: {}", refused.text());
            let close = refused.header("connection");
            assert_eq!(close, (way.http == Http::One).then_some("close"), "{way:?}");
            assert!(refused.header("retry-after").is_some());
        }
        assert!(!door.gateway.has_ended());
        for (api, stream) in &mut running {
            expect_whole(*api, stream);
        }
        let last = Instant::now();
        assert_eq!(
            door.gateway.wait_exit(PATIENCE),
            Some(0),
            "{}",
            door.gateway.output()
        );
        assert!(
            last.elapsed() < Duration::from_secs(1),
            "{way:?}: {:?} after the last",
            last.elapsed()
        );
        assert_eq!(door.gateway.log_lines().len(), 8, "{}", door.gateway.stdout());
    });
}

#[test]
fn dis_1_over_every_way_what_is_cut_at_the_end_is_told() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let mut door = stopping(way, &upstream, "drain_timeout: 1500ms");
        let mut long = Api::ALL.map(|api| (api, door.stream(api, "gap=0.5,chunks=100").open()));
        for (_, stream) in &mut long {
            assert!(stream.wait_events(1, PATIENCE));
        }
        let waiting = door.whole(Api::Chat, "delay=60").begin().unwrap();
        let arriving = door.whole(Api::Chat, "").unfinished().begin().unwrap();
        wait_running(&upstream, 5);
        let running = || door.gateway.metrics().value("weighbridge_requests_running", &[]);
        assert!(eventually(PATIENCE, || running() == 6.0));
        door.gateway.sigterm();
        for pending in [waiting, arriving] {
            let refused = pending.response(PATIENCE).unwrap();
            assert_eq!(refused.status, 503, "{way:?}: {}", refused.text());
        }
        for (api, stream) in &mut long {
            stream.finish(PATIENCE);
            expect_error_last(*api, stream);
        }
        assert_eq!(
            door.gateway.wait_exit(PATIENCE),
            Some(1),
            "{}",
            door.gateway.output()
        );
        assert!(
            !door.gateway.stderr().contains("panicked"),
            "{}",
            door.gateway.stderr()
        );
    });
}

#[test]
fn dis_1_over_every_way_a_stream_that_stands_inside_an_event_is_cut() {
    const BODY: &str = "32\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\nda\r\n";
    over_all(|way| {
        let url = canned(CHUNKED, BODY, true);
        let mut door = Door::new(way, ("drain_timeout: 500ms", &one_pool(&url, "")));
        let mut stream = door.stream(Api::Chat, "").open();
        assert!(stream.wait_events(1, PATIENCE));
        door.gateway.sigterm();
        let end = stream.finish(PATIENCE);
        assert!(end.is_cut(), "{way:?} ended as {end:?}");
        assert!(stream.text().ends_with("\n\nda"), "{}", stream.text());
        assert_eq!(
            door.gateway.wait_exit(PATIENCE),
            Some(1),
            "{}",
            door.gateway.output()
        );
    });
}

#[test]
fn dis_1_http2_clients_are_told_to_go() {
    for way in [H2, H2_TLS] {
        let upstream = Upstream::start("a");
        let mut door = stopping(way, &upstream, "drain_timeout: 60s");
        let (idle, busy) = (door.session(), door.session());
        let answered = idle.begin(&door.whole(Api::Chat, "")).unwrap();
        assert_eq!(answered.response(PATIENCE).unwrap().status, 200);
        let running = busy.begin(&door.stream(Api::Chat, "gap=0.4,chunks=12")).unwrap();
        let mut running = running.head(PATIENCE).unwrap();
        assert!(running.wait_events(1, PATIENCE));
        door.gateway.sigterm();
        assert_eq!(
            idle.wait_closed(PATIENCE),
            Some(Closed::GoAway(0)),
            "an idle one ends at once"
        );
        // One that is busy takes no further request; whichever came before that was said is turned away.
        let turned_away = || match busy.begin(&door.whole(Api::Chat, "")) {
            Err(_) => true,
            Ok(pending) => match pending.response(PATIENCE) {
                Err(failure) => {
                    assert!(matches!(failure, Failure::Closed | Failure::Reset), "{failure}");
                    true
                }
                Ok(refused) => {
                    assert_eq!(refused.status, 503, "{}", refused.text());
                    false
                }
            },
        };
        assert!(eventually(SOON, turned_away));
        expect_whole(Api::Chat, &mut running);
        assert_eq!(busy.wait_closed(PATIENCE), Some(Closed::GoAway(0)));
        assert_eq!(
            door.gateway.wait_exit(PATIENCE),
            Some(0),
            "{}",
            door.gateway.output()
        );
        assert_eq!(upstream.posts().len(), 2);
    }
}

#[test]
fn dis_1_over_every_way_the_delay_keeps_the_door_open() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let mut door = stopping(way, &upstream, "drain_delay: 3s, drain_timeout: 30s");
        let told = Instant::now();
        door.gateway.sigterm();
        assert!(eventually(SOON, || ready(&door) == 503));
        for api in Api::ALL {
            let response = door.whole(api, "").send();
            assert_eq!(response.status, 200, "{way:?}: {}", response.text());
        }
        if way.http == Http::Two {
            // Whoever comes now is served, and told to look for another gateway.
            let session = door.session();
            let served = session.begin(&door.whole(Api::Chat, "")).unwrap();
            assert_eq!(served.response(PATIENCE).unwrap().status, 200);
            assert_eq!(session.wait_closed(PATIENCE), Some(Closed::GoAway(0)));
            assert!(told.elapsed() < Duration::from_secs(3), "by the delay's end");
        }
        assert_eq!(
            door.gateway.wait_exit(PATIENCE),
            Some(0),
            "{}",
            door.gateway.output()
        );
    });
}
