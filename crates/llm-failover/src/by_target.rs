use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Request;
use llm_call::{Attempt, BoxError, Error, Kind, Target};
use pin_project_lite::pin_project;
use tower::util::Oneshot;
use tower_service::Service;

/// Picks the client by the target's provider, at the bottom of a linear stack: for providers that
/// need different clients (another proxy, another TLS set-up, a local socket).
///
/// Clients of different types go in boxed (`tower::util::BoxCloneSyncService`).
///
/// # Example
///
/// ```
/// use llm_failover::ByTarget;
/// # fn demo<S: Clone>(plain: S, through_proxy: S) -> ByTarget<S> {
/// ByTarget::new(plain).with("eu-region", through_proxy)
/// # }
/// ```
///
/// # Clone and shared state
///
/// A clone clones every client. Readiness is awaited for the picked client, within the response
/// future.
#[derive(Clone)]
pub struct ByTarget<S> {
    default: Option<S>,
    clients: HashMap<String, S>,
}

impl<S> ByTarget<S> {
    /// `default` serves every provider that has no client of its own, and requests without a
    /// target.
    pub fn new(default: S) -> ByTarget<S> {
        ByTarget {
            default: Some(default),
            clients: HashMap::new(),
        }
    }

    /// No default: a request to a provider without a client of its own is an error.
    pub fn strict() -> ByTarget<S> {
        ByTarget {
            default: None,
            clients: HashMap::new(),
        }
    }

    /// The client for one provider.
    #[must_use]
    pub fn with(mut self, provider: impl Into<String>, client: S) -> Self {
        self.clients.insert(provider.into(), client);
        self
    }
}

impl<S, ReqB> Service<Request<ReqB>> for ByTarget<S>
where
    S: Service<Request<ReqB>> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ByTargetFuture<S, ReqB>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Which client must be ready is known only once there is a request.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqB>) -> Self::Future {
        let attempt = request.extensions().get::<Attempt>();
        let target = attempt.and_then(|attempt| attempt.target.clone());
        let own = target
            .as_ref()
            .and_then(|target| self.clients.get(target.provider()));
        let client = own.or(self.default.as_ref());
        ByTargetFuture {
            calling: client.map(|client| Oneshot::new(client.clone(), request)),
            target,
        }
    }
}

pin_project! {
    /// The response future of [`ByTarget`].
    #[must_use = "futures do nothing unless polled"]
    pub struct ByTargetFuture<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        // `None` where no client serves the target.
        #[pin]
        calling: Option<Oneshot<S, Request<ReqB>>>,
        target: Option<Target>,
    }
}

impl<S, ReqB> Future for ByTargetFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
    S::Error: Into<BoxError>,
{
    type Output = Result<S::Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.calling.as_pin_mut() {
            Some(calling) => calling.poll(cx).map_err(Into::into),
            None => Poll::Ready(Err(Error::new(Kind::NotFound)
                .with_target(this.target.take())
                .with_source("no client for this provider: add one with ByTarget::with")
                .into())),
        }
    }
}

impl<S, ReqB> fmt::Debug for ByTargetFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByTargetFuture")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for ByTarget<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByTarget")
            .field("providers", &self.clients.keys())
            .field("default", &self.default.is_some())
            .finish()
    }
}
