use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use http_body_util::Full;
use tower_service::Service;

use super::{CallGuard, IdentifyFuture, IdentifyLayer};
use crate::{Answer, BoxError, Call, CallSettings, Guarded};

/// The service of [`IdentifyLayer`].
pub struct Identify<S, F = fn(&Parts) -> CallSettings> {
    inner: S,
    settings: Arc<IdentifyLayer<F>>,
}

impl<S, F> Identify<S, F> {
    pub(super) fn new(inner: S, settings: Arc<IdentifyLayer<F>>) -> Identify<S, F> {
        Identify { inner, settings }
    }
}

impl<S: Clone, F> Clone for Identify<S, F> {
    fn clone(&self) -> Self {
        Identify {
            inner: self.inner.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<S: fmt::Debug, F> fmt::Debug for Identify<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identify")
            .field("inner", &self.inner)
            .field("settings", &self.settings)
            .finish()
    }
}

impl<S, F, ReqB, B> Service<Request<ReqB>> for Identify<S, F>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    F: Fn(&Parts) -> CallSettings,
    ReqB: Body,
    ReqB::Error: Into<BoxError>,
    B: Answer,
{
    type Response = Response<Guarded<B, CallGuard>>;
    type Error = BoxError;
    type Future = IdentifyFuture<S, ReqB>;

    /// Always ready: readiness below is a permit that a slow upload would hold.
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqB>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let call = match parts.extensions.get::<Call>() {
            Some(call) => call.clone(),
            None => Call::open((self.settings.settings)(&parts)),
        };
        IdentifyFuture::new(
            self.inner.clone(),
            parts,
            body,
            call,
            self.settings.provider.clone(),
            self.settings.max_body,
            self.settings.stamp,
        )
    }
}
