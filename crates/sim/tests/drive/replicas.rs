//! Replicas of the gateway that share nothing: rules that store nothing find as much in the caches with eight as with one.

use crate::fleet::*;
use std::path::PathBuf;
use weighbridge_core::policies::session_affinity::{Config, KeySource};
use weighbridge_core::policies::{Policies, least_inflight, prefix_cache};
use weighbridge_core::presets::Preset;
use weighbridge_core::units::Size;
use weighbridge_sim::drive::Setup;
use weighbridge_sim::workload::spec::Span;
use weighbridge_sim::workload::{Format, Workload, generate, named, read, transform};

const ENGINES: usize = 8;
const REPLICAS: u32 = 8;

/// The first `minutes` of a named workload, `speed` times as fast.
fn work(name: &str, minutes: u64, speed: f64) -> Workload {
    let mut spec = named(name).unwrap();
    spec.duration = Some(Span::seconds(minutes * 60));
    let mut workload = generate(&spec, 3).unwrap();
    transform::speed_up(&mut workload, speed);
    workload
}

/// The beginning of Mooncake's conversation trace, in which all prompts have the first block in common and no session is told.
fn conversations() -> Workload {
    let folder = std::env::var_os("WEIGHBRIDGE_DATA").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").into());
    let file = folder.join("traces/mooncake_conversation_first_half.jsonl");
    let bytes = std::fs::read(&file).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; WEIGHBRIDGE_DATA names the folder of public data",
            file.display()
        )
    });
    let mut workload = read(&bytes[..], "conversations", Some(Format::Mooncake))
        .unwrap()
        .workload;
    transform::first(&mut workload, 2000);
    transform::jitter(&mut workload, 1);
    workload
}

/// Token hit ratio under `policies` with so many replicas; every request is answered.
fn hits(workload: &Workload, policies: &Policies, replicas: u32) -> f64 {
    let setup = Setup {
        replicas,
        ..setup(pool("p", ENGINES), route(policies.clone()))
    };
    driven(&setup, workload).unwrap().hit_ratio()
}

/// By this key, and by load as much as `load` says.
fn by(key: KeySource, load: Option<f64>) -> Policies {
    Policies {
        session_affinity: Some(Config {
            keys: vec![key],
            ..Config::default()
        }),
        least_inflight: load.map(|weight| least_inflight::Config { weight }),
        ..Policies::default()
    }
}

fn session() -> KeySource {
    KeySource::Header("session-id".into())
}

fn head() -> KeySource {
    KeySource::PromptHead(Size(16 << 10))
}

/// Of 1 and of 8 replicas, where the first finds at least `at_least`.
fn check_kept(workload: &Workload, policies: &Policies, at_least: f64) {
    let [one, eight] = [1, REPLICAS].map(|replicas| hits(workload, policies, replicas));
    let name = &workload.name;
    assert!(one >= at_least, "{name}: {one} with one replica");
    assert!(
        eight >= 0.95 * one,
        "{name}: {eight} with {REPLICAS} replicas, {one} with one"
    );
}

#[test]
fn sessions_are_found_again_whichever_replica_they_come_through() {
    for (workload, at_least) in [(work("agents", 3, 4.0), 0.9), (work("chat", 3, 4.0), 0.85)] {
        check_kept(&workload, &by(session(), None), at_least);
        check_kept(&workload, &by(session(), Some(2.0)), at_least - 0.05);
    }
}

#[test]
fn so_are_prompts_that_begin_alike_where_no_session_is_told() {
    for (workload, at_least) in [
        (work("agents", 3, 4.0), 0.9),
        (work("chat", 3, 4.0), 0.85),
        (work("prefix-groups", 4, 1.0), 0.85),
    ] {
        check_kept(&workload, &by(head(), None), at_least);
        check_kept(&workload, &by(head(), Some(2.0)), at_least - 0.05);
    }
    // Next to all that eight engines can find of it; least in flight finds a third of that.
    check_kept(&conversations(), &by(head(), None), 0.1);
}

/// What each replica learned is an eighth of what there is to know; it goes by the prompt's head for the rest, and with one replica
/// by what it learned alone.
#[test]
fn what_replicas_do_not_see_goes_by_the_head() {
    let learned = Policies {
        prefix_cache: Some(prefix_cache::Config::default()),
        least_inflight: Some(least_inflight::Config::default()),
        ..Policies::default()
    };
    for (workload, at_least) in [
        (work("agents", 3, 4.0), 0.9),
        (work("chat", 3, 4.0), 0.85),
        (work("prefix-groups", 4, 1.0), 0.85),
    ] {
        check_kept(&workload, &learned, at_least);
    }
    // Auto weighs delays, so it computes a short prompt again rather than have it wait: of chats less is kept, of long sessions all.
    check_kept(&work("agents", 3, 4.0), &Preset::Auto.policies(), 0.9);
}
