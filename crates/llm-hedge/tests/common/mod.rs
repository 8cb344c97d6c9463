//! What the tests share: requests, answers, and a router that leases targets as a failover does.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use llm_call::{
    Answer, Attempt, BoxError, Call, CallSettings, Error, Facts, Kind, Outcome, Peek, PeekLayer,
    Refusal, ResponseExt, Target,
};
use llm_chaos::testing::{BodyStep, Gauges, Respond, Scripted, Strict, service};
use llm_hedge::{Hedge, HedgeLayer, Hedges, Settings};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

pub const WHOLE: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
pub const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
pub const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

pub fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A stream whose headers come at once and whose first token comes after so long.
pub fn token_after(ms: u64) -> Respond {
    stream([
        BodyStep::data(": keep-alive\n\n"),
        BodyStep::wait(millis(ms)),
        BodyStep::data(TOKEN),
        BodyStep::data(END),
    ])
}

pub fn stream(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "text/event-stream")
}

pub fn whole_after(ms: u64) -> Respond {
    Respond::ok([BodyStep::data(WHOLE)])
        .header("content-type", "application/json")
        .after(millis(ms))
}

/// An error answer after so long.
pub fn status_after(code: u16, ms: u64) -> Respond {
    let body = format!("{{\"error\":{{\"message\":\"{code}\"}}}}");
    Respond::status(StatusCode::from_u16(code).unwrap(), [BodyStep::data(body)])
        .header("content-type", "application/json")
        .after(millis(ms))
}

pub fn streamed() -> Facts {
    let mut facts = Facts::default();
    facts.streamed = Some(true);
    facts.input_tokens = 1_000;
    facts
}

/// A streamed call.
pub fn open(settings: CallSettings) -> Call {
    let call = Call::open(settings);
    call.set_facts(streamed());
    call
}

pub fn call() -> Call {
    open(CallSettings::new())
}

pub fn request_of(call: &Call) -> Request<String> {
    let mut request = Request::post("/v1/chat/completions")
        .body(String::from("{}"))
        .unwrap();
    request.extensions_mut().insert(call.clone());
    request
}

/// Hedges of which each call pays for its own.
pub fn free() -> Hedges {
    Hedges::with(Settings::new().percent(100.0).build().unwrap())
}

pub type Stack = Hedge<Peek<Strict<Scripted>>>;

/// The layer over a scripted client.
pub fn stack(hedges: &Hedges, client: Scripted) -> Stack {
    HedgeLayer::new(hedges.clone()).layer(PeekLayer::new().layer(Strict::new(client)))
}

pub fn kind<B: Answer>(result: &Result<Response<B>, BoxError>) -> Kind {
    match result {
        Ok(answer) => answer.outcome().kind,
        Err(error) => Kind::of(&**error),
    }
}

pub fn target(name: &str) -> Target {
    name.parse().unwrap()
}

/// Sends each copy to the first target that no copy of the call has taken, and on a failure to the
/// next one: the protocol of leases, as a failover follows it.
#[derive(Clone)]
pub struct Router {
    targets: Vec<(Target, Peek<Strict<Scripted>>)>,
}

impl Router {
    /// Targets and what they answer, and their gauges.
    pub fn new<const N: usize>(targets: [(&str, Vec<Respond>); N]) -> (Router, [Gauges; N]) {
        let clients = targets.map(|(name, answers)| (target(name), service(answers)));
        let gauges = clients.each_ref().map(|(_, client)| client.gauges());
        let targets = clients
            .into_iter()
            .map(|(target, client)| (target, PeekLayer::new().layer(Strict::new(client))))
            .collect();
        (Router { targets }, gauges)
    }

    pub fn hedged(self, hedges: &Hedges) -> Hedge<Router> {
        ServiceBuilder::new()
            .layer(HedgeLayer::new(hedges.clone()))
            .service(self)
    }
}

type Peeked = <Peek<Strict<Scripted>> as Service<Request<String>>>::Response;

impl Service<Request<String>> for Router {
    type Response = Peeked;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Peeked, BoxError>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<String>) -> Self::Future {
        let call = Call::of(&mut request);
        let mut given = request.extensions_mut().remove::<Attempt>();
        let hedge = given.as_ref().map_or(0, |attempt| attempt.hedge);
        let targets = self.targets.clone();
        Box::pin(async move {
            let mut last = None;
            for (target, service) in targets {
                let Some(lease) = call.lease(&target) else {
                    continue;
                };
                let n = given.take().map_or(0, |attempt| attempt.n);
                let n = if n > 0 { n } else { call.number() };
                let attempt = Attempt::new(n).with_hedge(hedge).with_target(Some(target));
                let mut copy = request.clone();
                copy.extensions_mut().insert(attempt);
                let result = service.oneshot(copy).await;
                let outcome = match &result {
                    Ok(answer) => answer.outcome(),
                    Err(error) => Outcome::of_error(&**error),
                };
                if !outcome.verdict.fail_over {
                    return result;
                }
                drop(lease);
                last = Some(result);
            }
            last.unwrap_or_else(|| {
                let outcome = call.outcome(Kind::Refused(Refusal::NoTarget));
                Err(Error::from(outcome).into())
            })
        })
    }
}
