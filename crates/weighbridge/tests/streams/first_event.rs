//! STR-4: an error that an engine reports under status 200.

use crate::support::{
    Api, CLOSE_DELIMITED, PATIENCE, canned, expect_error_last, expect_outcomes, expect_whole, gateway_to,
    gateway_to_either, gateway_to_url, outcomes,
};
use weighbridge_test_engine::{Upstream, par};

#[test]
fn str_4_a_an_error_as_the_first_event_is_retried_where_its_status_is() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "'500', '529'");
    a.set_mode("error_event=0,error_code=500");
    for api in Api::ALL {
        let mut stream = api.stream(&gateway.url(""), "").open();
        assert_eq!((stream.status, stream.header("x-mock-name")), (200, Some("b")));
        expect_whole(api, &mut stream);
        assert!(!stream.text().contains("scripted"), "{}", stream.text());
    }
    expect_outcomes(&gateway, "ok", 4.0);
    let failed = gateway
        .metrics()
        .sum("weighbridge_attempts_total", &[("pool", "a")]);
    assert_eq!(failed, 4.0);
}

#[test]
fn str_4_b_an_error_of_the_client_as_the_first_event_is_its_answer() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "'500', '503'");
    let mode = "error_event=0,error_code=400,err_type=invalid_request_error,err_msg=not multimodal";
    for api in Api::ALL {
        let response = api.stream(&gateway.url(""), mode).send();
        assert_eq!(response.status, 400, "{}", response.text());
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.json()["error"]["message"], "not multimodal");
        assert_eq!(response.json()["type"] == "error", api == Api::Messages);
    }
    assert!(b.posts().is_empty());
    expect_outcomes(&gateway, "client_error", 4.0);
}

#[test]
fn str_4_c_the_same_error_everywhere_is_the_answer() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "'500', '529'");
    for api in Api::ALL {
        let response = api
            .stream(
                &gateway.url(""),
                "error_event=0,error_code=500,err_type=api_error",
            )
            .send();
        assert_eq!(response.status, 502, "{}", response.text());
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert!(response.json()["error"]["message"].is_string());
        assert!(!response.text().contains("message_start"));
    }
    assert_eq!((a.posts().len(), b.posts().len()), (4, 4));
    expect_outcomes(&gateway, "upstream_error", 4.0);
}

#[test]
fn str_4_an_error_that_is_not_retried_by_default_is_not() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "connect, '429', '503', '529'");
    let response = Api::Chat
        .stream(&gateway.url(""), "error_event=0,error_code=500")
        .send();
    assert_eq!((response.status, b.posts().len()), (502, 0));
    // However the bytes of the event arrive.
    let response = Api::Chat
        .stream(&gateway.url(""), "error_event=0,error_code=503,split=5")
        .send();
    assert_eq!(
        (response.status, b.posts().len()),
        (503, 1),
        "{}",
        response.text()
    );
}

#[test]
fn str_4_an_error_after_content_ends_the_stream() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "'500', '529'");
    // The upstream goes on to send an end mark, which would make the answer look whole.
    for mode in [
        "error_event=4",
        "error_event=4,split=9",
        "error_event=4,crlf",
        "error_event=4,gap=0.05",
    ] {
        par(4, |i| {
            let api = Api::ALL[i];
            let mut stream = api.stream(&gateway.url(""), mode).open();
            stream.finish(PATIENCE);
            let (events, error) = expect_error_last(api, &stream);
            assert_eq!(events.len(), 4, "{mode} {api:?}: {}", stream.text());
            assert_eq!(error["message"], "a scripted failure within the stream");
        });
    }
    assert!(b.posts().is_empty());
    expect_outcomes(&gateway, "upstream_stream_error", 16.0);
}

#[test]
fn str_4_an_error_ends_the_stream_though_more_arrives_with_it() {
    const BODY: &str = concat!(
        "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n",
        "data: {\"error\":{\"message\":\"no\"}}\n\ndata: [DONE]\n\n",
    );
    let gateway = gateway_to_url(&canned(CLOSE_DELIMITED, BODY, false), "");
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    stream.finish(PATIENCE);
    let (events, error) = expect_error_last(Api::Chat, &stream);
    assert_eq!((events.len(), &error["message"]), (1, &"no".into()));
    expect_outcomes(&gateway, "upstream_stream_error", 1.0);
}

#[test]
fn str_4_an_answer_in_one_piece_that_holds_only_an_error_is_one() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "'500'");
    a.set_mode("ok_error");
    for api in Api::ALL {
        let response = api.whole(&gateway.url(""), "").send();
        assert_eq!((response.status, response.served_by()), (200, Some("b")));
    }
    b.set_mode("ok_error,err_msg=out of memory");
    for api in Api::ALL {
        let response = api.whole(&gateway.url(""), "").send();
        assert_eq!(
            (response.status, &response.json()["error"]["message"]),
            (502, &"out of memory".into())
        );
    }
    assert_eq!(
        (outcomes(&gateway, "ok"), outcomes(&gateway, "upstream_error")),
        (4.0, 4.0)
    );
}

#[test]
fn str_4_an_empty_stream_is_no_answer() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    for api in Api::ALL {
        for mode in ["cut=0", "cut=0,cut_kind=rst", "cut=0,cut_kind=clean"] {
            let response = api.stream(&gateway.url(""), mode).send();
            assert_eq!(response.status, 502, "{api:?} {mode}: {}", response.text());
        }
    }
    expect_outcomes(&gateway, "upstream_error", 12.0);
}
