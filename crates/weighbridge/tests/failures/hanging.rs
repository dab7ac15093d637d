//! A9: an engine that hangs holds up its own requests and no others.

use crate::shared::{SOON, gateway, pool, send};
use std::time::Duration;
use weighbridge_test_engine::client::{Request, chat_stream};
use weighbridge_test_engine::{Upstream, eventually};

#[test]
fn a9_two_hundred_requests_that_hang_hold_up_nobody_else() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&format!(
        "pools:\n{}{}",
        pool("a", &[&a], &[]),
        pool("b", &[&b], &[])
    ));
    let body = chat_stream("a", "[[mock:hang=headers]]");
    let request = Request::post(&gateway.url("/v1/chat/completions"), body);
    let hanging: Vec<_> = (0..200).map(|_| request.begin().unwrap()).collect();
    assert!(eventually(SOON, || a.stats().in_flight == 200), "{:?}", a.stats());
    for _ in 0..20 {
        let answer = send(&gateway, "b");
        assert_eq!(answer.status, 200);
        assert!(answer.elapsed < Duration::from_secs(2), "{:?}", answer.elapsed);
    }
    drop(hanging);
    assert!(eventually(SOON, || a.stats().in_flight == 0));
}
