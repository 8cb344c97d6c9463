use std::task::{Context, Poll};

use http::{Request, Response};
use llm_call::{Answer, BoxError, Call};
use tokio::time::Instant;
use tower_service::Service;

use super::layer::Limits;
use crate::{ResponseFuture, TimeoutBody, clock::RequestClock, copies::Copies};

/// The service of [`DeadlineLayer`](crate::DeadlineLayer).
#[derive(Clone, Debug)]
pub struct Deadline<S> {
    inner: S,
    limits: Limits,
}

impl<S> Deadline<S> {
    pub(super) fn new(inner: S, limits: Limits) -> Deadline<S> {
        Deadline { inner, limits }
    }
}

impl<S, ReqB, B> Service<Request<ReqB>> for Deadline<S>
where
    S: Service<Request<ReqB>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Answer,
{
    type Response = Response<TimeoutBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<ReqB>) -> Self::Future {
        let started = Instant::now();
        let call = Call::of(&mut request);
        let facts = call.facts();
        let limit = self.limits.of(facts.is_some_and(|facts| facts.thinking));
        let streamed = facts.and_then(|facts| facts.streamed) == Some(true);
        if let Some(deadline) = started.checked_add(limit) {
            call.tighten(deadline);
        }
        let copies = Copies::all(call);
        let clock = RequestClock::deadline(started, streamed);
        if let Some(phase) = clock.spent(copies.deadline()) {
            copies.not_sent(None, phase);
            return ResponseFuture::refused(copies.outcome(phase).into());
        }
        ResponseFuture::new(self.inner.call(request), clock, copies, None)
    }
}
