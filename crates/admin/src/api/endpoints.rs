//! `/api/endpoints`.

use crate::answer::{Answer, Failure, Result};
use crate::names;
use crate::table::Call;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;
use weighbridge_config::parse_duration;
use weighbridge_core::event::Control;
use weighbridge_core::spec::{RouteSpec, Weight};
use weighbridge_gateway::admin_view::{EndpointShown, endpoints};
use weighbridge_gateway::service::Service;
use weighbridge_gateway::snapshot::Snapshot;

/// All endpoints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Endpoints {
    endpoints: Vec<EndpointShown>,
}

/// The endpoint after a change; of one with ranks the first of these, all of which have changed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Shown {
    endpoint: EndpointShown,
    /// What the change brought about and nobody may have meant.
    warnings: Vec<String>,
}

/// What is to change: one of `drain`, `resume` and `weight`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// True: no new requests, running ones finish.
    drain: Option<bool>,
    /// True: takes requests again after `drain`.
    resume: Option<bool>,
    /// Weight in place of the config's, above 0 and at most 1e9, at most 6 decimals; null: back to the config's.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<f64>")]
    weight: Option<Option<f64>>,
    /// With `weight`: how long, such as `10m`; absent: until it is changed again.
    ttl: Option<String>,
}

/// Tells null from absent.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

pub(crate) fn all(call: &Call<'_>) -> Result<Answer> {
    let gateway = &call.served.admin.gateway;
    Answer::json(&Endpoints {
        endpoints: endpoints(gateway, &gateway.snapshot(), &gateway.view()),
    })
}

pub(crate) fn patch(call: &Call<'_>) -> Result<Answer> {
    let gateway = &call.served.admin.gateway;
    let (pool, name) = find(call)?;
    if call.body.trim_ascii().is_empty() {
        return Err(Failure::bad(format!("the body is empty; send {EXAMPLES}")));
    }
    let change: Change = serde_json::from_slice(call.body)
        .map_err(|error| Failure::bad(format!("{error}; send {EXAMPLES}")))?;
    let command = command(&change, |ttl| gateway.clock().now().after(ttl)).map_err(Failure::bad)?;
    let gone = || Failure::unknown(format!("the endpoint `{pool}/{name}` has just been removed"));
    let before = Service::of(gateway);
    if !gateway.control(&pool, &name, command) {
        return Err(gone());
    }
    tracing::info!(
        pool,
        endpoint = name,
        change = said(&change),
        "endpoint changed by hand"
    );
    let mut all = endpoints(gateway, &gateway.snapshot(), &gateway.view()).into_iter();
    let endpoint = all
        .find(|endpoint| {
            let called = endpoint.name == name || endpoint.rank_of.as_deref() == Some(&*name);
            !endpoint.removed && endpoint.pool == pool && called
        })
        .ok_or_else(gone)?;
    let warnings = match command {
        Control::Drain => before.lost(gateway),
        Control::Weight { weight: Some(_), .. } => {
            unread_weights(&gateway.snapshot(), &pool).into_iter().collect()
        }
        _ => Vec::new(),
    };
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    Answer::json(&Shown { endpoint, warnings })
}

/// What to say of weights in a pool at which none of its routes looks.
pub(super) fn unread_weights(snapshot: &Snapshot, pool: &str) -> Option<String> {
    let config = &snapshot.config;
    let place = config.pools.iter().position(|other| *other.name == *pool)?;
    (!RouteSpec::any_looks_at_weights(&config.fleet.routes, place)).then(|| {
        format!("the routes over the pool `{pool}` choose by policies, which do not look at weights of endpoints; `route_by: round_robin` does")
    })
}

const EXAMPLES: &str =
    r#"{"drain": true}, {"resume": true}, {"weight": 2.5, "ttl": "10m"} or {"weight": null}"#;

