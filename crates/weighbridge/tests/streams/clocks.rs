//! STR-5: streams that flow live as long as they like, and those that stall end.

use crate::support::{
    Api, CLOSE_DELIMITED, PATIENCE, address, chat_bytes, expect_error_last, expect_idle, expect_outcomes,
    expect_whole, gateway, gateway_to, narrow_client, outcomes, wait_running,
};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::StreamClient;
use weighbridge_test_engine::{Upstream, eventually, par};

const CLOCKS: &str = "timeouts: {connect: 1s, first_byte: 1500ms, idle: 1s, total: 2s}";
/// How late a clock may ring on a slow and busy machine.
const LATE: Duration = Duration::from_secs(2);

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Checks that `took` is not before `due`, and not long after.
fn expect_at(due: Duration, took: Duration) {
    assert!(took >= due, "after {took:?}, before the clock's {due:?}");
    assert!(
        took < due + LATE,
        "after {took:?}, long after the clock's {due:?}"
    );
}

fn error_message(api: Api, stream: &StreamClient) -> String {
    let (_, error) = expect_error_last(api, stream);
    error["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn str_5_a_a_stream_that_flows_outlives_every_clock() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, CLOCKS);
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api.stream(&gateway.url(""), "gap=0.4,chunks=12").open();
        expect_whole(api, &mut stream);
        assert!(stream.elapsed() > seconds(4.0), "{:?}", stream.elapsed());
    });
    expect_outcomes(&gateway, "ok", 4.0);
}

#[test]
fn str_5_b_a_stream_that_stalls_ends_with_an_error() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, CLOCKS);
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api.stream(&gateway.url(""), "hang=4").open();
        assert!(stream.wait_events(4, PATIENCE));
        let stalled = stream.pieces().last().unwrap().at;
        stream.finish(PATIENCE);
        expect_at(seconds(1.0) - seconds(0.1), stalled.elapsed());
        let message = error_message(api, &stream);
        assert!(message.contains("idle"), "{message}");
    });
    let gone = eventually(PATIENCE, || {
        upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
    });
    assert!(gone, "{:?}", upstream.posts());
    expect_outcomes(&gateway, "timeout", 4.0);
}

#[test]
fn str_5_b_a_stream_that_stalls_inside_an_event_ends_without_one() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "timeouts: {idle: 500ms}");
    // Twenty bytes every second: the second event never comes whole.
    let mut stream = Api::Chat
        .stream(&gateway.url(""), "split=100,split_delay=0.3")
        .open();
    let end = stream.finish(PATIENCE);
    let parsed = stream.parsed();
    assert!(!end.is_whole() && parsed.unfinished, "{end:?}: {}", stream.text());
    assert!(parsed.events.iter().all(|event| Api::Chat.error(event).is_none()));
    expect_outcomes(&gateway, "timeout", 1.0);
}

#[test]
fn str_5_c_d_an_answer_that_does_not_come_is_a_timeout() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, CLOCKS);
    let base = gateway.url("");
    let cases: Vec<_> = Api::ALL
        .into_iter()
        .flat_map(|api| {
            [
                (api, "first_byte", 1.5, api.stream(&base, "hang=headers")),
                // A head alone is no first byte.
                (api, "first_byte", 1.5, api.stream(&base, "hang=body")),
                (api, "total", 2.0, api.whole(&base, "delay=6")),
                (api, "total", 2.0, api.whole(&base, "delay_body=6")),
            ]
        })
        .collect();
    par(cases.len(), |i| {
        let (api, clock, due, request) = &cases[i];
        let began = Instant::now();
        let response = request.send();
        expect_at(seconds(*due), began.elapsed());
        assert_eq!(response.status, 504);
        assert_eq!(response.json()["type"] == "error", *api == Api::Messages);
        let message = response.json()["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(message.contains(clock), "{message}");
    });
    expect_outcomes(&gateway, "timeout", 16.0);
    let line = gateway.wait_log(PATIENCE, |line| line["outcome"] == "timeout");
    assert_eq!(line["status"], 504, "{line}");
}

#[test]
fn str_5_d_a_long_answer_in_one_piece_ends_with_its_clock() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, CLOCKS);
    // Large enough to be passed on before it is complete.
    let began = Instant::now();
    let mut long = Api::Chat
        .whole(&gateway.url(""), "big=3000000,split=200000,split_delay=0.4")
        .open();
    assert_eq!(long.status, 200);
    let end = long.finish(PATIENCE);
    expect_at(seconds(2.0), began.elapsed());
    assert!(!end.is_whole() && long.body().len() > 200_000, "{end:?}");
    expect_outcomes(&gateway, "timeout", 1.0);
}

