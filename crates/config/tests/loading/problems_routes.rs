//! Bad routes and names, and exactly what is said of them.

use crate::common::{check_problems as check, pool, route};

#[test]
fn names_are_unique() {
    check(
        "pools: [{name: a, endpoints: [http://h:1, http://H:1/v1, {name: x, url: http://i}, {name: x, url: http://j}]}]",
        &[
            "pools[0].endpoints[1]: pools[0].endpoints[0] is also named `h:1` | give both a `name`: {name: a, url: …}",
            "pools[0].endpoints[3]: pools[0].endpoints[2] is also named `x` | give every endpoint of a pool its own name",
        ],
    );
    check(
        "pools: [{name: a, endpoints: [http://h]}, {name: a, endpoints: [http://h]}]",
        &["pools[1].name: pools[0] is also named `a` | give every pool its own name"],
    );
    check(
        &route("targets: [a, b, a]"),
        &[
            "routes[0].targets[2]: routes[0].targets[0] is also named `a` | give one of them a `name` of its own",
        ],
    );
    check(
        &pool("routes: [{name: r, targets: [a]}, {name: r, targets: [a]}]"),
        &["routes[1].name: routes[0] is also named `r` | give every route its own name"],
    );
}

#[test]
fn weights_are_on_all_targets_or_none_and_not_beside_policies() {
    check(
        &route("targets: [{pool: a, weight: 1}, b]"),
        &[
            "routes[0].targets: the route `r` has a weight on some of its targets and none on `b` | give every target a weight (0 takes nothing), or remove all weights",
        ],
    );
    check(
        &route("targets: [{pool: a, weight: 1}], policies: {least_inflight: {}}"),
        &[
            "routes[0].targets: the route `r` has both weights on its targets and `policies` | remove the weights to choose by policies, or remove `policies` to choose by weights",
        ],
    );
    check(
        &route("targets: [{pool: a, weight: 0}, {pool: b, weight: 0}]"),
        &[
            "routes[0].targets: all weights of the route `r` are 0, so nothing would serve it | give one target a weight above 0",
        ],
    );
    for (weight, fault) in [
        ("-1", "is negative"),
        (".nan", "is not a finite number"),
        (".inf", "is not a finite number"),
        ("1000000001", "is larger than 1e9"),
        ("0.0000001", "has more than 6 decimals"),
        ("1.2345678", "has more than 6 decimals"),
    ] {
        let text = route(&format!("targets: [{{pool: a, weight: {weight}}}]"));
        check(
            &text,
            &[&format!(
                "routes[0].targets[0].weight: the weight `{weight}` {fault} | weights are numbers from 0 to 1e9 with at most 6 decimals; 0 takes nothing"
            )],
        );
    }
    check(
        &route("targets: [{pool: a, weight: heavy}]"),
        &[
            "routes[0].targets[0].weight: a number is expected here, but this is the text `heavy` | write a number without quotes and units",
        ],
    );
}

#[test]
fn routes_name_what_exists() {
    check(
        &route("targets: []"),
        &["routes[0].targets: the route `r` has no target | name a pool"],
    );
    check(
        "pools: [{name: qwen3-32b, endpoints: [http://h]}]\nroutes: [{name: r, targets: [qwen3-23b]}]",
        &["routes[0].targets[0]: there is no pool `qwen3-23b` | did you mean `qwen3-32b`? pools: qwen3-32b"],
    );
    check(
        &route("targets: [a], fallback: [bb]"),
        &["routes[0].fallback[0]: there is no route `bb` | did you mean `b`? routes: b, c, r"],
    );
    check(
        &route("targets: [a], fallback: [r]"),
        &[
            "routes[0].fallback[0]: the route `r` falls back to itself | retries already try the other endpoints of the route; name another route, or give later targets an `order` of 2",
        ],
    );
    check(
        &route("targets: [a], fallback: [b, {route: b}]"),
        &["routes[0].fallback[1].route: the fallback to `b` is here twice | remove one"],
    );
    check(
        &route("targets: [a], fallback: [{route: b, on: []}]"),
        &[
            "routes[0].fallback[0].on: a fallback without a condition is never taken | write `on: [unavailable]`, which is the default",
        ],
    );
    check(
        &route("targets: [a], fallback: [{route: b, on: [6xx]}]"),
        &[
            "routes[0].fallback[0].on[0]: unknown word `6xx` | did you mean `5xx`? known: unavailable, 5xx, 429, timeout, context_length",
        ],
    );
    check(
        &route("targets: [a], heartbeat: 15"),
        &["routes[0].heartbeat: `15` has no unit | write `15s`; units are us, ms, s, m, h, d"],
    );
    check(
        &route("targets: [a], heartbeat: 10ms"),
        &[
            "routes[0].heartbeat: a sign of life every `10ms` is more than any connection needs | give at least 100ms; load balancers wait a minute or so",
        ],
    );
    check(
        &route("targets: [a], on_disconnect: finsh"),
        &["routes[0].on_disconnect: unknown word `finsh` | did you mean `finish`? known: cancel, finish"],
    );
    check(
        &route("targets: [{pool: a, order: 0}]"),
        &["routes[0].targets[0].order: `0` is not a whole number from 1 to 1000"],
    );
}

