//! The contract of `Service`, enforced.

use std::mem;
use std::task::{Context, Poll, ready};

use tower_service::Service;

/// Panics when its caller breaks the contract of [`Service`].
///
/// Most services forgive a call without readiness; those that do not (a concurrency limit, a
/// balancer) fail in production. Put this below a layer to see that the layer
///
/// - calls only the very instance that returned `Ready`,
/// - asks for readiness again before each further call.
///
/// # Clone and shared state
///
/// A clone is not ready, whatever the original was.
///
/// # Panics
///
/// `call` panics when this instance has not returned `Ready(Ok)` since its last call.
#[derive(Debug)]
pub struct Strict<S> {
    inner: S,
    ready: bool,
}

impl<S> Strict<S> {
    /// A probe around `inner`, not ready yet.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            ready: false,
        }
    }

    /// The service inside.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S: Clone> Clone for Strict<S> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<S, Req> Service<Req> for Strict<S>
where
    S: Service<Req>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.ready = false;
        let outcome = ready!(self.inner.poll_ready(cx));
        self.ready = outcome.is_ok();
        Poll::Ready(outcome)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        assert!(
            mem::take(&mut self.ready),
            "called without readiness: poll_ready must return Ready(Ok) on this very instance before each call"
        );
        self.inner.call(request)
    }
}
