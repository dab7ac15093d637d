use super::*;
use weighbridge_config::discovery::Discovery;

fn looker(more: &str) -> Looker {
    let text = format!("pools: [{{name: a, discovery: {{dns: {{name: e.example, {more}}}}}}}]");
    let loaded = weighbridge_config::load_str("t.yaml", &text, &|_| None).unwrap();
    match loaded.config.pools[0].discovery.clone() {
        Some(Discovery::Dns(dns)) => Looker::new(dns),
        other => panic!("{other:?}"),
    }
}

fn records(addresses: &[&str], ttl: u64) -> Answer {
    Answer::Records(
        addresses.iter().map(|address| address.parse().unwrap()).collect(),
        Duration::from_secs(ttl),
    )
}

fn failed() -> Answer {
    Answer::Failed("x".into())
}

/// Names after a look that got these answers for A and AAAA; the error that it tells; seconds to the next.
fn look(looker: &mut Looker, (four, six): (Answer, Answer)) -> (Option<Vec<String>>, Option<String>, u64) {
    look_at(looker, (four, six), Instant::now())
}

fn look_at(
    looker: &mut Looker,
    (four, six): (Answer, Answer),
    now: Instant,
) -> (Option<Vec<String>>, Option<String>, u64) {
    let mut sum = Sum::default();
    let answers = [(Question::Four, four), (Question::Six, six)];
    for address in looker.take("e.example", answers, &mut sum) {
        sum.found.push(looker.dns.at_address(SocketAddr::new(address, 1)));
    }
    let look = looker.conclude(sum, now);
    let names =
        |found: crate::discovery::Set| found.iter().map(|found| found.spec.name.to_string()).collect();
    (look.found.map(names), look.error, look.again.as_secs())
}

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn both_families_are_endpoints_and_the_shortest_life_counts() {
    let mut looker = looker("port: 1");
    let got = look(
        &mut looker,
        (records(&["10.0.0.2", "10.0.0.1"], 30), records(&["::1"], 20)),
    );
    assert_eq!(got, (names(&["10.0.0.1:1", "10.0.0.2:1", "[::1]:1"]), None, 20));
}

#[test]
fn lives_are_bounded() {
    let mut looker = looker("port: 1, ttl_min: 2s, ttl_max: 10s");
    for (ttl, expect) in [(0, 2), (5, 5), (3600, 10)] {
        let got = look(&mut looker, (records(&["10.0.0.1"], ttl), Answer::Nothing));
        assert_eq!(got.2, expect);
    }
}

#[test]
fn a_family_that_fails_keeps_what_it_had() {
    let mut looker = looker("port: 1");
    let got = look(&mut looker, (records(&["10.0.0.1"], 9), failed()));
    assert_eq!(got, (names(&["10.0.0.1:1"]), Some("x".into()), 9));
    look(&mut looker, (records(&["10.0.0.1"], 9), records(&["::1"], 9)));
    let got = look(&mut looker, (records(&["10.0.0.2"], 9), failed()));
    assert_eq!(got.0, names(&["10.0.0.2:1", "[::1]:1"]));
    let got = look(&mut looker, (failed(), failed()));
    assert_eq!(
        (got.0, got.1.as_deref()),
        (None, Some("x")),
        "nothing was said, so nothing changes"
    );
}

#[test]
fn failures_are_asked_about_less_and_less_often() {
    let mut looker = looker("port: 1, ttl_max: 5s");
    let waits: Vec<_> = (0..5)
        .map(|_| look(&mut looker, (failed(), failed())).2)
        .collect();
    assert_eq!(waits, [1, 2, 4, 5, 5]);
}

#[test]
fn that_there_is_none_is_believed_after_a_while() {
    let mut looker = looker("port: 1, empty_after: 60s");
    let start = Instant::now();
    let none = || (Answer::Nothing, Answer::Nothing);
    let after = |seconds| start + Duration::from_secs(seconds);
    look_at(&mut looker, (records(&["10.0.0.1"], 9), Answer::Nothing), start);
    let got = look_at(&mut looker, none(), after(1));
    assert_eq!(
        (got.0, got.1.as_deref()),
        (
            None,
            Some("it has no endpoint; the pool is emptied if that stays so for 60 s (empty_after)")
        )
    );
    look_at(&mut looker, (failed(), failed()), after(30));
    assert_eq!(
        look_at(&mut looker, none(), after(62)).0,
        None,
        "a failure says nothing of it"
    );
    assert_eq!(look_at(&mut looker, none(), after(122)).0, names(&[]));
    assert_eq!(look_at(&mut looker, none(), after(123)).1, None);
}

#[test]
fn more_than_the_most_changes_nothing() {
    let mut looker = looker("port: 1");
    let many: Vec<String> = (0..=ENDPOINTS_MAX)
        .map(|i| format!("10.0.{}.{}", i / 256, i % 256))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let got = look(&mut looker, (records(&many, 9), Answer::Nothing));
    assert_eq!(
        (got.0, got.1),
        (None, Some("it names 1025 endpoints, more than 1024".into()))
    );
}
