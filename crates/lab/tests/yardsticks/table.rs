//! The table of docs/simulator-baselines.md.

use crate::field::shipped;
use crate::fleet::largest_share;
use crate::{conversation, hot_spot, thirty_seven};
use std::fmt::Write as _;
use std::path::Path;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator-baselines.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every yardstick has its row.
#[test]
fn the_document_has_all() {
    let document = document();
    for one in shipped() {
        let name = one.family;
        let rows = document.matches(&format!("\n| {name} |")).count();
        assert_eq!(rows, 1, "rows of {name} in docs/simulator-baselines.md");
    }
}

/// The numbers too.
#[test]
fn the_document_has_these_numbers() {
    let once = conversation::workload(5606, 1.0);
    let twice = conversation::workload(5606, 2.0);
    let mut table = String::new();
    for one in shipped() {
        let (name, make) = (one.family, &one.make);
        let (a, fast) = (conversation::run(&once, make), conversation::run(&twice, make));
        let (b, _) = thirty_seven::run(&thirty_seven::STAGES, 1, &thirty_seven::made(name));
        let hot = [16, 128].map(|clients| largest_share(&hot_spot::run(clients, make)));
        writeln!(
            table,
            "| {name} | {:.3} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.2} | {:.2} | {:.2} |",
            a.hits, a.share, a.first_token, a.p90, fast.first_token, b.output, b.first_token, hot[0], hot[1]
        )
        .unwrap();
    }
    assert!(
        document().contains(&table),
        "docs/simulator-baselines.md has other numbers than these:\n{table}"
    );
}
