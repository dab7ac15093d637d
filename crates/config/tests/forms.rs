//! Short and long forms resolve to what they say.

use weighbridge_config::load_str;

#[test]
fn smoke() {
    for name in ["minimal", "sessions", "full"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(format!("{name}.yaml"));
        let loaded =
            weighbridge_config::load(&path, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
        println!(
            "{}",
            serde_json::to_string_pretty(&weighbridge_config::masked(&loaded.config)).unwrap()
        );
        for warning in &loaded.warnings {
            println!("{warning}");
        }
    }
    println!("{}", load_str("x.yaml", "pools: [{name: a, endpoints: [http://h:1], kidn: vllm, timeouts: {idle: 30}, scrape: {}}]\nroutes: [{name: r, targets: [b], policies: {session_afinity: {}}}]\n", &|_| None).unwrap_err());
    println!(
        "{}",
        serde_json::to_string_pretty(&weighbridge_config::schema()).unwrap()
    );
}
