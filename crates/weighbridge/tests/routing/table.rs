//! Where a session goes while requests are held on its engine: cells of the table of load against affinity.

use crate::held::{hold, let_go, wait_held};
use crate::shared::{ask, gateway, pool};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::harness::Gateway;

/// N candidates, ratio least_inflight : session_affinity, requests held on the owner, whether the session then moves.
const CELLS: [(usize, &str, u64, bool); 31] = [
    (2, "0.5", 3, false),
    (2, "0.5", 5, true),
    (2, "1", 0, false),
    (2, "1", 2, true),
    (3, "0.5", 12, false),
    (3, "1", 1, false),
    (3, "1", 3, true),
    (3, "1.5", 1, true),
    (4, "1", 5, false),
    (4, "1", 6, true),
    (4, "1.5", 1, false),
    (4, "1.5", 2, true),
    (4, "2", 1, true),
    (5, "1", 12, false),
    (5, "1.5", 2, false),
    (5, "1.5", 3, true),
    (5, "2", 1, false),
    (5, "2", 2, true),
    (6, "1.5", 6, false),
    (6, "1.5", 7, true),
    (6, "2", 2, false),
    (6, "2", 3, true),
    (7, "2", 3, false),
    (7, "2", 4, true),
    (8, "2", 8, false),
    (8, "2", 9, true),
    (8, "3", 1, false),
    (9, "3", 2, false),
    (9, "3", 3, true),
    (10, "3", 3, false),
    (10, "3", 4, true),
];

/// A route for every N and ratio over the first N pools, and one for each pool alone.
fn yaml(upstreams: &[Upstream]) -> String {
    let pools: String = upstreams
        .iter()
        .map(|upstream| pool(upstream.name(), &[upstream], &[]))
        .collect();
    let mut text = format!("pools:\n{pools}routes:\n");
    let mut routes: Vec<_> = CELLS.iter().map(|(n, ratio, _, _)| (*n, *ratio)).collect();
    routes.dedup();
    for (n, ratio) in routes {
        let targets: Vec<_> = upstreams[..n].iter().map(Upstream::name).collect();
        text += &format!(
            "  - {{name: \"{n} {ratio}\", targets: [{}], policies: {{session_affinity: {{weight: 1}}, \
             least_inflight: {{weight: {ratio}}}}}}}\n",
            targets.join(", ")
        );
    }
    for upstream in upstreams {
        text += &format!("  - {{name: only-{0}, targets: [{0}]}}\n", upstream.name());
    }
    text
}

/// Who serves the session `s` on this route now.
fn goes_to(gateway: &Gateway, route: &str, session: &str) -> String {
    let answer = ask(gateway, route).header("x-session-id", session).send();
    answer
        .served_by()
        .unwrap_or_else(|| panic!("{}", answer.text()))
        .to_owned()
}

#[test]
fn table_3_2_a_session_moves_where_the_table_says_so_and_comes_home() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"]);
    let gateway = gateway(&yaml(&upstreams));
    for (number, (n, ratio, load, moves)) in CELLS.into_iter().enumerate() {
        let (route, session) = (format!("{n} {ratio}"), format!("session-{number}"));
        let home = goes_to(&gateway, &route, &session);
        // Through another route: load is the engine's, whatever route it came by.
        let held: Vec<_> = (0..load)
            .map(|_| hold(&gateway, &format!("only-{home}"), &[]))
            .collect();
        wait_held(&gateway, &upstreams, load);
        let now = goes_to(&gateway, &route, &session);
        let case = format!("{n} candidates, ratio {ratio}, {load} held on {home}");
        assert_eq!(now != home, moves, "{case}: went to {now}");
        let_go(&gateway, held);
        assert_eq!(goes_to(&gateway, &route, &session), home, "{case}: back home");
    }
}
