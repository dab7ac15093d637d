//! A2: an engine that is too busy to answer its probe is not taken for dead while it serves.

use crate::shared::{SOON, ask, gateway, pool, send, state};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weighbridge_test_engine::client::{Request, chat_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// Stands before an upstream and answers no probe: it passes on every connection but those that ask for `/health`,
/// which hang.
struct Busy {
    addr: SocketAddr,
    probes: Arc<AtomicUsize>,
}

impl Busy {
    fn before(upstream: &Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let probes = Arc::new(AtomicUsize::new(0));
        let (to, counted) = (upstream.addr(), probes.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let counted = counted.clone();
                std::thread::spawn(move || pass(client, to, &counted));
            }
        });
        Self { addr, probes }
    }

    fn probes(&self) -> usize {
        self.probes.load(Ordering::SeqCst)
    }
}

fn pass(mut client: TcpStream, to: SocketAddr, probes: &AtomicUsize) {
    let mut head = [0; 16];
    if client.read_exact(&mut head).is_err() {
        return;
    }
    if head.starts_with(b"GET /health") {
        probes.fetch_add(1, Ordering::SeqCst);
        // Until the prober has had enough.
        let _ = client.read_to_end(&mut Vec::new());
        return;
    }
    let mut upstream = TcpStream::connect(to).unwrap();
    upstream.write_all(&head).unwrap();
    let (mut from, mut back) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut upstream);
        let _ = upstream.shutdown(std::net::Shutdown::Write);
    });
    let _ = std::io::copy(&mut back, &mut client);
    let _ = client.shutdown(std::net::Shutdown::Both);
}

fn start(busy: &Busy) -> Gateway {
    let health = "health: {type: http, path: /health, interval: 400ms, timeout: 100ms, unhealthy_after: 2, healthy_after: 1}";
    let text = pool("m", &[], &[health]).replace(
        "endpoints: []",
        &format!("endpoints: [{{name: A, url: \"http://{}\"}}]", busy.addr),
    );
    gateway(&format!("pools:\n{text}"))
}

/// Waits for this many more probes, and says whether the endpoint was in service all along.
fn stays_live(gateway: &Gateway, busy: &Busy, more: usize, mut meanwhile: impl FnMut()) -> bool {
    let until = busy.probes() + more;
    let mut live = true;
    let ended = eventually(SOON, || {
        meanwhile();
        live &= state(gateway, "A") == "live";
        busy.probes() >= until || !live
    });
    assert!(ended, "{} of {until} probes", busy.probes());
    live
}

#[test]
fn a2_a_busy_engine_that_serves_is_not_marked_dead() {
    let [a] = Upstream::start_all(["A"]);
    let busy = Busy::before(&a);
    let gateway = start(&busy);
    assert!(stays_live(&gateway, &busy, 6, || assert_eq!(
        send(&gateway, "m").status,
        200
    )));
    assert!(
        !stays_live(&gateway, &busy, 6, || {}),
        "without traffic the probes decide"
    );
    assert_eq!(state(&gateway, "A"), "unhealthy");
    assert!(
        a.log().iter().all(|record| record.method == "POST"),
        "no probe runs anything"
    );
    assert_eq!(ask(&gateway, "m").send().status, 200, "it fails open");
    assert!(
        eventually(SOON, || state(&gateway, "A") == "live"),
        "and a success clears it"
    );
}

#[test]
fn a2_a_stream_that_flows_counts_before_it_ends() {
    let [a] = Upstream::start_all(["A"]);
    let busy = Busy::before(&a);
    let gateway = start(&busy);
    a.set_mode("chunks=100000,gap=0.02");
    let mut stream = Request::post(&gateway.url("/v1/chat/completions"), chat_stream("m", "x")).open();
    assert!(stream.wait_events(1, SOON));
    assert!(stays_live(&gateway, &busy, 6, || {
        stream.read_more(Duration::from_millis(20));
    }));
    stream.abort();
    assert!(!stays_live(&gateway, &busy, 6, || {}));
    assert_eq!(state(&gateway, "A"), "unhealthy");
}
