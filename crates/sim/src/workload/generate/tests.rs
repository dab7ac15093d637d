use super::*;
use crate::cache::PrefixCache;
use crate::text::mix;
use crate::workload::{NAMED, PrefixGroups, Request, named, named_text, read, write_mooncake};
use proptest::prelude::*;

fn spec(json: &str) -> Spec {
    serde_json::from_str(json).unwrap()
}

fn made(json: &str) -> Workload {
    generate(&spec(json), 1).unwrap()
}

fn near(got: f64, wanted: f64, tolerance: f64) {
    assert!(
        (got / wanted - 1.0).abs() < tolerance,
        "{got} instead of {wanted}"
    );
}

/// What the type promises of every workload.
fn check(workload: &Workload) {
    let mut latest = Duration::ZERO;
    for (place, request) in workload.requests.iter().enumerate() {
        assert!(request.prompt_tokens > 0);
        match request.after {
            Some(before) => {
                assert!(
                    (before as usize) < place,
                    "a request comes before the one it follows"
                );
                let before = &workload.requests[before as usize];
                assert_eq!(before.session, request.session);
                assert_eq!((before.tenant, before.class), (request.tenant, request.class));
            }
            None => {
                assert!(request.at >= latest, "not in order");
                latest = request.at;
            }
        }
        let tokens = request.prompt_tokens + request.output_tokens;
        assert_eq!(request.blocks.len() as u32, tokens / workload.block_tokens);
        assert!(usize::from(request.class) < workload.classes.len());
        assert!(usize::from(request.tenant) < workload.tenants.len().max(1));
    }
}

/// Each block is found behind one block only.
fn check_chained(workload: &Workload) {
    let mut before = std::collections::HashMap::new();
    for request in &workload.requests {
        for pair in request.blocks.windows(2) {
            assert_eq!(*before.entry(pair[1]).or_insert(pair[0]), pair[0]);
        }
    }
}

#[test]
fn all_named_workloads_are_sound_and_read_back() {
    for (name, _) in NAMED {
        let spec = named(name).unwrap();
        assert_eq!((spec.problems(), &*spec.name), (vec![], *name));
        let mut workload = generate(&spec, 7).unwrap();
        check(&workload);
        assert!(
            (500..10_000).contains(&workload.requests.len()),
            "{name}: {}",
            workload.requests.len()
        );
        assert_eq!(workload, generate(&spec, 7).unwrap());
        assert_ne!(workload.requests, generate(&spec, 8).unwrap().requests);
        // What follows looks at every block, of which there are many.
        workload.requests.truncate(250);
        check_chained(&workload);
        let mut text = Vec::new();
        write_mooncake(&workload, &mut text).unwrap();
        let back = read(&text[..], name, None).unwrap();
        assert_eq!((back.bad_total, back.out_of_order), (0, 0));
        same(&workload, &back.workload);
        let mut again = Vec::new();
        write_mooncake(&back.workload, &mut again).unwrap();
        assert_eq!(text, again);
    }
    assert!(named("shopp").unwrap_err().contains("there are shop, chat"));
    assert!(named_text("shop").is_some() && named_text("prefix-groups").is_none());
}

/// Equal but for the numbers that stand for hashes.
fn same(a: &Workload, b: &Workload) {
    assert_eq!(a.requests.len(), b.requests.len());
    assert_eq!(
        (&a.name, a.block_tokens, a.max_concurrency),
        (&b.name, b.block_tokens, b.max_concurrency)
    );
    let mut hashes = std::collections::HashMap::new();
    for (one, other) in a.requests.iter().zip(&b.requests) {
        let bare = |request: &Request| Request {
            blocks: Arc::from([]),
            tenant: 0,
            class: 0,
            ..request.clone()
        };
        assert_eq!(bare(one), bare(other));
        assert_eq!(
            a.classes[usize::from(one.class)],
            b.classes[usize::from(other.class)]
        );
        assert_eq!(
            a.tenants.get(usize::from(one.tenant)),
            b.tenants.get(usize::from(other.tenant))
        );
        assert_eq!(one.blocks.len(), other.blocks.len());
        for (x, y) in one.blocks.iter().zip(other.blocks.iter()) {
            assert_eq!(hashes.entry(*x).or_insert(*y), y);
        }
    }
}