#[test]
fn retries_name_what_can_be_tried_again() {
    check(
        &route("targets: [a], retry: {on: [conect]}"),
        &[
            "routes[0].retry.on[0]: unknown word `conect` | did you mean `connect`? known: connect, reset, timeout, a status such as \"429\"",
        ],
    );
    check(
        &route("targets: [a], retry: {on: [200]}"),
        &[
            "routes[0].retry.on[0]: `200` is not a status that an error has | statuses from 400 to 599 can be tried again",
        ],
    );
    check(
        &route("targets: [a], retry: {on: [5xx]}"),
        &[
            "routes[0].retry.on[0]: retries name single statuses, not classes | write \"500\", \"502\", \"503\"; a 503 is tried again by default",
        ],
    );
    check(
        &route("targets: [a], retry: {max_attempts: 0}"),
        &["routes[0].retry.max_attempts: `0` is not a whole number from 1 to 100"],
    );
    check(
        &route("targets: [a], retry: {move_on_after: 5s}"),
        &[
            "routes[0].retry.move_on_after: `move_on_after` needs a time above 0 and `timeout` in `on` | add `timeout` to `on`, which says that a request may be done twice",
        ],
    );
    check(
        &route("targets: [a], retry: {budget: {window: 0s}}"),
        &[
            "routes[0].retry.budget.window: this time must be longer than 0 | leave the key out for the default",
        ],
    );
}

#[test]
fn policies_are_checked_setting_by_setting() {
    check(
        &route("targets: [a], policies: {least_inflight: }"),
        &[
            "routes[0].policies.least_inflight: a policy needs a map of settings, but nothing is given | write `least_inflight: {}` to use its defaults",
        ],
    );
    check(
        &route("targets: [a], policies: {least_inflight: {weight: 0}}"),
        &[
            "routes[0].policies.least_inflight.weight: the weight of a policy must be above 0, and this is 0 | remove `least_inflight` to switch it off",
        ],
    );
    check(
        &route("targets: [a], policies: {least_inflight: {weight: heavy, wait: 1}}"),
        &[
            "routes[0].policies.least_inflight.weight: `heavy` does not fit `weight` | expected a number",
            "routes[0].policies.least_inflight.wait: unknown key `wait` | did you mean `weight`? known: weight",
        ],
    );
    check(
        &route("targets: [a], policies: {session_affinity: {keys: [{header: x}, {heder: y}, client_ip, 5]}}"),
        &[
            "routes[0].policies.session_affinity.keys[1]: this does not fit `keys` | expected one of `header`, `cookie`, `body`, `prompt_head`, `client_ip`, `api_key`",
            "routes[0].policies.session_affinity.keys[3]: `5` does not fit `keys` | expected one of `{header: x-session-id}`, `{cookie: session}`, `{body: user}`, `{prompt_head: 16KiB}`, `client_ip`, `api_key`",
        ],
    );
    check(
        &route(
            "targets: [a], policies: {session_affinity: {keys: [{prompt_head: 4096}, {prompt_head: 4 pages}]}}",
        ),
        &[
            "routes[0].policies.session_affinity.keys[0]: this does not fit `keys` | expected a size with its unit, such as `32MiB`",
            "routes[0].policies.session_affinity.keys[1]: this does not fit `keys` | expected a size with its unit, such as `32MiB`",
        ],
    );
    check(
        &route("targets: [a], policies: {session_affinity: {keys: [{prompt_head: 100B}]}}"),
        &[
            "routes[0].policies.session_affinity.keys[0]: prompt_head: 100B is not from 256B to 4MiB | 16KiB is some 4,000 tokens",
        ],
    );
    check(
        &route("targets: [a], policies: []"),
        &[
            "routes[0].policies: a map of policies is expected here, but this is a list | write a map of names and settings: `policies: {least_inflight: {}}`",
        ],
    );
}

