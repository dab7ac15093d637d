//! `/api/explain`.

use crate::answer::{Answer, Failure, Result};
use crate::names;
use crate::table::Call;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weighbridge_gateway::exchange::explain::Question;

/// Path of a request that comes without one.
const USUAL_PATH: &str = "/v1/chat/completions";

/// A request to think of. A request's body by itself, without a key `body`, stands for a chat completion.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask<'a> {
    /// Where it would be sent; absent: `/v1/chat/completions`.
    path: Option<String>,
    /// Its headers, each a text or a list of texts.
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    /// The client's address, where a policy goes by it; absent: 127.0.0.1.
    #[schemars(with = "Option<String>")]
    client_ip: Option<Value>,
    /// Its body. Kept as the text that it is, so that no number loses a digit.
    #[serde(borrow)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    body: &'a RawValue,
}

/// One value of a header, or several.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Values {
    One(String),
    Several(Vec<String>),
}

/// Either form of the question.
pub(crate) fn schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            generator.subschema_for::<Ask<'_>>(),
            {"type": "object", "description": "The body of a chat completion by itself.", "required": ["model"]},
        ]
    })
}

pub(crate) fn explain(call: &Call<'_>) -> Result<Answer> {
    let bare = Ask {
        path: None,
        headers: BTreeMap::new(),
        client_ip: None,
        body: RawValue::NULL,
    };
    let (ask, body) = if is_wrapped(call.body) {
        let ask: Ask<'_> = serde_json::from_slice(call.body).map_err(|error| {
            Failure::bad(format!(
                "{error}; send {{\"path\": …, \"headers\": {{…}}, \"body\": {{…}}}}, or a request's body by itself"
            ))
        })?;
        let body = ask.body.get().as_bytes();
        (ask, body)
    } else {
        (bare, call.body)
    };
    let question = Question {
        path: ask.path.as_deref().unwrap_or(USUAL_PATH),
        headers: &headers(&ask.headers)?,
        body,
        client_ip: client_ip(ask.client_ip.as_ref())?,
    };
    let shown = call
        .served
        .admin
        .gateway
        .explain_request(&question)
        .map_err(|error| {
            let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::BAD_REQUEST);
            Failure::new(status, error.message)
        })?;
    Answer::json(&shown)
}

fn client_ip(given: Option<&Value>) -> Result<IpAddr> {
    let Some(value) = given else {
        return Ok(Ipv4Addr::LOCALHOST.into());
    };
    let address = value.as_str().and_then(|text| text.parse().ok());
    address.ok_or_else(|| {
        Failure::bad(format!(
            "client_ip: {} is no IP address; write it as a text such as \"10.0.0.1\"",
            names::shorten(&value.to_string())
        ))
    })
}

/// Whether the request is wrapped, or stands by itself: no API of a model has a field `body`.
fn is_wrapped(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Look<'a> {
        #[serde(borrow)]
        body: Option<&'a RawValue>,
    }
    serde_json::from_slice::<Look<'_>>(text).is_ok_and(|look| look.body.is_some())
}

fn headers(given: &BTreeMap<String, Values>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, values) in given {
        let bad = |what: &str| {
            Failure::bad(format!(
                "headers: `{}` is not a header's {what}",
                names::shorten(name)
            ))
        };
        let values = match values {
            Values::One(value) => std::slice::from_ref(value),
            Values::Several(values) => values,
        };
        let name = HeaderName::try_from(name.as_str()).map_err(|_| bad("name"))?;
        for value in values {
            let value = HeaderValue::from_str(value).map_err(|_| {
                Failure::bad(format!(
                    "headers: the value of `{name}` holds what no header can carry"
                ))
            })?;
            headers.append(name.clone(), value);
        }
    }
    Ok(headers)
}
