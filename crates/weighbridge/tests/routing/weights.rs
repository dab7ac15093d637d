//! LB-4: weights mean what they say.

use crate::shared::{SOON, ask, count, gateway, pool, refusal, send, send_all, served};
use weighbridge_test_engine::harness::{Gateway, Signal};
use weighbridge_test_engine::{Upstream, eventually, par};

fn yaml(targets: &[(&Upstream, &str)]) -> String {
    let pools: String = targets
        .iter()
        .map(|(upstream, _)| pool(upstream.name(), &[upstream], &[]))
        .collect();
    let weighted =
        |(upstream, weight): &(&Upstream, &str)| format!("{{pool: {}, weight: {weight}}}", upstream.name());
    let targets: Vec<_> = targets.iter().map(weighted).collect();
    format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [{}]}}\n",
        targets.join(", ")
    )
}

/// Sends this many requests on four connections; all must be good.
fn many(gateway: &Gateway, requests: usize) {
    let sent = par(4, |_| {
        served(&send_all(gateway, (0..requests / 4).map(|_| ask(gateway, "r")))).len()
    });
    assert_eq!(sent.iter().sum::<usize>(), requests);
}

fn totals<const N: usize>(upstreams: [&Upstream; N]) -> [u64; N] {
    upstreams.map(|upstream| upstream.stats().total)
}

#[test]
fn lb4_small_weights_and_zero_are_exact() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&yaml(&[(&a, "0"), (&b, "1"), (&c, "0.005")]));
    many(&gateway, 4_000);
    let [zero, most, few] = totals([&a, &b, &c]);
    assert_eq!((zero, most + few), (0, 4_000));
    let share = 4_000.0 * 0.005 / 1.005;
    assert!((few as f64 - share).abs() < 3.0, "{few} of {share}");
}

#[test]
fn lb4_three_to_one_is_three_to_one() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&yaml(&[(&a, "3"), (&b, "1")]));
    many(&gateway, 400);
    assert_eq!(totals([&a, &b]), [300, 100], "exact over whole periods");
    for _ in 0..5 {
        let answers: Vec<_> = (0..4).map(|_| send(&gateway, "r")).collect();
        assert_eq!(count(&served(&answers), "B"), 1, "and spread within each");
    }
}

#[test]
fn lb4_a_weight_is_the_targets_however_many_engines_it_has() {
    let [a, b, c, d] = Upstream::start_all(["A", "B", "C", "D"]);
    let pools = pool("one", &[&a], &[]) + &pool("three", &[&b, &c, &d], &[]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes: [{{name: r, targets: [{{pool: one, weight: 0.25}}, {{pool: three, weight: 0.75}}]}}]\n"
    ));
    many(&gateway, 400);
    let [one, rest @ ..] = totals([&a, &b, &c, &d]);
    assert_eq!((one, rest.iter().sum::<u64>()), (100, 300));
    assert!(rest.iter().all(|total| (90..=110).contains(total)), "{rest:?}");
}

#[test]
fn lb4_endpoint_weights_divide_a_targets_share() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let pool = pool("p", &[&a, &b], &[])
        .replace("{name: A,", "{name: A, weight: 4,")
        .replace("{name: B,", "{name: B, weight: 3,");
    let gateway = gateway(&format!("pools:\n{pool}"));
    let answers = send_all(&gateway, (0..70).map(|_| ask(&gateway, "p")));
    assert_eq!(served(&answers).len(), 70);
    assert_eq!(totals([&a, &b]), [40, 30]);
}

#[test]
fn lb4_weight_zero_takes_nothing_even_when_all_others_fail() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&yaml(&[(&a, "0"), (&b, "1"), (&c, "0.005")]));
    let b_refuses = b.refuse_until();
    let answers = send_all(&gateway, (0..20).map(|_| ask(&gateway, "r")));
    assert_eq!(count(&served(&answers), "C"), 20);
    let c_refuses = c.refuse_until();
    for _ in 0..5 {
        assert_eq!(send(&gateway, "r").status, 503);
    }
    assert_eq!(a.stats().total, 0);
    drop((b_refuses, c_refuses));
    assert!(eventually(SOON, || send(&gateway, "r").served_by() == Some("B")));
}

#[test]
fn lb4_a_failed_targets_share_goes_to_the_others_in_proportion_and_is_not_owed() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&yaml(&[(&a, "2"), (&b, "1"), (&c, "1")]));
    c.script(["status=429,retry_after=2"]);
    assert!(eventually(SOON, || send(&gateway, "r").status == 200
        && c.stats().script_left == 0));
    let before = totals([&a, &b]);
    let answers = send_all(&gateway, (0..30).map(|_| ask(&gateway, "r")));
    assert_eq!(count(&served(&answers), "C"), 0);
    let after = totals([&a, &b]);
    let got = [after[0] - before[0], after[1] - before[1]];
    assert!(
        (18..=22).contains(&got[0]),
        "20 and 10, more or less where the period began: {got:?}"
    );
    assert!(eventually(SOON, || send(&gateway, "r").served_by() == Some("C")));
    let answers = send_all(&gateway, (0..40).map(|_| ask(&gateway, "r")));
    let returned = count(&served(&answers), "C");
    assert!(
        (8..=12).contains(&returned),
        "its share of 10, and nothing for the time away: {returned}"
    );
}

#[test]
fn lb4_nonsense_is_refused_at_load() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    for (weights, says) in [
        (["0", "0"], "all weights of the route `r` are 0"),
        (["-1", "1"], "weight"),
        ([".nan", "1"], "weight"),
        ([".inf", "1"], "weight"),
        (["1000000001", "1"], "weight"),
        (["2e9", "1"], "weight"),
        (["0.0000001", "1"], "weight"),
        (["heavy", "1"], "weight"),
    ] {
        let (code, output) = refusal(&yaml(&[(&a, weights[0]), (&b, weights[1])]));
        assert_eq!(code, Some(2), "{weights:?}");
        assert!(
            output.contains("weighbridge.yaml:") && output.contains(says),
            "{weights:?}: {output}"
        );
    }
    let half = yaml(&[(&a, "1"), (&b, "1")]).replace("{pool: B, weight: 1}", "B");
    let (code, output) = refusal(&half);
    assert_eq!(code, Some(2));
    assert!(
        output.contains("none on `B`") && output.contains("route `r`"),
        "{output}"
    );
    let both = yaml(&[(&a, "1"), (&b, "1")]).replace("}]}", "}], policies: {least_inflight: {}}}");
    let (code, output) = refusal(&both);
    assert_eq!(code, Some(2));
    assert!(
        output.contains("both weights on its targets and `policies`"),
        "{output}"
    );
}

#[test]
fn lb4_new_weights_count_at_once() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&yaml(&[(&a, "1"), (&b, "0")]));
    many(&gateway, 40);
    assert_eq!(totals([&a, &b]), [40, 0]);
    gateway.write_config(&yaml(&[(&a, "1"), (&b, "9")]));
    gateway.signal(Signal::HUP);
    assert!(eventually(SOON, || gateway.stderr().contains("config reloaded")));
    many(&gateway, 100);
    assert_eq!(totals([&a, &b]), [50, 90]);
}
