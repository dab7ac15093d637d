//! `ranks`: one URL that is several endpoints.

use crate::common::{bad, good};
use weighbridge_config::{Config, masked};
use weighbridge_core::spec::Weight;

fn names(config: &Config, pool: usize) -> Vec<(&str, Option<u32>)> {
    let (spec, pool) = (&config.fleet.pools[pool], &config.pools[pool]);
    assert_eq!(spec.endpoints.len(), pool.endpoints.len());
    for (spec, endpoint) in spec.endpoints.iter().zip(&pool.endpoints) {
        assert_eq!((&spec.name, spec.rank), (&endpoint.name, endpoint.rank));
    }
    let all = pool.endpoints.iter();
    all.map(|endpoint| (&*endpoint.name, endpoint.rank)).collect()
}

const SOME: &str = "
pools:
  - name: p
    ranks: 2
    endpoints:
      - {name: a, url: http://h:1, weight: 3}
      - {name: b, url: http://h:2, ranks: 1}
      - {url: http://h:3, ranks: 3}
  - {name: q, endpoints: [{url: http://h:4, ranks: 2}, http://h:5]}
";

#[test]
fn an_endpoint_says_it_or_its_pool() {
    let config = good(SOME);
    assert_eq!(
        names(&config, 0),
        [
            ("a#0", Some(0)),
            ("a#1", Some(1)),
            ("b", None),
            ("h:3#0", Some(0)),
            ("h:3#1", Some(1)),
            ("h:3#2", Some(2))
        ]
    );
    assert_eq!(
        names(&config, 1),
        [("h:4#0", Some(0)), ("h:4#1", Some(1)), ("h:5", None)]
    );
    let [first, second] = &config.fleet.pools[0].endpoints[..2] else {
        panic!()
    };
    assert_eq!(
        (first.weight, second.weight),
        (Weight(3_000_000), Weight(3_000_000))
    );
    assert_ne!(first.address, second.address, "each is an endpoint of its own");
    assert_eq!(
        (first.base_name(), config.fleet.pools[0].endpoints[2].base_name()),
        ("a", "b")
    );
    assert_eq!(
        config.pools[0].endpoints[0].url.port,
        config.pools[0].endpoints[1].url.port
    );
}

#[test]
fn they_are_shown_as_they_are_written() {
    let config = good(SOME);
    let shown = masked(&config);
    let endpoints = shown["pools"][0]["endpoints"].as_array().unwrap();
    let names: Vec<_> = endpoints
        .iter()
        .map(|endpoint| endpoint["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "h:3"]);
    assert_eq!(endpoints[2]["ranks"], 3);
    assert_eq!(shown["pools"][0]["ranks"], 2);
    let again = good(&shown.to_string());
    assert_eq!(again.fleet, config.fleet, "and read again they are the same");
}

#[test]
fn what_a_source_finds_has_ranks_too() {
    let mut config = good(
        "pools: [{name: p, ranks: 2, discovery: {dns: \"h.example:80\"}}, {name: q, endpoints: [{name: x, url: http://x}, {name: y, url: http://y, ranks: 2}]}]",
    );
    let found =
        good("pools: [{name: q, endpoints: [{name: x, url: http://x}, {name: y, url: http://y, ranks: 1}]}]")
            .endpoints_of(0);
    config.set_endpoints(0, &found);
    assert_eq!(
        names(&config, 0),
        [("x#0", Some(0)), ("x#1", Some(1)), ("y", None)]
    );
    let expanded = config.endpoints_of(0);
    config.set_endpoints(0, &expanded);
    assert_eq!(names(&config, 0).len(), 3, "ranks have no ranks");
}

#[test]
fn names_of_ranks_are_theirs() {
    let problems = bad(
        "pools: [{name: p, endpoints: [{name: a, url: http://h, ranks: 2}, {name: \"a#1\", url: http://i}, {name: \"b#1\", url: http://j}]}]",
    );
    let said: Vec<_> = problems
        .iter()
        .map(|problem| (problem.path.as_str(), problem.message.as_str()))
        .collect();
    assert_eq!(
        said,
        [(
            "pools[0].endpoints[1]",
            "`a#1` is what a rank of the endpoint `a` is called"
        )]
    );
    let problems = bad("pools: [{name: p, ranks: 0, endpoints: [{url: http://h, ranks: 257}]}]");
    assert_eq!(problems.len(), 2);
}

/// Engines add the rank to the ports of their events.
#[test]
fn each_rank_tells_of_its_cache_at_a_port_of_its_own() {
    let config = good(
        "pools: [{name: p, kind: vllm, endpoints: [{url: http://h:1, ranks: 2, kv_events: {connect: tcp://h:5557, replay: tcp://h:6557}}]}]",
    );
    let places: Vec<String> = (config.pools[0].endpoints.iter())
        .map(|endpoint| {
            let events = endpoint.kv_events.as_ref().unwrap();
            let weighbridge_config::kv_events::Source::Connect(place) = &events.source else {
                panic!("it connects")
            };
            format!("{place} {}", events.replay.as_ref().unwrap())
        })
        .collect();
    assert_eq!(places, ["tcp://h:5557 tcp://h:6557", "tcp://h:5558 tcp://h:6558"]);
}

/// What a file lists has its pool's ranks too, so its ports must leave room for them.
#[test]
fn ports_of_listed_endpoints_leave_room_for_the_ranks_of_their_pool() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("e.yaml");
    std::fs::write(
        &file,
        "- {url: http://h:1, kv_events: {connect: tcp://h:65530, replay: tcp://h:65520}}\n",
    )
    .unwrap();
    let config = directory.path().join("w.yaml");
    let with = |ranks: u32| {
        let text = format!("pools: [{{name: p, kind: vllm, ranks: {ranks}, discovery: {{file: e.yaml}}}}]");
        std::fs::write(&config, text).unwrap();
        weighbridge_config::load(&config, &|_| None)
    };
    let loaded = with(6).unwrap();
    let events = loaded.config.pools[0].endpoints.iter();
    assert_eq!(events.filter(|endpoint| endpoint.kv_events.is_some()).count(), 6);
    let told = with(7).unwrap_err().to_string();
    assert!(
        told.contains("e.yaml:1:") && told.contains("`tcp://h:65530` leaves no ports for all of the 7 ranks"),
        "{told}"
    );
}
