use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
    request::Parts,
    uri::InvalidUri,
};
use http_body::Body;
use http_body_util::Full;
use llm_call::{
    Abilities, Answer, Attempt, BoxError, Call, Dialect, Error, Kind, Outcome, Refusal, Target,
};
use tower_service::Service;

use crate::{
    Catalog, Model, ProvideBody, Provider, ResponseFuture,
    clock::unix_now,
    layer::unknown,
    rewrite,
    translate::{self, Answering, Asked, Lost, Untranslatable},
};

/// The service of [`ProviderLayer`](crate::ProviderLayer).
#[derive(Clone, Debug)]
pub struct Provide<S> {
    inner: S,
    catalog: Catalog,
}

/// A request as the provider wants it, and how to read what it says.
struct Provided {
    request: Request<Full<Bytes>>,
    answering: Option<Answering>,
    lost: Option<Arc<str>>,
}

impl<S> Provide<S> {
    pub(crate) fn new(inner: S, catalog: Catalog) -> Provide<S> {
        Provide { inner, catalog }
    }

    fn provide(&self, request: Request<Full<Bytes>>) -> Result<Provided, Error> {
        let attempt = request.extensions().get::<Attempt>();
        let target = attempt.and_then(|attempt| attempt.target.clone());
        let providers = self.catalog.providers();
        let provider = match &target {
            Some(target) => providers.get(target.provider()),
            // Without a target there is a choice only where there is one provider.
            None if providers.len() == 1 => providers.values().next(),
            None => None,
        };
        let Some(provider) = provider else {
            let unknown = unknown(target.as_ref(), &self.catalog);
            return Err(Error::new(Kind::NotFound)
                .with_target(target)
                .with_source(unknown));
        };
        let to = To {
            provider,
            target: target.as_ref(),
            listed: (target.as_ref()).and_then(|target| self.catalog.listed(target)),
        };
        to.provide(request)
            .map_err(|error| error.with_target(target))
    }
}

/// Where a request goes.
#[derive(Clone, Copy)]
struct To<'a> {
    provider: &'a Provider,
    target: Option<&'a Target>,
    /// What is known of the model.
    listed: Option<&'a Model>,
}

impl To<'_> {
    fn model(&self) -> Option<&str> {
        self.target.and_then(Target::model)
    }

    /// The request as the provider wants it.
    fn provide(self, mut request: Request<Full<Bytes>>) -> Result<Provided, Error> {
        let call = request.extensions().get::<Call>();
        let mut lost = Lost::requiring(call.map_or(&[], Call::required));
        let answering = match self.provider.translation(request.uri().path()) {
            Ok(None) => None,
            Ok(Some((from, to))) => {
                let (translated, answering) = self.translated(request, from, to, &mut lost)?;
                request = translated;
                Some(answering)
            }
            Err(reason) => return Err(unable(reason)),
        };
        let (parts, body) = request.into_parts();
        let mut body = bytes_of(body);
        if let Some(model) = self.listed
            && let Some((kept, removed)) = rewrite::without_fields(&body, &model.refuses)
        {
            body = kept;
            removed.iter().for_each(|name| lost.add_unknown(name));
        }
        if let Some(name) = lost.missed() {
            return Err(unable(format!(
                "{name} is required and cannot be said to it"
            )));
        }
        let lost = lost.text();
        Ok(Provided {
            request: self.rewritten(parts, body, lost.clone())?,
            answering,
            lost,
        })
    }

    /// A request in another dialect.
    fn translated(
        self,
        request: Request<Full<Bytes>>,
        from: Dialect,
        to: Dialect,
        lost: &mut Lost,
    ) -> Result<(Request<Full<Bytes>>, Answering), Error> {
        let (mut parts, body) = request.into_parts();
        let Some(model) = self.model() else {
            return Err(unable(
                "a target of another dialect needs the name of a model",
            ));
        };
        let manner = self.provider.manner(model, self.listed);
        let able = Abilities::new();
        let abilities = self.listed.map_or(&able, |model| &model.abilities);
        let asked = translate::ask(from, to, &bytes_of(body), &manner, abilities, lost);
        let Asked {
            path,
            body,
            wants_usage,
        } = asked.map_err(untranslatable)?;
        // The caller's query is for the API that it speaks; Google refuses what it does not know.
        parts.uri = (path.parse())
            .map_err(|error: InvalidUri| Error::new(Kind::InvalidRequest).with_source(error))?;
        rewrite::issuer_headers(to, &mut parts.headers);
        let json = HeaderValue::from_static("application/json");
        parts.headers.insert(CONTENT_TYPE, json);
        parts.headers.remove(ACCEPT);
        let answering = Answering {
            caller: from,
            target: to,
            model: model.to_owned(),
            created: unix_now(),
            wants_usage,
        };
        Ok((Request::from_parts(parts, Full::from(body)), answering))
    }

    /// The provider's URL, headers and model.
    fn rewritten(
        self,
        mut parts: Parts,
        body: Bytes,
        lost: Option<Arc<str>>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let provider = self.provider;
        let dialect = provider.speaks(parts.uri.path());
        match parts.extensions.get_mut::<Attempt>() {
            Some(attempt) => {
                attempt.dialect = dialect;
                attempt.drop_stops_bill = provider.drop_stops_bill;
                attempt.lost = lost;
            }
            None if provider.dialect.is_some() || provider.drop_stops_bill => {
                let attempt = Attempt::new(0)
                    .with_dialect(dialect)
                    .with_drop_stops_bill(provider.drop_stops_bill)
                    .with_lost(lost);
                parts.extensions.insert(attempt);
            }
            // Peek reads the path too.
            None => {}
        }
        let model = self.model();
        let located = rewrite::uri(provider, &parts.uri, model)
            .map_err(|error| Error::new(Kind::InvalidRequest).with_source(error.to_string()))?;
        parts.uri = located.uri;
        rewrite::headers(provider, &mut parts.headers);
        let rewritten = model
            .filter(|_| !located.names_model)
            .and_then(|model| rewrite::model_in_body(&body, model));
        // The client writes that of the body; another one would cut it off, or wait for more.
        parts.headers.remove(CONTENT_LENGTH);
        let body = Full::new(rewritten.unwrap_or(body));
        Ok(Request::from_parts(parts, body))
    }
}

fn unable(reason: impl Into<Box<str>>) -> Error {
    Error::new(Kind::Refused(Refusal::Unable)).with_told(reason)
}

fn untranslatable(reason: Untranslatable) -> Error {
    match reason {
        Untranslatable::Unable(reason) => unable(reason.0),
        Untranslatable::Invalid(invalid) => {
            let mut outcome = Outcome::of(Kind::InvalidRequest);
            // A target of the caller's own dialect judges it itself, and may know what is new in it.
            outcome.verdict.fail_over = true;
            Error::from(outcome).with_told(invalid.to_string())
        }
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

impl<S, B> Service<Request<Full<Bytes>>> for Provide<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Answer,
{
    type Response = Response<ProvideBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        match self.provide(request) {
            Ok(Provided {
                request,
                answering,
                lost,
            }) => ResponseFuture::calling(self.inner.call(request), answering, lost),
            Err(error) => ResponseFuture::failed(error),
        }
    }
}