#[test]
fn the_shop_is_as_its_owner_tells_it() {
    let shop = generate(&named("shop").unwrap(), 1).unwrap();
    let of = |class: u16| shop.requests.iter().filter(move |request| request.class == class);
    assert!(of(0).all(|r| r.prompt_tokens < 500));
    assert!(of(1).all(|r| (500..=2000).contains(&r.prompt_tokens)));
    assert!(of(2).all(|r| r.prompt_tokens > 5000));
    let ttft = |class: usize| shop.classes[class].slo.first_token.unwrap().as_secs();
    assert_eq!([0, 1, 2].map(ttft), [1, 3, 30]);
    let within = |from: u64, to: u64| {
        let span = Duration::from_secs(from)..Duration::from_secs(to);
        shop.requests.iter().filter(|r| span.contains(&r.at)).count() as f64 / (to - from) as f64
    };
    near(within(0, 240), 4.0, 0.1);
    near(within(240, 360), 16.0, 0.1);
    near(within(360, 600), 4.0, 0.1);
    near(of(0).count() as f64 / shop.requests.len() as f64, 0.7, 0.05);
}

#[test]
fn the_llm_d_experiment_asks_its_249_prompts_in_turn() {
    let workload = generate(&PrefixGroups::default().spec(), 1).unwrap();
    assert_eq!(workload.requests.len(), 6830);
    let prompts: Vec<_> = workload
        .requests
        .iter()
        .map(|r| r.blocks[9000 / 16 - 1])
        .collect();
    let distinct: std::collections::HashSet<_> = prompts.iter().collect();
    assert_eq!((distinct.len(), &prompts[..249]), (249, &prompts[249..498]));
    let prefixes: std::collections::HashSet<_> = workload.requests.iter().map(|r| r.blocks[499]).collect();
    let beyond: std::collections::HashSet<_> = workload.requests.iter().map(|r| r.blocks[500]).collect();
    assert_eq!((prefixes.len(), beyond.len()), (83, 249));
    let count = |from: u64, to: u64| {
        let span = Duration::from_secs(from)..Duration::from_secs(to);
        workload.requests.iter().filter(|r| span.contains(&r.at)).count()
    };
    assert_eq!(
        [count(0, 30), count(30, 240), count(240, 420), count(930, 980)],
        [270, 630, 720, 1000]
    );
}

#[test]
fn prefix_groups_take_parameters() {
    let groups: PrefixGroups = serde_json::from_str(
        r#"{"groups": 2, "prompts_per_group": null, "stages": [{"rate": 2, "duration": "5s"}]}"#,
    )
    .unwrap();
    let workload = generate(&groups.spec(), 1).unwrap();
    let ends: std::collections::HashSet<_> = workload
        .requests
        .iter()
        .map(|r| r.blocks.last().copied())
        .collect();
    assert_eq!(
        (workload.requests.len(), ends.len()),
        (10, 10),
        "each question is asked once"
    );
    assert!(serde_json::from_str::<PrefixGroups>(r#"{"group": 2}"#).is_err());
}

#[test]
fn a_conversation_grows_by_answer_and_question_and_shares_all_before() {
    let workload = made(
        r#"{"duration": "60s", "arrivals": {"rate": 1}, "components": [{
            "name": "chat", "shared": [{"tokens": 160}], "question": 40, "output": 24,
            "sessions": {"turns": {"uniform": {"from": 2, "to": 5}}, "think": "3s", "opening": 100}}]}"#,
    );
    check(&workload);
    check_chained(&workload);
    let mut turns = std::collections::BTreeMap::new();
    for request in &workload.requests {
        let turn = turns.entry(request.session).or_insert(0_u32);
        assert_eq!(request.prompt_tokens, 260 + *turn * 64);
        assert_eq!(*turn > 0, request.after.is_some());
        if let Some(before) = request.after {
            let before = &workload.requests[before as usize];
            assert_eq!(before.blocks[..], request.blocks[..before.blocks.len()]);
            assert_eq!(request.at, Duration::from_secs(3));
        }
        *turn += 1;
    }
    assert!(turns.values().all(|turns| (2..=5).contains(turns)));
    let starts = workload.requests.iter().filter(|r| r.after.is_none());
    let tenth: Vec<_> = starts.map(|r| r.blocks[9]).collect();
    assert!(
        tenth.iter().all(|block| *block == tenth[0]),
        "the system prompt is shared"
    );
    let mut parted: Vec<_> = workload.requests.iter().map(|r| r.blocks[10]).collect();
    parted.sort_unstable();
    parted.dedup();
    assert_eq!(parted.len(), turns.len(), "and nothing after it");
}

