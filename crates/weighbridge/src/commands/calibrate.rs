//! `weighbridge calibrate`: how fast each endpoint of a pool writes, and the weights that follow.

use super::admin::endpoint::{encode, list};
use super::admin::table::{Table, number, printable};
use super::admin::{Api, Reach};
use super::{count, output};
use crate::exit::Failure;
use http::Method;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::Duration;
use weighbridge_config::{parse_duration, show_duration};

const EXAMPLE: &str = "\
Examples:
  weighbridge calibrate --pool qwen3                       (measures and proposes; changes nothing)
  weighbridge calibrate --pool qwen3 --apply --ttl 12h     (uses the proposed weights for 12 hours)
  weighbridge calibrate --pool qwen3 --forget              (back to the weights of the config)

The gateway sends a fixed prompt to one endpoint after the other, each request of at most --tokens tokens. The requests are
counted like any other and stand in the log. Endpoints that are drained, sick or busy are left out. A weight that was set by
hand (PATCH /api/endpoints/POOL/ENDPOINT) counts before a measured one.";

/// Time between two looks at how far the gateway is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `weighbridge calibrate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The pool, as `weighbridge status` names it before the slash.
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// Most tokens of each answer [default: the pool's `calibrate.tokens`, 128].
    #[arg(long, value_name = "N")]
    tokens: Option<u32>,
    /// Requests at once to each endpoint [default: the pool's `calibrate.requests`, 4].
    #[arg(long, value_name = "N")]
    requests: Option<u32>,
    /// Leave endpoints out that keep more requests in flight [default: the pool's `calibrate.max_inflight`, 2].
    #[arg(long, value_name = "N")]
    max_inflight: Option<u32>,
    /// Longest measurement of one endpoint, and longest wait for it, such as 30s [default: the pool's, 60s].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Measure all endpoints at once: quicker, and wrong where they share a GPU or a host.
    #[arg(long)]
    together: bool,
    /// Use the proposed weights.
    #[arg(long, conflicts_with = "forget")]
    apply: bool,
    /// With --apply: how long, such as 12h [default: until the next calibration, or the gateway ends].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "apply")]
    ttl: Option<Duration>,
    /// Take measured weights back, and measure nothing.
    #[arg(long)]
    forget: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Has the gateway measure, and prints what it found.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let api = args.reach.api()?;
    let path = format!("/api/calibration/{}", encode(&args.pool));
    let begun = api.send(Method::POST, &path, ask(args).to_string())?;
    if args.forget {
        let pool = printable(&args.pool);
        return match args.json {
            true => output(&format!("{begun}\n")),
            false => output(&format!("{pool}: the weights are those of the config again\n")),
        };
    }
    let warnings = begun["warnings"].clone();
    let found = wait(&api, &path, begun)?;
    match args.json {
        true => output(&format!("{found}\n"))?,
        false => output(&(show(&found, args) + &warned(&warnings)))?,
    }
    failures(&found)
}

fn ask(args: &Args) -> Value {
    let mut ask = json!({"together": args.together, "apply": args.apply, "forget": args.forget});
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            ask[name] = value;
        }
    };
    add("tokens", args.tokens.map(Value::from));
    add("requests", args.requests.map(Value::from));
    add("max_inflight", args.max_inflight.map(Value::from));
    add("timeout", args.timeout.map(|time| show_duration(time).into()));
    add("ttl", args.ttl.map(|time| show_duration(time).into()));
    ask
}

/// Looks until the gateway is done; it bounds the time itself.
fn wait(api: &Api, path: &str, mut seen: Value) -> Result<Value, Failure> {
    let mut told = Vec::new();
    loop {
        let calibration = seen["calibration"].take();
        progress(&calibration, &mut told);
        match calibration["running"].as_bool() {
            Some(true) => {}
            Some(false) => return Ok(calibration),
            None => {
                return Err(Failure::Failed(
                    "the gateway knows nothing of the calibration any more: it was restarted meanwhile"
                        .to_owned(),
                ));
            }
        }
        std::thread::sleep(LOOK_EVERY);
        seen = api.get(path)?;
    }
}

