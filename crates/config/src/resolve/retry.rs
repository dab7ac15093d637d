//! `routes[].retry`.

use crate::forms::Toggle;
use crate::leaf::or;
use crate::model::routes as model;
use crate::read::{At, Reader};
use crate::warnings;
use weighbridge_core::spec::RetrySpec;

/// The retries of a route, and what it says of re-sending.
pub(super) fn retry(
    reader: &mut Reader<'_>,
    given: Option<At<Toggle<model::Retry>>>,
) -> (RetrySpec, Option<bool>) {
    let mut retry = RetrySpec::default();
    let given = match given.map(|at| at.value) {
        None => return (retry, None),
        Some(Toggle::Off) => {
            return (
                RetrySpec {
                    max_attempts: 1,
                    ..retry
                },
                None,
            );
        }
        Some(Toggle::On(given)) => given,
    };
    retry.max_attempts = or(given.max_attempts, |count| count.0, retry.max_attempts);
    if let Some(on) = given.on {
        warnings::retry(reader, &on);
        let has = |wanted| on.value.iter().any(|word| word.value == wanted);
        retry.on_connect = has(model::RetryOn::Connect);
        retry.on_reset = has(model::RetryOn::Reset);
        retry.on_timeout = has(model::RetryOn::Timeout);
        retry.on_status = on
            .value
            .iter()
            .filter_map(|word| match word.value {
                model::RetryOn::Status(status) => Some(status),
                _ => None,
            })
            .collect();
        retry.on_status.sort_unstable();
        retry.on_status.dedup();
    }
    let budget = or(given.budget, |budget| budget, model::Budget::default());
    retry.budget.ratio = or(budget.ratio, |ratio| ratio.0, retry.budget.ratio);
    retry.budget.floor_per_second = or(
        budget.floor_per_second,
        |floor| floor.0,
        retry.budget.floor_per_second,
    );
    if let Some(window) = budget.window {
        if window.value.0.is_zero() {
            reader.problem(
                window.node,
                "this time must be longer than 0",
                "leave the key out for the default",
            );
        }
        retry.budget.window = window.value.0;
    }
    if let Some(after) = given.move_on_after {
        if after.value.0.is_zero() || !retry.on_timeout {
            reader.problem(
                after.node,
                "`move_on_after` needs a time above 0 and `timeout` in `on`",
                "add `timeout` to `on`, which says that a request may be done twice",
            );
        }
        retry.move_on_after = Some(after.value.0);
    }
    (retry, given.resend.map(|flag| flag.value.0))
}
