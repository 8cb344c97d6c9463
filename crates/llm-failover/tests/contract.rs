//! The contract of a tower service, and nothing left behind by a drop.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use http::{Request, StatusCode};
use llm_call::{Call, CallSettings, PeekLayer};
use llm_chaos::testing::{BodyStep, Respond, Strict, drop_fuzz, service};
use llm_failover::{ByTarget, FailoverLayer, Targets};
use tower::{ServiceBuilder, ServiceExt};

const WHOLE: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";

fn request(call: Call) -> Request<String> {
    let mut request = Request::post("/v1/chat/completions")
        .body(String::from("{}"))
        .unwrap();
    request.extensions_mut().insert(call);
    request
}

fn call() -> Call {
    Call::open(CallSettings::new().timeout(Duration::from_secs(20)))
}

fn answers() -> [Respond; 4] {
    [
        Respond::status(StatusCode::SERVICE_UNAVAILABLE, [BodyStep::data("{}")]),
        Respond::hang(),
        Respond::error("connection reset"),
        Respond::ok([BodyStep::data(WHOLE)])
            .header("content-type", "application/json")
            .after(Duration::from_secs(1)),
    ]
}

#[tokio::test(start_paused = true)]
async fn r18_each_attempt_gets_a_readiness_of_its_own() {
    let inner = service(answers());
    let gauges = inner.gauges();
    let targets = Targets::ordered(["a", "b", "c", "d"]).unwrap();
    let stack = ServiceBuilder::new()
        .layer(FailoverLayer::new(targets))
        .layer(PeekLayer::new())
        .service(ByTarget::new(Strict::new(inner)));
    let answer = stack.oneshot(request(call())).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(gauges.calls(), 4);
    drop(answer);
    assert_eq!(gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn r09_an_answer_that_holds_a_connection_does_not_wait_for_the_next_target() {
    let large: &str = "x".repeat(100 << 10).leak();
    let inner = service([
        Respond::status(
            StatusCode::SERVICE_UNAVAILABLE,
            [BodyStep::data(large), BodyStep::Hang],
        ),
        Respond::hang(),
    ]);
    let gauges = inner.gauges();
    let stack = ServiceBuilder::new()
        .layer(FailoverLayer::new(Targets::ordered(["a", "b"]).unwrap()))
        .layer(PeekLayer::new())
        .service(Strict::new(inner));
    let mut asking = Box::pin(stack.oneshot(request(call())));
    let waiting = tokio::time::timeout(Duration::from_secs(5), &mut asking).await;
    assert!(waiting.is_err());
    assert_eq!((gauges.calls(), gauges.live()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn c03_dropped_anywhere_it_leaves_nothing_and_closed_records() {
    let targets = Targets::ordered(["a", "b", "c", "d"]).unwrap();
    let state = std::cell::RefCell::new(None);
    let make = || {
        let inner = service(answers());
        let call = call();
        *state.borrow_mut() = Some((inner.gauges(), call.clone()));
        let stack = ServiceBuilder::new()
            .layer(FailoverLayer::new(targets.clone()))
            .layer(tower::layer::layer_fn(Strict::new))
            .layer(PeekLayer::new())
            .service(Strict::new(inner));
        stack.oneshot(request(call))
    };
    drop_fuzz(make, |polls| {
        let state = state.borrow();
        let (gauges, call) = state.as_ref().unwrap();
        assert_eq!(gauges.live(), 0, "after {polls} polls");
        let open = call
            .ledger()
            .entries
            .iter()
            .filter(|e| e.kind.is_none())
            .count();
        assert_eq!(open, 0, "after {polls} polls");
    })
    .await;
}
