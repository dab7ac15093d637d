//! The one attempt loop: ask the scheduler, try, report, until it says that this is the end.

use super::attempt::{self, Attempted, Failure};
use super::flight::{Flight, outcome_word};
use super::intake::{self, Intake};
use super::relay::AnswerBody;
use super::upload::UploadFault;
use super::{respond, session};
use crate::driver::Turn;
use crate::snapshot::RouteEntry;
use crate::telemetry::outcome::Outcome;
use crate::tokens;
use http::Response;
use std::sync::Arc;
use weighbridge_core::RouteId;
use weighbridge_core::action::{Unfit, Verdict};
use weighbridge_core::event::Arrival;
use weighbridge_core::spec::Protocols;
use weighbridge_core::work::Abilities;
use weighbridge_wire::{Api, ErrorBody, Protocol};

/// A request on its way through attempts.
pub(crate) struct Run {
    pub(crate) flight: Flight,
    pub(crate) intake: Intake,
    /// How the last attempt failed.
    last: Option<Failure>,
    /// On which route.
    sent_on: Option<Arc<RouteEntry>>,
}

/// Serves `intake` to its answer.
pub(crate) async fn run(flight: Flight, intake: Intake) -> Response<AnswerBody> {
    let mut run = Run {
        flight,
        intake,
        last: None,
        sent_on: None,
    };
    let route = run.intake.route.clone();
    if route.exact.is_some() {
        // On the heap, since few requests come here.
        Box::pin(tokens::name_blocks(&mut run.intake)).await;
    }
    let mut turn = run.arrive(&route);
    loop {
        turn = match turn {
            Turn::Dispatch(dispatch) => match attempt::attempt(&mut run, *dispatch).await {
                Attempted::Answered(answer) => return respond::answered(run, *answer),
                Attempted::Failed(failure) => {
                    let (ending, too_long) = (failure.ending(), failure.is_too_long());
                    run.flight.record.reason = Some(failure.for_log());
                    run.last = Some(failure);
                    run.sent_on.clone_from(&run.flight.record.route);
                    run.flight.failed(ending, too_long)
                }
                Attempted::MovedOn(dispatch) => Turn::Dispatch(dispatch),
                Attempted::Cut => return run.cut(),
                Attempted::NotArrived(fault) => return run.not_arrived(fault),
            },
            Turn::Fallback(route) => run.fall_back(route),
            Turn::Finish(verdict) => return run.finish(verdict),
            Turn::Nothing => return run.lost(),
        };
    }
}

/// The scheduler's word for a client's protocol. What only the config knows belongs to none in particular.
pub(crate) fn protocols(api: Api, protocol: Protocol) -> Protocols {
    match protocol {
        _ if api == Api::Passthrough => Protocols::ANY,
        Protocol::OpenAi => Protocols::OPENAI,
        Protocol::Anthropic => Protocols::ANTHROPIC,
    }
}

/// What is said where no target of a model speaks the client's protocol.
pub(crate) fn unserved(model: &str, path: &str) -> String {
    format!("no engine of `{model}` serves {path}, and translation is not supported yet")
}

/// What is missing where no target of a model can serve a request.
pub(crate) fn misfit(model: &str, unfit: Unfit) -> String {
    let wanted = [
        (Abilities::IMAGE, "images"),
        (Abilities::AUDIO, "audio"),
        (Abilities::FILE, "files"),
        (Abilities::TOOLS, "tools"),
        (Abilities::JSON_SCHEMA, "answers by a JSON schema"),
    ];
    let words = wanted.iter().filter(|(one, _)| unfit.abilities.covers(*one));
    let words: Vec<&str> = words.map(|(_, word)| *word).collect();
    let takes = words.join(" and ");
    match (words.is_empty(), unfit.labels) {
        (false, false) => format!("no target of `{model}` takes {takes}"),
        (false, true) => {
            format!("no target of `{model}` both takes {takes} and carries the labels that are asked for")
        }
        (true, _) => format!("no endpoint of `{model}` carries the labels that are asked for"),
    }
}

