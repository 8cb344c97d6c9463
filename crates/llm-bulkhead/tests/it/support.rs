use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use llm_bulkhead::{
    Bulkhead, BulkheadBody, BulkheadLayer, BulkheadService, Full, Pool, PoolSnapshot, Settings,
};
use llm_call::{Attempt, BoxError, Call, CallSettings, Kind, find_cause};
use llm_chaos::testing::{BodyStep, Gauges, Respond, Scripted, ScriptedBody, Strict, service};
use tower::{Layer, ServiceExt};

pub(crate) type Stack = BulkheadService<Strict<Scripted>>;
pub(crate) type Body = BulkheadBody<ScriptedBody>;

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn good() -> Respond {
    Respond::ok(["{}"]).header("content-type", "application/json")
}

/// A head at once, a frame, and then nothing for a long time.
pub(crate) fn slow_stream() -> Respond {
    Respond::ok([
        BodyStep::from("one"),
        BodyStep::wait(s(1_000)),
        BodyStep::from("two"),
    ])
}

pub(crate) fn shared(pool: Pool) -> Bulkhead {
    Settings::new(pool).build().unwrap()
}

pub(crate) struct World {
    pub(crate) bulkhead: Bulkhead,
    pub(crate) stack: Stack,
    pub(crate) gauges: Gauges,
}

pub(crate) fn world(layer: &BulkheadLayer, answers: impl IntoIterator<Item = Respond>) -> World {
    let inner = service(answers);
    let gauges = inner.gauges();
    let stack = layer.layer(Strict::new(inner));
    World {
        bulkhead: stack.bulkhead().clone(),
        stack,
        gauges,
    }
}

pub(crate) fn over(pool: Pool, answer: Respond) -> World {
    world(&BulkheadLayer::new(shared(pool)), [answer])
}

pub(crate) fn request() -> Request<String> {
    Request::post("http://h/v1/chat/completions")
        .body(String::new())
        .unwrap()
}

pub(crate) fn of(settings: CallSettings) -> Request<String> {
    let mut request = request();
    request.extensions_mut().insert(Call::open(settings));
    request
}

pub(crate) fn by(tenant: &str) -> Request<String> {
    of(CallSettings::new().tenant(tenant))
}

pub(crate) fn to(target: &str) -> Request<String> {
    let mut request = request();
    let attempt = Attempt::new(1).with_target(Some(target.parse().unwrap()));
    request.extensions_mut().insert(attempt);
    request
}

pub(crate) type Sent = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

impl World {
    /// Sends a request and polls it once.
    pub(crate) fn begin(&self, request: Request<String>) -> Sent {
        let mut sent: Sent = Box::pin(self.stack.clone().oneshot(request));
        assert!(poll(&mut sent).is_pending());
        sent
    }

    pub(crate) async fn call(&self, request: Request<String>) -> Result<Bytes, BoxError> {
        let response = self.stack.clone().oneshot(request).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }

    pub(crate) fn pool(&self, name: &str) -> PoolSnapshot {
        self.bulkhead.snapshot().pool(name).unwrap().clone()
    }

    /// Calls under way, and calls that wait, in the default pool.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let pool = self.pool("default");
        (pool.in_flight, pool.queued)
    }
}

pub(crate) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn kind(error: &BoxError) -> Kind {
    Kind::of(&**error)
}

pub(crate) fn full(error: &BoxError) -> &Full {
    find_cause::<Full>(&**error).expect("a refusal")
}
