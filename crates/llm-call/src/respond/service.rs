use std::{
    convert::Infallible,
    fmt,
    task::{Context, Poll},
};

use http::{Request, Response};
use tower_service::Service;

use super::{RespondBody, RespondFuture, RespondLayer, convert::Caller, form::dialect_of};
use crate::{Answer, BoxError};

/// The service of [`RespondLayer`](crate::RespondLayer).
pub struct Respond<S> {
    inner: S,
    settings: RespondLayer,
    /// Why the service below did not become ready: the answer to the next call.
    unready: Option<BoxError>,
}

impl<S> Respond<S> {
    pub(super) fn new(inner: S, settings: RespondLayer) -> Respond<S> {
        Respond {
            inner,
            settings,
            unready: None,
        }
    }
}

impl<S: Clone> Clone for Respond<S> {
    fn clone(&self) -> Self {
        Respond::new(self.inner.clone(), self.settings)
    }
}

impl<S, ReqB, B> Service<Request<ReqB>> for Respond<S>
where
    S: Service<Request<ReqB>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Answer,
{
    type Response = Response<RespondBody<B>>;
    type Error = Infallible;
    type Future = RespondFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.unready.is_some() {
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map(|ready| {
            self.unready = ready.err().map(Into::into);
            Ok(())
        })
    }

    fn call(&mut self, request: Request<ReqB>) -> Self::Future {
        let caller = Caller {
            dialect: dialect_of(request.uri().path(), request.headers()),
            settings: self.settings,
        };
        match self.unready.take() {
            Some(error) => RespondFuture::failed(error, caller),
            None => RespondFuture::calling(self.inner.call(request), caller),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Respond<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Respond")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .field("unready", &self.unready)
            .finish()
    }
}
