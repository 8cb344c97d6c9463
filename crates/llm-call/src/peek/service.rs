use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;

use super::{
    PeekFuture, Peeked, Settings,
    future::{Sent, Stage},
};
use crate::{Attempt, BoxError, Call, Classify, Dialect, Error, Standard, call::Record};

/// The service of [`PeekLayer`](crate::PeekLayer).
pub struct Peek<S, C = Standard> {
    inner: S,
    settings: Arc<Settings<C>>,
}

impl<S: Clone, C> Clone for Peek<S, C> {
    fn clone(&self) -> Self {
        Peek {
            inner: self.inner.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Peek<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek")
            .field("inner", &self.inner)
            .field("commit", &self.settings.commit)
            .finish_non_exhaustive()
    }
}

impl<S, C> Peek<S, C> {
    pub(super) fn new(inner: S, settings: Arc<Settings<C>>) -> Peek<S, C> {
        Peek { inner, settings }
    }
}

impl<S, C, ReqB, B> Service<Request<ReqB>> for Peek<S, C>
where
    S: Service<Request<ReqB>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    C: Classify,
{
    type Response = Response<Peeked<B, C>>;
    type Error = BoxError;
    type Future = PeekFuture<S::Future, B, C>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<ReqB>) -> Self::Future {
        let started = Instant::now();
        let record = match count(request.extensions_mut(), started) {
            Ok(record) => record,
            Err(error) => return PeekFuture::new(Stage::Refused { error: Some(error) }),
        };
        let none = Attempt::default();
        let attempt = request.extensions().get::<Attempt>().unwrap_or(&none);
        let sent = Sent {
            method: request.method().clone(),
            dialect: attempt
                .dialect
                .or_else(|| Dialect::of_path(request.uri().path())),
            target: attempt.target.clone(),
            started,
            settings: self.settings.clone(),
            record,
        };
        PeekFuture::new(Stage::Sending {
            future: self.inner.call(request),
            sent: Some(sent),
        })
    }
}

/// Counts the attempt and opens its record, where there is a call and no Peek above has done so.
fn count(extensions: &mut Extensions, now: Instant) -> Result<Option<Record>, Error> {
    let Some(call) = extensions.get::<Call>().cloned() else {
        return Ok(None);
    };
    let attempt = extensions.get_or_insert_default::<Attempt>();
    if attempt.counted.0 {
        return Ok(None);
    }
    attempt.counted.0 = true;
    call.send(attempt, now).map(Some)
}
