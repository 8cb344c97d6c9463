use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, header::CONTENT_LENGTH};
use http_body::Body;
use http_body_util::Full;
use llm_call::{Attempt, BoxError, Dialect, Error, Kind};
use tower_service::Service;

use crate::{Provider, ResponseFuture, layer::unknown, rewrite};

/// The service of [`ProviderLayer`](crate::ProviderLayer).
#[derive(Clone, Debug)]
pub struct Provide<S> {
    inner: S,
    providers: Arc<HashMap<String, Provider>>,
}

impl<S> Provide<S> {
    pub(crate) fn new(inner: S, providers: Arc<HashMap<String, Provider>>) -> Provide<S> {
        Provide { inner, providers }
    }

    /// The request as the provider wants it.
    fn rewrite(&self, request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>, Error> {
        let (mut parts, body) = request.into_parts();
        let attempt = parts.extensions.get_mut::<Attempt>();
        let target = attempt.as_ref().and_then(|attempt| attempt.target.clone());
        let fail = |kind, source: String| {
            Err(Error::new(kind)
                .with_target(target.clone())
                .with_source(source))
        };
        let provider = match &target {
            Some(target) => self.providers.get(target.provider()),
            // Without a target there is a choice only where there is one provider.
            None if self.providers.len() == 1 => self.providers.values().next(),
            None => None,
        };
        let Some(provider) = provider else {
            let unknown = unknown(target.as_ref(), &self.providers);
            return Err(Error::new(Kind::NotFound)
                .with_target(target)
                .with_source(unknown));
        };
        let dialect = provider
            .dialect
            .or_else(|| Dialect::of_path(parts.uri.path()));
        match attempt {
            Some(attempt) => {
                attempt.dialect = dialect;
                attempt.drop_stops_bill = provider.drop_stops_bill;
            }
            None if provider.dialect.is_some() || provider.drop_stops_bill => {
                let attempt = Attempt::new(0)
                    .with_dialect(dialect)
                    .with_drop_stops_bill(provider.drop_stops_bill);
                parts.extensions.insert(attempt);
            }
            // Peek reads the path too.
            None => {}
        }
        let model = target.as_ref().and_then(|target| target.model());
        let located = match rewrite::uri(provider, &parts.uri, model) {
            Ok(located) => located,
            Err(error) => return fail(Kind::InvalidRequest, error.to_string()),
        };
        parts.uri = located.uri;
        rewrite::headers(provider, &mut parts.headers);
        let bytes = bytes_of(body);
        let rewritten = model
            .filter(|_| !located.names_model)
            .and_then(|model| rewrite::model_in_body(&bytes, model));
        // The client writes that of the body; another one would cut it off, or wait for more.
        parts.headers.remove(CONTENT_LENGTH);
        Ok(Request::from_parts(
            parts,
            Full::new(rewritten.unwrap_or(bytes)),
        ))
    }
}

/// The bytes of a body that has them all.
fn bytes_of(mut body: Full<Bytes>) -> Bytes {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(&mut body).poll_frame(&mut context) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

impl<S> Service<Request<Full<Bytes>>> for Provide<S>
where
    S: Service<Request<Full<Bytes>>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        match self.rewrite(request) {
            Ok(request) => ResponseFuture::calling(self.inner.call(request)),
            Err(error) => ResponseFuture::failed(error),
        }
    }
}
