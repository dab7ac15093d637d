//! What is refused: exit code 2, and a message that says what, where and how to mend it.

use crate::{simulate, write_config, write_trace};

#[test]
fn wrong_options_and_files_are_refused_with_what_would_do() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("t.jsonl"), 10);
    write_config(&dir.path().join("c.yaml"), "");
    std::fs::write(dir.path().join("two.yaml"), "pools:\n  - {name: p, endpoints: [\"http://a:1\"]}\nroutes:\n  - {name: r, targets: [p]}\n  - {name: s, targets: [p]}\n").unwrap();
    std::fs::write(dir.path().join("bad.yaml"), "pools: 7\n").unwrap();
    std::fs::write(dir.path().join("w.yaml"), "name: w\ncomponents: []\n").unwrap();
    std::fs::write(dir.path().join("empty.jsonl"), "").unwrap();
    for (options, expect) in [
        ("--trace missing.jsonl", "--trace missing.jsonl: "),
        ("--trace empty.jsonl", "the trace is empty"),
        ("--trace t.jsonl --format parquet", "there are mooncake"),
        ("--workload hop", "there is no such workload"),
        ("--workload w.yaml", "components"),
        ("--workload missing.yaml", "--workload missing.yaml: "),
        ("--config missing.yaml", "missing.yaml"),
        ("--config bad.yaml", "the config is refused"),
        ("--config two.yaml", "choose one with --route: r, s"),
        ("--config c.yaml --route x", "no route x; its routes are r"),
        ("--engine gpt-9@h100", "no model"),
        ("--engine q=llama-3.1-8b@h100", "no such pool; there are gpus"),
        ("--endpoints 0", "write a number from 1"),
        ("--endpoints q=3", "no such pool; there are gpus"),
        ("--slo ttft=2s", "has no statistic"),
        ("--size", "--slo"),
        ("--speedup 0", "above 0"),
        ("--trace t.jsonl --speedup 1e-9", "give a larger --speedup"),
        ("--trace t.jsonl --from 5s --to 1s", "--from must be before --to"),
        ("--trace t.jsonl --from 50s", "leave no request"),
        ("--fault die:e1", "no @WHEN"),
        ("--fault die:gpus/e77@1s", "e77"),
        ("--html missing/report.html", "--html missing/report.html: "),
        ("--only 3", "--replay"),
        ("--replay missing.jsonl", "--replay missing.jsonl: "),
    ] {
        let done = simulate(dir.path(), options);
        assert_eq!(done.code, Some(2), "{options}: {}", done.err);
        assert!(done.err.contains(expect), "{options}: {}", done.err);
        assert!(done.out.is_empty(), "{options}: {}", done.out);
    }
}
