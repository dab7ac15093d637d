//! Where engines tell what they hold: what may be written, what is refused, what surprises.

use crate::common::{check_places, good, warnings};
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
        let found = crate::common::bad(&endpoint(events));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{shown:#?}");
        assert!(
            shown[0].contains("endpoints[0].kv_events") && shown[0].contains(message),
            "{shown:#?}"
        );
    };
    told("{bind: 'localhost:5557'}", "begins with `tcp://`");
    told("{connect: 'gpu8:5558'}", "write `tcp://gpu8:5558`");
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
    let found =
        crate::common::bad("pools: [{name: a, endpoints: [http://h:1], tokenizer: {chat_template: t}}]");
    assert!(found[0].to_string().contains("path"), "{found:?}");
}

#[test]
fn every_rank_has_a_port() {
    let ranks = |endpoint: &str, pool: &str| {
        format!(
            "pools: [{{name: a{pool}, endpoints: [{{url: http://h:1{endpoint}, kv_events: {{connect: tcp://h:65530, replay: tcp://h:65000}}}}]}}]"
        )
    };
    let told = |text: &str, ranks: u32| {
        let found = crate::common::bad(text);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{shown:#?}");
        assert!(
            shown[0].contains("pools[0].endpoints[0].kv_events.connect")
                && shown[0].contains(&format!("{ranks} ranks")),
            "{shown:#?}"
        );
    };
    told(&ranks(", ranks: 7", ""), 7);
    told(&ranks("", ", ranks: 8"), 8);
    let config = good(&ranks(", ranks: 6", ", ranks: 8"));
    let last = config.pools[0].endpoints[5].kv_events.clone().unwrap();
    assert_eq!(last.source, Source::Connect(place("h", 65535)));
}

/// Two endpoints that listen, each with its ranks.
fn both(a: (&str, u32), b: (&str, u32)) -> String {
    let endpoint = |(bind, ranks): (&str, u32), port: u16| {
        format!(
            "{{url: http://h:{port}, ranks: {ranks}, kv_events: {{bind: '{bind}', replay: tcp://h:{port}}}}}"
        )
    };
    format!(
        "pools: [{{name: a, endpoints: [{}, {}]}}]",
        endpoint(a, 1000),
        endpoint(b, 2000)
    )
}

#[test]
fn ranks_and_overlapping_addresses_cannot_have_one_port() {
    let told = |a: (&str, u32), b: (&str, u32), message: &str| {
        let found = crate::common::bad(&both(a, b));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{shown:#?}");
        assert!(
            shown[0].contains("pools[0].endpoints[1].kv_events.bind: ") && shown[0].contains(message),
            "{shown:#?}"
        );
    };
    let (any, one) = ("tcp://*:5557", "tcp://127.0.0.1:5558");
    told((any, 2), (one, 1), "also listens on `tcp://*:5558`");
    told((one, 1), (any, 2), "also listens on `tcp://127.0.0.1:5558`");
    told(
        ("tcp://0.0.0.0:5557", 1),
        ("tcp://127.0.0.1:5557", 1),
        "also listens",
    );
    told(("tcp://0.0.0.0:5557", 1), (any, 1), "also listens");
    told(
        ("tcp://[::]:5557", 1),
        ("tcp://127.0.0.1:5557", 1),
        "also listens",
    );
    told(("tcp://[::1]:5557", 1), ("tcp://[0::1]:5557", 1), "also listens");
    good(&both((any, 1), (one, 1)));
    good(&both((one, 4), (any, 1)));
    good(&both(("tcp://0.0.0.0:5557", 1), ("tcp://[::1]:5557", 1)));
}

#[test]
fn an_engine_cannot_have_the_gateways_own_port() {
    let told = |head: &str, bind: &str, ranks: u32, key: &str| {
        let found = crate::common::bad(&format!(
            "{head}pools: [{{name: a, endpoints: [{{url: http://h:1, ranks: {ranks}, kv_events: {{bind: '{bind}', replay: tcp://h:1}}}}]}}]"
        ));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{shown:#?}");
        assert!(
            shown[0].contains("pools[0].endpoints[0].kv_events.bind: ")
                && shown[0].contains(&format!("`{key}`")),
            "{shown:#?}"
        );
    };
    told("", "tcp://127.0.0.1:8800", 1, "server.listen");
    told("", "tcp://*:8799", 2, "server.listen");
    told("", "tcp://*:8801", 1, "admin.listen");
    told(
        "server: {listen: '127.0.0.1:9000'}\n",
        "tcp://0.0.0.0:9000",
        1,
        "server.listen",
    );
    good(
        "server: {listen: '127.0.0.1:9000'}\npools: [{name: a, endpoints: [{url: http://h:1, kv_events: {bind: tcp://127.0.0.2:9000, replay: tcp://h:1}}]}]",
    );
}

#[test]
fn events_that_nobody_reads_surprise() {
    let config = |route: &str| {
        format!(
            "pools: [{{name: a, tokenizer: {{path: t.json}}, model: m, endpoints: [\
             {{url: http://h:1, kv_events: {{connect: tcp://h:2, replay: tcp://h:3}}}}, {{url: http://g:1}}]}}]\n\
             routes: [{{name: r, targets: [a]{route}}}]"
        )
    };
    let unread = |route: &str| {
        let all = warnings(&config(route));
        all.iter().any(|warning| {
            warning
                .contains("endpoints[0].kv_events: no route over the pool `a` looks at what its engines hold")
        })
    };
    assert!(unread(", route_by: round_robin"));
    assert!(unread(", policies: {least_inflight: {}}"));
    assert!(!unread(""), "by `auto`");
    assert!(!unread(", policies: {prefix_cache: {}, least_inflight: {}}"));
}

#[test]
fn two_engines_that_are_read_from_one_place_surprise() {
    let config = |second: u16| {
        format!(
            "pools: [{{name: a, endpoints: [{{url: http://h:1, kv_events: {{connect: tcp://h:2}}}}, \
             {{url: http://g:1, kv_events: {{connect: tcp://h:{second}}}}}]}}]"
        )
    };
    let same = |config: &str| {
        let all = warnings(config);
        all.iter().any(|warning| {
            warning.contains("endpoints[1].kv_events: `tcp://h:2` is where `pools[0].endpoints[0].kv_events` reads from too")
        })
    };
    assert!(same(&config(2)));
    assert!(!same(&config(3)));
}
