//! What the tests share: requests, answers, and a layer that refuses on cue.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::VecDeque,
    future::{Ready, ready},
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::Either;
use http::{Request, Response, StatusCode};
use llm_call::{Attempt, BoxError, Call, CallSettings, Error, Kind, Peek, PeekLayer};
use llm_chaos::testing::{BodyStep, Respond, Scripted, Strict};
use llm_retry::{Retry, RetryBudget, RetryLayer};
use tower::{Service, ServiceBuilder};

pub const WHOLE: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
pub const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
pub const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

pub fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A whole answer.
pub fn whole() -> Respond {
    Respond::ok([BodyStep::data(WHOLE)]).header("content-type", "application/json")
}

/// A streamed one.
pub fn stream(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "text/event-stream")
}

pub fn status(code: u16) -> Respond {
    let body = format!("{{\"error\":{{\"message\":\"{code}\"}}}}");
    Respond::status(StatusCode::from_u16(code).unwrap(), [BodyStep::data(body)])
        .header("content-type", "application/json")
}

/// 429 that asks to come back in so many milliseconds.
pub fn later(ms: &'static str) -> Respond {
    status(429).header("retry-after-ms", ms)
}

pub fn request_of(call: &Call) -> Request<String> {
    let mut request = Request::post("/v1/chat/completions")
        .body(String::from("{}"))
        .unwrap();
    request.extensions_mut().insert(call.clone());
    request
}

pub fn open() -> Call {
    Call::open(CallSettings::new())
}

pub fn within(ms: u64) -> Call {
    Call::open(CallSettings::new().timeout(millis(ms)))
}

pub fn request() -> Request<String> {
    request_of(&open())
}

/// The same request on its way to a target, with so many others left.
pub fn to(target: &str, alternatives: u32, mut request: Request<String>) -> Request<String> {
    let attempt = Attempt::new(1)
        .with_target(Some(target.parse().unwrap()))
        .with_alternatives(alternatives);
    request.extensions_mut().insert(attempt);
    request
}

pub fn kind(error: &BoxError) -> Kind {
    Kind::of(&**error)
}

pub type Stack = Retry<Peek<Strict<Scripted>>>;

/// The layer over a scripted client.
pub fn stack(layer: RetryLayer, client: Scripted) -> Stack {
    ServiceBuilder::new()
        .layer(layer)
        .layer(PeekLayer::new())
        .service(Strict::new(client))
}

pub fn default_stack(budget: &RetryBudget, client: Scripted) -> Stack {
    stack(RetryLayer::new(budget.clone()), client)
}

/// A layer of ours that fails its calls by a list, and lets them through where the list says
/// `None` or has ended.
#[derive(Clone)]
pub struct Gate<S> {
    inner: S,
    list: Arc<Mutex<VecDeque<Option<Kind>>>>,
}

impl<S> Gate<S> {
    pub fn new(inner: S, list: impl IntoIterator<Item = Option<Kind>>) -> Gate<S> {
        let list = Arc::new(Mutex::new(list.into_iter().collect()));
        Gate { inner, list }
    }
}

impl<S, R, B> Service<R> for Gate<S>
where
    S: Service<R, Response = Response<B>, Error = BoxError>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Either<Ready<Result<Response<B>, BoxError>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        match self.list.lock().unwrap().pop_front().flatten() {
            Some(kind) => {
                let target = Some("gate:m".parse().unwrap());
                let error = Error::new(kind).with_target(target);
                Either::Left(ready(Err(error.into())))
            }
            None => Either::Right(self.inner.call(request)),
        }
    }
}

/// The layer over a gate over a scripted client.
pub fn gated(
    budget: &RetryBudget,
    list: impl IntoIterator<Item = Option<Kind>>,
    client: Scripted,
) -> Retry<Gate<Peek<Strict<Scripted>>>> {
    let list: Vec<_> = list.into_iter().collect();
    ServiceBuilder::new()
        .layer(RetryLayer::new(budget.clone()))
        .layer(tower::layer::layer_fn(move |inner| {
            Gate::new(inner, list.clone())
        }))
        .layer(PeekLayer::new())
        .service(Strict::new(client))
}