/// A change that is one command, for the log.
fn said(change: &Change) -> String {
    match (&change.weight, &change.ttl) {
        (Some(Some(weight)), Some(ttl)) => format!("weight {weight} for {ttl}"),
        (Some(Some(weight)), None) => format!("weight {weight}"),
        (Some(None), _) => "weight no longer by hand".to_owned(),
        (None, _) if change.drain.is_some() => "drain".to_owned(),
        (None, _) => "resume".to_owned(),
    }
}

/// The command that a change stands for, or what is wrong with it.
fn command(change: &Change, after: impl Fn(Duration) -> weighbridge_core::Time) -> Result<Control, String> {
    let Change {
        drain,
        resume,
        weight,
        ttl,
    } = change;
    if ttl.is_some() && !matches!(weight, Some(Some(_))) {
        return Err("`ttl` goes with a `weight` that is a number".to_owned());
    }
    match (drain, resume, weight) {
        (Some(true), None, None) => Ok(Control::Drain),
        (None, Some(true), None) => Ok(Control::Resume),
        (None, None, Some(weight)) => {
            let ttl = ttl.as_deref().map(parse_ttl).transpose()?;
            Ok(Control::Weight {
                weight: weight.map(parse_weight).transpose()?,
                until: ttl.map(after),
            })
        }
        (Some(false), None, None) => {
            Err("`drain` can only be true; to undo it send {\"resume\": true}".to_owned())
        }
        (None, Some(false), None) => {
            Err("`resume` can only be true; to undo it send {\"drain\": true}".to_owned())
        }
        (None, None, None) => Err(format!("nothing is to change; send {EXAMPLES}")),
        _ => Err("send one of `drain`, `resume` and `weight` at a time".to_owned()),
    }
}

pub(super) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = parse_duration(text).map_err(|why| format!("ttl: {why}"))?;
    if ttl.is_zero() {
        return Err(
            "ttl: 0 would end at once; send {\"weight\": null} to go back to the config's".to_owned(),
        );
    }
    Ok(ttl)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is checked to be between 1 and 1e15"
)]
fn parse_weight(weight: f64) -> Result<Weight, String> {
    const RANGE: &str = "a number above 0 and at most 1e9, with at most 6 decimals";
    let millionths = (weight * 1e6).round();
    if !(1.0..=1e15).contains(&millionths) {
        let drain = if weight == 0.0 {
            "; to send it nothing, drain it"
        } else {
            ""
        };
        return Err(format!("weight: {weight} is not {RANGE}{drain}"));
    }
    if (millionths / 1e6 - weight).abs() > weight * 1e-12 {
        return Err(format!(
            "weight: {weight} has too many decimals: it must be {RANGE}"
        ));
    }
    Ok(Weight(millionths as u64))
}

