//! What goes wrong, as `--fault` says it.

use std::sync::Arc;
use std::time::Duration;
use weighbridge_config::parse_duration;
use weighbridge_sim::drive::{Fault, FaultKind};

/// One `--fault`: what is given, and the faults that it stands for. The pool may be left out where there is one only.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    /// As it was written.
    pub(super) text: String,
    pool: Option<Arc<str>>,
    endpoint: Arc<str>,
    kinds: Vec<(Duration, FaultKind)>,
}

/// Most times that an endpoint flaps.
const FLAPS_MAX: u32 = 10_000;

/// Reads `KIND:[POOL/]ENDPOINT@WHEN[+LASTS][*FACTOR]`.
pub(super) fn parse(text: &str) -> Result<Planned, String> {
    let (kind, rest) = text
        .split_once(':')
        .ok_or("write KIND:POOL/ENDPOINT@WHEN, such as die:gpus/e1@60s+30s")?;
    let (endpoint, when) = rest.rsplit_once('@').ok_or("it has no @WHEN, such as @60s")?;
    let (pool, endpoint) = match endpoint.split_once('/') {
        Some((pool, endpoint)) => (Some(pool), endpoint),
        None => (None, endpoint),
    };
    if endpoint.is_empty() || pool == Some("") {
        return Err("write POOL/ENDPOINT between `:` and `@`".to_owned());
    }
    let (when, factor) = match when.split_once('*') {
        Some((when, factor)) => (
            when,
            Some(
                factor
                    .parse::<f64>()
                    .ok()
                    .filter(|factor| (1e-3..=1e6).contains(factor))
                    .ok_or_else(|| format!("`{factor}` after `*` is no number from 0.001 to 1000000"))?,
            ),
        ),
        None => (when, None),
    };
    let (at, lasts) = match when.split_once('+') {
        Some((at, lasts)) => (at, Some(parse_duration(lasts)?)),
        None => (when, None),
    };
    let at = parse_duration(at)?;
    Ok(Planned {
        text: text.to_owned(),
        pool: pool.map(Arc::from),
        endpoint: endpoint.into(),
        kinds: kinds(kind, (at, lasts, factor))?,
    })
}

fn kinds(
    kind: &str,
    (at, lasts, factor): (Duration, Option<Duration>, Option<f64>),
) -> Result<Vec<(Duration, FaultKind)>, String> {
    let once = |kind| Ok(vec![(at, kind)]);
    let unwanted = |what: &str| Err(format!("`{kind}` takes no {what}"));
    match (kind, lasts, factor) {
        ("die", down, None) => once(FaultKind::Die { down }),
        ("slow", lasts, Some(factor)) => once(FaultKind::Slow { factor, lasts }),
        ("slow", _, None) => Err("how many times as slow? write slow:…@WHEN+LASTS*FACTOR".to_owned()),
        ("stale", Some(lasts), None) => once(FaultKind::StaleMetrics { lasts }),
        ("stale", None, _) => Err("for how long? write stale:…@WHEN+LASTS".to_owned()),
        ("flap", Some(down), Some(times)) if times.fract() == 0.0 && times <= f64::from(FLAPS_MAX) => {
            // As long there as it was gone, and again.
            let flap = |number: u32| (at + down * 2 * number, FaultKind::Die { down: Some(down) });
            Ok((0..times as u32).map(flap).collect())
        }
        ("flap", ..) => Err("for how long each time, and how often? write flap:…@WHEN+DOWN*TIMES".to_owned()),
        ("add", None, None) => once(FaultKind::Add),
        ("remove", None, None) => once(FaultKind::Remove),
        ("die" | "stale", _, Some(_)) => unwanted("*FACTOR"),
        ("add" | "remove", ..) => unwanted("+LASTS and no *FACTOR"),
        _ => Err(format!(
            "`{kind}` is no fault; there are die, slow, stale, flap, add and remove"
        )),
    }
}

/// The faults of a fleet with these pools, in order of time.
pub(super) fn of_fleet(planned: &[Planned], pools: &[Arc<str>]) -> Result<Vec<Fault>, String> {
    let mut faults = Vec::new();
    for one in planned {
        let pool = match (&one.pool, pools) {
            (Some(pool), _) => pool.clone(),
            (None, [only]) => only.clone(),
            (None, _) => {
                let pools: Vec<&str> = pools.iter().map(AsRef::as_ref).collect();
                return Err(format!(
                    "--fault {}: of which pool? write POOL/{} with one of {}",
                    one.text,
                    one.endpoint,
                    pools.join(", ")
                ));
            }
        };
        let fault = |&(at, kind): &(Duration, FaultKind)| Fault {
            at,
            endpoint: (pool.clone(), one.endpoint.clone()),
            kind,
        };
        faults.extend(one.kinds.iter().map(fault));
    }
    faults.sort_by_key(|fault| fault.at);
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn faults_are_read_as_they_are_written() {
        let check = |text: &str, at: u64, kind: FaultKind| {
            assert_eq!(parse(text).unwrap().kinds, [(seconds(at), kind)], "{text}");
        };
        check(
            "die:p/e1@60s+30s",
            60,
            FaultKind::Die {
                down: Some(seconds(30)),
            },
        );
        check("die:p/e1@1m", 60, FaultKind::Die { down: None });
        check(
            "slow:p/e2@10s+60s*4",
            10,
            FaultKind::Slow {
                factor: 4.0,
                lasts: Some(seconds(60)),
            },
        );
        check(
            "slow:e2@10s*1.5",
            10,
            FaultKind::Slow {
                factor: 1.5,
                lasts: None,
            },
        );
        check(
            "stale:p/e@0s+5s",
            0,
            FaultKind::StaleMetrics { lasts: seconds(5) },
        );
        check("add:p/host:8000@5s", 5, FaultKind::Add);
        check("remove:p/e@5s", 5, FaultKind::Remove);
        let flaps = parse("flap:p/e@10s+5s*3").unwrap().kinds;
        assert_eq!(
            flaps.iter().map(|(at, _)| at.as_secs()).collect::<Vec<_>>(),
            [10, 20, 30]
        );
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, expect) in [
            ("die", "write KIND:POOL/ENDPOINT@WHEN"),
            ("die:p/e", "no @WHEN"),
            ("die:@5s", "write POOL/ENDPOINT"),
            ("die:/e@5s", "write POOL/ENDPOINT"),
            ("die:p/e@5", "has no unit"),
            ("die:p/e@5s*2", "takes no *FACTOR"),
            ("slow:p/e@5s", "how many times as slow"),
            ("slow:p/e@5s*0", "is no number from 0.001 to 1000000"),
            ("slow:p/e@5s*x", "is no number from 0.001 to 1000000"),
            ("stale:p/e@5s", "for how long"),
            ("flap:p/e@5s+1s*1.5", "how often"),
            ("add:p/e@5s+1s", "takes no +LASTS"),
            ("explode:p/e@5s", "`explode` is no fault"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn the_pool_may_be_left_out_where_there_is_one() {
        let planned = [parse("die:e1@9s").unwrap(), parse("die:q/e1@3s").unwrap()];
        let faults = of_fleet(&planned, &["p".into()]).unwrap();
        assert_eq!(
            faults.iter().map(|fault| &*fault.endpoint.0).collect::<Vec<_>>(),
            ["q", "p"],
            "in order of time"
        );
        assert!(
            of_fleet(&planned, &["p".into(), "q".into()])
                .unwrap_err()
                .contains("of which pool")
        );
    }
}
