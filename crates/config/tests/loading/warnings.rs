//! What is allowed and will surprise, exactly as it is told.

use crate::common::{pool, pool_with, route, warnings};

pub(crate) fn check(text: &str, expect: &[&str]) {
    let got: Vec<String> = warnings(text)
        .iter()
        .map(|line| line.replace("\n    ", " | "))
        .collect();
    // Places are tested with the problems.
    let got: Vec<&str> = got
        .iter()
        .filter_map(|line| line.splitn(4, ':').nth(3))
        .map(str::trim_start)
        .collect();
    assert_eq!(got, expect, "{text}");
}

#[test]
fn shipped_configs_warn_only_of_what_they_show() {
    for (name, expect) in [("minimal", 0), ("sessions", 0), ("full", 2)] {
        let path = format!("{}/../../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let loaded = weighbridge_config::load(path.as_ref(), &|_| None).unwrap();
        assert_eq!(loaded.warnings.len(), expect, "{name}: {:?}", loaded.warnings);
    }
}

fn sessions(endpoints: usize, policies: &str) -> String {
    let urls: Vec<String> = (0..endpoints)
        .map(|index| format!("http://h:{}", index + 1))
        .collect();
    format!(
        "pools: [{{name: a, endpoints: [{}]}}]\nroutes: [{{name: r, targets: [a], policies: {{{policies}}}}}]",
        urls.join(", ")
    )
}

#[test]
fn affinity_that_no_load_breaks_is_told_for_exactly_those_sizes() {
    // The table of the routing semantics: ratio of least_inflight to session_affinity, and the sizes with "never".
    for (least, affinity, never_from) in [
        (1.0, 2.0, 3),
        (1.0, 1.0, 5),
        (1.5, 1.0, 7),
        (2.0, 1.0, 9),
        (3.0, 1.0, 13),
        (4.0, 1.0, 17),
    ] {
        for count in 2..=18 {
            let text = sessions(
                count,
                &format!("session_affinity: {{weight: {affinity}}}, least_inflight: {{weight: {least}}}"),
            );
            let told = warnings(&text)
                .iter()
                .any(|line| line.contains("no load moves a session"));
            assert_eq!(told, count >= never_from, "{least} : {affinity} over {count}");
        }
    }
    check(
        &sessions(5, "session_affinity: {}, least_inflight: {}"),
        &[
            "routes[0].policies: with 5 endpoints and weights 1 : 1 (least_inflight : session_affinity) no load moves a session of the route `r` | a weight of 1.5 for `least_inflight` moves it when its endpoint has 3 requests more than idle ones; or set `bound`",
        ],
    );
    check(
        &sessions(9, "session_affinity: {weight: 2}, least_inflight: {weight: 4}"),
        &[
            "routes[0].policies: with 9 endpoints and weights 4 : 2 (least_inflight : session_affinity) no load moves a session of the route `r` | a weight of 5 for `least_inflight` moves it when its endpoint has 5 requests more than idle ones; or set `bound`",
        ],
    );
    check(
        &sessions(3, "session_affinity: {}"),
        &[
            "routes[0].policies: sessions of the route `r` stay on their endpoint however busy it is | add `least_inflight: {}`, or a `bound` such as 1.25 to `session_affinity`",
        ],
    );
    check(&sessions(1, "session_affinity: {}"), &[]);
    check(&sessions(5, "session_affinity: {bound: 1.25}"), &[]);
    check(&sessions(9, "least_inflight: {}"), &[]);
}

#[test]
fn only_endpoints_that_serve_count_for_affinity() {
    let policies = "policies: {session_affinity: {}, least_inflight: {}}";
    // Six endpoints in all, but two of each order.
    let orders = format!("targets: [a, {{pool: b, order: 2}}, {{pool: c, order: 3}}], {policies}");
    check(&route(&orders), &[]);
    let told = warnings(&route(&format!("targets: [a, b, c], {policies}")));
    assert!(
        told.iter().any(|line| line.contains("with 6 endpoints")),
        "{told:?}"
    );
}

#[test]
fn what_nothing_reaches_is_told() {
    check(
        "pools: [{name: a, endpoints: [http://h]}, {name: b, endpoints: [http://h]}]\nroutes: [{name: a, targets: [b]}]",
        &[
            "pools[0]: no request reaches the pool `a`: the route `a` does not name it as a target, and no other does | name it as a target, or give the route or the pool another name",
        ],
    );
    check(
        "pools: [{name: a, endpoints: [http://h]}, {name: b, endpoints: [http://h]}]\nroutes: [{name: r, targets: [{pool: a, weight: 1}, {pool: b, weight: 0}]}]",
        &[
            "pools[1]: no request reaches the pool `b`: every target that names it has weight 0 | give one of them a weight, or remove the pool",
        ],
    );
    check(
        "pools: [{name: a, endpoints: [{url: http://h, weight: 0}, http://i]}]",
        &[
            "pools[0].endpoints[0]: the endpoint `h:80` has weight 0 and gets no requests, failover included | leave it if it is being drained",
        ],
    );
    check(
        "pools: [{name: a, endpoints: [{url: http://h, weight: 0}]}]",
        &[
            "pools[0].endpoints: every endpoint of this pool has weight 0, so the pool serves nothing | give one of them a weight above 0",
        ],
    );
    check(
        &pool_with("kind: gemini"),
        &[
            "pools[0]: no request reaches the pool `a`: its API is neither OpenAI's nor Anthropic's | it serves once requests can be translated",
        ],
    );
    check(
        &route("targets: [{pool: a, order: 2}]"),
        &[
            "routes[0].targets: no target of the route `r` has order 1, so its first order serves all along | give the targets that serve first `order: 1`, or leave it out there",
        ],
    );
    check(
        &pool("routes: [{name: r, targets: [a], fallback: [s]}, {name: s, targets: [a]}]"),
        &[
            "routes[0].fallback[0]: the fallback to `s` leads to the same pools as the route `r` itself | retries already try all endpoints of those pools; name a route over other pools",
        ],
    );
}

#[test]
fn settings_without_effect_are_told() {
    check(
        &route("targets: [a], spill: false"),
        &[
            "routes[0].spill: `spill` has no effect, because the targets of this route have no weights | remove it",
        ],
    );
    check(
        &pool("auth: none\nkeys: [{name: k, key: x}]"),
        &[
            "keys: these keys have no effect, because `auth` is `none` | remove `auth: none` to ask clients for a key",
        ],
    );
    check(
        &pool_with("tls: {server_name: x}"),
        &[
            "pools[0].tls: `tls` has no effect, because no endpoint's URL begins with https:// | write https:// URLs, or remove `tls`",
        ],
    );
}

#[test]
fn facts_that_say_nothing_are_told() {
    check(
        "pools: [{name: a, endpoints: [http://h:1], abilities: []}]\nroutes: [{name: r, targets: [{pool: a, serves_tokens: {}}]}]",
        &[
            "pools[0].abilities: the model can do nothing beyond text, so requests with tools, images or schemas are refused | leave it if that is so; without the key nothing is refused",
            "routes[0].targets[0].serves_tokens: the range has no end, so it holds prompts of any length | write `{over: 5000}` or `{up_to: 5000}`",
        ],
    );
}

#[test]
fn policies_that_lack_what_they_look_at_are_told() {
    let route = |policies: &str| {
        format!(
            "pools: [{{name: a, endpoints: [http://h:1]}}]\nroutes: [{{name: r, targets: [a], {policies}}}]"
        )
    };
    check(
        &route("policies: {cost: {}, capability: {}, prompt_length: {}, zone: {}}"),
        &[
            "routes[0].policies.cost: no pool of this route has a `price`, so `cost` decides nothing | give the pools their `price: {input: 0.1, output: 0.4}`",
            "routes[0].policies.capability: no pool of this route has `strengths`, so `capability` decides nothing | give the pools their `strengths: [chat, code]`",
            "routes[0].policies.prompt_length: no target of this route has `serves_tokens`, so `prompt_length` decides nothing | give the targets their `serves_tokens: {up_to: 5000}`",
            "routes[0].policies.zone: the gateway does not know its own zone, so `zone` decides nothing | add `zone: az1` under `server`",
        ],
    );
    check(
        &route("policies: {gpu_load: {}}"),
        &[
            "routes[0].policies.gpu_load: `gpu_load` alone sends every request to one engine until its weights change, 10 s later | add `least_inflight: {}`, or write `weight: auto` in the pool and leave `gpu_load` out",
        ],
    );
    check(
        &route("policies: {prefix_cache: {}}"),
        &[
            "routes[0].policies.prefix_cache: `prefix_cache` alone knows nothing of queues, and where no engine has anything of a prompt, chance decides | add `least_work: {}` or `least_inflight: {}`, or write `preset: auto` in the place of `policies`",
        ],
    );
    check(
        &route("policies: {batch_packing: {}, least_inflight: {}}"),
        &[
            "routes[0].policies.batch_packing: `batch_packing` fills one engine before the next and `least_inflight` evens them out, so each undoes the other | keep one of them",
        ],
    );
    check(&route("preset: batch"), &[]);
    check(
        &route("policies: {overload: {}}"),
        &[
            "routes[0].policies.overload: `overload` changes what policies give, and this route has none | add `least_inflight: {}` or another policy",
        ],
    );
    check(&route("policies: {gpu_load: {}}, picker: weighted_random"), &[]);
    check(&route("policies: {gpu_load: {}, least_inflight: {}}"), &[]);
}

#[test]
fn policies_that_see_no_load_are_told() {
    let with = |more: &str| {
        let pool = |name: &str, input: u32| {
            format!(
                "{{name: {name}, endpoints: [http://{name}1:1, http://{name}2:1], price: {{input: {input}, output: 1}}}}"
            )
        };
        format!(
            "server: {{zone: az1}}\npools: [{}, {}]\nroutes: [{{name: r, targets: [a, b], {more}}}]",
            pool("a", 1),
            pool("b", 2)
        )
    };
    let mend = "add a policy that sees it: `least_inflight: {}`, or `least_work: {}`";
    for (policies, told) in [
        (
            "cost: {}",
            "`cost` does not see load, so the endpoint that it prefers gets",
        ),
        (
            "zone: {}",
            "`zone` does not see load, so the endpoint that it prefers gets",
        ),
        (
            "prefix_cache: {}, cost: {}",
            "`cost` and `prefix_cache` do not see load, so the endpoint that they prefer gets",
        ),
    ] {
        check(
            &with(&format!("policies: {{{policies}}}")),
            &[&format!(
                "routes[0].policies: {told} every request, however busy it is | {mend}"
            )],
        );
    }
    for quiet in [
        "policies: {cost: {}, least_inflight: {}}",
        "policies: {cost: {}, zone: {}, added_delay: {}}",
        "policies: {cost: {}}, picker: weighted_random",
        "preset: agents",
        "policies: {session_affinity: {}, added_delay: {}}",
        "policies: {session_affinity: {}, least_work: {}, cost: {}}",
    ] {
        check(&with(quiet), &[]);
    }
    let told = warnings(&with("policies: {session_affinity: {}, cost: {}}"));
    assert!(
        told.len() == 1 && told[0].contains("stay on their endpoint"),
        "{told:?}"
    );
}

#[test]
fn routes_whose_name_engines_do_not_know_are_told() {
    let told = |pool: &str, routes: &str| -> Vec<String> {
        let text = format!("pools: [{{name: a, endpoints: [http://h:1]{pool}}}]\nroutes: [{routes}]");
        let loaded = crate::common::load(&text).unwrap();
        loaded.warnings.iter().map(ToString::to_string).collect()
    };
    let one = "{name: chat, targets: [a]}";
    assert_eq!(
        told(", kind: vllm", one),
        [
            "t.yaml:1:9: pools[0]: engines of the pool `a` are asked for the model `chat`, as the route is called, and refuse what they do not serve under that name\n    add `model: …` to the pool with the name that its engines serve, also where it is this one; `GET /v1/models` of an engine tells it"
        ]
    );
    assert_eq!(told("", one).len(), 1);
    let many = "{name: b, targets: [a]}, {name: a, targets: [a]}, {name: c, targets: [a]}, {name: d, targets: [a]}, {name: e, targets: [a]}";
    let many = told("", many).join("\n");
    assert!(
        many.contains("the model `b`, `c`, `d` and 1 more, as the routes are called"),
        "{many}"
    );
    for (pool, routes) in [
        ("", ""),
        ("", "{name: a, targets: [a]}"),
        (", model: chat", one),
        (", kind: llamacpp", one),
        (", kind: tgi", one),
        (
            "",
            "{name: lora-1, targets: [a], policies: {lora_affinity: {}, least_inflight: {}}}",
        ),
    ] {
        assert_eq!(told(pool, routes), Vec::<String>::new(), "{pool} {routes}");
    }
}

#[test]
fn filters_and_pickers_without_effect_are_told() {
    check(
        "pools: [{name: a, endpoints: [http://h:1]}]\nroutes: [{name: r, targets: [a], picker: power_of_two, filters: {modality: true, rules: [{}]}}]",
        &[
            "routes[0].picker: `picker: power_of_two` has no effect, because this route has no policies | remove it, or add `policies`",
            "routes[0].filters.modality: no pool of this route has `abilities`, so the filter drops nothing | give the pools their `abilities`",
            "routes[0].filters.rules[0]: the rule asks for nothing | add `labels: {gpu: H100}`, or `not_labels: {spot: \"true\"}`",
        ],
    );
}

#[test]
fn keys_that_open_nothing_are_told() {
    check(
        &pool("keys: [{name: k, key: x, expires: 2001-01-01, models: [a, 'b*', c, '*']}]"),
        &[
            "keys[0].expires: the key `k` has expired and opens nothing | remove it, or give it a later date",
            "keys[0].models[1]: no route is named `b*` | name a route as it is written under `routes` or `pools`",
            "keys[0].models[2]: no route is named `c` | name a route as it is written under `routes` or `pools`",
        ],
    );
}

#[test]
fn retries_that_may_repeat_work_are_told() {
    check(
        &route("targets: [a], retry: {on: [connect, timeout, \"500\", \"400\", \"503\"]}"),
        &[
            "routes[0].retry.on[1]: after `timeout` the engine may have done the request, so a retry may do it, and bill it, twice | keep it if that is acceptable",
            "routes[0].retry.on[2]: after `500` the engine may have done the request, so a retry may do it, and bill it, twice | keep it if that is acceptable",
            "routes[0].retry.on[3]: 400 is the client's mistake, which another endpoint will see as well | keep it if endpoints differ",
        ],
    );
}

#[test]
fn variables_that_stay_literal_are_told() {
    check(
        &pool_with("model: $${MODEL}"),
        &[
            "pools[0].model: `${` stays in this value literally, because the dollar is doubled | write `${NAME}` to have the variable replaced",
        ],
    );
    check(
        &pool_with("api_key: ${UNEXPANDED}"),
        &[
            "pools[0].api_key: the secret holds `${` literally, so another program was meant to replace a variable in it and did not | set the variable, or the file, to the secret itself",
        ],
    );
    check(
        &pool_with("api_key: $KEY"),
        &[
            "pools[0].api_key: this looks like a variable but is taken literally | write `${NAME}` with braces, or `$$` for a dollar sign",
        ],
    );
}

#[test]
fn providers_that_get_no_key_are_told() {
    let told = "pools[0]: requests go to the provider `p` without a key | add `api_key: ${NAME}`, or `forward_client_key: true` where clients bring their own";
    for (settings, expect) in [
        ("kind: openai, endpoints: [https://h]", &[told][..]),
        ("kind: anthropic, endpoints: [https://h]", &[told]),
        ("kind: openai, endpoints: [https://h], api_key: k", &[]),
        (
            "kind: openai, endpoints: [https://h], forward_client_key: true",
            &[],
        ),
        ("kind: openai, endpoints: [http://h]", &[]),
        ("kind: vllm, endpoints: [https://h]", &[]),
    ] {
        check(&format!("pools: [{{name: p, {settings}}}]"), expect);
    }
}

#[test]
fn a_fallback_after_an_attempt_needs_a_second_attempt() {
    check(
        &route("targets: [a], retry: false, fallback: [{route: b, on: [5xx]}, c]"),
        &[
            "routes[0].fallback[0]: the fallback to `b` is never taken: it follows an attempt, and the route `r` makes no more than one | fallbacks are attempts: give `retry` a `max_attempts` of 2 or more",
        ],
    );
    check(
        &route("targets: [a], retry: false, fallback: [{route: b, on: [429, 5xx]}]"),
        &[],
    );
}

#[test]
fn a_heartbeat_that_comes_too_late() {
    check(&route("targets: [a], heartbeat: 59s"), &[]);
    check(
        &route("targets: [a], heartbeat: 60s"),
        &[
            "routes[0].heartbeat: many load balancers cut a connection that is silent for 60 seconds, so this heartbeat may come too late | give less than 60s, or `off` where nothing in front cuts",
        ],
    );
}

#[test]
fn fallbacks_that_lead_round_in_a_circle() {
    let routes = |steps: [&str; 3]| {
        let one =
            |(name, to): (&str, &str)| format!("  - {{name: {name}, targets: [p], fallback: [{to}]}}\n");
        let all: String = ["a", "b", "c"].into_iter().zip(steps).map(one).collect();
        format!("pools: [{{name: p, endpoints: [http://h]}}]\nroutes:\n{all}")
    };
    // That the routes lead to one pool is another matter.
    let circles = |text: &str| -> Vec<String> {
        let told = warnings(text).into_iter().filter(|line| line.contains("circle"));
        told.map(|line| {
            line.replace("\n    ", " | ")
                .splitn(4, ':')
                .nth(3)
                .unwrap()
                .trim()
                .to_owned()
        })
        .collect()
    };
    const MEND: &str = "routes may back each other up: a request goes to each of them once, and never back to one that it was sent on from; remove this step if that is not meant";
    assert_eq!(
        circles(&routes(["b", "a", ""])),
        [format!(
            "routes[1].fallback[0]: the fallbacks lead round in a circle: a → b → a | {MEND}"
        )],
    );
    assert_eq!(
        circles(&routes([
            "c, b",
            "{route: c, on: [5xx]}",
            "{route: a, on: [429]}"
        ])),
        [format!(
            "routes[2].fallback[0].route: the fallbacks lead round in a circle: a → c → a | {MEND}"
        )],
    );
    assert_eq!(
        circles(&routes(["b", "c", "b"])),
        [format!(
            "routes[2].fallback[0]: the fallbacks lead round in a circle: b → c → b | {MEND}"
        )],
    );
    assert_eq!(circles(&routes(["b, c", "c", ""])), [""; 0]);
}

#[test]
fn http_2_to_engines_that_do_not_speak_it_is_told() {
    let told = "pools[0].http: without TLS the server of this kind of engine speaks HTTP/1.1 only | leave `http` out, unless a proxy that speaks HTTP/2 stands before the engine";
    for (settings, expect) in [
        ("kind: vllm, endpoints: [http://h]", &[told][..]),
        ("kind: ollama, endpoints: [https://h, http://i]", &[told]),
        ("kind: vllm, endpoints: [https://h]", &[]),
        ("kind: generic, endpoints: [http://h]", &[]),
    ] {
        check(&format!("pools: [{{name: p, http: 2, {settings}}}]"), expect);
    }
}
