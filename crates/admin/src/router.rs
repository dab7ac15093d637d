//! From the table to a running service.

use crate::answer::{Failure, Result, respond};
use crate::table::{Call, NOT_YET, ROUTES, Route};
use crate::{Served, guard, names};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodFilter, any, on};
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::sync::Arc;
use std::time::Duration;

/// Largest body of a request, bytes.
const BODY_MAX: usize = 1 << 20;
/// Longest wait for it.
const BODY_WAIT: Duration = Duration::from_secs(10);

/// The service.
pub(crate) fn router(served: Served) -> Router {
    let served = Arc::new(served);
    let mut router = Router::new();
    for route in ROUTES {
        let handler = move |State(served): State<Arc<Served>>, request: Request| async move {
            respond(run(route, &served, request).await)
        };
        let filter = MethodFilter::try_from(route.verb.method()).unwrap_or(MethodFilter::GET);
        router = router.route(&pattern(route.path), on(filter, handler));
    }
    for (path, method) in NOT_YET {
        let methods = match method.clone().map(MethodFilter::try_from) {
            Some(Ok(filter)) => on(filter, not_yet),
            _ => any(not_yet),
        };
        router = router.route(path, methods);
    }
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(served.clone(), admit))
        .with_state(served)
}

/// The router's pattern for a path of the table.
fn pattern(path: &str) -> String {
    match path.find('{') {
        Some(at) => format!("{}{{*rest}}", &path[..at]),
        None => path.to_owned(),
    }
}

/// Before anything else, whether or not there is such a path.
async fn admit(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response<Body> {
    let (parts, body) = request.into_parts();
    match guard::check(&served, &parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(failure) => respond(Err(failure)),
    }
}

async fn run(route: &Route, served: &Served, request: Request) -> Result<crate::answer::Answer> {
    let (parts, body) = request.into_parts();
    let fixed = route.path.find('{').unwrap_or(route.path.len());
    let call = Call {
        served,
        rest: parts.uri.path().get(fixed..).unwrap_or_default(),
        query: query(route, parts.uri.query().unwrap_or_default())?,
        body: &read(body).await?,
    };
    (route.handle)(&call)
}

/// Every pair of the query, decoded.
fn query(route: &Route, text: &str) -> Result<Vec<(String, String)>> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| {
            names::decode(&text.replace('+', " "))
                .ok_or_else(|| Failure::bad("the query is not percent-encoded UTF-8"))
        };
        let (name, value) = (decode(name)?, decode(value)?);
        let allowed = || route.query.iter().map(|parameter| parameter.name);
        if !allowed().any(|known| known == name) {
            let allowed: Vec<_> = allowed().collect();
            let allowed = match allowed.as_slice() {
                [] => "this path takes none".to_owned(),
                allowed => format!("this path takes {}", allowed.join(", ")),
            };
            let name = names::shorten(&name);
            return Err(Failure::bad(format!(
                "unknown query parameter `{name}`: {allowed}"
            )));
        }
        if pairs.iter().any(|(other, _)| *other == name) {
            return Err(Failure::bad(format!(
                "the query parameter `{name}` is there twice"
            )));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

async fn read(body: Body) -> Result<Bytes> {
    let whole = tokio::time::timeout(BODY_WAIT, Limited::new(body, BODY_MAX).collect()).await;
    match whole {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than 1 MiB",
        )),
        Ok(Err(_)) => Err(Failure::bad("the body broke off")),
        Err(_) => Err(Failure::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive within 10 s",
        )),
    }
}

async fn no_such_path(request: Request) -> Response<Body> {
    let path = request.uri().path();
    let known = ROUTES.iter().map(|route| route.path);
    let message = format!("there is no {}{}", names::shorten(path), names::hint(path, known));
    respond(Err(Failure::unknown(message)))
}

async fn wrong_method(method: Method, request: Request) -> Response<Body> {
    let path = request.uri().path();
    let served = ROUTES.iter().filter(|route| match route.path.split_once('{') {
        Some((start, _)) => path.starts_with(start),
        None => route.path == path,
    });
    let methods: Vec<_> = served.map(|route| route.verb.method().to_string()).collect();
    let message = format!(
        "{} takes {}, not {}",
        names::shorten(path),
        methods.join(" and "),
        names::shorten(method.as_str())
    );
    respond(Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, message)))
}

async fn not_yet(method: Method, request: Request) -> Response<Body> {
    let path = names::shorten(request.uri().path());
    respond(Err(Failure::new(
        StatusCode::NOT_IMPLEMENTED,
        format!("{method} {path} is not supported yet"),
    )))
}
