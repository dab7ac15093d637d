//! What reading the metrics of many engines costs: `cargo run --release -p weighbridge-gateway --example scrape_speed`.
//!
//! A gateway of 1,000 endpoints, each with a page of 30 KB that is read every second over a connection of its own. What
//! is told is the processor time of the thread that reads, from socket to scheduler, kernel included. Linux only.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weighbridge_gateway::gateway::Setup;
use weighbridge_gateway::server;

const ENDPOINTS: usize = 1_000;
const PAGE: usize = 30_000;
const WARM_UP: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error>;

fn page() -> String {
    let labels = r#"engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct""#;
    let mut page = format!(
        "vllm:num_requests_running{{{labels}}} 12.0\nvllm:num_requests_waiting{{{labels}}} 3.0\n\
         vllm:kv_cache_usage_perc{{{labels}}} 0.41\nvllm:prompt_tokens_total{{{labels}}} 1812345.0\n\
         vllm:generation_tokens_total{{{labels}}} 612345.0\n"
    );
    let mut bound = 0;
    while page.len() < PAGE {
        bound += 1;
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "vllm:time_to_first_token_seconds_bucket{{{labels},le=\"{bound}.5\"}} {}.0",
            bound * 37
        );
    }
    page
}

/// Answers everything with the page, on a thread for each connection.
fn serve(listener: &TcpListener, answer: &'static [u8]) {
    for stream in listener.incoming().flatten() {
        let builder = std::thread::Builder::new().stack_size(64 * 1024);
        let _ = builder.spawn(move || answer_all(stream, answer));
    }
}

fn answer_all(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; 4096];
    while stream.read(&mut request)? > 0 {
        stream.write_all(answer)?;
    }
    Ok(())
}

/// Processor time of the thread that keeps time and reads pages.
fn keeper() -> Result<Duration, Failure> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == "keeper" {
            let text = std::fs::read_to_string(task.join("schedstat"))?;
            let busy = text.split_whitespace().next().ok_or("an empty schedstat")?;
            return Ok(Duration::from_nanos(busy.parse()?));
        }
    }
    Err("no such thread".into())
}

fn main() -> Result<(), Failure> {
    let page = page();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let answer: &'static [u8] = answer.into_bytes().leak();
    let engines = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", engines.local_addr()?);
    std::thread::spawn(move || serve(&engines, answer));
    let endpoints: Vec<String> = (0..ENDPOINTS).map(|number| format!("{url}/{number}")).collect();
    let text = format!(
        "auth: none\npools: [{{name: p, kind: vllm, health: false, endpoints: [{}]}}]\n",
        endpoints.join(", ")
    );
    let config = weighbridge_config::load_str("speed", &text, &|_| None)
        .map_err(|problems| format!("{problems:?}"))?
        .config;
    let setup = Setup {
        config,
        request_log: Box::new(std::io::sink()),
        event_log: None,
        clients_max: 100,
    };
    let running = server::start(setup, server::bind(([127, 0, 0, 1], 0).into())?, 1)?;
    std::thread::sleep(WARM_UP);
    let (before, began) = (keeper()?, Instant::now());
    std::thread::sleep(MEASURED);
    let (busy, passed) = (keeper()? - before, began.elapsed());
    let view = running.gateway.view();
    let fresh = view.endpoints.iter().filter(|endpoint| {
        endpoint
            .heard_at
            .is_some_and(|at| view.now.since(at) < Duration::from_secs(2))
    });
    let line = format!(
        "{ENDPOINTS} endpoints, {} bytes each, every second: {:.1} % of a core ({:.0} µs a page); {} heard of within 2 s\n",
        page.len(),
        100.0 * busy.as_secs_f64() / passed.as_secs_f64(),
        1e6 * busy.as_secs_f64() / passed.as_secs_f64() / ENDPOINTS as f64,
        fresh.count()
    );
    std::io::stdout().write_all(line.as_bytes())?;
    Ok(())
}
