//! The rows about memory, for which every peer starts anew.

use super::peers::Peer;
use super::rows::Spec;
use super::window::Generator;
use crate::failure::Failure;
use crate::process;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Values of figures, by their keys.
pub(super) type Values = BTreeMap<&'static str, f64>;

/// Streams that are held open, if the limit on open files allows.
const STREAMS: u64 = 10_000;
/// Files that a router has open beside its connections.
const OTHER_FILES: u64 = 300;
/// After starting, and after opening streams, until what was begun is done.
const SETTLE: Duration = Duration::from_secs(1);
/// Memory of a burst should be back within this.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// How near "back" is to what was before, MiB.
const BACK_MIB: f64 = 1.0;

const PLAIN: Spec = Spec {
    connections: 64,
    body: 150,
    stream: false,
    rate: None,
    seconds: None,
    ramp_ms: 0,
};
const BURST: Spec = Spec {
    body: 120_000,
    ..PLAIN
};
const BURST_FOR: Duration = Duration::from_secs(2);

/// What an idle stream costs.
pub(super) fn idle(load: &Generator, peer: &mut Peer) -> Result<Values, Failure> {
    // Each needs two connections of the router.
    let streams = STREAMS.min(process::open_files_max().saturating_sub(OTHER_FILES) / 2);
    let streams = u32::try_from(streams).unwrap_or(u32::MAX);
    // What only the first requests need is not the streams'.
    load.run(peer, &PLAIN, SETTLE)?;
    std::thread::sleep(SETTLE);
    let before = peer.rss_mib();
    let mut held = load.hold(peer, streams)?;
    std::thread::sleep(SETTLE);
    let kib = (peer.rss_mib() - before) * 1024.0 / f64::from(streams);
    held.stop()?;
    Ok(Values::from([
        ("kib_per_stream", kib),
        ("idle_streams", f64::from(streams)),
    ]))
}

/// Memory at rest, under load, in a burst of large bodies and after it.
pub(super) fn memory(load: &Generator, peer: &mut Peer, window: Duration) -> Result<Values, Failure> {
    std::thread::sleep(SETTLE);
    let idle = peer.rss_mib();
    let loaded = load.run(peer, &PLAIN, window)?.rss_mib;
    let burst = load.run(peer, &BURST, BURST_FOR)?.rss_mib;
    let ended = Instant::now();
    let mut after = peer.rss_mib();
    while after > loaded + BACK_MIB && ended.elapsed() < BACK_WITHIN {
        std::thread::sleep(SETTLE);
        after = peer.rss_mib();
    }
    let mut values = Values::from([
        ("rss_idle_mib", idle),
        ("rss_loaded_mib", loaded),
        ("rss_burst_mib", burst),
        ("rss_after_mib", after),
    ]);
    if after <= loaded + BACK_MIB {
        values.insert("seconds_to_return", ended.elapsed().as_secs_f64());
    }
    Ok(values)
}