#[test]
fn str_5_e_comments_are_no_sign_of_life() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, CLOCKS);
    par(4, |i| {
        let api = Api::ALL[i];
        let began = Instant::now();
        let mut stream = api
            .stream(&gateway.url(""), "comments=60,comment_gap=0.25")
            .open();
        // The first comment commits the answer, so the timeout is an event of it.
        assert_eq!(stream.status, 200);
        stream.finish(PATIENCE);
        expect_at(seconds(1.5), began.elapsed());
        assert!(stream.parsed().comments.len() >= 2, "{}", stream.text());
        let message = error_message(api, &stream);
        assert!(message.contains("first_byte"), "{message}");
    });
    expect_outcomes(&gateway, "timeout", 4.0);
}

/// An upstream that sends one event and then a comment every 200 ms for as long as anybody listens. Gives its URL.
fn commenting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            // Probes connect and send nothing.
            if !matches!(peer.read(&mut [0; 64 * 1024]), Ok(1..)) {
                continue;
            }
            let event = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
            let mut sent = peer.write_all(format!("{CLOSE_DELIMITED}{event}").as_bytes());
            while sent.is_ok() {
                std::thread::sleep(Duration::from_millis(200));
                sent = peer.write_all(b": still there\n\n");
            }
        }
    });
    url
}

#[test]
fn str_5_e_comments_do_not_keep_a_stalled_stream_alive() {
    let url = commenting();
    let gateway = gateway(&format!(
        "pools: [{{name: m, kind: generic, endpoints: ['{url}'], timeouts: {{first_byte: 60s, idle: 1s}}}}]"
    ));
    let began = Instant::now();
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    stream.finish(PATIENCE);
    expect_at(seconds(1.0), began.elapsed());
    let message = error_message(Api::Chat, &stream);
    assert!(message.contains("idle"), "{message}");
    assert!(stream.parsed().comments.len() >= 2, "{}", stream.text());
    expect_outcomes(&gateway, "timeout", 1.0);
}

#[test]
fn str_5_a_limit_on_whole_streams_holds_where_it_is_set() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "timeouts: {stream_total: 2s}");
    par(4, |i| {
        let api = Api::ALL[i];
        let began = Instant::now();
        let mut stream = api.stream(&gateway.url(""), "gap=0.1,chunks=100").open();
        stream.finish(PATIENCE);
        expect_at(seconds(2.0), began.elapsed());
        let message = error_message(api, &stream);
        assert!(message.contains("stream_total"), "{message}");
    });
    expect_outcomes(&gateway, "timeout", 4.0);
}

#[test]
fn str_5_a_stream_that_is_whole_but_does_not_end_is_whole() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "timeouts: {idle: 500ms}");
    par(4, |i| {
        let api = Api::ALL[i];
        // The pause after the end mark is longer than the clock.
        let mut stream = api.stream(&gateway.url(""), "coalesce,gap=10").open();
        expect_whole(api, &mut stream);
        assert!(stream.elapsed() < seconds(5.0));
    });
    assert_eq!(outcomes(&gateway, "ok"), 4.0);
    expect_idle(&gateway);
}

/// A client that takes nothing keeps its stream from looking at the clock, and yet it rings.
#[test]
fn str_5_f_a_stream_whose_client_reads_nothing_ends_in_time() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "timeouts: {stream_total: 2s}");
    let mut client = narrow_client(address(&gateway));
    let request = chat_bytes("big=60000000,chunks=2000", true, "");
    client.write_all(request.as_bytes()).unwrap();
    wait_running(&upstream, 1);
    let began = Instant::now();
    expect_outcomes(&gateway, "timeout", 1.0);
    assert!(began.elapsed() >= seconds(1.0));
    let line = gateway.wait_log(PATIENCE, |line| line["outcome"] == "timeout");
    assert_eq!(line["status"], 200, "{line}");
    assert!(
        line["reason"].as_str().unwrap().contains("stream_total"),
        "{line}"
    );
    let gone = eventually(PATIENCE, || upstream.stats().in_flight == 0);
    assert!(gone, "{:?}", upstream.stats());
}
