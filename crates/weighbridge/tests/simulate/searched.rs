//! Sizes and rates that are searched for.

use crate::{document, simulate, write_trace};

#[test]
fn the_fewest_engines_keep_the_objective_and_one_less_does_not() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("t.jsonl"), 300);
    // Ten times as fast as one engine bears easily.
    let traffic = "--trace t.jsonl --speedup 10 --slo ttft_p90=300ms --engine llama-3.1-8b@a10";
    let sized = document(dir.path(), &format!("{traffic} --size"));
    let run = &sized["policies"][0]["runs"][0];
    assert_eq!(run["slo"][0]["met"], true, "{run}");
    let engines = run["endpoints"].as_u64().unwrap();
    assert!(engines > 1, "{engines} engine is no search");
    let fewer = document(dir.path(), &format!("{traffic} --endpoints {}", engines - 1));
    assert_eq!(fewer["policies"][0]["runs"][0]["slo"][0]["met"], false);
    assert!(
        sized["headline"]
            .to_string()
            .contains("are the fewest that keep the objectives")
    );
}

#[test]
fn the_highest_rate_keeps_the_objective_and_what_cannot_be_kept_fails() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("t.jsonl"), 300);
    let traffic = "--trace t.jsonl --slo ttft_p90=300ms --endpoints 2 --engine llama-3.1-8b@a10";
    let found = document(dir.path(), &format!("{traffic} --max-rate"));
    for policy in found["policies"].as_array().unwrap() {
        assert_eq!(policy["runs"][0]["slo"][0]["met"], true, "{}", policy["name"]);
    }
    let done = simulate(
        dir.path(),
        "--trace t.jsonl --slo ttft_p90=1ms --size --size-max 2 --quiet",
    );
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err
            .contains("2 engines in each pool do not keep the objectives"),
        "{}",
        done.err
    );
}
