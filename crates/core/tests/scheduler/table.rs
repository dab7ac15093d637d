//! When load moves a session: the table of section 3.2, cell by cell, with requests really in flight.

use crate::world::{World, fleet, policies, pool, route};
use weighbridge_core::event::{Control, Outcome};
use weighbridge_core::explain::Explanation;
use weighbridge_core::policies::ScorerConfig;
use weighbridge_core::policies::least_inflight;

/// `least_inflight` : `session_affinity`.
const RATIOS: [(f64, f64); 6] = [
    (1.0, 2.0),
    (1.0, 1.0),
    (1.5, 1.0),
    (2.0, 1.0),
    (3.0, 1.0),
    (4.0, 1.0),
];

#[derive(Clone, Copy)]
enum Cell {
    /// Moves at this x.
    At(u32),
    /// Ties exactly at the second x, moves at the first.
    Tie(u32, u32),
    Never,
}
use Cell::{At, Never, Tie};

/// Rows N = 2 to 10.
const TABLE: [[Cell; 6]; 9] = [
    [Tie(5, 4), Tie(2, 1), At(1), At(1), At(1), At(1)],
    [Never, Tie(3, 2), At(1), At(1), At(1), At(1)],
    [Never, At(6), At(2), At(1), At(1), At(1)],
    [Never, Never, At(3), At(2), At(1), At(1)],
    [Never, Never, At(7), At(3), At(1), At(1)],
    [Never, Never, Never, At(4), At(2), At(1)],
    [Never, Never, Never, At(9), At(2), At(1)],
    [Never, Never, Never, Never, At(3), At(2)],
    [Never, Never, Never, Never, At(4), At(2)],
];

/// One pool of `count`, and the place of the session's owner.
fn world(count: usize, (least, affinity): (f64, f64)) -> (World, usize) {
    let mut route = route("r", &[0]);
    route.policies = policies(affinity, least);
    let mut world = World::new(fleet(vec![pool("p", count)], vec![route]));
    let first = world.get_session("s");
    let owner = world.ids.endpoints[0].iter().position(|id| *id == first.endpoint);
    world.end(&first, Outcome::Complete);
    (world, owner.unwrap())
}

/// Puts one more request on the owner, whatever the policies think of it.
fn load(world: &mut World, owner: usize) {
    let others: Vec<_> = (0..world.ids.endpoints[0].len())
        .filter(|i| *i != owner)
        .collect();
    others
        .iter()
        .for_each(|i| drop(world.control(0, *i, Control::Drain)));
    let held = world.get(0);
    assert_eq!(held.endpoint, world.endpoint(0, owner));
    others
        .iter()
        .for_each(|i| drop(world.control(0, *i, Control::Resume)));
}

fn explain(world: &mut World) -> Explanation {
    let arrival = world.arrival(0, Some("s"));
    world.scheduler.explain(world.now, &arrival).unwrap()
}

#[test]
fn every_cell() {
    for (row, count) in TABLE.iter().zip(2..) {
        for (cell, ratio) in row.iter().zip(RATIOS) {
            let (moves, ties) = match *cell {
                At(x) => (x, None),
                Tie(x, tie) => (x, Some(tie)),
                Never => (13, None),
            };
            let never = matches!(cell, Never);
            let (mut world, owner) = world(count, ratio);
            for x in 0..=moves {
                let said = explain(&mut world);
                let stays = said.winner == Some(owner);
                let cell = format!("N {count}, ratio {ratio:?}, x {x}");
                assert_eq!(said.decision.tie, ties == Some(x), "{cell}");
                if said.decision.tie {
                    let runner_up = said.decision.runner_up.unwrap();
                    assert!((said.decision.total - runner_up.total).abs() < 1e-12, "{cell}");
                } else {
                    assert_eq!(stays, x < moves || never, "{cell}");
                    assert_eq!(said.decision.session_moved, !stays, "{cell}");
                }
                load(&mut world, owner);
            }
        }
    }
}

/// The decision itself, not the dry run, at the edge of a cell; and home again when the load is gone.
#[test]
fn moves_and_comes_home() {
    let (mut world, owner) = world(4, (1.0, 1.0));
    let home = world.endpoint(0, owner);
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(world.get_session("s"));
        assert_eq!(held.last().unwrap().endpoint, home);
    }
    let moved = world.get_session("s");
    assert!(moved.endpoint != home && moved.decision.session_moved);
    world.end(&moved, Outcome::Complete);
    for one in &held[..3] {
        world.end(one, Outcome::Complete);
    }
    let back = world.get_session("s");
    assert!(back.endpoint == home && !back.decision.session_moved);
}

/// "Never" at x = 10⁶ by the policies' formulas, which the cells above hold the scheduler to, and by the bound: the gap stays
/// below 1 / (N − 1).
#[test]
fn never_is_never() {
    const MANY: u32 = 1_000_000;
    for (row, count) in TABLE.iter().zip(2u32..) {
        for (cell, (least, affinity)) in row.iter().zip(RATIOS) {
            // Ranks from the owner's down score 1, 1/2, 1/4, …; the owner's load is its alone.
            let ranks = || (0..count).map(|rank| 0.5f64.powi(rank as i32));
            let loads = || {
                (0..count).map(|rank| {
                    if rank == 0 {
                        1.0 / (1.0 + f64::from(MANY))
                    } else {
                        1.0
                    }
                })
            };
            let (by_rank, by_load): (f64, f64) = (ranks().sum(), loads().sum());
            let totals: Vec<f64> = (ranks().zip(loads()))
                .map(|(rank, load)| affinity * rank / by_rank + least * load / by_load)
                .collect();
            let stays = totals[1..].iter().all(|total| *total < totals[0]);
            let never = matches!(cell, Never);
            assert_eq!(stays, never, "N {count}, {least} : {affinity}");
            let lead = 0.5 / (2.0 * (1.0 - 0.5f64.powi(count as i32)));
            assert_eq!(least / affinity <= lead * f64::from(count - 1), never);
            assert!(least_inflight::Config { weight: least }.check().is_ok());
        }
    }
}
