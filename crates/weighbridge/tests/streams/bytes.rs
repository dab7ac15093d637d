//! STR-3, TRL-3 and NUM-1: what passes, passes as it is.

use crate::support::{
    Api, PATIENCE, canned, expect_outcomes, gateway, gateway_passively_to, gateway_to, gateway_to_url,
};
use serde_json::Value;
use std::time::Duration;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::{Upstream, par};

/// Every way in which a stream may be written.
const FORMS: [&str; 14] = [
    "",
    "split=1",
    "split=7",
    "coalesce",
    "unicode",
    "unicode,split=1",
    "unicode,split=7",
    "unicode,coalesce",
    "crlf,split=1",
    "cr,split=3",
    "comments=3,comment_gap=0.02,comment_every=2",
    "multiline,split=5",
    "nospace,sse_id,unicode",
    "usage,reasoning,tool=2,empty_choices",
];

#[test]
fn str_3_the_bytes_of_a_stream_are_the_upstreams() {
    let upstream = Upstream::start("a");
    let gateway = gateway_passively_to(&upstream);
    for api in Api::ALL {
        par(FORMS.len(), |i| {
            let form = FORMS[i];
            let mut direct = api.stream(&upstream.url(), form).open();
            let mut relayed = api.stream(&gateway.url(""), form).open();
            assert!(direct.finish(PATIENCE).is_whole() && relayed.finish(PATIENCE).is_whole());
            assert!(direct.events().len() > 5, "{}", direct.text());
            assert!(
                direct.body() == relayed.body(),
                "{api:?} {form}: {}",
                relayed.text()
            );
            assert!(!relayed.text().contains('\u{fffd}'));
            if form.contains("unicode") {
                assert!(relayed.text().contains("你好世界 🙂") && relayed.text().contains('\u{2028}'));
            }
        });
    }
}

#[test]
fn str_3_tokens_are_counted_however_the_bytes_arrive() {
    let upstream = Upstream::start("a");
    for form in [
        "unicode,split=1",
        "unicode,split=7",
        "unicode,coalesce",
        "crlf,split=2",
    ] {
        let gateway = gateway_to(&upstream, "");
        let mode = format!("{form},usage");
        par(4, |i| Api::ALL[i].stream(&gateway.url(""), &mode).send());
        let tokens = |kind| {
            gateway
                .metrics()
                .sum("weighbridge_tokens_total", &[("kind", kind)])
        };
        let direct = Api::Chat.whole(&upstream.url(), form).send().json();
        let expected = |kind: &str| 4.0 * direct["usage"][kind].as_f64().unwrap();
        assert_eq!(tokens("prompt"), expected("prompt_tokens"), "{form}");
        assert_eq!(tokens("completion"), expected("completion_tokens"), "{form}");
    }
}

#[test]
fn str_3_answers_in_one_piece_are_the_upstreams() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    for api in Api::ALL {
        for form in [
            "",
            "unicode,split=1",
            "big=3000000",
            "close_delimited",
            "nan,bigint,reasoning,tool=2",
            "both",
            "both,big=900000",
        ] {
            let direct = api.whole(&upstream.url(), form).send();
            let relayed = api.whole(&gateway.url(""), form).send();
            assert!(direct.body == relayed.body, "{api:?} {form}: {}", relayed.text());
            let framings = ["content-length", "transfer-encoding"].map(|name| relayed.header_all(name).len());
            assert_eq!(
                framings.iter().sum::<usize>(),
                1,
                "{api:?} {form}: {:?}",
                relayed.headers
            );
        }
    }
}

#[test]
fn str_3_a_length_that_the_chunks_outrank_cuts_no_answer() {
    const LENGTH: usize = 300_000;
    for said in [10, LENGTH - 1, LENGTH + 1] {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {said}\r\n\
             transfer-encoding: chunked\r\n\r\n"
        );
        let body = format!("{LENGTH:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(LENGTH));
        let gateway = gateway_to_url(&canned(head.leak(), body.leak(), true), "");
        let answer = Api::Chat.whole(&gateway.url(""), "").send();
        assert!(answer.end.is_whole(), "{said}: {:?}", answer.end);
        assert_eq!((answer.status, answer.body.len()), (200, LENGTH), "{said}");
        assert_eq!(answer.header("content-length"), None, "{said}");
        expect_outcomes(&gateway, "ok", 1.0);
    }
}