/// Tells a person at a terminal of every endpoint whose state has changed since the last time.
#[expect(clippy::print_stderr, reason = "progress for the person who waits")]
fn progress(calibration: &Value, told: &mut Vec<String>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let all = list(calibration).count();
    for (place, endpoint) in list(calibration).enumerate() {
        let state = endpoint["state"].as_str().unwrap_or_default();
        if told.len() <= place {
            told.push("waiting".to_owned());
        }
        if told[place] != state {
            state.clone_into(&mut told[place]);
            let name = printable(endpoint["name"].as_str().unwrap_or_default());
            eprintln!("{}/{all} {name}: {state}", place + 1);
        }
    }
}

fn show(found: &Value, args: &Args) -> String {
    let mut table = Table::new(
        &[
            "ENDPOINT", "TOKENS/S", "TOKENS", "SECONDS", "WEIGHT", "PROPOSED", "",
        ],
        &[1, 2, 3, 4, 5],
    );
    for endpoint in list(found) {
        let figure = |key: &str| endpoint[key].as_f64().map(number).unwrap_or_default();
        let measured = endpoint["state"] == "measured";
        let note = match endpoint["reason"].as_str() {
            Some(reason) => format!("{}: {reason}", endpoint["state"].as_str().unwrap_or_default()),
            None if endpoint["weight_overridden"] == true => "weight set by hand, which goes on".to_owned(),
            None => String::new(),
        };
        let rate = endpoint["tokens_per_second"].as_f64();
        table.row([
            printable(endpoint["name"].as_str().unwrap_or_default()),
            rate.map(|rate| format!("{rate:.1}")).unwrap_or_default(),
            if measured { figure("tokens") } else { String::new() },
            endpoint["seconds"]
                .as_f64()
                .filter(|_| measured)
                .map(|seconds| format!("{seconds:.2}"))
                .unwrap_or_default(),
            figure("weight"),
            endpoint["proposed"].as_f64().map(decimals).unwrap_or_default(),
            printable(&note),
        ]);
    }
    let proposes = list(found).any(|endpoint| endpoint["proposed"].is_number());
    let last = match (found["applied"] == true, proposes) {
        (true, _) => match args.ttl {
            Some(ttl) => format!("The proposed weights are in use for {}.\n", show_duration(ttl)),
            None => "The proposed weights are in use until the next calibration, or the gateway ends.\n"
                .to_owned(),
        },
        (false, true) => "Nothing has changed; --apply uses the proposed weights.\n".to_owned(),
        (false, false) => "Weights are relative, so it takes two endpoints to propose any.\n".to_owned(),
    };
    format!("{}\n{last}", table.text())
}

/// What the gateway warns of, a line each.
fn warned(warnings: &Value) -> String {
    let warnings = warnings.as_array().into_iter().flatten();
    let lines = warnings.filter_map(|warning| warning.as_str());
    lines
        .map(|warning| format!("warning: {}\n", printable(warning)))
        .collect()
}

/// A weight with all of its decimals.
fn decimals(weight: f64) -> String {
    let text = format!("{weight:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Fails if an endpoint could not be measured that should have been, or none was.
fn failures(found: &Value) -> Result<(), Failure> {
    let are = |state: &str| {
        let state = state.to_owned();
        list(found)
            .filter(move |endpoint| endpoint["state"] == *state)
            .count()
    };
    let (failed, measured) = (are("failed"), are("measured"));
    if failed > 0 {
        let plural = count(u64::try_from(failed).unwrap_or(u64::MAX), "endpoint");
        return Err(Failure::Failed(format!("{plural} could not be measured")));
    }
    if measured == 0 {
        return Err(Failure::Failed("no endpoint was measured".to_owned()));
    }
    Ok(())
}