#[test]
fn facts_of_pools_and_targets() {
    check(
        "pools: [{name: a, endpoints: [http://h], price: {input: 1}, context_length: 0, abilities: [vision], strengths: [7]}]",
        &[
            "pools[0].price: the key `output` is missing | add `output: …`",
            "pools[0].context_length: `0` is not a whole number from 1 to 1000000000",
            "pools[0].abilities[0]: unknown word `vision` | known: image, audio, file, tools, json_schema",
            "pools[0].strengths[0]: text that names it is expected here, but this is a number | put it in quotes",
        ],
    );
    check(
        "pools: [{name: a, weight: 2, endpoints: [{url: http://h, weight: auto}]}]",
        &[
            "pools[0].weight: a pool's weight is `auto`, `labels` or not given, not `2` | the weight of an engine is `endpoints[].weight`, that of the pool in a route `targets[].weight`",
            "pools[0].endpoints[0].weight: `auto` is no weight of a single endpoint or target | write `weight: auto` in the pool, beside its `endpoints`",
        ],
    );
    check(
        "pools: [{name: a, endpoints: [http://h], calibrate: {at: \"4 pm\", tokens: 8, requests: 0, timeout: 0s, ttl: 1h}}]",
        &[
            "pools[0].calibrate.at: `4 pm` is no time of day | write hours and minutes, such as \"04:00\"; the time is UTC",
            "pools[0].calibrate.tokens: `8` is not a whole number from 16 to 8192",
            "pools[0].calibrate.requests: `0` is not a whole number from 1 to 64",
            "pools[0].calibrate.timeout: this time must be longer than 0 | leave the key out for the default",
            "pools[0].calibrate.ttl: unknown key `ttl` | known: at, tokens, requests, max_inflight, timeout",
        ],
    );
    check(
        "pools: [{name: a, endpoints: [http://h]}]\nroutes: [{name: r, targets: [{pool: a, serves_tokens: {over: 5, up_to: 5}}]}]",
        &[
            "routes[0].targets[0].serves_tokens: no prompt has more than 5 tokens and at most 5 | give `up_to` the larger number",
        ],
    );
}

#[test]
fn filters_and_pickers_are_checked_key_by_key() {
    check(
        &route(
            "targets: [a], filters: {label: {gpu: A}, kv_fits: maybe, labels: {gpu: 4}, not_labels: {}, by_header: [1]}",
        ),
        &[
            "routes[0].filters.label: unknown key `label` | did you mean `labels`? known: modality, labels, not_labels, rules, by_header, context_length, kv_fits",
            "routes[0].filters.kv_fits: `maybe` is neither true nor false | write `true` or `false`, without quotes",
            "routes[0].filters.labels.gpu: text, or a list of text, is expected here, but this is a number | put it in quotes",
            "routes[0].filters.not_labels: no label is named | write `{gpu: A100}`, or remove the key",
            "routes[0].filters.by_header[0]: text that names it is expected here, but this is a number | put it in quotes",
        ],
    );
    check(
        &route(
            "targets: [a], filters: {rules: [{when: {}, labels: {gpu: A}}, {unless: {priority: P9}, labels: {gpu: []}}]}",
        ),
        &[
            "routes[0].filters.rules[0].when: the condition says nothing, so every request meets it | write `{prompt_tokens: {over: 8000}}` or `{priority: [P2, P3]}`",
            "routes[0].filters.rules[1].unless.priority: unknown word `P9` | known: P0, P1, P2, P3",
            "routes[0].filters.rules[1].labels.gpu: the list is empty | name at least one, or remove the key",
        ],
    );
    check(
        &route("targets: [a], policies: {least_inflight: {}}, picker: {weighted_random: {temperature: 0}}"),
        &[
            "routes[0].picker.weighted_random.temperature: a temperature of 0 leaves nothing to chance | write `picker: max`",
        ],
    );
    check(
        &route("targets: [a], picker: {max: {}}"),
        &["routes[0].picker.max: `max` has no settings | write `picker: max`"],
    );
    check(
        &route("targets: [a], picker: {softmax: {}}"),
        &["routes[0].picker.softmax: unknown picker `softmax` | known: max, power_of_two, weighted_random"],
    );
}

