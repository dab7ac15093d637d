//! Agents that split their work: a task is read once and handed to several workers at the same moment.

use crate::yardsticks::choose::Chance;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_sim::engine::BlockHash;
use weighbridge_sim::workload::{Class, Request, Slo, Workload};

/// Tokens of a block.
const BLOCK: u32 = 16;
/// Tokens of the instructions that all workers have in common.
const SYSTEM: u64 = 2000;
/// Tokens of a task's material: its mean, between a third of it and an exponential tail.
const MATERIAL: f64 = 9000.0;
/// Most tokens of it.
const MATERIAL_MAX: f64 = 40_000.0;
/// Workers of a task, from and to.
const WORKERS: (usize, usize) = (4, 16);
/// Tokens of a worker's own part, and of its answer, as means.
const PART: f64 = 150.0;
const ANSWER: f64 = 120.0;
/// Workers of a task ask within this time.
const SPREAD_S: f64 = 0.3;
/// Tasks per second.
const RATE: f64 = 4.0;
/// Time in which tasks come, seconds.
const LASTS_S: f64 = 360.0;

/// Tasks at `load` times the rate, for a `cut`th of the time.
pub(super) fn generate((cut, load): (u32, f64), seed: u64) -> Workload {
    let mut chance = Chance::new(seed);
    let ends = LASTS_S / f64::from(cut.max(1));
    let (mut requests, mut at, mut task) = (Vec::new(), 0.0, 0_u64);
    loop {
        at += chance.exponential() / (RATE * load);
        if at >= ends {
            break;
        }
        task += 1;
        let material = whole((MATERIAL * (1.0 + 2.0 * chance.exponential()) / 3.0).min(MATERIAL_MAX));
        let workers = WORKERS.0 + chance.below(WORKERS.1 - WORKERS.0 + 1);
        for worker in 0..workers {
            let own = 20 + whole(PART * chance.exponential());
            let prompt = SYSTEM + material + own;
            requests.push(Request {
                at: Duration::from_secs_f64(at + SPREAD_S * chance.unit()),
                after: None,
                prompt_tokens: u32::try_from(prompt).unwrap_or(u32::MAX),
                output_tokens: 10 + u32::try_from(whole(ANSWER * chance.exponential())).unwrap_or(0),
                blocks: blocks(prompt, (material, task, worker)),
                session: None,
                tenant: 0,
                class: 0,
            });
        }
    }
    requests.sort_by_key(|request| request.at);
    Workload {
        name: "fan-out".to_owned(),
        requests,
        block_tokens: BLOCK,
        classes: vec![Class {
            name: Arc::from("workers"),
            slo: Slo {
                first_token: Some(Duration::from_secs(3)),
                per_token: Some(Duration::from_millis(100)),
                end_to_end: None,
            },
        }],
        ..Workload::default()
    }
}

/// Whole blocks of a worker's prompt: the instructions, the task's material, its own part.
fn blocks(prompt: u64, (material, task, worker): (u64, u64, usize)) -> Arc<[BlockHash]> {
    let block = u64::from(BLOCK);
    let whose = |place: u64| {
        if (place + 1) * block <= SYSTEM {
            1
        } else if (place + 1) * block <= SYSTEM + material {
            2 + task
        } else {
            ((1 + task) << 24) | (1 << 23) | worker as u64
        }
    };
    (0..prompt / block)
        .map(|place| (whose(place) << 16) | place)
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "token counts are small and above 0"
)]
fn whole(tokens: f64) -> u64 {
    tokens.round() as u64
}
