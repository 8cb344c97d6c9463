use std::{
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use llm_call::{Answer, Attempt, BoxError, Call, Error};
use tokio::time::Instant;
use tower_service::Service;

use crate::{ResponseFuture, TimeoutBody, clock::RequestClock, copies::Copies, limits::Table};

/// The service of [`TimeoutLayer`](crate::TimeoutLayer).
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    table: Arc<Table>,
}

impl<S> Timeout<S> {
    pub(super) fn new(inner: S, table: Arc<Table>) -> Timeout<S> {
        Timeout { inner, table }
    }
}

impl<S, ReqB, B> Service<Request<ReqB>> for Timeout<S>
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

    fn call(&mut self, request: Request<ReqB>) -> Self::Future {
        let started = Instant::now();
        let call = request.extensions().get::<Call>().cloned();
        let (target, n) = match request.extensions().get::<Attempt>() {
            Some(attempt) => (attempt.target.clone(), attempt.n),
            None => (None, 0),
        };
        let facts = call.as_ref().and_then(Call::facts);
        let streamed = facts.and_then(|facts| facts.streamed) == Some(true);
        let limits = self.table.limits(target.as_ref(), facts).clone();
        let clock = RequestClock::attempt(started, streamed, limits);
        let copies = Copies::one(call, n);
        if let Some(phase) = clock.spent(copies.deadline()) {
            copies.not_sent(target.as_ref(), phase);
            let error = Error::from(copies.outcome(phase)).with_target(target);
            return ResponseFuture::refused(error);
        }
        ResponseFuture::new(self.inner.call(request), clock, copies, target)
    }
}