#[test]
fn settings_of_policies_are_in_their_ranges() {
    check(
        &route(
            "targets: [a], policies: {least_inflight: {}, overload: {factor: 2}, zone: {cross_zone: -1}, batch_packing: {max_batch: 0}}",
        ),
        &[
            "routes[0].policies.overload.factor: 2 is not between 0 and 1 | leave `factor` out for its default, 0.5",
            "routes[0].policies.zone.cross_zone: -1 is not between 0 and 1 | leave `cross_zone` out for its default, 0.5",
            "routes[0].policies.batch_packing.max_batch: at least 1 | leave `max_batch` out for its default, 256",
        ],
    );
}

#[test]
fn every_problem_of_policies_is_told_at_its_key() {
    check(
        &route(
            "targets: [a], policies: {least_in_flight: {}, session_affinity: {wieght: 1}, prefix_cache: {weight: 0}}",
        ),
        &[
            "routes[0].policies.least_in_flight: unknown policy `least_in_flight` | did you mean `least_inflight`? known: session_affinity, least_inflight, queue_depth, kv_headroom, gpu_load, prompt_length, batch_packing, zone, cost, capability, lora_affinity, prefix_cache, least_work, expected_wait, prefill_batch, latency, predicted_latency, added_delay, overload",
            "routes[0].policies.session_affinity.wieght: unknown key `wieght` | did you mean `weight`? known: bound, keys, paths, weight",
            "routes[0].policies.prefix_cache.weight: the weight of a policy must be above 0, and this is 0 | remove `prefix_cache` to switch it off",
        ],
    );
    check(
        &route(
            "targets: [a], policies: {added_delay: {arrivals: -1, answer: 3, recompute: lots, evictions: 101}}",
        ),
        &[
            "routes[0].policies.added_delay.arrivals: -1 is not from 0 to 100 | leave `arrivals` out for its default, 1.0",
            "routes[0].policies.added_delay.answer: unknown key `answer` | did you mean `answers`? known: answers, arrivals, evictions, recompute, weight",
            "routes[0].policies.added_delay.recompute: `lots` does not fit `recompute` | expected a number",
            "routes[0].policies.added_delay.evictions: 101 is not from 0 to 100 | leave `evictions` out for its default, 1.0",
        ],
    );
    check(
        &route(
            "targets: [a], policies: {session_affinity: {keys: [{prompt_head: 4KiB}, {prompt_head: 8KiB}]}}",
        ),
        &[
            "routes[0].policies.session_affinity.keys: prompt_head stands there twice | every prompt has a head, so only the first would count",
        ],
    );
}

#[test]
fn a_preset_stands_in_the_place_of_policies_and_weights() {
    check(
        &route("targets: [a], preset: fast"),
        &["routes[0].preset: unknown word `fast` | known: auto, chat, agents, batch, latency"],
    );
    check(
        &route("targets: [a], preset: chat, policies: {least_inflight: {}}"),
        &[
            "routes[0].preset: `preset` and `policies` are both given | keep one of them; `weighbridge check` prints the policies that a preset stands for",
        ],
    );
    check(
        &route("targets: [{pool: a, weight: 1}], preset: chat"),
        &[
            "routes[0].targets: the route `r` has both weights on its targets and `preset` | remove the weights to choose by the preset, or remove `preset` to share by the weights",
        ],
    );
}
