use super::*;
use crate::workload::{generate, named};
use std::collections::HashSet;

fn chat() -> Workload {
    generate(&named("chat").unwrap(), 3).unwrap()
}

fn sound(workload: &Workload) {
    let mut latest = Duration::ZERO;
    for (place, request) in workload.requests.iter().enumerate() {
        match request.after {
            Some(before) => {
                assert!((before as usize) < place);
                assert_eq!(workload.requests[before as usize].session, request.session);
            }
            None => {
                assert!(request.at >= latest);
                latest = request.at;
            }
        }
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(times: &[u64]) -> Workload {
    let request = |seconds: &u64| Request {
        at: secs(*seconds),
        after: None,
        prompt_tokens: 10,
        output_tokens: 1,
        blocks: [].into(),
        session: None,
        tenant: 0,
        class: 0,
    };
    Workload {
        requests: times.iter().map(request).collect(),
        ..Workload::default()
    }
}

fn near(got: f64, wanted: f64, tolerance: f64) {
    assert!(
        (got / wanted - 1.0).abs() < tolerance,
        "{got} instead of {wanted}"
    );
}

#[test]
fn twice_as_fast() {
    let mut workload = at(&[0, 3, 8]);
    speed_up(&mut workload, 2.0);
    assert_eq!(workload.requests[1].at, Duration::from_millis(1500));
    let same = workload.clone();
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        speed_up(&mut workload, factor);
    }
    assert_eq!(workload, same);
    let mut chat = chat();
    speed_up(&mut chat, 3.0);
    sound(&chat);
}

#[test]
fn a_slice_keeps_whole_conversations_and_begins_at_zero() {
    let (mut part, all) = (chat(), chat());
    slice(&mut part, secs(100)..secs(200));
    sound(&part);
    let begins = |workload: &Workload| {
        let free = workload.requests.iter().filter(|request| request.after.is_none());
        free.filter(|request| (secs(100)..secs(200)).contains(&request.at))
            .count()
    };
    let free = part.requests.iter().filter(|request| request.after.is_none());
    assert_eq!(free.clone().count(), begins(&all));
    assert!(free.clone().all(|request| request.at < secs(100)));
    let sessions: HashSet<_> = part.requests.iter().map(|request| request.session).collect();
    let turns = all
        .requests
        .iter()
        .filter(|request| sessions.contains(&request.session))
        .count();
    assert_eq!(part.requests.len(), turns);
    first(&mut part, 10);
    assert_eq!(part.requests.len(), 10);
    sound(&part);
}

#[test]
fn jitter_spreads_a_step_up_to_the_next_and_keeps_the_order() {
    let mut times = vec![0; 1000];
    times.extend(vec![3; 1000]);
    times.extend(vec![7; 10]);
    let (mut workload, before) = (at(&times), at(&times));
    for (number, request) in (0..).zip(&mut workload.requests) {
        request.prompt_tokens = number + 1;
    }
    jitter(&mut workload, 1);
    let order: Vec<u32> = workload
        .requests
        .iter()
        .map(|request| request.prompt_tokens)
        .collect();
    assert!(order.is_sorted() && workload.requests.is_sorted_by_key(|request| request.at));
    for (request, before) in workload.requests.iter().zip(&before.requests) {
        let step = if before.at == secs(0) { 3 } else { 4 };
        assert!(request.at >= before.at && request.at < before.at + secs(step));
    }
    let mean = workload.requests[1000..2000]
        .iter()
        .map(|r| r.at.as_secs_f64())
        .sum::<f64>()
        / 1000.0;
    near(mean, 5.0, 0.02);
    let mut again = before.clone();
    jitter(&mut again, 1);
    assert_eq!(again.requests[5].at, workload.requests[5].at);
}

#[test]
fn a_rate_is_met_by_thinning_or_by_copies() {
    let even = at(&(0..8000).collect::<Vec<_>>());
    for rate in [0.3, 1.0, 2.5, 4.0] {
        let mut workload = even.clone();
        to_rate(&mut workload, rate, (Copies::Fresh, 5)).unwrap();
        sound(&workload);
        near(workload.requests.len() as f64 / 8000.0, rate, 0.03);
        let half = workload
            .requests
            .iter()
            .filter(|request| request.at < secs(4000))
            .count();
        near(half as f64 * 2.0, workload.requests.len() as f64, 0.05);
    }
    let mut chat = chat();
    let before = chat.requests.len() as f64;
    let rate = before / span(&chat.requests).as_secs_f64();
    to_rate(&mut chat, 1.5 * rate, (Copies::Fresh, 5)).unwrap();
    sound(&chat);
    // Whole conversations are drawn, of very different lengths.
    near(chat.requests.len() as f64, 1.5 * before, 0.15);
}

#[test]
fn copies_share_contents_only_where_asked() {
    let distinct = |copies| {
        let mut workload = chat();
        let length = workload.requests.len();
        to_requests(&mut workload, 2 * length + 5, copies).unwrap();
        assert_eq!(workload.requests.len(), 2 * length + 5);
        sound(&workload);
        let blocks: HashSet<_> = workload
            .requests
            .iter()
            .flat_map(|request| request.blocks.to_vec())
            .collect();
        let sessions: HashSet<_> = workload.requests.iter().map(|request| request.session).collect();
        (blocks.len() as f64, sessions.len() as f64)
    };
    let chat = chat();
    let blocks: HashSet<_> = chat
        .requests
        .iter()
        .flat_map(|request| request.blocks.to_vec())
        .collect();
    let sessions: HashSet<_> = chat.requests.iter().map(|request| request.session).collect();
    let (fresh, shared) = (distinct(Copies::Fresh), distinct(Copies::Shared));
    near(fresh.0, 2.0 * blocks.len() as f64, 0.01);
    assert_eq!(shared.0, blocks.len() as f64);
    near(fresh.1, 2.0 * sessions.len() as f64, 0.01);
    assert_eq!(fresh.1, shared.1);
}

#[test]
fn copies_come_one_after_the_other() {
    let mut workload = at(&[0, 2, 4]);
    to_requests(&mut workload, 5, Copies::Fresh).unwrap();
    let times: Vec<_> = workload
        .requests
        .iter()
        .map(|request| request.at.as_secs())
        .collect();
    assert_eq!(times, [0, 2, 4, 6, 8]);
    to_requests(&mut workload, 2, Copies::Fresh).unwrap();
    assert_eq!(workload.requests.len(), 2);
}

#[test]
fn what_cannot_be_scaled_says_why() {
    let chance = (Copies::Fresh, 1);
    assert_eq!(to_rate(&mut at(&[0, 1]), 0.0, chance), Err(ScaleError::Rate));
    assert_eq!(to_rate(&mut at(&[0, 1]), f64::NAN, chance), Err(ScaleError::Rate));
    assert_eq!(to_rate(&mut at(&[0, 0]), 1.0, chance), Err(ScaleError::NoRate));
    assert_eq!(to_rate(&mut at(&[]), 1.0, chance), Err(ScaleError::NoRate));
    assert_eq!(to_rate(&mut at(&[0, 1]), 1e9, chance), Err(ScaleError::TooMany));
    assert_eq!(
        to_requests(&mut at(&[]), 5, Copies::Fresh),
        Err(ScaleError::NoRate)
    );
    assert_eq!(
        to_requests(&mut at(&[0, 1]), REQUESTS, Copies::Fresh),
        Err(ScaleError::TooMany)
    );
}

const REQUESTS: usize = crate::workload::REQUESTS_MAX + 1;
