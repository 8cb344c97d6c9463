use std::task::{Context, Poll};

use http::{Request, Response};
use llm_call::{Answer, BoxError, Call};
use tower_service::Service;

use crate::{ResponseFuture, Targets};

/// The service of [`FailoverLayer`](crate::FailoverLayer).
#[derive(Clone, Debug)]
pub struct Failover<S> {
    inner: S,
    targets: Targets,
}

impl<S> Failover<S> {
    /// Fails over among `targets` by calling `inner` again.
    pub fn new(inner: S, targets: Targets) -> Failover<S> {
        Failover { inner, targets }
    }

    /// The targets.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }
}

impl<S, ReqB, B> Service<Request<ReqB>> for Failover<S>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = ResponseFuture<S, ReqB>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<ReqB>) -> Self::Future {
        let call = Call::of(&mut request);
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        ResponseFuture::new(ready, self.targets.clone(), call, request)
    }
}
