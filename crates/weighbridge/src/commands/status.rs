//! `weighbridge status`: the running gateway at a glance.

use super::admin::endpoint::list;
use super::admin::table::{Table, number, printable};
use super::admin::{Api, Reach};
use super::count;
use crate::exit::Failure;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write as _};
use std::time::Duration;

const EXAMPLE: &str = "\
Examples:
  weighbridge status
  weighbridge status --watch --admin 10.0.0.7:8801
  weighbridge status --json | jq '.endpoints[] | select(.state != \"live\")'";

/// Time between two looks with `--watch`.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Moves a terminal's cursor home and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[J";
/// Clears the whole screen first.
const CLEAR_ALL: &str = "\x1b[2J\x1b[H";

/// Arguments of `weighbridge status`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Look again every second until interrupted.
    #[arg(long)]
    watch: bool,
    /// Print JSON, one line per look.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Prints once, or for ever.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let api = args.reach.api()?;
    let clears = args.watch && !args.json && std::io::stdout().is_terminal();
    let mut before = if clears { CLEAR_ALL } else { "" };
    loop {
        let seen = look(&api)?;
        let text = match args.json {
            true => format!("{before}{seen}\n"),
            false => format!("{before}{}", show(&seen)),
        };
        match std::io::stdout().lock().write_all(text.as_bytes()) {
            // The reader has gone, and with it the reason to look again.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                let message = format!("cannot write to standard output: {error}");
                return Err(Failure::Failed(message));
            }
            Ok(()) => {}
        }
        if !args.watch {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
        before = match (clears, args.json) {
            (true, _) => CLEAR,
            (false, true) => "",
            (false, false) => "\n",
        };
    }
}

/// Status, routes, endpoints and their sources in one object.
fn look(api: &Api) -> Result<Value, Failure> {
    let mut status = api.get("/api/status")?;
    let routes = api.get("/api/routes")?["routes"].take();
    let endpoints = api.get("/api/endpoints")?["endpoints"].take();
    let pools = api.get("/api/pools")?["pools"].take();
    let mut discovery = Vec::new();
    for pool in pools.as_array().into_iter().flatten() {
        if pool["discovery"].is_object() {
            discovery.push(json!({"pool": pool["name"], "source": pool["discovery"]}));
        }
    }
    Ok(json!({"status": status.take(), "routes": routes, "endpoints": endpoints, "discovery": discovery}))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn show(seen: &Value) -> String {
    let mut out = head(&seen["status"]);
    out.push_str(&sources(&seen["discovery"]));
    out.push('\n');
    out.push_str(&routes(&seen["routes"]).text());
    out.push('\n');
    out.push_str(&endpoints(seen).text());
    out
}

fn head(status: &Value) -> String {
    let uptime = status["uptime_seconds"].as_f64().unwrap_or_default();
    let mut head = format!(
        "weighbridge {} on {}: {}, up {}, {}, {} running\n",
        text(&status["version"]),
        text(&status["listen"]),
        text(&status["phase"]),
        rough(uptime),
        count(status["connections"].as_u64().unwrap_or_default(), "connection"),
        count(status["running_requests"].as_u64().unwrap_or_default(), "request"),
    );
    let file = status["config_file"]
        .as_str()
        .unwrap_or("made from the engines found");
    // Writing to a string does not fail.
    let _ = write!(
        head,
        "config: {}, generation {}",
        printable(file),
        text(&status["generation"])
    );
    let last = &status["last_reload"];
    if last.is_object() {
        let how = match last["error"].as_str() {
            Some(error) => format!("REFUSED, the running config stays in force\n{}", lines(error)),
            None => count(last["changes"].as_array().map_or(0, Vec::len), "change"),
        };
        let _ = write!(head, "; reloaded {}: {how}", text(&last["time"]));
    }
    head.push('\n');
    head
}

/// The sources of endpoints that fail, with what is wrong.
fn sources(discovery: &Value) -> String {
    let mut out = String::new();
    let all = discovery.as_array().into_iter().flatten();
    for entry in all.filter(|entry| entry["source"]["failing"] == true) {
        let source = &entry["source"];
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "pool {}: discovery ({}) fails, the endpoints known so far stay\n{}",
            printable(&text(&entry["pool"])),
            printable(&text(&source["source"])),
            lines(&text(&source["last_error"]))
        );
    }
    out
}

