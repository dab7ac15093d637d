//! What the simulator says of three rules comes out on processes too: four engines that each hold some of the prompts' beginnings,
//! one of them slow, behind a gateway, in real time.
//!
//! By hand, with the figures: `cargo nextest run -p weighbridge --test engine -E 'test(ranking::)' --no-capture`.

use super::client::{EngineProcess, binary};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use weighbridge_sim::coefficients::LLAMA_3_1_8B_RTX_PRO_6000;
use weighbridge_sim::engine::Settings;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;

/// Rules under which the route chooses, and what it says for them. `auto` is what it gets where it says nothing.
const RULES: [(&str, &str); 3] = [
    ("round robin", ", route_by: round_robin"),
    ("least in flight", ", policies: {least_inflight: {}}"),
    ("auto", ""),
];

/// Beginnings that prompts share, and their tokens: all engines together hold them, one alone holds a third.
const GROUPS: u64 = 12;
const SHARED: u64 = 2048;
/// Tokens of a prompt that are its own, and of an answer.
const OWN: u64 = 64;
const OUTPUT: u64 = 4;
const KV_TOKENS: u64 = 10_000;
const BLOCK: u64 = 16;
/// Requests per second, and for how long.
const RATE: f64 = 8.0;
const SECONDS: f64 = 12.0;
/// Seconds of the modelled engine per second, of three engines and of the fourth. Slow, so that little is asked of the machine.
const SPEED: f64 = 0.2;
const SPEED_OF_SLOW: f64 = SPEED / 3.0;
/// Until when all answers are there.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request: when it is sent, in seconds, and which beginning it has.
type Planned = (f64, u64);

/// Poisson arrivals over beginnings that are equally likely.
fn plan() -> Vec<Planned> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let (mut at, mut plan) = (0.0, Vec::new());
    loop {
        at -= (1.0 - random()).ln() / RATE;
        if at > SECONDS {
            return plan;
        }
        plan.push((at, (random() * GROUPS as f64) as u64));
    }
}

/// What became of the load.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Mean seconds to the first token.
    first_token: f64,
    /// Share of prompt tokens from caches.
    hits: f64,
}

fn config(addresses: &[String], rule: &str) -> String {
    let mut text = "pools:\n".to_owned();
    for (number, address) in addresses.iter().enumerate() {
        writeln!(
            text,
            "  - {{name: e{number}, kind: vllm, endpoints: [\"http://{address}\"]}}"
        )
        .unwrap();
    }
    let targets: Vec<_> = (0..addresses.len()).map(|number| format!("e{number}")).collect();
    let targets = targets.join(", ");
    text + &format!("routes:\n  - {{name: r, targets: [{targets}]{rule}}}\n")
}

/// The prompt of the request at `place` of the plan, as token ids: the beginning of its group, and what nobody else has.
fn prompt(place: usize, group: u64) -> Vec<u64> {
    let shared = (0..SHARED).map(|token| 1000 + group * SHARED + token);
    let own = (0..OWN).map(|token| 100_000 + place as u64 * OWN + token);
    shared.chain(own).collect()
}

/// Seconds to the first token of one request.
fn first_token(gateway: &Gateway, (place, group): (usize, u64)) -> f64 {
    let body = json!({
        "model": "r", "prompt": prompt(place, group), "max_tokens": OUTPUT, "ignore_eos": true, "stream": true,
    });
    let sent = Instant::now();
    let request = Request::post(&gateway.url("/v1/completions"), body.to_string());
    let mut answer = request.patience(PATIENCE).open();
    assert!(
        answer.wait_events(1, PATIENCE),
        "{}: {}",
        answer.status,
        answer.text()
    );
    let waited = sent.elapsed().as_secs_f64();
    answer.read_all();
    assert_eq!(
        answer.data().len() as u64,
        OUTPUT + 1,
        "{}: {}",
        answer.status,
        answer.text()
    );
    waited
}

