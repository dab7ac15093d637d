//! What the documents say must be what the lab would say, as far as that is known without an hour of runs.

use std::path::{Path, PathBuf};
use weighbridge_core::presets::Preset;
use weighbridge_lab::evidence::{Evidence, page};
use weighbridge_lab::sweep;
use weighbridge_lab::workloads::{cases, closed_loop};
use weighbridge_lab::{rules, yardsticks};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(docs().join(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// The part of the evidence below a heading.
fn below<'a>(evidence: &'a str, heading: &str) -> &'a str {
    let (_, after) = evidence
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("docs/policies.md has no {heading:?}; cargo xtask lab writes it"));
    after.split("\n###").next().unwrap()
}

#[test]
fn every_case_has_a_table_with_every_rule_and_every_family() {
    let page = read("policies.md");
    let evidence = page::EVIDENCE.section(&page).unwrap();
    for case in cases().into_iter().chain([closed_loop()]) {
        let table = below(evidence, &format!("#### {}", case.name));
        let about: String = case.about.chars().skip(1).collect();
        assert!(table.contains(&about), "{}: {about}", case.name);
        let rows: Vec<&str> = table
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
            .collect();
        for family in yardsticks::all().iter().map(|one| one.family) {
            assert!(rows.contains(&family), "{}: no row of {family}", case.name);
        }
        for rule in rules::product() {
            let name = rule.name();
            let found = rows.iter().any(|row| row.trim_matches('`') == name);
            assert!(found, "{}: no row of {name}", case.name);
        }
    }
}

#[test]
fn every_case_stands_beside_the_best_yardsticks_on_both_slices() {
    let page = read("policies.md");
    let evidence = page::EVIDENCE.section(&page).unwrap();
    for slice in ["held out", "tuned on"] {
        let table = below(
            evidence,
            &format!("### `auto` beside the best yardsticks, {slice}"),
        );
        for case in cases() {
            assert!(
                table.contains(&format!("\n| {} | **", case.name)),
                "{slice}: {}",
                case.name
            );
        }
    }
    for preset in Preset::ALL {
        below(evidence, &format!("### Other settings of `{}`", preset.as_str()));
    }
}

#[test]
fn every_gate_is_told_of_with_its_numbers() {
    let page = read("policies.md");
    let gates = page::gates(page::EVIDENCE.section(&page).unwrap());
    // Better on both and the mean on two slices each, never worse, the median in two cases, and presets beside each other.
    assert_eq!(gates.len(), 8, "{gates:?}");
    assert!(gates.iter().all(|gate| !gate.measured.is_empty()));
}

#[test]
fn what_presets_stand_for_is_what_they_are() {
    let file = docs().join("choosing.md");
    let page = read("choosing.md");
    let wanted = Evidence::presets();
    if std::env::var_os("WEIGHBRIDGE_BLESS").is_some() {
        std::fs::write(&file, page::PRESETS.replaced(&page, &wanted).unwrap()).unwrap();
        return;
    }
    assert!(
        page::PRESETS.section(&page).unwrap() == wanted,
        "docs/choosing.md: presets stand for something else by now; write it anew with WEIGHBRIDGE_BLESS=1"
    );
}

#[test]
fn every_case_whose_load_is_varied_has_its_plot_in_the_guide() {
    let page = read("choosing.md");
    for case in sweep::CASES {
        let file = format!("plots/ttft-{}.svg", case.replace(' ', "-"));
        assert!(
            page.contains(&format!("]({file})")),
            "docs/choosing.md does not show {file}"
        );
        let plot = read(&file);
        assert!(plot.contains(rules::AUTO) && plot.contains(case), "{file}");
    }
}