/// Several lines, each without what could steer a terminal.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("  {}", printable(line)))
        .collect();
    lines.join("\n")
}

/// Seconds in the largest units that matter.
fn rough(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60) {
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}m{s}s"),
        (0, h, m, _) => format!("{h}h{m}m"),
        (d, h, _, _) => format!("{d}d{h}h"),
    }
}

fn routes(routes: &Value) -> Table {
    let mut table = Table::new(
        &["ROUTE", "BY", "TARGETS", "LIVE", "RUNNING", "RETRIES USED"],
        &[3, 4, 5],
    );
    for route in routes.as_array().into_iter().flatten() {
        let targets = route["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named: Vec<String> = targets.iter().map(target).collect();
        let sum = |key: &str| {
            targets
                .iter()
                .filter_map(|target| target[key].as_u64())
                .sum::<u64>()
        };
        let budget = &route["retry_budget"];
        table.row([
            text(&route["name"]),
            by(route),
            named.join(", "),
            format!("{}/{}", sum("live"), sum("endpoints")),
            text(&route["requests"]),
            format!("{} of {}", text(&budget["used"]), text(&budget["allowed"])),
        ]);
    }
    table
}

/// How a route chooses, with its preset.
fn by(route: &Value) -> String {
    match route["preset"].as_str() {
        Some(preset) => format!("{} ({preset})", text(&route["route_by"])),
        None => text(&route["route_by"]),
    }
}

/// A target's name with its weight and order, where they say something.
fn target(target: &Value) -> String {
    let weight = target["weight"]
        .as_f64()
        .map(|weight| format!(" {}", number(weight)));
    let order = target["order"].as_u64().filter(|order| *order != 1);
    format!(
        "{}{}{}",
        text(&target["name"]),
        weight.unwrap_or_default(),
        order.map(|order| format!(" (order {order})")).unwrap_or_default()
    )
}

fn endpoints(seen: &Value) -> Table {
    let mut table = Table::new(
        &[
            "ENDPOINT",
            "STATE",
            "BACK IN",
            "IN FLIGHT",
            "WEIGHT",
            "ENGINE SAYS",
            "REASON",
        ],
        &[2, 3, 4],
    );
    for endpoint in list(seen) {
        let left = endpoint["seconds_left"].as_f64();
        let mut weight = endpoint["weight"].as_f64().map(number).unwrap_or_default();
        if endpoint["weight_overridden"] == true {
            weight.push_str(" by hand");
        }
        table.row([
            format!("{}/{}", text(&endpoint["pool"]), text(&endpoint["name"])),
            text(&endpoint["state"]),
            left.map(|left| rough(left.ceil())).unwrap_or_default(),
            text(&endpoint["inflight"]),
            weight,
            says(&endpoint["signals"]),
            text(&endpoint["reason"]),
        ]);
    }
    table
}

/// What is known by the pages of an endpoint: the engine's own, then its GPU exporter's.
fn says(signals: &Value) -> String {
    let mut parts = vec![engine(&signals["engine"]), gpu(&signals["gpu"])];
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// How busy and how full the GPU is, or since when that is not known.
fn gpu(page: &Value) -> String {
    if page["stale"] == true {
        return match page["age_seconds"].as_f64() {
            Some(age) => format!("GPU stale, {} old", rough(age)),
            None => "no GPU metrics".to_owned(),
        };
    }
    let share = |signal: &str, words: &str| {
        let share = page["values"][signal].as_f64()?;
        Some(format!("{words} {:.0} %", share * 100.0))
    };
    let parts = [share("gpu_utilisation", "GPU"), share("gpu_memory", "GPU memory")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What the engine says of itself, beside what the gateway counts; how old it is where that is too long ago.
fn engine(page: &Value) -> String {
    if page["stale"] == true {
        return match page["age_seconds"].as_f64() {
            Some(age) => format!("stale, {} old", rough(age)),
            None => "no metrics".to_owned(),
        };
    }
    let values = &page["values"];
    let counts = ["waiting", "running"]
        .into_iter()
        .filter_map(|signal| Some(format!("{} {signal}", number(values[signal].as_f64()?))));
    let kv = values["kv_usage"]
        .as_f64()
        .map(|share| format!("KV {:.0} %", share * 100.0));
    counts.chain(kv).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rough() {
        for (seconds, expect) in [
            (0.4, "0s"),
            (59.0, "59s"),
            (192.0, "3m12s"),
            (7260.0, "2h1m"),
            (180_000.0, "2d2h"),
            (-1.0, "0s"),
        ] {
            assert_eq!(rough(seconds), expect);
        }
    }

    #[test]
    fn what_an_engine_said_too_long_ago_is_not_told_as_if_it_were_now() {
        let old = json!({"stale": true, "age_seconds": 75.2, "values": {"waiting": 0.0}});
        assert_eq!(engine(&old), "stale, 1m15s old");
        assert_eq!(
            engine(&json!({"stale": true, "age_seconds": null, "values": {}})),
            "no metrics"
        );
        assert_eq!(
            engine(&json!({"stale": false, "values": {"running": 1.0}})),
            "1 running"
        );
        assert_eq!(engine(&Value::Null), "");
    }

    #[test]
    fn a_gpu_speaks_where_the_engine_is_not_read() {
        let fresh = json!({"stale": false, "values": {"gpu_utilisation": 0.5, "gpu_memory": 0.254}});
        assert_eq!(says(&json!({"gpu": fresh})), "GPU 50 %, GPU memory 25 %");
        let engine = json!({"stale": false, "values": {"waiting": 2.0}});
        assert_eq!(
            says(&json!({"engine": engine, "gpu": fresh})),
            "2 waiting, GPU 50 %, GPU memory 25 %"
        );
        let old = json!({"stale": true, "age_seconds": 75.2, "values": {"gpu_memory": 0.5}});
        assert_eq!(says(&json!({"gpu": old})), "GPU stale, 1m15s old");
        let none = json!({"stale": true, "age_seconds": null, "values": {}});
        assert_eq!(says(&json!({"gpu": none})), "no GPU metrics");
        assert_eq!(says(&json!({})), "");
    }

    #[test]
    fn routes_are_shown_with_their_preset() {
        assert_eq!(
            by(&json!({"route_by": "policy", "preset": "auto"})),
            "policy (auto)"
        );
        assert_eq!(by(&json!({"route_by": "policy", "preset": null})), "policy");
        assert_eq!(by(&json!({"route_by": "weight"})), "weight");
    }

    #[test]
    fn the_tables_hold_what_matters() {
        let seen = json!({
            "status": {
                "version": "1", "listen": "127.0.0.1:1", "phase": "ready", "uptime_seconds": 5.2, "connections": 2,
                "running_requests": 3, "config_file": "w.yaml", "generation": 4,
                "last_reload": {"time": "T", "error": "w.yaml:1: bad\u{1b}[2J\nworse", "changes": []},
            },
            "routes": [{
                "name": "r", "route_by": "weight", "requests": 3, "retry_budget": {"used": 1, "allowed": 100},
                "targets": [
                    {"name": "a", "weight": 0.25, "order": 1, "endpoints": 2, "live": 1},
                    {"name": "b", "weight": 1.0, "order": 2, "endpoints": 1, "live": 1},
                ],
            }],
            "discovery": [
                {"pool": "good", "source": {"source": "dns h:1", "failing": false, "last_error": "once"}},
                {"pool": "a", "source": {"source": "file e.yaml", "failing": true, "last_error": "e.yaml:1:1: bad\n    mend it"}},
            ],
            "endpoints": [{
                "pool": "a", "name": "h:1", "state": "cooling", "seconds_left": 6.2, "inflight": 3, "weight": 2.5,
                "weight_overridden": true, "reason": "429 with Retry-After 7 s",
                "signals": {"engine": {"stale": false, "age_seconds": 0.4, "values": {"waiting": 2.0, "running": 12.0, "kv_usage": 0.414}}},
            }],
        });
        let shown = show(&seen);
        for expect in [
            "weighbridge 1 on 127.0.0.1:1: ready, up 5s, 2 connections, 3 requests running",
            "config: w.yaml, generation 4; reloaded T: REFUSED, the running config stays in force\n  w.yaml:1: bad\u{fffd}[2J\n  worse\n",
            "\npool a: discovery (file e.yaml) fails, the endpoints known so far stay\n  e.yaml:1:1: bad\n      mend it\n",
            "a 0.25, b 1 (order 2)   2/3        3      1 of 100\n",
            "a/h:1     cooling       7s          3  2.5 by hand  2 waiting, 12 running, KV 41 %  429 with Retry-After 7 s\n",
        ] {
            assert!(shown.contains(expect), "{expect}\nis not in\n{shown}");
        }
    }
}
