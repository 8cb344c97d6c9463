use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{
    Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
    uri::InvalidUri,
};
use http_body::Body;
use http_body_util::Full;
use llm_call::{Abilities, Answer, Attempt, BoxError, Call, Dialect, Error, Kind, Refusal, Target};
use tower_service::Service;

use crate::{
    Catalog, Model, ProvideBody, Provider, ResponseFuture,
    clock::unix_now,
    future::Translation,
    layer::unknown,
    rewrite,
    translate::{self, Answering, Asked, Untranslatable},
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
    answering: Option<(Answering, Option<Arc<str>>)>,
}

impl<S> Provide<S> {
    pub(crate) fn new(inner: S, catalog: Catalog) -> Provide<S> {
        Provide { inner, catalog }
    }

    /// The request as the provider wants it.
    fn provide(&self, mut request: Request<Full<Bytes>>) -> Result<Provided, Error> {
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
        let listed = target
            .as_ref()
            .and_then(|target| self.catalog.listed(target));
        let answering = match provider.translation(request.uri().path()) {
            Ok(None) => None,
            Ok(Some((from, to))) => {
                let model = target.as_ref().and_then(Target::model);
                let (translated, answering) =
                    into_dialect(provider, listed, from, to, model, request)
                        .map_err(|error| error.with_target(target.clone()))?;
                request = translated;
                Some(answering)
            }
            Err(reason) => return Err(unable(reason).with_target(target)),
        };
        let lost = (answering.as_ref()).and_then(|(_, lost)| lost.clone());
        let request = rewritten(provider, listed, target.as_ref(), lost, request)
            .map_err(|error| error.with_target(target))?;
        Ok(Provided { request, answering })
    }
}

/// A request in another dialect.
fn into_dialect(
    provider: &Provider,
    listed: Option<&Model>,
    from: Dialect,
    to: Dialect,
    model: Option<&str>,
    request: Request<Full<Bytes>>,
) -> Result<(Request<Full<Bytes>>, (Answering, Option<Arc<str>>)), Error> {
    let (mut parts, body) = request.into_parts();
    let Some(model) = model else {
        return Err(unable(
            "a target of another dialect needs the name of a model",
        ));
    };
    let manner = provider.manner(model, listed);
    let able = Abilities::new();
    let abilities = listed.map_or(&able, |model| &model.abilities);
    let Asked {
        path,
        body,
        lost,
        wants_usage,
    } = translate::ask(from, to, &bytes_of(body), &manner, abilities).map_err(
        |reason| match reason {
            Untranslatable::Invalid(invalid) => {
                Error::new(Kind::InvalidRequest).with_told(invalid.to_string())
            }
            Untranslatable::Unable(reason) => unable(reason.0),
        },
    )?;
    if let Some(call) = parts.extensions.get::<Call>()
        && let Some(name) = lost.iter().find(|name| is_required(call, name))
    {
        let told = format!("{name} is required and cannot be said to it");
        return Err(Error::new(Kind::Refused(Refusal::Unable)).with_told(told));
    }
    // The caller's query is for the API that it speaks; Google refuses what it does not know.
    parts.uri = (path.parse())
        .map_err(|error: InvalidUri| Error::new(Kind::InvalidRequest).with_source(error))?;
    rewrite::issuer_headers(to, &mut parts.headers);
    parts.headers.insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    parts.headers.remove(ACCEPT);
    let names: Vec<&str> = lost.iter().collect();
    let lost = (!lost.is_empty()).then(|| Arc::from(names.join(", ")));
    let answering = Answering {
        caller: from,
        target: to,
        model: model.to_owned(),
        created: unix_now(),
        wants_usage,
    };
    let request = Request::from_parts(parts, Full::from(body));
    Ok((request, (answering, lost)))
}

/// Whether a caller needs a field that was lost, or one around it.
fn is_required(call: &Call, lost: &str) -> bool {
    call.required().iter().any(|name| {
        let inner = lost.strip_prefix(&**name);
        inner.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn unable(reason: impl Into<Box<str>>) -> Error {
    Error::new(Kind::Refused(Refusal::Unable)).with_told(reason)
}

/// The provider's URL, headers and model.
fn rewritten(
    provider: &Provider,
    listed: Option<&Model>,
    target: Option<&Target>,
    mut lost: Option<Arc<str>>,
    request: Request<Full<Bytes>>,
) -> Result<Request<Full<Bytes>>, Error> {
    let (mut parts, body) = request.into_parts();
    let mut bytes = bytes_of(body);
    if let Some(model) = listed
        && let Some((kept, removed)) = rewrite::without_fields(&bytes, &model.refuses)
    {
        bytes = kept;
        let before = lost.as_deref().into_iter();
        let names: Vec<&str> = before.chain(removed.iter().map(String::as_str)).collect();
        lost = Some(Arc::from(names.join(", ")));
    }
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
    let model = target.and_then(Target::model);
    let located = match rewrite::uri(provider, &parts.uri, model) {
        Ok(located) => located,
        Err(error) => return Err(Error::new(Kind::InvalidRequest).with_source(error.to_string())),
    };
    parts.uri = located.uri;
    rewrite::headers(provider, &mut parts.headers);
    let rewritten = model
        .filter(|_| !located.names_model)
        .and_then(|model| rewrite::model_in_body(&bytes, model));
    // The client writes that of the body; another one would cut it off, or wait for more.
    parts.headers.remove(CONTENT_LENGTH);
    let body = Full::new(rewritten.unwrap_or(bytes));
    Ok(Request::from_parts(parts, body))
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
            Ok(Provided { request, answering }) => {
                let translation =
                    answering.map(|(answering, lost)| Box::new(Translation::new(answering, lost)));
                ResponseFuture::calling(self.inner.call(request), translation)
            }
            Err(error) => ResponseFuture::failed(error),
        }
    }
}
