//! Data-parallel ranks of one URL: each a candidate, drained one by one or all together.

use super::{SOON, bad, begin_stream, binary, chat, endpoint, good, run};
use std::collections::BTreeMap;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::harness::Gateway;

fn gateway(upstream: &Upstream, more: &str) -> Gateway {
    let url = upstream.url();
    let config = format!(
        "pools:\n  - {{name: m, health: false, route_by: round_robin, {more}endpoints: [{{name: a, url: \"{url}\", ranks: 3}}]}}\n"
    );
    Gateway::start(binary(), &config)
}

/// How many of the next `count` chats each rank gets, by what the upstream is told.
fn asked(gateway: &Gateway, upstream: &Upstream, count: usize) -> BTreeMap<String, usize> {
    upstream.reset();
    for _ in 0..count {
        assert_eq!(chat(gateway, "m").status, 200);
    }
    let mut ranks = BTreeMap::new();
    for post in upstream.posts() {
        let rank = post.header("x-data-parallel-rank").unwrap().to_owned();
        *ranks.entry(rank).or_default() += 1;
    }
    ranks
}

fn ranks<const N: usize>(expect: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expect.map(|(rank, count)| (rank.to_owned(), count)).into()
}

#[test]
fn requests_take_turns_over_ranks_and_say_which() {
    let up = Upstream::start("up");
    let gateway = gateway(&up, "");
    assert_eq!(asked(&gateway, &up, 6), ranks([("0", 2), ("1", 2), ("2", 2)]));
    let mut stream = begin_stream(&gateway);
    let inflight = |name: &str| endpoint(&gateway, name)["inflight"].as_u64().unwrap();
    assert_eq!(
        ["a#0", "a#1", "a#2"].map(inflight).iter().sum::<u64>(),
        1,
        "counted per rank"
    );
    stream.finish(SOON);
    let answer = chat(&gateway, "m");
    assert!(answer.header("x-weighbridge-endpoint").unwrap().starts_with("a#"));
    assert_eq!(endpoint(&gateway, "a#1")["rank_of"], "a");
}

#[test]
fn one_rank_is_drained_or_all() {
    let up = Upstream::start("up");
    let gateway = gateway(&up, "");
    let shown = good(&run(&gateway, &["drain", "m/a#1"]));
    assert!(shown.contains("m/a#1: draining"), "{shown}");
    assert_eq!(asked(&gateway, &up, 4), ranks([("0", 2), ("2", 2)]));
    good(&run(&gateway, &["resume", "m/a#1"]));
    let shown = good(&run(&gateway, &["drain", "m/a", "--wait", "5s"]));
    assert!(shown.contains("m/a: draining, idle"), "{shown}");
    assert_eq!(chat(&gateway, "m").status, 503);
    for name in ["a#0", "a#1", "a#2"] {
        assert_eq!(endpoint(&gateway, name)["state"], "draining");
    }
    good(&run(&gateway, &["resume", "m/a"]));
    assert_eq!(asked(&gateway, &up, 3), ranks([("0", 1), ("1", 1), ("2", 1)]));
    bad(
        &run(&gateway, &["drain", "m/a#3"]),
        2,
        &["there is no endpoint `m/a#3`", "m/a#0", "m/a,"],
    );
}

#[test]
fn a_pool_says_it_for_all_and_files_too() {
    let up = Upstream::start("up");
    let url = up.url();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("endpoints.yaml");
    std::fs::write(
        &file,
        format!("[{{name: f, url: \"{url}\"}}, {{name: g, url: \"{url}/g\", ranks: 1}}]"),
    )
    .unwrap();
    let config = format!(
        "pools:\n  - {{name: m, health: false, ranks: 2, endpoints: [\"{url}\"]}}\n  \
         - {{name: n, health: false, ranks: 2, discovery: {{file: \"{}\"}}}}\n",
        file.display()
    );
    let gateway = Gateway::start(binary(), &config);
    let all = gateway.api("/api/endpoints");
    let mut names: Vec<_> = all["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|endpoint| {
            format!(
                "{}/{}",
                endpoint["pool"].as_str().unwrap(),
                endpoint["name"].as_str().unwrap()
            )
        })
        .collect();
    names.sort();
    let port = up.port();
    assert_eq!(
        names,
        [
            format!("m/127.0.0.1:{port}#0"),
            format!("m/127.0.0.1:{port}#1"),
            "n/f#0".to_owned(),
            "n/f#1".to_owned(),
            "n/g".to_owned()
        ]
    );
}