#[test]
fn a_context_that_is_full_ends_the_conversation() {
    let workload = made(
        r#"{"requests": 40, "arrivals": {"rate": 1}, "components": [{"name": "a", "question": 100, "output": 100,
            "sessions": {"turns": 50, "think": 1, "context_max": 1000}}]}"#,
    );
    let longest = workload
        .requests
        .iter()
        .map(|r| r.prompt_tokens + r.output_tokens)
        .max();
    assert_eq!((longest, workload.requests.len()), (Some(1000), 40));
}

#[test]
fn a_closed_loops_users_wait_for_their_answers() {
    let workload = made(
        r#"{"max_concurrency": 3, "components": [{"name": "a", "question": 10, "output": 5,
            "closed_loop": {"users": 4, "requests": 5, "think": {"exponential": {"mean": "2s"}}, "ramp": "8s"}}]}"#,
    );
    check(&workload);
    assert_eq!((workload.requests.len(), workload.max_concurrency), (20, Some(3)));
    let starts: Vec<_> = workload
        .requests
        .iter()
        .filter(|r| r.after.is_none())
        .map(|r| r.at.as_secs())
        .collect();
    assert_eq!(starts, [0, 2, 4, 6]);
    let mut followed: Vec<_> = workload.requests.iter().filter_map(|r| r.after).collect();
    followed.sort_unstable();
    followed.dedup();
    assert_eq!(followed.len(), 16, "each is followed by one at most");
}

#[test]
fn weights_tenants_and_groups_are_met() {
    let workload = made(
        r#"{"requests": 20000, "block_tokens": 512, "arrivals": {"rate": 100}, "tenants": {"count": 3, "skew": 1},
            "components": [
              {"name": "a", "weight": 3, "question": 10, "output": 5,
               "shared": [{"tokens": 512, "groups": 4, "choice": "zipf", "skew": 1}]},
              {"name": "b", "question": 10, "output": {"log_normal": {"median": 100, "p90": 300}},
               "shared": [{"tokens": 512, "groups": 2, "choice": "tenant"}]},
              {"name": "c", "arrivals": {"rate": 25}, "question": [10, 30], "output": 5}]}"#,
    );
    check(&workload);
    let share =
        |is: &dyn Fn(&Request) -> bool| workload.requests.iter().filter(|r| is(r)).count() as f64 / 20_000.0;
    near(share(&|r| r.class == 0), 0.6, 0.03);
    near(share(&|r| r.class == 1), 0.2, 0.05);
    near(share(&|r| r.class == 2), 0.2, 0.05);
    near(share(&|r| r.tenant == 0), 6.0 / 11.0, 0.03);
    let mut groups = std::collections::BTreeMap::new();
    for request in workload.requests.iter().filter(|r| r.class == 0) {
        *groups.entry(request.blocks[0]).or_insert(0_u32) += 1;
    }
    near(
        f64::from(*groups.values().max().unwrap()),
        12_000.0 * 12.0 / 25.0,
        0.05,
    );
    for request in workload.requests.iter().filter(|r| r.class == 1) {
        let same = workload
            .requests
            .iter()
            .find(|r| r.class == 1 && r.tenant % 2 == request.tenant % 2);
        assert_eq!(request.blocks[0], same.unwrap().blocks[0]);
    }
}

