//! What sums over several GPUs cost, from prompts of one model over 2, 4 and 8 of them: the catalogue's rates of the link.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this file holds tests only"
)]

mod measured;

use measured::read;
use std::collections::BTreeMap;
use weighbridge_sim::catalogue::{gpus, models};

/// Sizes whose times grow in proportion; above them the attention of that time's kernels shows.
const SIZES: std::ops::RangeInclusive<u32> = 512..=2048;

/// Median times of one prompt, seconds, by GPUs and tokens.
fn prompts(hardware: &str) -> BTreeMap<(u32, u32), f64> {
    let text = read("splitwise/perf_model.csv");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let columns = [
        "model",
        "hardware",
        "tensor_parallel",
        "prompt_size",
        "batch_size",
        "prompt_time",
    ]
    .map(place);
    let mut times: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for line in lines {
        let row: Vec<&str> = line.split(',').collect();
        let [model, gpu, split, tokens, batch, time] = columns.map(|column| row[column]);
        let tokens: u32 = tokens.parse().unwrap();
        if model == "llama2-70b" && gpu == hardware && batch == "1" && SIZES.contains(&tokens) {
            let place = (split.parse().unwrap(), tokens);
            times
                .entry(place)
                .or_default()
                .push(time.parse::<f64>().unwrap() / 1e3);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    times
        .into_iter()
        .map(|(place, times)| (place, median(times)))
        .collect()
}

/// Least squares of relative errors: t = a · tokens / split + b · tokens · 2 (split − 1) / split. Gives b.
fn per_token(times: &BTreeMap<(u32, u32), f64>) -> f64 {
    let (mut xx, mut xy, mut yy, mut x1, mut y1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for ((split, tokens), time) in times {
        let (split, tokens) = (f64::from(*split), f64::from(*tokens));
        let x = tokens / split / time;
        let y = tokens * 2.0 * (split - 1.0) / split / time;
        (xx, xy, yy, x1, y1) = (xx + x * x, xy + x * y, yy + y * y, x1 + x, y1 + y);
    }
    (xx * y1 - xy * x1) / (xx * yy - xy * xy)
}

#[test]
fn the_catalogue_has_the_rates_that_splitting_a_model_shows() {
    let models = models().unwrap();
    let model = models.iter().find(|model| model.name == "llama-2-70b").unwrap();
    let bytes = f64::from(2 * model.layers + 1) * f64::from(model.hidden) * 2.0;
    for (hardware, name) in [("h100-80gb", "h100"), ("a100-80gb", "a100-80gb")] {
        let times = prompts(hardware);
        assert_eq!(times.len(), 9, "{hardware}: 2, 4 and 8 GPUs at three sizes");
        let rate = bytes / per_token(&times) / 1e9;
        println!("{name}: {rate:.1} GB/s");
        let gpus = gpus().unwrap();
        let known = gpus.iter().find(|gpu| gpu.name == name).unwrap().link_gb_s;
        assert!(
            (known / rate - 1.0).abs() < 0.02,
            "{name}: {rate} GB/s, not {known}"
        );
    }
}
