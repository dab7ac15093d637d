//! LB-1: a hot prefix does not bury one target; and what belongs together stays together.

use crate::held::{let_go, wait_held};
use crate::shared::{count, gateway, pool, send_all, served};
use weighbridge_test_engine::client::{Request, Response, chat_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, par};

/// Text of some bytes that is about `subject` and nothing else.
fn text(subject: &str, bytes: usize) -> String {
    let mut text = String::new();
    let mut number = 0_usize;
    while text.len() < bytes {
        number += 1;
        text += &format!("{subject} has part {number}, which is {}. ", number * number % 97);
    }
    text.truncate(bytes);
    text
}

/// A chat of a system prompt and what came after it, alternately by the user and the model.
fn conversation(gateway: &Gateway, system: &str, turns: &[String]) -> Request {
    let said = ["user", "assistant"].into_iter().cycle().zip(turns);
    let messages: Vec<String> = std::iter::once(("system", system))
        .chain(said.map(|(role, text)| (role, text.as_str())))
        .map(|(role, text)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        .collect();
    let body = format!(r#"{{"model":"r","messages":[{}]}}"#, messages.join(","));
    Request::post(&gateway.url("/v1/chat/completions"), body)
}

/// A route `r` over all of these, each a pool of its own and a route of its own.
fn routes(upstreams: &[&Upstream]) -> String {
    let pools: String = upstreams
        .iter()
        .map(|upstream| pool(upstream.name(), &[upstream], &[]))
        .collect();
    let names: Vec<_> = upstreams.iter().map(|upstream| upstream.name()).collect();
    let own: Vec<_> = names
        .iter()
        .map(|name| format!("  - {{name: only-{name}, targets: [{name}]}}\n"))
        .collect();
    format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [{}], policies: {{prefix_cache: {{}}, least_inflight: {{}}}}}}\n{}",
        names.join(", "),
        own.concat()
    )
}

#[test]
fn lb1_ninety_at_once_with_one_system_prompt_are_spread() {
    let upstreams = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&routes(&upstreams.each_ref()));
    let system = text("the house", 4096);
    let answers = par(90, |user| {
        let turn = format!("I am user {user}. [[mock:delay=1]]");
        conversation(&gateway, &system, &[turn]).send()
    });
    assert_eq!(served(&answers).len(), 90);
    for upstream in &upstreams {
        let peak = upstream.stats().peak;
        assert!((1..=53).contains(&peak), "{} had {peak} at once", upstream.name());
    }
}

#[test]
fn lb1_ten_turns_of_a_conversation_stay_together() {
    let upstreams = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&routes(&upstreams.each_ref()));
    let system = text("the house", 4096);
    let mut turns = Vec::new();
    let mut answers = Vec::new();
    for turn in 0..10 {
        turns.push(text(&format!("question {turn}"), 300));
        answers.push(conversation(&gateway, &system, &turns).send());
        turns.push(text(&format!("answer {turn}"), 700));
    }
    let served = served(&answers);
    let most = ["A", "B", "C"].map(|name| count(&served, name)).into_iter().max();
    assert!(most >= Some(9), "{served:?}");
}

#[test]
fn lb1_new_prefixes_avoid_the_busy_target() {
    let upstreams = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&routes(&upstreams.each_ref()));
    let hold = |_| {
        let body = chat_stream("only-A", "[[mock:hang=headers]]");
        Request::post(&gateway.url("/v1/chat/completions"), body)
            .begin()
            .unwrap()
    };
    let held: Vec<_> = (0..10).map(hold).collect();
    wait_held(&gateway, &upstreams, 10);
    let answers = send_all(
        &gateway,
        (0..20).map(|number| {
            conversation(
                &gateway,
                &text(&format!("prefix {number}"), 1500),
                &["hello".to_owned()],
            )
        }),
    );
    let served = served(&answers);
    assert_eq!(count(&served, "A"), 0, "{served:?}");
    assert!(count(&served, "B") > 0 && count(&served, "C") > 0, "{served:?}");
    let_go(&gateway, held);
}

#[test]
fn lb1_three_long_prefixes_one_after_the_other_use_more_than_one_target() {
    let upstreams = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&routes(&upstreams.each_ref()));
    let system = text("the house", 4096);
    let prefixes = [0, 1, 2].map(|number| text(&format!("document {number}"), 8192));
    let answers = send_all(
        &gateway,
        (0..60).map(|number| {
            let asked = format!("{} Question {number}?", prefixes[number % 3]);
            conversation(&gateway, &system, &[asked])
        }),
    );
    let served = served(&answers);
    let used = ["A", "B", "C"].map(|name| count(&served, name));
    assert!(used.iter().filter(|count| **count > 0).count() > 1, "{used:?}");
    // Each prefix stays where it is computed.
    for prefix in 0..3 {
        let own: Vec<&str> = served.iter().copied().skip(prefix).step_by(3).collect();
        let most = ["A", "B", "C"].map(|name| count(&own, name)).into_iter().max();
        assert!(most >= Some(18), "prefix {prefix}: {own:?}");
    }
}

/// 4 × the largest share of so many requests by so many clients, with 8 KiB in common and a tail of their own.
fn largest_share(clients: usize, each: usize) -> f64 {
    let upstreams = Upstream::start_all(["A", "B", "C", "D"]);
    let gateway = gateway(&routes(&upstreams.each_ref()));
    let system = text("the house", 8192);
    let answers: Vec<Vec<Response>> = par(clients, |client| {
        send_all(
            &gateway,
            (0..each).map(|number| {
                let tail = format!("Tail {number} of client {client}. [[mock:delay=0.04]]");
                conversation(&gateway, &system, &[tail])
            }),
        )
    });
    let answers = answers.concat();
    let served = served(&answers);
    let most = ["A", "B", "C", "D"]
        .map(|name| count(&served, name))
        .into_iter()
        .max()
        .unwrap();
    4.0 * most as f64 / served.len() as f64
}

#[test]
fn a_hot_spot_of_sixteen_clients_is_spread() {
    let share = largest_share(16, 60);
    assert!(share <= 1.10, "{share}");
}

#[test]
fn a_hot_spot_of_many_clients_is_spread() {
    let share = largest_share(128, 20);
    assert!(share <= 1.04, "{share}");
}

#[test]
fn one_prompt_again_and_again_stays_where_it_is() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D"]);
    let gateway = gateway(&routes(&upstreams.each_ref()));
    let system = text("the house", 8192);
    let same = (0..40).map(|_| conversation(&gateway, &system, &["the same".to_owned()]));
    let answers = send_all(&gateway, same);
    let served = served(&answers);
    assert_eq!(count(&served, served[0]), 40, "{served:?}");
}