/// A pool that rewrites the model's name to one that says the upstream's mode.
fn renaming(upstream: &Upstream, mode: &str) -> weighbridge_test_engine::harness::Gateway {
    let url = upstream.url();
    gateway(&format!(
        "
        pools: [{{name: p, kind: generic, model: 'real@@{mode}', endpoints: ['{url}']}}]
        routes: [{{name: m, targets: [p], usage: passive}}]
        "
    ))
}

/// Fields that no list knows, and numbers that no float holds.
const FIELDS: &str = r#""chat_template_kwargs": {"enable_thinking": false, "deep": [[], {}, null, {"a": [1.0]}]},
 "guided_json":{"type":"object","properties":{"model":{"type":"string"}}},"min_p" : 0.05,"extra_body":{},"vllm_xargs":{"model":"inner"},
 "nothing":null,"empty":[],	"seed":9007199254740993,"n2":18446744073709551615,"n3":12345678901234567890123,"n4":1e400,
 "n5":0.1,"n6":1.0,"n7":-0,"n8":1E-7,"n9":1e15,"text":"\u00e9\ud83d\ude42 \"quoted\" \/ é""#;

fn with_fields(api: Api, stream: bool) -> String {
    let text = match api {
        Api::Chat => r#""messages":[{"role":"user","content":"hi"}]"#,
        Api::Completions => r#""prompt":"hi""#,
        Api::Responses => r#""input":"hi""#,
        Api::Messages => r#""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#,
    };
    format!("{{ {text}, \"model\" :\"m\",\"stream\":{stream}, {FIELDS}}}\n")
}

#[test]
fn trl_3_num_1_a_request_that_passes_is_not_touched() {
    let upstream = Upstream::start("a");
    let gateway = gateway_passively_to(&upstream);
    for (api, stream) in Api::ALL.into_iter().flat_map(|api| [(api, false), (api, true)]) {
        let sent = with_fields(api, stream);
        upstream.reset();
        let response = Request::post(&gateway.url(api.path()), &sent).send();
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(upstream.posts()[0].body.as_deref(), Some(sent.as_str()));
    }
}

#[test]
fn trl_3_num_1_a_request_to_another_model_differs_in_its_name_alone() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "bigint");
    for (api, stream) in Api::ALL.into_iter().flat_map(|api| [(api, false), (api, true)]) {
        let sent = with_fields(api, stream);
        upstream.reset();
        let response = Request::post(&gateway.url(api.path()), &sent).send();
        assert_eq!(response.status, 200, "{}", response.text());
        let expected = sent.replace("\"model\" :\"m\"", "\"model\" :\"real@@bigint\"");
        assert_eq!(upstream.posts()[0].body.as_deref(), Some(expected.as_str()));
    }
}

#[test]
fn trl_3_unknown_fields_of_answers_reach_the_client() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "reasoning");
    let whole = Api::Chat.whole(&gateway.url(""), "reasoning").send().json();
    assert_eq!(whole["x_vendor_extra"]["keep"], "me");
    assert_eq!(whole["system_fingerprint"], "a");
    assert!(whole["choices"][0]["message"]["reasoning_content"].is_string());
    let stream = Api::Chat.stream(&gateway.url(""), "reasoning").send();
    assert!(
        stream.text().contains("\"system_fingerprint\":\"a\"") && stream.text().contains("reasoning_content")
    );
}

#[test]
fn num_1_numbers_of_answers_keep_their_digits() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    let mode = r#"bigint,tool=1,tool_args={"id":1234567890123456789}"#;
    let texts = [
        Api::Chat.whole(&gateway.url(""), mode).send().text(),
        Api::Chat
            .stream(&gateway.url(""), &format!("{mode},split=3"))
            .send()
            .text(),
    ];
    let big = Api::Chat.whole(&upstream.url(), "bigint").send().text();
    let (_, digits) = big
        .split_once("\"x_big\":")
        .expect("the upstream sends a large number");
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    assert!(digits.len() >= 16, "{digits}");
    for text in &texts {
        assert!(text.contains(&format!("\"x_big\":{digits}")), "{text}");
    }
    assert!(texts[0].contains("1234567890123456789"), "{}", texts[0]);
}

#[test]
fn trl_3_nothing_is_added_to_a_request() {
    let upstream = Upstream::start("a");
    let gateway = renaming(&upstream, "");
    for stream in [false, true] {
        upstream.reset();
        let sent = with_fields(Api::Chat, stream);
        Request::post(&gateway.url(Api::Chat.path()), sent)
            .patience(Duration::from_secs(20))
            .send();
        let got: Value = upstream.posts()[0].json();
        // A route that asks for nothing on its own.
        assert!(got.get("stream_options").is_none(), "{got}");
    }
}
