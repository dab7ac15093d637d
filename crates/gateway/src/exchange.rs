//! One request, from its head to the last byte of its answer.

pub(crate) mod attempt;
pub(crate) mod body;
mod client_ip;
mod clocks;
pub(crate) mod cors;
pub mod explain;
pub(crate) mod flight;
mod guard;
pub(crate) mod headers;
mod held;
pub(crate) mod intake;
pub(crate) mod local;
pub(crate) mod plan;
pub(crate) mod prompt;
pub(crate) mod relay;
mod remarks;
pub(crate) mod respond;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod stored;
pub(crate) mod upload;
pub(crate) mod waiting;
pub(crate) mod work;

use crate::client::connection::Client;
use crate::server::Worker;
use flight::Flight;
use http::header::ORIGIN;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use relay::AnswerBody;
use std::convert::Infallible;
use std::rc::Rc;

/// Largest head of a request, bytes.
pub(crate) const HEAD_MAX: usize = 64 * 1024;
/// Most headers of a request.
pub(crate) const HEADERS_MAX: usize = 100;

/// Answers one request of a client connection.
pub(crate) async fn handle(
    worker: Rc<Worker>,
    client: Rc<Client>,
    mut request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    if let Some(answer) = local::liveness(&worker.gateway, &request) {
        return Ok(answer);
    }
    if let Some(answer) = cors::preflight(&worker.gateway, &request) {
        return Ok(answer);
    }
    client.exchange.begin(request.version() == Version::HTTP_11);
    let flight = Flight::begin(&worker, &client, request.headers());
    let page = cors::Page::of(flight.snapshot.config.cors.as_ref(), request.headers());
    if let Some(page) = &page
        && page.is_allowed()
    {
        // Its origin has been judged; engines with lists of their own would judge it again.
        request.headers_mut().remove(ORIGIN);
    }
    let mut answer = match intake::take(flight, request).await {
        Ok((flight, intake::Taken::Inference(intake))) => waiting::serve(flight, *intake).await,
        Ok((flight, intake::Taken::Models(question))) => local::models(flight, &question),
        Err(refused) => respond::refused(refused),
    };
    if let Some(page) = page {
        page.mark(answer.headers_mut());
    }
    Ok(answer)
}
