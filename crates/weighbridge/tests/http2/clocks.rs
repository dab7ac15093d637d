//! STR-5 and STR-7 over every way: streams that flow live as long as they like and are passed on at once, those that stall
//! end.

use crate::door::{Door, over_all};
use crate::support::{Api, PATIENCE, expect_error_last, expect_outcomes, expect_whole};
use std::time::Duration;
use weighbridge_test_engine::Upstream;

const CLOCKS: &str = "timeouts: {connect: 1s, first_byte: 1500ms, idle: 1s, total: 2s}";

#[test]
fn str_5_over_every_way_a_stream_that_flows_outlives_every_clock() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, CLOCKS);
        let mut stream = door.stream(Api::Chat, "gap=0.4,chunks=10").open();
        expect_whole(Api::Chat, &mut stream);
        assert!(
            stream.elapsed() > Duration::from_secs(3),
            "{:?}",
            stream.elapsed()
        );
        expect_outcomes(&door.gateway, "ok", 1.0);
    });
}

#[test]
fn str_5_over_every_way_what_stalls_ends_with_an_error() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, CLOCKS);
        let mut stalled = door.stream(Api::Messages, "hang=4").open();
        assert!(stalled.wait_events(4, PATIENCE));
        let last = stalled.pieces().last().unwrap().at;
        stalled.finish(PATIENCE);
        assert!(
            last.elapsed() >= Duration::from_millis(900),
            "{:?}",
            last.elapsed()
        );
        let (_, error) = expect_error_last(Api::Messages, &stalled);
        assert!(error["message"].as_str().unwrap().contains("idle"), "{error}");
        let silent = door.stream(Api::Chat, "hang=headers").send();
        assert_eq!(silent.status, 504, "{}", silent.text());
        let late = door.whole(Api::Chat, "delay=10").send();
        assert_eq!(late.status, 504, "{}", late.text());
        expect_outcomes(&door.gateway, "timeout", 3.0);
    });
}

#[test]
fn str_7_over_every_way_each_event_arrives_when_it_was_sent() {
    const GAP: Duration = Duration::from_millis(250);
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, "");
        let mut stream = door.stream(Api::Chat, "gap=0.25,chunks=8").open();
        expect_whole(Api::Chat, &mut stream);
        let sent = upstream.posts()[0].t_first_event.expect("an event");
        let sent = weighbridge_test_engine::clock::instant(sent);
        let events = stream.events();
        let late = |i: usize| {
            let due = sent + GAP * u32::try_from(i).unwrap();
            events[i].at.saturating_duration_since(due)
        };
        // Late by less than a gap: what waits for the next event is told from what a busy machine delays.
        let in_time = (0..events.len()).filter(|i| late(*i) < GAP).count();
        assert!(
            in_time * 4 >= events.len() * 3,
            "{way:?}: {:?}",
            (0..events.len()).map(late).collect::<Vec<_>>()
        );
    });
}
