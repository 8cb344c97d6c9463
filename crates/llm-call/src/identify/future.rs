use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Request, Response,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
    request::Parts,
};
use http_body::Body;
use http_body_util::Full;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{collect::Collected, facts::facts};
use crate::{
    Answer, Attempt, BoxError, Call, Ending, Guard, Guarded, Outcome, State, Target,
    ready::polled_after_ready,
};

/// Tells a call how it ended, exactly once: rides in the future, then in the body.
pub struct CallGuard(Option<Call>);

impl CallGuard {
    fn finish(&mut self, ending: Ending) {
        if let Some(call) = self.0.take() {
            call.finish(ending);
        }
    }
}

impl Guard for CallGuard {
    fn ended(&mut self, ending: Ending, _state: &State) {
        self.finish(ending);
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.finish(Ending::Dropped);
    }
}

impl fmt::Debug for CallGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallGuard").field(&self.0).finish()
    }
}

pin_project! {
    /// The response future of [`Identify`](crate::Identify): reads the request, then waits for the
    /// service below and its answer.
    #[must_use = "futures do nothing unless polled"]
    pub struct IdentifyFuture<S, ReqB>
    where
        S: Service<Request<Full<Bytes>>>,
    {
        #[pin]
        stage: Stage<S, ReqB, S::Future>,
        call: Call,
        guard: CallGuard,
        stamp: bool,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<S, ReqB, Fut> {
        /// Reading the body.
        Reading {
            #[pin]
            body: ReqB,
            collected: Collected,
            max_body: usize,
            rest: Option<(S, Parts, Option<Target>)>,
        },
        /// Waiting until the service below can take it.
        Readying { inner: S, request: Option<Request<Full<Bytes>>> },
        /// Waiting for the answer.
        Calling {
            #[pin]
            future: Fut,
        },
        Done,
    }
}

impl<S, ReqB> IdentifyFuture<S, ReqB>
where
    S: Service<Request<Full<Bytes>>>,
{
    pub(super) fn new(
        inner: S,
        parts: Parts,
        body: ReqB,
        call: Call,
        provider: Option<Target>,
        max_body: usize,
        stamp: bool,
    ) -> Self {
        IdentifyFuture {
            stage: Stage::Reading {
                body,
                collected: Collected::default(),
                max_body,
                rest: Some((inner, parts, provider)),
            },
            guard: CallGuard(Some(call.clone())),
            call,
            stamp,
        }
    }
}

impl<S, ReqB, B> Future for IdentifyFuture<S, ReqB>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    ReqB: Body,
    ReqB::Error: Into<BoxError>,
    B: Answer,
{
    type Output = Result<Response<Guarded<B, CallGuard>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = loop {
            // Each stage is set where it is made: as one value of all stages it would be moved whole.
            match this.stage.as_mut().project() {
                StageProj::Reading {
                    body,
                    collected,
                    max_body,
                    rest,
                } => match (ready!(collected.poll(body, cx, *max_body)), rest.take()) {
                    (Err(error), _) => break Err(error.into()),
                    (Ok(body), Some((inner, parts, provider))) => {
                        let request = identified(parts, body, this.call, provider.as_ref());
                        let request = Some(request);
                        this.stage.set(Stage::Readying { inner, request });
                    }
                    (Ok(_), None) => polled_after_ready(),
                },
                StageProj::Readying { inner, request } => match ready!(inner.poll_ready(cx)) {
                    Err(error) => break Err(error.into()),
                    Ok(()) => {
                        let request = request.take().unwrap_or_else(|| polled_after_ready());
                        let future = inner.call(request);
                        this.stage.set(Stage::Calling { future });
                    }
                },
                StageProj::Calling { future } => break ready!(future.poll(cx)).map_err(Into::into),
                StageProj::Done => polled_after_ready(),
            }
        };
        // The service below is done with: what its future holds is freed before the answer is
        // handed on.
        this.stage.set(Stage::Done);
        let mut guard = std::mem::replace(this.guard, CallGuard(None));
        Poll::Ready(match result {
            Ok(mut response) => {
                if *this.stamp {
                    stamp(&mut response, this.call.sent());
                }
                Ok(response.map(|body| Guarded::new(body, guard)))
            }
            Err(error) => {
                guard.finish(Ending::Failed(Outcome::of_error(&*error)));
                Err(error)
            }
        })
    }
}

/// The request as the layers below need it: it can be copied, and says what it is about.
fn identified(
    mut parts: Parts,
    body: Bytes,
    call: &Call,
    provider: Option<&Target>,
) -> Request<Full<Bytes>> {
    let facts = facts(parts.uri.path(), &parts.headers, &body);
    let mut attempt = match parts.extensions.remove::<Attempt>() {
        Some(attempt) => attempt,
        None => Attempt::new(call.number()),
    };
    let host = || Target::new(parts.uri.host()?, None, None).ok();
    let fallback = || Target::new("default", None, None).ok();
    attempt.target = attempt
        .target
        .or_else(|| provider.cloned())
        .or_else(host)
        .or_else(fallback)
        .map(|target| {
            let (model, capability) = (facts.model.as_deref(), facts.capability);
            target
                .complete(model, capability)
                // A model that no header can hold is no model.
                .or_else(|_| target.complete(None, capability))
                .unwrap_or(target)
        });
    call.set_facts(facts);
    parts.extensions.insert(call.clone());
    parts.extensions.insert(attempt);
    if parts.headers.remove(TRANSFER_ENCODING).is_some()
        || parts.headers.contains_key(CONTENT_LENGTH)
        || !body.is_empty()
    {
        parts
            .headers
            .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Request::from_parts(parts, Full::new(body))
}

const PROVIDER: HeaderName = HeaderName::from_static("x-llm-provider");
const MODEL: HeaderName = HeaderName::from_static("x-llm-model");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-llm-attempts");

/// Says in the answer's head who served it.
fn stamp<B: Answer>(response: &mut Response<B>, attempts: u32) {
    let target = response.body().state().target().cloned();
    let headers = response.headers_mut();
    if let Some(target) = target {
        headers.insert(PROVIDER, target.provider_header().clone());
        if let Some(model) = target.model_header() {
            headers.insert(MODEL, model.clone());
        }
    }
    headers.insert(ATTEMPTS, HeaderValue::from(attempts));
}

impl<S, ReqB> fmt::Debug for IdentifyFuture<S, ReqB>
where
    S: Service<Request<Full<Bytes>>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Reading { .. } => "Reading",
            Stage::Readying { .. } => "Readying",
            Stage::Calling { .. } => "Calling",
            Stage::Done => "Done",
        };
        f.debug_struct("IdentifyFuture")
            .field("stage", &stage)
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
