//! Kills engines and brings them back, as `--chaos` asks.

use super::fleet::Fleet;
use super::setup::pools;
use super::show::Stage;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use weighbridge_sim::text::mix;

/// An engine that is dead, and when it is back.
struct Dead {
    engine: usize,
    back: Instant,
}

/// Every `--chaos` seconds, give or take half, kills one engine for half to twice that long. Of the largest pool one
/// always lives, so that every request has somewhere to go. Without `--chaos` it waits for ever.
pub(super) async fn run(stage: &Stage<'_>, fleet: &mut Fleet, (every, seed): (Option<f64>, u64)) {
    let Some(every) = every else {
        return std::future::pending().await;
    };
    let mut draws = Draws(mix(seed));
    let mut dead: Vec<Dead> = Vec::new();
    let mut next_kill = Instant::now() + draws.around(every, 0.5, 1.5);
    loop {
        let first_back = dead.iter().map(|dead| dead.back).min();
        let next = first_back.map_or(next_kill, |back| back.min(next_kill));
        sleep_until(next).await;
        let now = Instant::now();
        for back in dead.extract_if(.., |dead| dead.back <= now).collect::<Vec<_>>() {
            revive(stage, fleet, &back);
            if !fleet.engines[back.engine].is_alive() {
                dead.push(Dead {
                    back: now + Duration::from_secs_f64(every),
                    ..back
                });
            }
        }
        if now >= next_kill {
            let able = may_die(fleet);
            if let Some(&engine) = able.get(draws.below(able.len())) {
                kill(stage, fleet, engine).await;
                let back = Instant::now() + draws.around(every, 0.5, 2.0);
                dead.push(Dead { engine, back });
            }
            next_kill = Instant::now() + draws.around(every, 0.5, 1.5);
        }
    }
}

/// Engines that live and are not the last of the largest pool.
fn may_die(fleet: &Fleet) -> Vec<usize> {
    let of = |pool: &str| fleet.engines.iter().filter(|engine| engine.pool == pool).count();
    let largest = pools(fleet)
        .into_iter()
        .max_by_key(|pool| of(pool))
        .unwrap_or_default();
    let living = fleet
        .engines
        .iter()
        .filter(|engine| engine.pool == largest && engine.is_alive());
    let last = living.count() <= 1;
    let able = fleet
        .engines
        .iter()
        .enumerate()
        .filter(|(_, engine)| engine.is_alive() && !(last && engine.pool == largest));
    able.map(|(index, _)| index).collect()
}

async fn kill(stage: &Stage<'_>, fleet: &mut Fleet, index: usize) {
    let engine = &mut fleet.engines[index];
    stage.ledger.dies(engine.name);
    engine.kill().await;
    stage.ledger.died(engine.name);
    let (pool, name) = (engine.pool, engine.name);
    stage
        .printer
        .say(&format!("chaos: the simulated engine {pool}/{name} is dead"));
}

fn revive(stage: &Stage<'_>, fleet: &mut Fleet, dead: &Dead) {
    let engine = &mut fleet.engines[dead.engine];
    let (pool, name) = (engine.pool, engine.name);
    match engine.revive() {
        Ok(()) => {
            stage.ledger.revived(name);
            stage.printer.say(&format!("chaos: {pool}/{name} is back"));
        }
        Err(error) => tracing::warn!(%error, "{pool}/{name} cannot come back yet"),
    }
}

/// Repeatable draws.
pub(super) struct Draws(pub(super) u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// An index below `count`; 0 where there is none.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub(super) fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    /// `seconds` times something between `least` and `most`.
    fn around(&mut self, seconds: f64, least: f64, most: f64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        Duration::from_secs_f64(seconds * (least + (most - least) * unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_of_the_largest_pool_is_spared() {
        let mut fleet = Fleet::start(1.0, 1).unwrap();
        let mut draws = Draws(7);
        for _ in 0..3 {
            let able = may_die(&fleet);
            fleet.engines[able[draws.below(able.len())]].kill().await;
            assert!(
                fleet
                    .engines
                    .iter()
                    .any(|engine| engine.pool == "llama-8b" && engine.is_alive())
            );
        }
        let rest = may_die(&fleet);
        assert!(rest.iter().all(|index| fleet.engines[*index].pool != "llama-8b"));
    }

    #[test]
    fn draws_stay_in_bounds() {
        let mut draws = Draws(3);
        for _ in 0..1000 {
            assert!(draws.below(4) < 4);
            let drawn = draws.around(2.0, 0.5, 1.5).as_secs_f64();
            assert!((1.0..3.0).contains(&drawn));
        }
        assert_eq!(draws.below(0), 0);
    }
}
