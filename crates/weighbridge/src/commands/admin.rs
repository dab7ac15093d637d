//! What the commands that talk to a running gateway share: where it is, the token, and asking.

pub(crate) mod client;
pub(crate) mod endpoint;
pub(crate) mod table;

use crate::commands::serve::token;
use crate::exit::Failure;
use client::{Answer, Client, Unreached};
use http::{Method, StatusCode};
use serde_json::Value;

/// Where the admin API of a gateway listens unless told otherwise.
pub(crate) const USUAL: &str = "127.0.0.1:8801";
/// Environment variable of the token.
const TOKEN_VARIABLE: &str = "WEIGHBRIDGE_ADMIN_TOKEN";

/// Which gateway, and the right to talk to it.
#[derive(clap::Args)]
pub(crate) struct Reach {
    /// Admin listener of the gateway, HOST:PORT.
    #[arg(long, value_name = "ADDR", default_value = USUAL)]
    admin: String,
    /// Admin token [default: $WEIGHBRIDGE_ADMIN_TOKEN, else the file that the gateway on this machine wrote].
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

impl Reach {
    /// The gateway's API.
    pub(crate) fn api(&self) -> Result<Api, Failure> {
        Api::new(&self.admin, self.token.as_deref())
    }
}

/// The API of one gateway.
pub(crate) struct Api {
    client: Client,
    /// Where a token was looked for in vain.
    no_token: Option<String>,
}

impl Api {
    /// At `address`, which is `HOST:PORT` or `http://HOST:PORT`.
    pub(crate) fn new(address: &str, token: Option<&str>) -> Result<Self, Failure> {
        let (host, port) = host_and_port(address).map_err(Failure::BadInput)?;
        let from_environment = || {
            std::env::var(TOKEN_VARIABLE)
                .ok()
                .filter(|token| !token.is_empty())
        };
        let mut no_token = None;
        let token = match token.map(str::to_owned).or_else(from_environment) {
            Some(token) => Some(token),
            None => token::find(port)
                .inspect_err(|error| {
                    no_token = Some(format!("{} cannot be read: {error}", token::path(port).display()));
                })
                .ok(),
        };
        let client = Client::new((host, port), token).map_err(Failure::BadInput)?;
        Ok(Self { client, no_token })
    }

    /// GET of `path`, which every gateway has, as JSON.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer = self.answer(Method::GET, path, String::new())?;
        match answer.status {
            StatusCode::NOT_FOUND => Err(self.foreign()),
            _ => self.json(&answer),
        }
    }

    /// Sends `body` and gives the JSON that comes back, or the failure that the gateway tells.
    pub(crate) fn send(&self, method: Method, path: &str, body: String) -> Result<Value, Failure> {
        self.json(&self.answer(method, path, body)?)
    }

    fn answer(&self, method: Method, path: &str, body: String) -> Result<Answer, Failure> {
        let answer = self.client.ask(method, path, body);
        answer.map_err(|error| self.unreached(&error))
    }

    fn json(&self, answer: &Answer) -> Result<Value, Failure> {
        if answer.status.is_success() {
            return serde_json::from_slice(&answer.body).map_err(|_| self.foreign());
        }
        Err(self.refused(answer))
    }

    fn unreached(&self, error: &Unreached) -> Failure {
        let address = self.client.address();
        Failure::Failed(match error {
            Unreached::Refused => format!(
                "no gateway listens on {address}: start one with `weighbridge serve`, or name its admin listener \
                 with --admin HOST:PORT"
            ),
            Unreached::Other(what) => format!("the gateway on {address} does not answer: {what}"),
        })
    }

    fn foreign(&self) -> Failure {
        let address = self.client.address();
        Failure::Failed(format!(
            "what listens on {address} is no admin API of Weighbridge: name the address of `admin.listen`, usually {USUAL}"
        ))
    }

    fn refused(&self, answer: &Answer) -> Failure {
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let message = told["error"]["message"].as_str();
        let address = self.client.address();
        match (answer.status, &self.no_token, message) {
            (_, _, None) => self.foreign(),
            // The data plane's word for a path that it does not serve.
            _ if told["error"]["code"] == "unknown_url" => self.foreign(),
            (StatusCode::UNAUTHORIZED, Some(where_looked), _) => Failure::BadInput(format!(
                "the gateway on {address} wants its admin token: give --token or set {TOKEN_VARIABLE} ({where_looked})"
            )),
            (StatusCode::UNAUTHORIZED, None, _) => Failure::BadInput(format!(
                "the gateway on {address} refuses this admin token: it is `admin.token` of its config, or stands in the \
                 file that it named at its start"
            )),
            (status, _, Some(message)) if status.is_client_error() => Failure::BadInput(message.to_owned()),
            (_, _, Some(message)) => Failure::Failed(message.to_owned()),
        }
    }
}

/// Reads `HOST:PORT`, with or without `http://` before and a slash after.
fn host_and_port(address: &str) -> Result<(String, u16), String> {
    let bare = address.strip_prefix("http://").unwrap_or(address);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    let wrong = || {
        format!(
            "`{address}` is not the address of an admin listener: write HOST:PORT, such as {USUAL}; https is not spoken"
        )
    };
    let (host, port) = bare.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let odd = |c: char| c == '/' || c == '@' || c == '?' || c.is_whitespace() || c.is_control();
    if host.is_empty() || host.contains(odd) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_usual_form() {
        for (text, host, port) in [
            ("127.0.0.1:8801", "127.0.0.1", 8801),
            ("http://localhost:1/", "localhost", 1),
            ("[::1]:8801", "::1", 8801),
            ("gw.example:80", "gw.example", 80),
        ] {
            assert_eq!(host_and_port(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in [
            "",
            "8801",
            ":8801",
            "a:x",
            "https://a:1",
            "http://a:1/x",
            "u@a:1",
            "a:99999",
        ] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
    }
}