#[test]
fn a_change_to_lengths_leaves_arrivals_as_they_are() {
    let times = |output: &str| {
        let json = format!(
            r#"{{"requests": 50, "arrivals": {{"rate": 1}}, "components": [{{"name": "a", "question": 10, "output": {output}}}]}}"#
        );
        made(&json).requests.iter().map(|r| r.at).collect::<Vec<_>>()
    };
    assert_eq!(times("5"), times(r#"{"exponential": {"mean": 9}}"#));
}

#[test]
fn shared_documents_are_found_again() {
    let rag = generate(&named("rag").unwrap(), 1).unwrap();
    let (mut cache, mut hits, mut all) = (PrefixCache::unbounded(), 0, 0);
    for request in &rag.requests {
        hits += cache.leading(&request.blocks);
        all += request.blocks.len();
        cache.insert(&request.blocks);
    }
    let ratio = hits as f64 / all as f64;
    assert!((0.6..0.95).contains(&ratio), "{ratio}");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = spec(
        r#"{"block_tokens": 0, "tenants": {"count": 0}, "components": [
            {"name": "a", "question": 0, "output": {"uniform": {"from": 9, "to": 3}}},
            {"name": "a", "question": 5, "output": 5, "arrivals": {"process": "gamma", "rate": 0}, "weight": 2,
             "closed_loop": {"users": 0, "requests": 1},
             "shared": [{"tokens": 5, "skew": 1, "prompts": 3}, {"tokens": 5, "groups": 0}]},
            {"name": "c", "question": 5, "output": 5,
             "arrivals": {"rate": 1, "stages": [{"rate": -1, "duration": 0}],
                          "bursts": [{"from": 0, "lasts": 5, "factor": -1, "every": 5}],
                          "diurnal": {"peak_ratio": 0.5, "period": "1s"}}}]}"#,
    );
    let error = generate(&wrong, 1).unwrap_err().to_string();
    for path in [
        "block_tokens:",
        "tenants.count:",
        "  arrivals: missing",
        "spec: `requests` or `duration` is missing",
        "components[0].question: must be at least 1",
        "components[0].output: `from` must not be above `to`",
        "components[1].name: another",
        "components[1].weight:",
        "components[1].arrivals.cv:",
        "components[1].arrivals.rate:",
        "components[1].closed_loop: give either",
        "components[1].closed_loop.users:",
        "components[1].shared[0].skew:",
        "components[1].shared[0].prompts:",
        "components[1].shared[1].groups:",
        "components[2].arrivals.rate: give either",
        "components[2].arrivals.stages[0].rate:",
        "components[2].arrivals.stages[0].duration:",
        "components[2].arrivals.bursts[0].factor:",
        "components[2].arrivals.bursts[0].every:",
        "components[2].arrivals.diurnal.peak_ratio:",
        "components[2].arrivals.diurnal.period:",
    ] {
        assert!(error.contains(path), "{path} is not in\n{error}");
    }
}

