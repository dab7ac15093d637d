//! Whatever the file holds, loading ends, and ends with a config or with problems that have a place.

use proptest::prelude::*;

const SEEDS: &[&str] = &[
    include_str!("../../../../examples/minimal.yaml"),
    include_str!("../../../../examples/sessions.yaml"),
    include_str!("../../../../examples/full.yaml"),
    "pools: &p [{<<: {}, name: &n a, endpoints: [*n, 'http://[::1]:1/?q=${KEY}']}]\nroutes: [{name: r, targets: [{pool: *n, weight: 1e-3}]}]",
];

/// Pieces that a mutation puts in: everything the reader treats specially.
const PIECES: &[&str] = &[
    "\n",
    " ",
    "  ",
    ":",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&a ",
    "*a",
    "<<: ",
    "!x ",
    "!!str ",
    "|\n",
    ">\n",
    "'",
    "\"",
    "#",
    " #",
    "${",
    "}",
    "$$",
    "${KEY}",
    "${NONE:-}",
    "file:/",
    "~",
    "null",
    "true",
    "1e999",
    "-0",
    ".nan",
    "0x7f",
    "9999999999999999999999999999999999999999",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "\u{0}",
    "\u{feff}",
    "\u{fdd0}",
    "é",
    "pools:",
    "weight: ",
    "auto",
    "\t",
    "? ",
];

fn check(text: &str) {
    match crate::common::load(text) {
        Ok(loaded) => {
            // What was accepted is what the scheduler relies on, and can be shown and compared with itself.
            assert_eq!(loaded.config.fleet.check(), Ok(()));
            assert!(weighbridge_config::diff(&loaded.config, &loaded.config).is_empty());
        }
        Err(problems) => {
            assert!(problems.count() > 0);
            // In YAML a carriage return ends a line too.
            let lines = text.matches(['\n', '\r']).count() + 2;
            for problem in problems.iter() {
                assert!(
                    !problem.message.is_empty() && problem.line <= lines,
                    "{problem} of {lines} lines"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_pieces_never_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        check(&pieces.concat());
    }

    #[test]
    fn mutated_files_never_panic(
        seed in prop::sample::select(SEEDS),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, prop::sample::select(PIECES)), 1..8),
    ) {
        let mut text: Vec<char> = seed.chars().collect();
        for (place, cut, piece) in edits {
            let start = place.index(text.len() + 1).min(text.len());
            let end = (start + cut).min(text.len());
            text.splice(start..end, piece.chars());
        }
        check(&text.into_iter().collect::<String>());
    }

    #[test]
    fn cut_files_never_panic(seed in prop::sample::select(SEEDS), length in any::<prop::sample::Index>()) {
        let text: String = seed.chars().take(length.index(seed.len())).collect();
        check(&text);
    }
}

#[test]
fn large_fleets_load() {
    let mut text = String::from("pools:\n");
    for index in 0..3000 {
        text.push_str(&format!(
            "  - {{name: p{index}, endpoints: [http://h{index}:1, http://i{index}:1]}}\n"
        ));
    }
    text.push_str("routes:\n");
    for index in 0..2000 {
        text.push_str(&format!(
            "  - {{name: r{index}, targets: [p{index}, {{pool: p{}, order: 2}}]}}\n",
            2000 + index / 2
        ));
    }
    let loaded = crate::common::load(&text).unwrap();
    assert_eq!(
        (
            loaded.config.pools.len(),
            loaded.config.routes.len(),
            loaded.warnings.len()
        ),
        // Five pools are warned of one by one that they are asked for the names of routes.
        (3000, 2000, 6)
    );
}

#[test]
fn files_that_are_no_text_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.yaml");
    std::fs::write(&path, b"pools:\n  - name: \xff\n").unwrap();
    let told = weighbridge_config::load(&path, &crate::common::env)
        .unwrap_err()
        .to_string();
    assert!(
        told.ends_with("the file is not UTF-8 text; the first wrong byte is on line 2"),
        "{told}"
    );
    let told = weighbridge_config::load(directory.path(), &crate::common::env)
        .unwrap_err()
        .to_string();
    assert!(
        told.ends_with("the file cannot be read: it is a directory"),
        "{told}"
    );
}
