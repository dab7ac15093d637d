//! `weighbridge engine`: one simulated engine over HTTP.

mod anthropic;
mod driver;
mod embeddings;
mod http;
mod metrics;
mod openai;
mod plan;
mod prompt;
mod server;
mod stream;
mod tools;

use crate::exit::Failure;
use serde_json::json;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use weighbridge_sim::engine::Settings;

const EXAMPLE: &str = "\
Example: an engine ten times as fast as the modelled one, with room for 20,000 tokens
  weighbridge engine --listen 127.0.0.1:8000 --model llama-3.1-8b --speed 10 --kv-tokens 20000
  curl -N http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \\
    -d '{\"model\":\"llama-3.1-8b\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'";

/// Arguments of `weighbridge engine`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Name the model is served under; may be given several times.
    #[arg(long = "model", value_name = "NAME", default_value = "llama-3.1-8b")]
    models: Vec<String>,
    /// Seconds of the modelled engine per second of the clock.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = parse_speed)]
    speed: f64,
    /// Sequences that may run at once.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_num_seqs: u32,
    /// Tokens that one iteration may compute.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    max_num_batched_tokens: u32,
    /// Tokens of prompt and answer together; the cache may allow less.
    #[arg(long, value_name = "N", default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(2..))]
    max_model_len: u32,
    /// Size of the KV cache in blocks of 16 tokens [default: 32600].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    kv_blocks: Option<u32>,
    /// Size of the KV cache in tokens, rounded up to whole blocks.
    #[arg(long, value_name = "N", conflicts_with = "kv_blocks", value_parser = clap::value_parser!(u32).range(1..=268_435_456))]
    kv_tokens: Option<u32>,
    /// Decides texts and lengths: the same seed and prompt give the same answer.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// File that gets the engine's URL once it listens.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Say where it listens as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// A speed on the command line: seconds of the model per second.
pub(crate) fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.001..=100_000.0).contains(&speed) => Ok(speed),
        _ => Err("must be a number from 0.001 to 100000".to_owned()),
    }
}

/// What a simulated engine is.
#[derive(Clone, Debug)]
pub(crate) struct EngineConfig {
    /// Names it answers to; the first one labels its metrics.
    pub(crate) models: Vec<String>,
    /// Virtual seconds per real second.
    pub(crate) speed: f64,
    /// Decides texts and lengths.
    pub(crate) seed: u64,
    /// Sizes and coefficients of the model.
    pub(crate) settings: Settings,
}

impl Args {
    fn config(&self) -> Result<EngineConfig, Failure> {
        if let Some(bad) = self.models.iter().find(|name| name.trim().is_empty()) {
            return Err(Failure::BadInput(format!("--model {bad:?}: the name is empty")));
        }
        let mut models: Vec<String> = Vec::new();
        for name in &self.models {
            if !models.contains(name) {
                models.push(name.clone());
            }
        }
        let default = Settings::default();
        let blocks_of_tokens = self.kv_tokens.map(|tokens| tokens.div_ceil(default.block_size));
        let settings = Settings {
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_model_len: self.max_model_len,
            kv_blocks: self.kv_blocks.or(blocks_of_tokens).unwrap_or(default.kv_blocks),
            ..default
        };
        Ok(EngineConfig {
            models,
            speed: self.speed,
            seed: self.seed,
            settings,
        })
    }
}

/// Runs until interrupted.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let config = args.config()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the runtime: {error}")))?;
    runtime.block_on(listen_and_serve(args, config))
}

async fn listen_and_serve(args: Args, config: EngineConfig) -> Result<(), Failure> {
    let no_signals = |error| Failure::Failed(format!("cannot wait for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let failed = |error| Failure::Failed(format!("cannot listen on {}: {error}", args.listen));
    let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
    let url = format!("http://{}", listener.local_addr().map_err(failed)?);
    if let Some(file) = &args.ready_file {
        write_whole(file, &format!("{url}\n"))
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", file.display())))?;
    }
    announce(&args, &config, &url);
    let stopped = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    serve(config, listener, stopped).await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the command tells its user where it listens")]
fn announce(args: &Args, config: &EngineConfig, url: &str) {
    if args.json {
        let line =
            json!({"listening": url, "models": config.models, "speed": config.speed, "simulated": true});
        println!("{line}");
    } else {
        let speed = if config.speed == 1.0 {
            String::new()
        } else {
            format!(", {} times as fast", config.speed)
        };
        println!(
            "Simulated engine (Llama-3.1-8B on one RTX PRO 6000{speed}) serves {} on {url}; nothing it says means \
             anything.",
            config.models.join(", ")
        );
    }
}

/// Writes a file so that a reader sees all of it or none.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    std::fs::write(&part, text)?;
    std::fs::rename(&part, path)
}

/// Serves a simulated engine on `listener` until `shutdown` resolves.
///
/// Connections live inside the returned future: when it ends or is dropped they close at once, whatever they carry,
/// as those of a killed process do.
pub(crate) async fn serve(config: EngineConfig, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    server::serve(config, listener, shutdown).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    fn config() -> EngineConfig {
        EngineConfig {
            models: vec!["m".to_owned()],
            speed: 1.0,
            seed: 0,
            settings: Settings::default(),
        }
    }

    /// A client in the middle of a stream that would last minutes.
    async fn streaming_client(address: SocketAddr) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        let body = r#"{"prompt":"x","max_tokens":50000,"ignore_eos":true,"stream":true}"#;
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client
            .write_all(format!("{head}{body}").as_bytes())
            .await
            .unwrap();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("data: ") {
            assert!(client.read_buf(&mut seen).await.unwrap() > 0);
        }
        client
    }

    async fn closes(mut client: TcpStream) {
        let to_the_end = async {
            let mut rest = Vec::new();
            let _ = client.read_to_end(&mut rest).await;
            rest
        };
        let rest = tokio::time::timeout(Duration::from_secs(20), to_the_end)
            .await
            .unwrap();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "the stream was cut, not ended");
    }

    #[tokio::test]
    async fn a_dropped_server_closes_its_connections_and_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(config(), listener, std::future::pending()));
        let client = streaming_client(address).await;
        server.abort();
        closes(client).await;
        assert!(server.await.unwrap_err().is_cancelled());
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn shutdown_ends_the_server_with_streams_under_way() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(serve(config(), listener, async { drop(stopped.await) }));
        let client = streaming_client(address).await;
        stop.send(()).unwrap();
        server.await.unwrap();
        closes(client).await;
    }
}
