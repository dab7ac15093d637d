//! A12: the neighbours of a dead target do not get its share alone.

use crate::shared::{ask, count, gateway, pool, send_all, served};
use weighbridge_test_engine::Upstream;

fn three(upstreams: &[&Upstream], one_pool: bool) -> String {
    if one_pool {
        return format!(
            "pools:\n{}routes: [{{name: r, targets: [p], route_by: round_robin}}]\n",
            pool("p", upstreams, &[])
        );
    }
    let pools: String = upstreams
        .iter()
        .map(|upstream| pool(upstream.name(), &[upstream], &[]))
        .collect();
    format!("pools:\n{pools}routes: [{{name: r, targets: [A, B, C], route_by: round_robin}}]\n")
}

#[test]
fn a12_the_dead_ones_share_goes_to_all_others() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    for one_pool in [false, true] {
        let gateway = gateway(&three(&[&a, &b, &c], one_pool));
        let _refusing = b.refuse_until();
        let answers = send_all(&gateway, (0..200).map(|_| ask(&gateway, "r")));
        let names = served(&answers);
        for name in ["A", "C"] {
            let share = count(&names, name);
            assert!(
                (90..=110).contains(&share),
                "{name} got {share} of 200, one pool: {one_pool}"
            );
        }
    }
}

#[test]
fn a12_while_all_live_they_take_turns() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    for one_pool in [false, true] {
        let gateway = gateway(&three(&[&a, &b, &c], one_pool));
        let answers = send_all(&gateway, (0..30).map(|_| ask(&gateway, "r")));
        let names = served(&answers);
        for round in names.chunks(3) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, ["A", "B", "C"], "{names:?}");
        }
    }
}

#[test]
fn a12_targets_take_turns_whatever_their_sizes() {
    let [a, b, c, d] = Upstream::start_all(["A", "B", "C", "D"]);
    let pools = pool("one", &[&a], &[]) + &pool("three", &[&b, &c, &d], &[]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes: [{{name: r, targets: [one, three], route_by: round_robin}}]\n"
    ));
    let answers = send_all(&gateway, (0..60).map(|_| ask(&gateway, "r")));
    let names = served(&answers);
    assert_eq!(count(&names, "A"), 30);
    for name in ["B", "C", "D"] {
        assert_eq!(count(&names, name), 10, "{name}");
    }
}
