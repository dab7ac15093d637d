//! `weighbridge explain`: the decision for one request, candidate by candidate.

mod reckoned;
pub(super) mod shown;

use super::admin::{Api, USUAL};
use super::output;
use crate::exit::Failure;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use weighbridge_gateway::Gateway;
use weighbridge_gateway::exchange::explain::Question;
use weighbridge_gateway::gateway::Setup;

const EXAMPLE: &str = "\
Examples:
  weighbridge explain --request chat.json --header 'session-id: 42'      (the running gateway, as things stand)
  weighbridge explain --request chat.json --config weighbridge.yaml      (offline: every endpoint idle and healthy)
  echo '{\"model\":\"qwen3\",\"messages\":[]}' | weighbridge explain --request - --admin 127.0.0.1:8801";

/// Largest request, bytes: what the admin API takes.
const REQUEST_MAX: u64 = 1 << 20;

/// Arguments of `weighbridge explain`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The request's body: a JSON file, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// Where it would be sent.
    #[arg(long, value_name = "PATH", default_value = "/v1/chat/completions")]
    path: String,
    /// A header that it would have; may be given several times.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Decide by this config file, without a running gateway.
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["admin", "token"])]
    config: Option<PathBuf>,
    /// Admin listener of the running gateway to ask, HOST:PORT.
    #[arg(long, alias = "against", value_name = "ADDR", default_value = USUAL)]
    admin: String,
    /// Admin token [default: $WEIGHBRIDGE_ADMIN_TOKEN, else the file that the gateway on this machine wrote].
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Decides and prints.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let body = read(&args.request)?;
    let explanation = match &args.config {
        Some(config) => offline(args, config, &body)?,
        None => ask(args, &body)?,
    };
    output(&match args.json {
        true => format!("{explanation}\n"),
        false => shown::table(&explanation),
    })
}

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| "write `NAME: VALUE`, such as `session-id: 42`".to_owned())?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| format!("`{name}` is no header's name"))?;
    let value = HeaderValue::from_str(value.trim())
        .map_err(|_| format!("the value of `{name}` holds what no header can carry"))?;
    Ok((name, value))
}

fn read(path: &Path) -> Result<String, Failure> {
    let bad = |what: String| Failure::BadInput(format!("--request {}: {what}", path.display()));
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().take(REQUEST_MAX).read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|file| file.take(REQUEST_MAX).read_to_string(&mut text)),
    };
    read.map_err(|error| bad(error.to_string()))?;
    if text.len() as u64 == REQUEST_MAX {
        return Err(bad("the request is larger than 1 MiB".to_owned()));
    }
    Ok(text)
}

/// By a config alone.
fn offline(args: &Args, config: &Path, body: &str) -> Result<Value, Failure> {
    let loaded = weighbridge_config::load(config, &|name| std::env::var(name).ok())
        .map_err(|problems| Failure::BadInput(format!("the config is refused\n{problems}")))?;
    let gateway = Gateway::unstarted(Setup {
        config: loaded.config,
        request_log: Box::new(std::io::sink()),
        event_log: None,
        clients_max: 0,
    })
    .map_err(Failure::BadInput)?;
    let headers: HeaderMap = args.headers.iter().cloned().collect();
    let question = Question {
        path: &args.path,
        headers: &headers,
        body: body.as_bytes(),
        client_ip: Ipv4Addr::LOCALHOST.into(),
    };
    let explanation = gateway
        .explain_request(&question)
        .map_err(|error| Failure::BadInput(error.message))?;
    serde_json::to_value(&explanation).map_err(|error| Failure::Failed(error.to_string()))
}

/// By a running gateway, as things stand there.
fn ask(args: &Args, body: &str) -> Result<Value, Failure> {
    let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in &args.headers {
        let value = value
            .to_str()
            .map_err(|_| Failure::BadInput(format!("--header {name}: only ASCII can be sent")))?;
        headers.entry(name.as_str()).or_default().push(value);
    }
    // The text as it is, so that no number loses a digit.
    let body: &RawValue = serde_json::from_str(body).map_err(|error| {
        Failure::BadInput(format!("--request {}: not JSON: {error}", args.request.display()))
    })?;
    let question = format!(
        "{{\"path\":{},\"headers\":{},\"body\":{}}}",
        json!(args.path),
        json!(headers),
        body.get()
    );
    Api::new(&args.admin, args.token.as_deref())?.send(Method::POST, "/api/explain", question)
}
