//! What good files resolve to, of what the scheduler looks at: facts, filters, pickers, presets.

use crate::common::{good, route};
use weighbridge_config::discovery::Discovery;
use weighbridge_config::masked;
use weighbridge_core::spec::{Picker, Price, RouteBy};
use weighbridge_core::work::Abilities;

#[test]
fn facts_of_pools_targets_and_endpoints_reach_the_scheduler_and_are_shown() {
    let config = good(
        "server: {zone: az1}
pools:
  - name: a
    endpoints: [{url: http://h, labels: {zone: az2, gpu: T4}}]
    weight: auto
    context_length: 4096
    price: {input: 0.1, output: 0.4}
    strengths: [chat, code]
    abilities: [tools, image]
  - {name: b, discovery: {dns: {name: engines.example, port: 8000, labels: {gpu: A100}}}}
routes:
  - {name: r, targets: [{pool: a, serves_tokens: {over: 8, up_to: 100}}, {pool: b, serves_tokens: {up_to: 8}}]}
",
    );
    let [a, b] = &config.fleet.pools[..] else { panic!() };
    assert_eq!(config.fleet.zone.as_deref(), Some("az1"));
    let labels: Vec<(&str, &str)> = (a.endpoints[0].labels.iter())
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(labels, [("gpu", "T4"), ("zone", "az2")], "sorted");
    assert!(a.auto_weight && !b.auto_weight);
    assert_eq!((a.context_length, b.context_length), (Some(4096), None));
    let price = Price {
        input: 0.1,
        output: 0.4,
    };
    assert_eq!((a.price, b.price), (Some(price), None));
    assert_eq!(a.strengths, ["chat".into(), "code".into()]);
    assert_eq!(a.abilities, Abilities::TOOLS.and(Abilities::IMAGE));
    assert_eq!(b.abilities, Abilities::ALL);
    let ranges: Vec<_> = config.fleet.routes[0]
        .targets
        .iter()
        .map(|t| t.serves_tokens)
        .collect();
    assert_eq!(ranges, [Some((9, 100)), Some((0, 8))]);
    let Some(Discovery::Dns(dns)) = &config.pools[1].discovery else {
        panic!()
    };
    let found = dns.at_address("10.0.0.1:8000".parse().unwrap());
    assert_eq!(*found.spec.labels, [("gpu".into(), "A100".into())]);

    let shown = masked(&config);
    let pool = &shown["pools"][0];
    assert_eq!(
        (&pool["weight"], &pool["context_length"], &pool["abilities"]),
        (
            &"auto".into(),
            &4096.into(),
            &serde_json::json!(["image", "tools"])
        )
    );
    assert_eq!(pool["price"], serde_json::json!({"input": 0.1, "output": 0.4}));
    assert_eq!(shown["pools"][1]["discovery"]["dns"]["labels"]["gpu"], "A100");
    assert_eq!(
        shown["routes"][0]["targets"][0]["serves_tokens"],
        serde_json::json!({"over": 8, "up_to": 100})
    );
}

#[test]
fn filters_are_on_where_pools_tell_and_as_the_route_says() {
    let config = good(
        "pools:
  - {name: plain, endpoints: [http://a]}
  - {name: told, endpoints: [http://b], context_length: 4096, abilities: [image]}
routes:
  - {name: off, targets: [told], filters: {modality: false, context_length: false}}
  - name: all
    targets: [told]
    filters:
      labels: {gpu: [A, B], tier: gold}
      rules: [{when: {prompt_tokens: {over: 8}}, unless: {priority: P0}, not_labels: {spot: \"true\"}}]
      by_header: [zone]
      kv_fits: true
  - {name: shared, targets: [plain, told]}
  - {name: none, targets: [plain]}
",
    );
    let names = |route: usize| -> Vec<&str> {
        let filters = &config.fleet.routes[route].filters;
        filters.configs().map(|filter| filter.name()).collect()
    };
    assert_eq!(names(0), Vec::<&str>::new());
    assert_eq!(names(1), ["modality", "labels", "context_length", "kv_fits"]);
    assert_eq!(names(2), ["modality", "context_length"]);
    assert_eq!(names(3), Vec::<&str>::new());
    assert_eq!(
        masked(&config)["routes"][1]["filters"],
        serde_json::json!({
            "modality": true,
            "rules": [
                {"labels": {"gpu": ["A", "B"], "tier": ["gold"]}},
                {"when": {"prompt_tokens": {"over": 8}}, "unless": {"priority": ["P0"]}, "not_labels": {"spot": ["true"]}},
            ],
            "by_header": ["zone"],
            "context_length": true,
            "kv_fits": true,
        })
    );
    let implied = good("pools: [{name: told, endpoints: [http://b], context_length: 4096}]");
    assert!(implied.fleet.routes[0].filters.context_length.is_some());
}

#[test]
fn pickers_have_a_short_and_a_long_form() {
    let of = |picker: &str| {
        let text = route(&format!(
            "targets: [a], policies: {{least_inflight: {{}}}}, picker: {picker}"
        ));
        let config = good(&text);
        (
            config.fleet.routes[0].picker,
            masked(&config)["routes"][0]["picker"].clone(),
        )
    };
    let random = |temperature| Picker::WeightedRandom { temperature };
    assert_eq!(of("max"), (Picker::Max, "max".into()));
    assert_eq!(of("power_of_two"), (Picker::PowerOfTwo, "power_of_two".into()));
    assert_eq!(of("weighted_random"), (random(None), "weighted_random".into()));
    assert_eq!(
        of("{weighted_random: {}}"),
        (random(None), "weighted_random".into())
    );
    let shown = serde_json::json!({"weighted_random": {"temperature": 0.25}});
    assert_eq!(
        of("{weighted_random: {temperature: 0.25}}"),
        (random(Some(0.25)), shown)
    );
}

#[test]
fn a_preset_is_shown_as_what_it_stands_for() {
    let config = good(&route("targets: [a], preset: chat"));
    let policies = &config.fleet.routes[0].policies;
    assert_eq!(*policies, weighbridge_core::presets::Preset::Chat.policies());
    assert_eq!(config.fleet.routes[0].route_by(), RouteBy::Policy);
    let shown = &masked(&config)["routes"][0]["policies"];
    assert_eq!(shown["added_delay"]["answers"], 0.1);
    let written = format!("targets: [a], policies: {shown}");
    assert_eq!(good(&route(&written)).fleet.routes[0].policies, *policies);
}
