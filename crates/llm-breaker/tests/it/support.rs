use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use llm_breaker::{Breaker, BreakerBody, BreakerLayer, Breakers, Circuit, CircuitState, Totals};
use llm_call::{
    Answer, Attempt, BoxError, Call, CallSettings, Facts, Kind, Peek, PeekLayer, Peeked, Target,
};
use llm_chaos::testing::{BodyStep, Gauges, Respond, Scripted, ScriptedBody, Strict, service};
use tower::{Service, ServiceBuilder, ServiceExt};

pub(crate) const WHOLE: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
pub(crate) const TOKEN: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
pub(crate) const STOP: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
pub(crate) const ERROR_EVENT: &str =
    "data: {\"error\":{\"type\":\"server_error\",\"message\":\"x\"}}\n\n";

pub(crate) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn good() -> Respond {
    Respond::ok([WHOLE]).header("content-type", "application/json")
}

pub(crate) fn status(status: u16) -> Respond {
    Respond::status(http::StatusCode::from_u16(status).unwrap(), ["{}"])
        .header("content-type", "application/json")
}

pub(crate) fn stream(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "text/event-stream")
}

pub(crate) fn good_stream() -> Respond {
    stream([BodyStep::from(TOKEN), BodyStep::from(STOP)])
}

pub(crate) type Stack = Breaker<Strict<Peek<Strict<Scripted>>>>;
pub(crate) type Body = BreakerBody<Peeked<ScriptedBody>>;

/// A breaker over an inner service that answers by a list.
pub(crate) struct World {
    pub(crate) breakers: Breakers,
    pub(crate) stack: Stack,
    pub(crate) gauges: Gauges,
}

pub(crate) fn world(answers: impl IntoIterator<Item = Respond>) -> World {
    world_with(Breakers::new(), answers)
}

pub(crate) fn world_with(breakers: Breakers, answers: impl IntoIterator<Item = Respond>) -> World {
    let inner = service(answers);
    let gauges = inner.gauges();
    let stack = ServiceBuilder::new()
        .layer(BreakerLayer::new(breakers.clone()))
        .layer(tower::layer::layer_fn(Strict::new))
        .layer(PeekLayer::new())
        .service(Strict::new(inner));
    World {
        breakers,
        stack,
        gauges,
    }
}

pub(crate) fn target(text: &str) -> Target {
    text.parse().unwrap()
}

/// A copy of a call to `a:m`.
pub(crate) fn copy_of(call: Option<&Call>, n: u32) -> Request<String> {
    let mut request = Request::post("http://h/v1/chat/completions")
        .body(String::from("{}"))
        .unwrap();
    if let Some(call) = call {
        request.extensions_mut().insert(call.clone());
    }
    let attempt = Attempt::new(n).with_target(Some(target("a:m")));
    request.extensions_mut().insert(attempt);
    request
}

pub(crate) fn request() -> Request<String> {
    copy_of(None, 1)
}

pub(crate) fn call_for(streamed: bool, thinking: bool) -> Call {
    let call = Call::open(CallSettings::new());
    let mut facts = Facts::default();
    facts.streamed = Some(streamed);
    facts.thinking = thinking;
    call.set_facts(facts);
    call
}

impl World {
    pub(crate) fn send(
        &self,
        request: Request<String>,
    ) -> impl Future<Output = Result<Response<Body>, BoxError>> + use<> {
        self.stack.clone().oneshot(request)
    }

    /// One call, read to its end.
    pub(crate) async fn call(&self) -> Kind {
        self.call_with(request()).await
    }

    pub(crate) async fn call_with(&self, request: Request<String>) -> Kind {
        match self.send(request).await {
            Ok(response) => {
                let mut body = response.into_body();
                while let Some(frame) = body.frame().await {
                    if let Err(error) = frame {
                        return Kind::of(&*error);
                    }
                }
                body.state().ending().unwrap().kind()
            }
            Err(error) => Kind::of(&*error),
        }
    }

    pub(crate) fn circuit(&self) -> Circuit {
        self.breakers.target(&target("a:m"))
    }

    pub(crate) fn state(&self) -> CircuitState {
        self.circuit().state()
    }

    pub(crate) fn totals(&self) -> Totals {
        let totals = self.circuit().snapshot().totals;
        sum_holds(totals);
        totals
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        let history = self.breakers.history();
        history.iter().map(|t| t.reason.to_string()).collect()
    }
}

/// CB1.
pub(crate) fn sum_holds(t: Totals) {
    let ended = t.succeeded + t.failed + t.neutral + t.abandoned;
    assert_eq!(t.admitted, ended + t.in_flight, "{t:?}");
}

/// An inner service made of a function.
pub(crate) fn over<F, Fut>(
    breakers: &Breakers,
    client: F,
) -> impl Service<
    Request<String>,
    Response = Response<BreakerBody<Peeked<http_body_util::Full<Bytes>>>>,
    Error = BoxError,
    Future: Send,
> + Clone
+ use<F, Fut>
where
    F: FnMut(Request<String>) -> Fut + Clone + Send,
    Fut: Future<Output = Result<Response<http_body_util::Full<Bytes>>, BoxError>> + Send,
{
    ServiceBuilder::new()
        .layer(BreakerLayer::new(breakers.clone()).alone())
        .service_fn(client)
}

pub(crate) fn whole() -> Response<http_body_util::Full<Bytes>> {
    Response::builder()
        .header("content-type", "application/json")
        .body(WHOLE.into())
        .unwrap()
}
