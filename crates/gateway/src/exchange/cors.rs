//! Web pages of other origins that call from a browser (the CORS protocol of the Fetch standard).
//!
//! It keeps browsers, and only them, from letting one site's page use another's API with its visitor's reach. It opens
//! nothing: a call needs its key all the same, and credentials that a browser adds by itself (cookies) are never allowed.

use super::headers::{X_REQUEST_ID, request_id};
use super::relay::AnswerBody;
use crate::gateway::Gateway;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, CONTENT_TYPE, ORIGIN, TRANSFER_ENCODING, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use weighbridge_config::resolved::{Cors, Origin};
use weighbridge_wire::{ErrorBody, Protocol};

/// What the API's calls use.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// Headers that a page may send where it does not say which it means to.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, x-api-key, api-key, content-type, anthropic-version, anthropic-beta, \
     anthropic-dangerous-direct-browser-access, openai-organization, openai-project, x-request-id, traceparent, \
     tracestate",
);
/// Seconds for which a browser may go without asking again; none keeps it longer than that.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");
/// Most headers that one page may send, and the length of the list of their names, bytes.
const NAMES_MAX: (usize, usize) = (100, 4096);
/// Asked for again where one of these differs.
const PREFLIGHT_VARIES: HeaderValue =
    HeaderValue::from_static("origin, access-control-request-method, access-control-request-headers");

/// A page's word for where it comes from, where the config has one on pages.
pub(crate) struct Page {
    /// The value of `access-control-allow-origin`; none: it may not read answers.
    allowed: Option<HeaderValue>,
}

impl Page {
    /// The page that sent these headers; none where no page of another origin may call.
    pub(crate) fn of(cors: Option<&Cors>, headers: &HeaderMap) -> Option<Self> {
        cors.map(|cors| Self {
            allowed: allowed(cors, headers),
        })
    }

    /// Whether it may read answers.
    pub(crate) fn is_allowed(&self) -> bool {
        self.allowed.is_some()
    }

    /// Makes an answer readable for the page, and all of its headers: what another client sees, a page may see.
    pub(crate) fn mark(self, answer: &mut HeaderMap) {
        answer.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.allowed else { return };
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let mut names = String::with_capacity(256);
        let shown = |name: &&HeaderName| ![VARY, CONNECTION, TRANSFER_ENCODING].contains(name);
        for name in answer.keys().filter(shown) {
            if name.as_str().starts_with("access-control-") {
                continue;
            }
            if !names.is_empty() {
                names.push_str(", ");
            }
            names.push_str(name.as_str());
        }
        if let Ok(names) = HeaderValue::try_from(names) {
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, names);
        }
    }
}

/// The value of `access-control-allow-origin` for whoever sent these headers.
fn allowed(cors: &Cors, headers: &HeaderMap) -> Option<HeaderValue> {
    let mut sent = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (sent.next(), sent.next()) else {
        return None;
    };
    let named = |allowed: &Origin| matches!(allowed, Origin::Exact(name) if name.as_bytes() == origin);
    if origin == "null" {
        None
    } else if cors.origins.contains(&Origin::Any) {
        Some(HeaderValue::from_static("*"))
    } else {
        cors.origins.iter().any(named).then(|| origin.clone())
    }
}

/// The answer to a browser that asks whether a page may make a call; none for anything else. It carries no key, because
/// browsers send none with the question.
pub(crate) fn preflight(gateway: &Gateway, request: &Request<Incoming>) -> Option<Response<AnswerBody>> {
    if *request.method() != Method::OPTIONS {
        return None;
    }
    let headers = request.headers();
    if !headers.contains_key(ORIGIN) || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let snapshot = gateway.snapshot();
    let cors = snapshot.config.cors.as_ref()?;
    let id = request_id(headers);
    let mut response = match allowed(cors, headers) {
        Some(origin) => permitted(origin, headers),
        None => refused(&id),
    };
    let answer = response.headers_mut();
    answer.insert(VARY, PREFLIGHT_VARIES);
    if let Ok(id) = HeaderValue::try_from(&*id) {
        answer.insert(X_REQUEST_ID, id);
    }
    Some(response)
}

fn permitted(origin: HeaderValue, asked: &HeaderMap) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Whole(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names(asked).unwrap_or(HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    response
}

fn refused(id: &str) -> Response<AnswerBody> {
    let error = ErrorBody::new(
        403,
        "Pages of this origin may not call the gateway: it is not in cors.origins of its config.",
    );
    let body: Bytes = error.with_request_id(id).render(Protocol::OpenAi);
    let mut response = Response::new(AnswerBody::Whole(Some(body)));
    *response.status_mut() = StatusCode::FORBIDDEN;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// The headers that the page means to send, as it names them: which they are is a matter between the page and the API,
/// whose clients change. None where it names none, nonsense or too many.
fn names(asked: &HeaderMap) -> Option<HeaderValue> {
    let (names_max, len_max) = NAMES_MAX;
    let mut list = String::new();
    let mut count = 0;
    for value in asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        for name in value.to_str().ok()?.split(',').map(str::trim) {
            if name.is_empty() {
                continue;
            }
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            count += 1;
            if !list.is_empty() {
                list.push_str(", ");
            }
            list.push_str(name.as_str());
            if count > names_max || list.len() > len_max {
                return None;
            }
        }
    }
    (count > 0).then(|| HeaderValue::try_from(list).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(
            ACCESS_CONTROL_REQUEST_HEADERS,
            HeaderValue::from_str(value).unwrap(),
        );
        names(&headers).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn headers_are_allowed_as_they_are_named() {
        assert_eq!(
            asking("Authorization,X-Stainless-OS, ,anthropic-beta").as_deref(),
            Some("authorization, x-stainless-os, anthropic-beta")
        );
        for bad in ["", " , ", "a b", "x:y", "a\u{e9}", "*/*"] {
            assert_eq!(asking(bad), None, "{bad}");
        }
        assert!(asking(&vec!["x-a"; 100].join(",")).is_some());
        assert_eq!(asking(&vec!["x-a"; 101].join(",")), None);
        assert_eq!(asking(&"x".repeat(4097)), None);
        assert_eq!(names(&HeaderMap::new()), None);
    }

    #[test]
    fn an_origin_is_compared_as_a_whole() {
        let exact = Cors {
            origins: vec![
                Origin::Exact("https://a.example".to_owned()),
                Origin::Exact("http://b:1".to_owned()),
            ],
        };
        let any = Cors {
            origins: vec![Origin::Any],
        };
        let check = |cors: &Cors, sent: &[&str]| {
            let pair = |value: &&str| (ORIGIN, HeaderValue::from_str(value).unwrap());
            allowed(cors, &sent.iter().map(pair).collect()).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(check(&exact, &["http://b:1"]).as_deref(), Some("http://b:1"));
        for other in [
            "https://a.example:443",
            "http://a.example",
            "https://a.example.evil",
            "https://A.example",
            "null",
            "*",
            "",
        ] {
            assert_eq!(check(&exact, &[other]), None, "{other}");
        }
        assert_eq!(check(&exact, &[]), None);
        assert_eq!(check(&exact, &["http://b:1", "http://b:1"]), None);
        assert_eq!(check(&any, &["https://else"]).as_deref(), Some("*"));
        assert_eq!(check(&any, &["null"]), None);
    }
}
