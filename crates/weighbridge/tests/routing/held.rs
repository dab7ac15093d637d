//! Requests that are held in flight for as long as a test needs them.

use crate::shared::SOON;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Pending, Request, chat_stream};
use weighbridge_test_engine::harness::Gateway;

/// Sends a stream to `model` that gets no answer until it is dropped.
pub(crate) fn hold(gateway: &Gateway, model: &str, headers: &[(&str, &str)]) -> Pending {
    let body = chat_stream(model, "[[mock:hang=headers]]");
    let request = Request::post(&gateway.url("/v1/chat/completions"), body).headers(headers);
    request.begin().unwrap()
}

/// Waits until this many requests are in flight, by the gateway and by all of these upstreams together.
pub(crate) fn wait_held(gateway: &Gateway, upstreams: &[Upstream], count: u64) {
    let known = || gateway.metrics().sum("weighbridge_inflight", &[]);
    let held = || {
        upstreams
            .iter()
            .map(|upstream| upstream.stats().in_flight)
            .sum::<u64>()
    };
    let reached = weighbridge_test_engine::eventually(SOON, || known() == count as f64 && held() == count);
    assert!(
        reached,
        "{} of {count} requests are held, {} by the gateway",
        held(),
        known()
    );
}

/// Lets go of requests and waits until the gateway has noticed.
pub(crate) fn let_go(gateway: &Gateway, held: Vec<Pending>) {
    held.into_iter().for_each(Pending::abort);
    let gone = weighbridge_test_engine::eventually(SOON, || {
        gateway.metrics().sum("weighbridge_inflight", &[]) == 0.0
    });
    assert!(
        gone,
        "{} are still in flight",
        gateway.metrics().sum("weighbridge_inflight", &[])
    );
}
