use super::*;
use http::{HeaderName, HeaderValue};

fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
    all.iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

fn asked(all: &[(&'static str, &'static str)]) -> Result<Work, String> {
    let mut work = Work::default();
    let needs = Needs(u16::MAX);
    match asked_by_headers(needs, &headers(all), &mut work) {
        Ok(()) => Ok(work),
        Err(error) => {
            assert_eq!(error.status, 400);
            Err(error.message)
        }
    }
}

#[test]
fn what_headers_ask_for() {
    let work = asked(&[
        ("x-slo-ttft-ms", "250"),
        ("x-slo-tpot-ms", " 12.5 "),
        ("x-priority", "P2"),
        ("x-request-type", "code"),
        ("x-weighbridge-labels", "gpu=A100 , tier = spot"),
    ])
    .unwrap();
    assert_eq!(work.objective.first_token, Some(Duration::from_millis(250)));
    assert_eq!(work.objective.per_token, Some(Duration::from_micros(12_500)));
    assert_eq!((work.priority, work.class.as_deref()), (2, Some("code")));
    let labels: Vec<_> = work
        .labels
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(labels, [("gpu", "A100"), ("tier", "spot")]);
    assert_eq!(asked(&[]), Ok(Work::default()));
    let empty = [
        ("x-slo-ttft-ms", ""),
        ("x-priority", " "),
        ("x-weighbridge-labels", ""),
    ];
    assert_eq!(asked(&empty), Ok(Work::default()));
}

#[test]
fn what_headers_cannot_ask_for() {
    for (name, value) in [
        ("x-slo-ttft-ms", "soon"),
        ("x-slo-ttft-ms", "0"),
        ("x-slo-ttft-ms", "-1"),
        ("x-slo-ttft-ms", "NaN"),
        ("x-slo-tpot-ms", "inf"),
        ("x-slo-tpot-ms", "1e300"),
        ("x-priority", "P4"),
        ("x-priority", "urgent"),
        ("x-weighbridge-labels", "A100"),
        ("x-weighbridge-labels", "gpu="),
        ("x-weighbridge-labels", "gpu=a,,tier=b"),
        ("x-weighbridge-labels", "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"),
    ] {
        let error = asked(&[(name, value)]).unwrap_err();
        assert!(error.contains(name) && error.len() < 200, "{error}");
    }
}

#[test]
fn headers_that_nobody_looks_at_are_not_judged() {
    let mut work = Work::default();
    let headers = headers(&[
        ("x-slo-ttft-ms", "soon"),
        ("x-weighbridge-labels", "?"),
        ("x-priority", "high"),
    ]);
    assert!(asked_by_headers(Needs::TOKENS, &headers, &mut work).is_ok());
    assert_eq!(work, Work::default());
}