impl Run {
    fn arrive(&mut self, route: &Arc<RouteEntry>) -> Turn {
        let protocols = protocols(self.intake.api, self.intake.protocol);
        let session = session::key(
            route,
            &session::Sources {
                api: self.intake.api,
                headers: &self.intake.headers,
                peek: &self.intake.peek,
                client_ip: self.intake.client_ip,
                presented_key: self.intake.presented_key.as_deref(),
                work: self.intake.work.as_deref(),
            },
        );
        let request = self.flight.id();
        self.flight.record.route = Some(route.clone());
        let turn = self.flight.arrive(Arrival {
            request,
            route: route.id,
            protocols,
            session,
            only: self.intake.only,
            explain: self.intake.explain,
            work: self.intake.work.clone(),
        });
        let refused = match turn {
            Turn::Finish(verdict) => verdict.refused(),
            _ => None,
        };
        if let Some(why) = refused {
            // Which filter dropped whom does not depend on the session.
            let asked = Arrival {
                request,
                route: route.id,
                protocols,
                session: None,
                only: self.intake.only,
                explain: true,
                work: self.intake.work.clone(),
            };
            self.flight.refused(route, &asked, why);
        }
        turn
    }

    fn fall_back(&mut self, route: RouteId) -> Turn {
        if let Some(from) = &self.flight.record.route {
            self.flight.worker.gateway.metrics().fell_back(&from.name);
        }
        let snapshot = self.flight.snapshot.clone();
        match snapshot.route_by_id(route) {
            Some(route) => self.arrive(route),
            None => Turn::Finish(Verdict::NoRoute),
        }
    }

    /// The answer that the scheduler's last word stands for.
    fn finish(mut self, verdict: Verdict) -> Response<AnswerBody> {
        let (error, outcome) = match verdict {
            Verdict::Relay { retry_after } => match self.last.take() {
                Some(failure) => {
                    // Routes that could not take it since have nothing to do with what is told.
                    self.flight.record.route = self.sent_on.take();
                    let outcome = outcome_word(failure.ending(), false);
                    return respond::failed(self, failure, (outcome, retry_after));
                }
                None => return self.lost(),
            },
            Verdict::Unavailable { retry_after } if self.intake.only.is_some() => (
                ErrorBody::home_unavailable(Some(retry_after)),
                Outcome::Unavailable,
            ),
            Verdict::Busy { retry_after } => (
                ErrorBody::busy(
                    "every engine of this model is at its limit or has asked to wait",
                    Some(retry_after),
                ),
                Outcome::Rejected,
            ),
            Verdict::Unavailable { retry_after } => (
                ErrorBody::unavailable("no engine of this model is in service", Some(retry_after)),
                Outcome::Unavailable,
            ),
            Verdict::Unserved => {
                let what = unserved(&self.intake.model, self.intake.path());
                (ErrorBody::unsupported(what), Outcome::ClientError)
            }
            Verdict::Unfit(unfit) => {
                let what = misfit(&self.intake.model, unfit);
                (ErrorBody::unsupported(what), Outcome::ClientError)
            }
            Verdict::NoRoute => (ErrorBody::unknown_model(&self.intake.model), Outcome::ClientError),
        };
        respond::error(self.flight, self.intake.protocol, error, outcome)
    }

    /// The request broke off, or turned out to be none that can be served, while it was sent on.
    fn not_arrived(self, fault: UploadFault) -> Response<AnswerBody> {
        let (error, outcome) = intake::upload_error(&self.flight, fault);
        respond::error(self.flight, self.intake.protocol, error, outcome)
    }

    /// The gateway's drain time is over.
    fn cut(self) -> Response<AnswerBody> {
        self.flight.worker.gateway.lifecycle.was_cut();
        respond::error(
            self.flight,
            self.intake.protocol,
            ErrorBody::drain_over(),
            Outcome::Unavailable,
        )
    }

    /// The scheduler said nothing about a request that waits for it: a fault of ours, which must not hang a client.
    fn lost(self) -> Response<AnswerBody> {
        tracing::error!(request_id = %self.flight.record.request_id, "the scheduler lost a request");
        respond::error(
            self.flight,
            self.intake.protocol,
            ErrorBody::internal(),
            Outcome::Unavailable,
        )
    }
}