/// The endpoint that the path names.
fn find(call: &Call<'_>) -> Result<(String, String)> {
    let snapshot = call.served.admin.gateway.snapshot();
    let known: Vec<_> = snapshot
        .config
        .pools
        .iter()
        .flat_map(|pool| {
            let own = pool.endpoints.iter().map(|endpoint| &*endpoint.name);
            let first_ranks = pool.endpoints.iter().filter(|endpoint| endpoint.rank == Some(0));
            let of_ranks = first_ranks.filter_map(|endpoint| endpoint.base_name());
            own.chain(of_ranks)
                .map(|name| (pool.name.to_string(), name.to_owned()))
        })
        .collect();
    let mut fits: Vec<_> = names::splits(call.rest)
        .into_iter()
        .filter(|split| known.contains(split))
        .collect();
    match fits.len() {
        1 => Ok(fits.swap_remove(0)),
        0 => {
            let wanted = names::decode(call.rest).unwrap_or_default();
            let names: Vec<_> = known
                .iter()
                .map(|(pool, name)| format!("{pool}/{name}"))
                .collect();
            let hint = names::hint(&wanted, names.iter().map(String::as_str));
            Err(Failure::unknown(format!(
                "there is no endpoint `{}`{hint}",
                names::shorten(&wanted)
            )))
        }
        _ => {
            let fits: Vec<_> = fits
                .iter()
                .map(|(pool, name)| format!("endpoint `{name}` of pool `{pool}`"))
                .collect();
            Err(Failure::new(
                StatusCode::CONFLICT,
                format!(
                    "this may mean {}: write the slashes inside a name as %2F",
                    fits.join(" or ")
                ),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_core::Time;

    fn check(body: &str) -> Result<Control, String> {
        let change = serde_json::from_str(body).map_err(|error: serde_json::Error| error.to_string())?;
        command(&change, Time::from_origin)
    }

    #[test]
    fn the_log_says_it_in_words() {
        for (body, expect) in [
            (r#"{"weight": 5, "ttl": "10m"}"#, "weight 5 for 10m"),
            (r#"{"weight": 2.5}"#, "weight 2.5"),
            (r#"{"weight": null}"#, "weight no longer by hand"),
            (r#"{"drain": true}"#, "drain"),
            (r#"{"resume": true}"#, "resume"),
        ] {
            let change = serde_json::from_str(body).unwrap();
            assert_eq!(said(&change), expect);
        }
    }

    #[test]
    fn a_change_is_one_command() {
        assert_eq!(check(r#"{"drain": true}"#), Ok(Control::Drain));
        assert_eq!(check(r#"{"resume": true}"#), Ok(Control::Resume));
        let weight = |millionths: Option<u64>, until: Option<u64>| {
            Ok(Control::Weight {
                weight: millionths.map(Weight),
                until: until.map(|seconds| Time::from_origin(Duration::from_secs(seconds))),
            })
        };
        assert_eq!(
            check(r#"{"weight": 2.5, "ttl": "10m"}"#),
            weight(Some(2_500_000), Some(600))
        );
        assert_eq!(check(r#"{"weight": 0.000001}"#), weight(Some(1), None));
        assert_eq!(
            check(r#"{"weight": 1000000000}"#),
            weight(Some(1_000_000_000_000_000), None)
        );
        assert_eq!(check(r#"{"weight": 0.1}"#), weight(Some(100_000), None));
        assert_eq!(check(r#"{"weight": null}"#), weight(None, None));
    }

    #[test]
    fn what_is_no_command_says_why() {
        for (body, why) in [
            (r#"{}"#, "nothing is to change"),
            (r#"{"drain": true, "resume": true}"#, "one of"),
            (r#"{"drain": true, "weight": 1}"#, "one of"),
            (r#"{"drain": false}"#, "resume"),
            (r#"{"resume": false}"#, "drain"),
            (
                r#"{"drian": true}"#,
                "expected one of `drain`, `resume`, `weight`, `ttl`",
            ),
            (r#"{"drain": 1}"#, "boolean"),
            (r#"{"drain": true, "drain": true}"#, "duplicate"),
            (r#"{"weight": 0}"#, "to send it nothing, drain it"),
            (r#"{"weight": -1}"#, "above 0"),
            (r#"{"weight": 1000000001}"#, "at most 1e9"),
            (r#"{"weight": 0.0000001}"#, "above 0"),
            (r#"{"weight": 1.2345678}"#, "6 decimals"),
            (r#"{"weight": "2"}"#, "expected f64"),
            (r#"{"weight": null, "ttl": "1m"}"#, "`ttl` goes with"),
            (r#"{"ttl": "1m"}"#, "`ttl` goes with"),
            (r#"{"weight": 1, "ttl": "1"}"#, "no unit"),
            (r#"{"weight": 1, "ttl": "0s"}"#, "at once"),
            (r#"[]"#, "expected"),
            ("", "EOF"),
        ] {
            let error = check(body).unwrap_err();
            assert!(error.contains(why), "{body}: {error}");
        }
    }
}
