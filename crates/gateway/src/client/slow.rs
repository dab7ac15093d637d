//! Clients that never finish their heads.

use super::connection;
use crate::exchange::waiting::Leftovers;
use crate::gateway::{Gateway, Setup};
use crate::server::Worker;
use crate::upstream::pool::Connections;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::Instant;

fn worker() -> Rc<Worker> {
    let yaml = "admin: false\npools: [{name: m, health: false, endpoints: ['http://127.0.0.1:9']}]";
    let loaded = weighbridge_config::load_str("test.yaml", yaml, &|_| None).unwrap();
    let gateway = Gateway::unstarted(Setup {
        config: loaded.config,
        request_log: Box::new(std::io::sink()),
        event_log: None,
        clients_max: 10,
    });
    Rc::new(Worker {
        gateway: gateway.unwrap(),
        upstreams: Connections::default(),
        leftovers: Leftovers::new().0,
    })
}

/// How long a connection lives whose client sends `first`, and then a byte a second for ever.
async fn dripping(first: &str) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, peer) = listener.accept().await.unwrap();
    client.write_all(first.as_bytes()).await.unwrap();
    let drip = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if client.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let began = Instant::now();
    tokio::select! {
        () = drip => unreachable!("it never ends"),
        () = connection::serve(worker(), (accepted, peer), None) => {}
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_given_up() {
    let all = LocalSet::new();
    let heads = ["", "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx: "];
    for head in heads {
        // 75 s for the head, and up to 5 s to hear the client out.
        let took = all.run_until(dripping(head)).await.as_secs();
        assert!((75..=81).contains(&took), "{head:?}: {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_without_a_request_is_given_up() {
    let all = LocalSet::new();
    let took = all.run_until(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, peer) = listener.accept().await.unwrap();
        client
            .write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let began = Instant::now();
        let mut answer = Vec::new();
        let (_, read) = tokio::join!(
            connection::serve(worker(), (accepted, peer), None),
            client.read_to_end(&mut answer)
        );
        assert!(read.unwrap() > 0 && answer.starts_with(b"HTTP/1.1 200 OK"));
        began.elapsed().as_secs()
    });
    let took = took.await;
    assert!((75..=81).contains(&took), "{took} s");
}
