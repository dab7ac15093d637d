//! One request, from its head to the last byte of its answer.

pub(crate) mod attempt;
pub(crate) mod body;
pub mod explain;
pub(crate) mod flight;
pub(crate) mod headers;
pub(crate) mod intake;
pub(crate) mod local;
pub(crate) mod plan;
pub(crate) mod prompt;
pub(crate) mod relay;
pub(crate) mod respond;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod stored;
pub(crate) mod upload;

use crate::client::connection::Client;
use crate::server::Worker;
use flight::Flight;
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
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    if let Some(answer) = local::liveness(&worker.gateway, &request) {
        return Ok(answer);
    }
    client.exchange.begin(request.version() == Version::HTTP_11);
    let flight = Flight::begin(&worker, &client, request.headers());
    let answer = match intake::take(flight, request).await {
        Ok((flight, intake::Taken::Inference(intake))) => run::run(flight, *intake).await,
        Ok((flight, intake::Taken::Models(question))) => local::models(flight, &question),
        Err(refused) => respond::refused(refused),
    };
    Ok(answer)
}