fn on_processes(plan: &[Planned], rule: &str) -> Figures {
    let (kv, normal, slow) = (
        KV_TOKENS.to_string(),
        SPEED.to_string(),
        SPEED_OF_SLOW.to_string(),
    );
    let engine = |speed: &str| EngineProcess::start(&["--model", "r", "--kv-tokens", &kv, "--speed", speed]);
    let engines = [engine(&normal), engine(&normal), engine(&normal), engine(&slow)];
    let addresses = engines.each_ref().map(|engine| engine.address.clone());
    let gateway = Gateway::start(Path::new(binary().get_program()), &config(&addresses, rule));
    let begun = Instant::now();
    let waits: Vec<f64> = std::thread::scope(|scope| {
        let gateway = &gateway;
        let ask = |(place, (at, group)): (usize, &Planned)| {
            let (at, group) = (Duration::from_secs_f64(*at), *group);
            scope.spawn(move || {
                std::thread::sleep(at.saturating_sub(begun.elapsed()));
                first_token(gateway, (place, group))
            })
        };
        let threads: Vec<_> = plan.iter().enumerate().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sum = |name: &str| engines.iter().map(|engine| engine.metric(name)).sum::<f64>();
    Figures {
        first_token: waits.iter().sum::<f64>() / waits.len() as f64,
        hits: sum("prefix_cache_hits_total") / sum("prefix_cache_queries_total"),
    }
}

/// An engine for the simulator that is as slow as `weighbridge engine --speed SPEED`.
fn engine_file(speed: f64) -> String {
    let mut coefficients = serde_json::to_value(LLAMA_3_1_8B_RTX_PRO_6000).unwrap();
    for value in coefficients.as_object_mut().unwrap().values_mut() {
        *value = json!(value.as_f64().unwrap() / speed);
    }
    let Settings {
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len,
        ..
    } = Settings::default();
    let settings = json!({
        "block_size": BLOCK, "kv_blocks": KV_TOKENS.div_ceil(BLOCK), "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens, "max_model_len": max_model_len,
    });
    json!({"label": "slowed", "settings": settings, "coefficients": coefficients}).to_string()
}

/// The plan as a trace: the same times, tokens and shared blocks.
fn trace(plan: &[Planned]) -> String {
    let row = |(place, (at, group)): (usize, &Planned)| {
        let shared = (0..SHARED / BLOCK).map(|block| 1 + group * SHARED / BLOCK + block);
        let own = (0..OWN / BLOCK).map(|block| 1_000_000 + place as u64 * OWN / BLOCK + block);
        let row = json!({
            "timestamp": at * 1e3, "input_length": SHARED + OWN, "output_length": OUTPUT, "block_tokens": BLOCK,
            "hash_ids": shared.chain(own).collect::<Vec<_>>(),
        });
        row.to_string() + "\n"
    };
    plan.iter().enumerate().map(row).collect()
}

fn simulated(plan: &[Planned]) -> [Figures; 3] {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (normal, slow) = (
        file("engine.json", &engine_file(SPEED)),
        file("slow.json", &engine_file(SPEED_OF_SLOW)),
    );
    let addresses: Vec<_> = (1..=4).map(|port| format!("127.0.0.1:{port}")).collect();
    let mut command = binary();
    command.args([
        "simulate",
        "--json",
        "--trace",
        &file("trace.jsonl", &trace(plan)),
    ]);
    for (name, rule) in RULES {
        command.args([
            "--config",
            &file(&format!("{name}.yaml"), &config(&addresses, rule)),
        ]);
    }
    for (pool, engine) in [("e0", &normal), ("e1", &normal), ("e2", &normal), ("e3", &slow)] {
        command.args(["--engine", &format!("{pool}={engine}")]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    [0, 1, 2].map(|place| {
        let run = &told["policies"][place]["runs"][0];
        assert_eq!(run["answered"], plan.len(), "{run}");
        Figures {
            first_token: run["ttft_seconds"]["mean"].as_f64().unwrap(),
            hits: run["hit_ratio"].as_f64().unwrap(),
        }
    })
}

/// Beginnings are found again, which saves most of the wait; of the other two, one sees that an engine is slow.
fn check(what: &str, [round_robin, least_inflight, auto]: [Figures; 3]) {
    let all = format!("{what}: {round_robin:?}, {least_inflight:?}, {auto:?}");
    assert!(auto.first_token < 0.7 * least_inflight.first_token, "{all}");
    assert!(
        least_inflight.first_token < 0.8 * round_robin.first_token,
        "{all}"
    );
    let others = round_robin.hits.max(least_inflight.hits);
    assert!(auto.hits > others + 0.2, "{all}");
}

#[test]
fn processes_rank_the_rules_as_the_simulator_does() {
    let plan = plan();
    let measured = std::thread::scope(|scope| {
        let threads = RULES.map(|(_, rule)| {
            let plan = &plan;
            scope.spawn(move || on_processes(plan, rule))
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let simulated = simulated(&plan);
    println!(
        "{} requests; seconds to the first token and share of tokens from caches",
        plan.len()
    );
    for ((name, _), (real, model)) in RULES.iter().zip(measured.iter().zip(&simulated)) {
        println!(
            "{name:16} processes {:.2} s, {:.2}   simulator {:.2} s, {:.2}",
            real.first_token, real.hits, model.first_token, model.hits
        );
    }
    check("processes", measured);
    check("simulator", simulated);
    for ((name, _), (real, model)) in RULES.iter().zip(measured.iter().zip(&simulated)) {
        let times = real.first_token / model.first_token;
        assert!(
            (0.6..1.6).contains(&times),
            "{name}: {real:?} instead of {model:?}"
        );
        assert!(
            (real.hits - model.hits).abs() < 0.15,
            "{name}: {real:?} instead of {model:?}"
        );
    }
}
