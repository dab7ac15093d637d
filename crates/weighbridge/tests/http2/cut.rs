//! STR-2 over every way: an upstream that dies in the middle of an answer.

use crate::door::{Door, H2, H2_TLS, one_pool, over_all};
use crate::support::{
    Api, CHUNKED, CLOSE_DELIMITED, PATIENCE, SOON, canned, expect_error_last, expect_idle, expect_outcomes,
    outcomes,
};
use weighbridge_test_engine::{Upstream, eventually};

#[test]
fn str_2_over_every_way_a_stream_that_dies_ends_with_an_error_event() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, "breaker: false");
        for (mode, outcome) in [
            ("cut=4", "upstream_stream_error"),
            ("cut=4,cut_kind=rst", "upstream_stream_error"),
            ("cut=4,cut_kind=clean", "upstream_truncated"),
        ] {
            let before = outcomes(&door.gateway, outcome);
            for api in Api::ALL {
                let mut stream = door.stream(api, mode).open();
                stream.finish(PATIENCE);
                let (events, _) = expect_error_last(api, &stream);
                assert_eq!(events.len(), 4, "{way:?} {mode}: {}", stream.text());
            }
            let counted = || outcomes(&door.gateway, outcome) - before;
            assert!(
                eventually(SOON, || counted() == 4.0),
                "{way:?} {mode}: {}",
                counted()
            );
        }
        expect_idle(&door.gateway);
        assert_eq!(upstream.posts().len(), 12, "nothing is sent again");
    });
}

#[test]
fn str_2_over_every_way_a_stream_that_dies_inside_an_event_is_cut() {
    const BODY: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choi";
    over_all(|way| {
        let url = canned(CLOSE_DELIMITED, BODY, false);
        let door = Door::new(way, ("", &one_pool(&url, "")));
        let mut stream = door.stream(Api::Chat, "").open();
        let end = stream.finish(PATIENCE);
        assert!(end.is_cut(), "{way:?} ended as {end:?}: {}", stream.text());
        // All that had come before it.
        assert_eq!(stream.text(), BODY, "{way:?}");
        expect_outcomes(&door.gateway, "upstream_truncated", 1.0);
    });
}

#[test]
fn str_2_over_every_way_a_long_answer_that_dies_is_cut_where_it_died() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, "breaker: false");
        // Longer than any window, so that much of it still waits here when the end comes.
        let mut long = door
            .whole(Api::Chat, "big=3000000,cut=2000000,split=100000")
            .open();
        assert_eq!(long.status, 200);
        let end = long.finish(PATIENCE);
        assert!(end.is_cut(), "{way:?} ended as {end:?}");
        assert_eq!(long.body().len(), 2_000_000, "{way:?}");
        expect_outcomes(&door.gateway, "upstream_stream_error", 1.0);
    });
}

#[test]
fn str_2_a_cut_stream_leaves_the_others_of_its_connection_alone() {
    const BODY: &str = "32\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\nda\r\n";
    for way in [H2, H2_TLS] {
        let good = Upstream::start("good");
        let bad = canned(CHUNKED, BODY, false);
        let pools = format!(
            "pools:\n  - {{name: m, kind: generic, endpoints: ['{}']}}\n  - {{name: bad, kind: generic, endpoints: ['{bad}']}}",
            good.url()
        );
        let door = Door::new(way, ("", &pools));
        let session = door.session();
        let running = session
            .begin(&door.stream(Api::Chat, "gap=0.2,chunks=10"))
            .unwrap();
        let mut running = running.head(PATIENCE).unwrap();
        assert!(running.wait_events(1, PATIENCE));
        for _ in 0..3 {
            let request = door.stream(Api::Chat, "").header("x-model", "bad");
            let mut cut = session.begin(&request).unwrap().head(PATIENCE).unwrap();
            assert!(cut.finish(PATIENCE).is_cut());
        }
        crate::support::expect_whole(Api::Chat, &mut running);
    }
}