#[test]
fn a_field_that_does_not_exist_is_refused() {
    let fails = |json: &str, part: &str| {
        let error = serde_json::from_str::<Spec>(json).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    fails(
        r#"{"componets": []}"#,
        "unknown field `componets`, expected one of `name`",
    );
    fails(r#"{"components": [{"name": "a"}]}"#, "missing field `question`");
    fails(
        r#"{"arrivals": {"process": "pareto"}, "components": []}"#,
        "expected one of `poisson`, `gamma`, `constant`",
    );
}

/// The same on every platform, and in every version until somebody changes it on purpose: then the changelog says so.
#[test]
fn the_shop_is_stable() {
    let shop = generate(&named("shop").unwrap(), 1).unwrap();
    let all = shop.requests.iter().fold(0, |state, request| {
        let sizes = u64::from(request.prompt_tokens) << 32 | u64::from(request.output_tokens);
        let at = request.at.as_nanos() as u64;
        let blocks = request.blocks.iter().fold(0, |state, block| mix(state ^ block));
        mix(mix(mix(state ^ at) ^ sizes) ^ blocks)
    });
    assert_eq!((shop.requests.len(), all), (3902, 18_013_383_577_669_874_750));
}

#[test]
fn a_number_that_takes_too_long_is_refused() {
    let slow = |end: &str| {
        generate(
            &spec(&format!(
                r#"{{"requests": 1000, {end} "arrivals": {{"process": "constant", "rate": 0.00001}},
                    "components": [{{"name": "a", "question": 1, "output": 1}}]}}"#
            )),
            1,
        )
    };
    assert_eq!(slow("").unwrap_err(), SpecError::TooSlow);
    assert_eq!(slow(r#""duration": "10d","#).unwrap().requests.len(), 9);
}

#[test]
fn what_gives_nothing_or_too_much_is_refused() {
    let error = |json: &str| generate(&spec(json), 1).unwrap_err();
    let one = r#""components": [{"name": "a", "question": 10, "output": 5}]"#;
    assert_eq!(
        error(&format!(
            r#"{{"duration": "1s", "arrivals": {{"rate": 0.0001}}, {one}}}"#
        )),
        SpecError::Empty
    );
    let few = spec(&format!(
        r#"{{"requests": 100, "block_tokens": 1, "arrivals": {{"rate": 1}}, {one}}}"#
    ));
    assert!(generate_within(&few, 1, 1500).is_ok());
    let error = generate_within(&few, 1, 1499).unwrap_err();
    assert!(error.to_string().contains("block_tokens: 512"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a sound spec says, the workload keeps the promises of its type and gives the same again.
    #[test]
    fn any_sound_spec_gives_a_sound_workload(
        seed: u64,
        (requests, block_tokens) in (1_u32..120, 1_u32..40),
        (shared, groups, question, output) in (0_u32..100, 1_u32..5, 1_u32..60, 0_u32..40),
        (turns, think) in (1_u32..6, 0_u32..20),
        (process, choice) in (0_usize..3, 0_usize..3),
    ) {
        let cv = if process == 1 { r#", "cv": 2"# } else { "" };
        let process = ["poisson", "gamma", "constant"][process];
        let choice = ["uniform", "zipf", "cycle"][choice];
        let spec = spec(&format!(
            r#"{{"requests": {requests}, "block_tokens": {block_tokens}, "tenants": {{"count": 4}},
                "arrivals": {{"process": "{process}", "rate": 2{cv}}}, "components": [
                {{"name": "a", "question": {question}, "output": {output},
                  "shared": [{{"tokens": {{"uniform": {{"from": 0, "to": {shared}}}}}, "groups": {groups}, "choice": "{choice}"}}],
                  "sessions": {{"turns": {{"uniform": {{"from": 1, "to": {turns}}}}}, "think": {{"uniform": {{"from": 0, "to": {think}}}}}}}}},
                {{"name": "b", "question": {{"exponential": {{"mean": {question}}}}}, "output": {output}}},
                {{"name": "c", "question": 3, "output": 3, "closed_loop": {{"users": 2, "requests": 3}}}}]}}"#
        ));
        let workload = generate(&spec, seed).unwrap();
        check(&workload);
        check_chained(&workload);
        prop_assert_eq!(workload.requests.len() as u32, requests);
        prop_assert_eq!(workload, generate(&spec, seed).unwrap());
    }
}
