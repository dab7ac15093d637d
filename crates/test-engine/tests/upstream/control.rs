//! Settings, by the library and by the control endpoints.

use super::{SOON, chat, chat_request};
use serde_json::{Value, json};
use weighbridge_test_engine::client::{get, post};
use weighbridge_test_engine::{Upstream, eventually};

fn control(up: &Upstream, path: &str, body: &Value) -> Value {
    post(&format!("{}{path}", up.url()), &[], body.to_string()).json()
}

fn read(up: &Upstream, path: &str) -> weighbridge_test_engine::client::Response {
    get(&format!("{}{path}", up.url()), &[])
}

#[test]
fn the_endpoints_do_what_the_library_does() {
    let up = Upstream::start("ctl");
    control(&up, "/__script", &json!(["status=500", null, "status=429"]));
    let statuses: Vec<_> = (0..4).map(|_| chat(&up, "").status).collect();
    assert_eq!(statuses, [500, 200, 429, 200]);
    up.wait_idle(SOON);
    let log = read(&up, "/__log?clear=1").json();
    assert_eq!(log.as_array().unwrap().len(), 4);
    assert_eq!(
        (&log[0]["status"], &log[0]["outcome"]),
        (&json!(500), &json!("completed"))
    );
    assert!(up.log().is_empty());
    let stats = read(&up, "/__stats").json();
    assert_eq!((&stats["total"], &stats["name"]), (&json!(4), &json!("ctl")));
    control(&up, "/__set", &json!({"health": 503, "mode": "status=503"}));
    assert_eq!((read(&up, "/health").status, chat(&up, "").status), (503, 503));
    assert!(
        control(&up, "/__set", &json!({"helth": 1}))["error"]
            .as_str()
            .unwrap()
            .contains("helth")
    );
    control(&up, "/__reset", &Value::Null);
    assert_eq!((read(&up, "/health").status, chat(&up, "").status), (200, 200));
    assert_eq!(up.stats().total, 2);
    let all = read(&up, "/__all").json();
    assert!(all.as_array().unwrap().iter().any(|r| r["replica"] == "ctl"));
    control(&up, "/__refuse?s=0.3", &Value::Null);
    assert!(eventually(SOON, || chat_request(&up, "", false)
        .try_send()
        .is_err()));
    assert!(eventually(SOON, || chat_request(&up, "", false)
        .try_send()
        .is_ok()));
}

#[test]
fn metrics_and_load_say_the_truth_or_what_they_are_told() {
    let up = Upstream::start("A");
    assert!(
        read(&up, "/metrics")
            .text()
            .contains("num_requests_running{model_name=\"mock-model\"} 0\n")
    );
    let held = chat_request(&up, "hang=headers", false).begin().unwrap();
    assert!(eventually(SOON, || up.stats().in_flight == 1));
    assert_eq!(read(&up, "/load").text(), "{\"server_load\":1}");
    held.abort();
    up.set_load(5.0, 2.0);
    let text = read(&up, "/metrics").text();
    assert!(
        text.contains("num_requests_running{model_name=\"mock-model\"} 5\n"),
        "{text}"
    );
    assert!(
        text.contains("num_requests_waiting{model_name=\"mock-model\"} 2\n"),
        "{text}"
    );
    up.set_metrics_status(500);
    assert_eq!(read(&up, "/metrics").status, 500);
    up.set_models(&["x", "y"]);
    assert_eq!(
        read(&up, "/v1/models").json()["data"].as_array().unwrap().len(),
        2
    );
    up.set_health(404);
    assert_eq!(read(&up, "/health").status, 404);
}

#[test]
fn the_log_keeps_headers_as_sent() {
    let up = Upstream::start("A");
    chat_request(&up, "", false)
        .header("X-A", "1")
        .header("x-a", "2")
        .send();
    let record = &up.posts()[0];
    assert_eq!((record.header_count("X-a"), record.header("x-a")), (2, Some("1")));
    assert!(record.headers.contains(&("X-A".to_owned(), "1".to_owned())));
    assert_eq!(record.json()["model"], "m@@");
}

#[test]
fn the_log_can_be_read_while_requests_come() {
    let upstream = Upstream::start("A");
    let (over, is_over) = std::sync::mpsc::channel();
    let url = upstream.url();
    // In threads of their own, so that what stands still does not hold up the test too.
    std::thread::spawn(move || {
        let answered = (0..300).all(|_| get(&format!("{url}/health"), &[]).status == 200);
        over.send(answered).unwrap();
    });
    let reader = std::thread::spawn(move || {
        loop {
            upstream.log();
            match is_over.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
                told => return told,
            }
        }
    });
    let until = std::time::Instant::now() + 4 * SOON;
    while !reader.is_finished() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(
        reader.is_finished(),
        "reading the log and answering wait for each other"
    );
    assert_eq!(reader.join().unwrap(), Ok(true));
}
