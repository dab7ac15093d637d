//! `/api/calibration`: how fast each endpoint of a pool writes, and the weights that follow.

use super::endpoints::{parse_ttl, unread_weights};
use crate::answer::{Answer, Failure, Result};
use crate::names;
use crate::table::Call;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weighbridge_config::parse_duration;
use weighbridge_config::resolved::Rate;
use weighbridge_gateway::calibrate::{Calibration, Order, Refused};

/// What is asked of a pool's endpoints. All is optional; what is absent is as the pool's `calibrate` says.
#[derive(Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Ask {
    /// Most tokens of each answer, 16 to 8192.
    tokens: Option<u32>,
    /// Requests at once to each endpoint, 1 to 64.
    requests: Option<u32>,
    /// An endpoint with more requests in flight is waited for, and left out if it stays busy.
    max_inflight: Option<u32>,
    /// Longest measurement of one endpoint, and longest wait for it, such as `60s`; at most `10m`.
    timeout: Option<String>,
    /// All endpoints at once; absent: one after the other.
    together: bool,
    /// Set the weights that follow.
    apply: bool,
    /// With `apply`: how long they count, such as `12h`; absent: until the next calibration or the gateway's end.
    ttl: Option<String>,
    /// Take the measured weights back instead, and measure nothing.
    forget: bool,
}

/// The newest calibration of a pool.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Shown {
    /// Null: there was none since the gateway started.
    calibration: Option<Calibration>,
    /// What about the pool makes its weights matter less than somebody may think.
    warnings: Vec<String>,
}

/// The answer about the calibration of this pool.
fn shown(call: &Call<'_>, pool: &str, calibration: Option<Calibration>) -> Result<Answer> {
    let unread = unread_weights(&call.served.admin.gateway.snapshot(), pool);
    Answer::json(&Shown {
        calibration,
        warnings: unread.into_iter().collect(),
    })
}

pub(crate) fn newest(call: &Call<'_>) -> Result<Answer> {
    let (pool, _) = find(call)?;
    shown(call, &pool, call.served.admin.gateway.calibration(&pool))
}

pub(crate) fn begin(call: &Call<'_>) -> Result<Answer> {
    let gateway = &call.served.admin.gateway;
    let (pool, usual) = find(call)?;
    let ask: Ask = match call.body.trim_ascii() {
        [] => Ask::default(),
        body => serde_json::from_slice(body).map_err(|error| Failure::bad(error.to_string()))?,
    };
    if ask.forget {
        let alone = Ask {
            forget: true,
            ..Ask::default()
        };
        if ask != alone {
            return Err(Failure::bad(
                "`forget` measures nothing; send {\"forget\": true} alone, or leave it out",
            ));
        }
        gateway.forget_calibration(&pool);
        tracing::info!(%pool, "measured weights taken back by hand");
        return newest(call);
    }
    let order = order(pool.clone(), &ask, usual).map_err(Failure::bad)?;
    tracing::info!(%pool, apply = order.apply, "calibration begins");
    match gateway.calibrate(order) {
        Ok(calibration) => shown(call, &pool, Some(calibration)),
        Err(Refused::Running) => Err(Failure::new(
            StatusCode::CONFLICT,
            format!("the pool `{pool}` is being calibrated; GET the same path for how that goes"),
        )),
        Err(Refused::NoPool) => Err(Failure::unknown(format!(
            "the pool `{pool}` has just been removed"
        ))),
        Err(Refused::Draining) => Err(Failure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the gateway is ending",
        )),
        Err(Refused::Unasked(why)) => Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, why)),
    }
}

fn order(pool: Arc<str>, ask: &Ask, usual: Rate) -> std::result::Result<Order, String> {
    let within = |name: &str, given: Option<u32>, usual: u32, (least, most): (u32, u32)| match given {
        Some(count) if !(least..=most).contains(&count) => {
            Err(format!("{name}: {count} is not between {least} and {most}"))
        }
        given => Ok(given.unwrap_or(usual)),
    };
    let timeout = match ask.timeout.as_deref() {
        None => usual.timeout,
        Some(text) => {
            let timeout = parse_duration(text).map_err(|why| format!("timeout: {why}"))?;
            if timeout.is_zero() || timeout.as_secs() > 600 {
                return Err(format!("timeout: {text} is not above 0 and at most 10m"));
            }
            timeout
        }
    };
    if ask.ttl.is_some() && !ask.apply {
        return Err("`ttl` goes with `apply`".to_owned());
    }
    Ok(Order {
        pool,
        rate: Rate {
            tokens: within("tokens", ask.tokens, usual.tokens, (16, 8192))?,
            requests: within("requests", ask.requests, usual.requests, (1, 64))?,
            max_inflight: ask.max_inflight.unwrap_or(usual.max_inflight),
            timeout,
        },
        together: ask.together,
        apply: ask.apply,
        ttl: ask.ttl.as_deref().map(parse_ttl).transpose()?,
        scheduled: false,
    })
}

/// The pool that the path names, with how it is measured.
fn find(call: &Call<'_>) -> Result<(Arc<str>, Rate)> {
    let wanted = names::decode(call.rest).ok_or_else(|| Failure::bad("the pool's name is not UTF-8"))?;
    let snapshot = call.served.admin.gateway.snapshot();
    let pools = &snapshot.config.pools;
    match pools.iter().find(|pool| *pool.name == *wanted) {
        Some(pool) => Ok((pool.name.clone(), pool.calibrate.rate.clone())),
        None => {
            let hint = names::hint(&wanted, pools.iter().map(|pool| &*pool.name));
            Err(Failure::unknown(format!(
                "there is no pool `{}`{hint}",
                names::shorten(&wanted)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(body: &str) -> std::result::Result<Order, String> {
        let ask: Ask = serde_json::from_str(body).map_err(|error| error.to_string())?;
        order("p".into(), &ask, Rate::default())
    }

    #[test]
    fn what_is_absent_is_as_the_pool_says() {
        let order = check("{}").unwrap();
        assert_eq!(order.rate, Rate::default());
        assert!(!order.apply && !order.together && order.ttl.is_none());
        let order = check(
            r#"{"tokens": 16, "requests": 1, "max_inflight": 0, "timeout": "5s", "apply": true, "ttl": "12h"}"#,
        )
        .unwrap();
        assert_eq!(
            (order.rate.tokens, order.rate.requests, order.rate.max_inflight),
            (16, 1, 0)
        );
        assert_eq!(order.rate.timeout, Duration::from_secs(5));
        assert_eq!(order.ttl, Some(Duration::from_secs(43_200)));
    }

    #[test]
    fn what_cannot_be_asked_says_why() {
        for (body, why) in [
            (r#"{"tokens": 15}"#, "tokens: 15 is not between 16 and 8192"),
            (r#"{"requests": 0}"#, "requests: 0 is not between 1 and 64"),
            (r#"{"timeout": "11m"}"#, "at most 10m"),
            (r#"{"timeout": "9"}"#, "no unit"),
            (r#"{"ttl": "1h"}"#, "`ttl` goes with `apply`"),
            (r#"{"apply": true, "ttl": "0s"}"#, "at once"),
            (r#"{"aply": true}"#, "unknown field `aply`"),
        ] {
            let error = check(body).unwrap_err();
            assert!(error.contains(why), "{body}: {error}");
        }
    }
}
