//! Where engines tell what they hold: what may be written, what is refused, what surprises.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests are exempt"
)]

#[expect(
    dead_code,
    unreachable_pub,
    reason = "every test file uses a part of what they share"
)]
mod common;

use common::{check_places, good, warnings};
use weighbridge_config::kv_events::{KvEvents, Place, Source};

fn endpoint(events: &str) -> String {
    format!("pools: [{{name: a, endpoints: [{{url: http://h:1, kv_events: {events}}}]}}]")
}

fn place(host: &str, port: u16) -> Place {
    Place {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn where_events_come_from() {
    let config = good(&endpoint("{bind: tcp://*:5557, replay: tcp://gpu1:5558}"));
    let expected = KvEvents {
        source: Source::Bind(place("*", 5557)),
        replay: Some(place("gpu1", 5558)),
    };
    assert_eq!(config.pools[0].endpoints[0].kv_events, Some(expected));
    let shown = &weighbridge_config::masked(&config)["pools"][0]["endpoints"][0]["kv_events"];
    assert_eq!(
        *shown,
        serde_json::json!({"bind": "tcp://*:5557", "replay": "tcp://gpu1:5558"})
    );
    let config = good(&endpoint("{connect: 'tcp://[::1]:5557'}"));
    let expected = KvEvents {
        source: Source::Connect(place("::1", 5557)),
        replay: None,
    };
    assert_eq!(config.pools[0].endpoints[0].kv_events, Some(expected));
}

#[test]
fn what_is_no_place_is_told() {
    let told = |events: &str, message: &str| {
        let found = common::bad(&endpoint(events));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{shown:#?}");
        assert!(
            shown[0].contains("endpoints[0].kv_events") && shown[0].contains(message),
            "{shown:#?}"
        );
    };
    told("{bind: 'localhost:5557'}", "begins with `tcp://`");
    told("{bind: ipc:///tmp/x}", "other transports are not supported");
    told("{connect: tcp://gpu1}", "has no port");
    told("{connect: tcp://gpu1:0}", "not a port from 1 to 65535");
    told("{connect: 'tcp://::1:5557'}", "IPv6 in brackets");
    told("{connect: tcp://*:5557}", "is where an engine listens");
    told("{bind: tcp://gpu1:5557}", "one listens on an address");
    told(
        "{bind: tcp://*:1, replay: tcp://*:2}",
        "write the engine's host: `tcp://gpu1:2`",
    );
    told("{bind: tcp://*:1, connect: tcp://h:1}", "bind");
    told("{}", "bind");
}

#[test]
fn two_engines_cannot_have_one_port() {
    let two = |a: &str, b: &str| {
        format!(
            "pools: [{{name: a, endpoints: [{{url: http://h:1, kv_events: {{bind: {a}, replay: tcp://h:1}}}}]}}, \
             {{name: b, endpoints: [{{url: http://h:2, kv_events: {{bind: {b}, replay: tcp://h:2}}}}]}}]"
        )
    };
    check_places(
        &two("tcp://*:5557", "tcp://127.0.0.1:5557"),
        &[
            ":1:162: pools[1].endpoints[0].kv_events.bind: pools[0].endpoints[0].kv_events.bind also listens on `tcp://*:5557` | give every engine a port of its own",
        ],
    );
    good(&two("tcp://127.0.0.1:5557", "tcp://127.0.0.2:5557"));
    good(&two("tcp://*:5557", "tcp://*:5558"));
}

#[test]
fn what_events_cannot_do_surprises() {
    let told = |events: &str, pool: &str| -> Vec<String> {
        warnings(&format!(
            "pools: [{{name: a, endpoints: [{{url: http://h:1, kv_events: {events}}}]{pool}}}]"
        ))
    };
    let tokenizer = ", tokenizer: {path: tokenizer.json}";
    let lost = told("{connect: tcp://h:5557}", tokenizer);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("without `replay`"), "{lost:?}");
    let whole = "{connect: tcp://h:5557, replay: tcp://h:5558}";
    let text = told(whole, "");
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(text[0].contains("only prompts of token ids"), "{text:?}");
    assert_eq!(told(whole, tokenizer), Vec::<String>::new());
}

#[test]
fn a_tokenizer_is_a_file_beside_the_config() {
    let config = good(
        "pools: [{name: a, endpoints: [http://h:1], tokenizer: {path: tokenizer.json, chat_template: t.jinja}}]",
    );
    let tokenizer = config.pools[0].tokenizer.clone().unwrap();
    assert!(tokenizer.path.ends_with("tokenizer.json"));
    assert!(tokenizer.chat_template.unwrap().ends_with("t.jinja"));
    let found = common::bad("pools: [{name: a, endpoints: [http://h:1], tokenizer: {chat_template: t}}]");
    assert!(found[0].to_string().contains("path"), "{found:?}");
}
