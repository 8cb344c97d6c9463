//! What failover makes of a circuit breaker's refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use llm_call::{
    Attempt, BoxError, Call, CallSettings, Error, Kind, PeekLayer, Peeked, Phase, Refusal,
    ResponseExt, find_cause,
};
use llm_failover::{AllFailed, FailoverLayer, Targets};
use tower::{Layer, Service, ServiceExt, service_fn};

const ANSWER: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";

/// What becomes of an attempt.
#[derive(Clone, Copy)]
enum Say {
    Answer,
    Fail(Kind),
    /// The circuit is open for so many seconds; with none it takes the call as the last one left.
    Open(u64),
    Hang,
}

type Answered = Response<Peeked<Full<Bytes>>>;
type Log = Arc<Mutex<Vec<(String, u32)>>>;

/// Failover over a stack whose breaker and provider do as `says` does, by target and other targets
/// left; and what was asked.
fn stack(
    targets: &Targets,
    says: impl Fn(&str, u32) -> Say + Clone + Send + 'static,
) -> (
    impl Service<Request<()>, Response = Answered, Error = BoxError> + Clone,
    Log,
) {
    let log = Log::default();
    let asked = log.clone();
    let inner = service_fn(move |request: Request<()>| {
        let attempt = request.extensions().get::<Attempt>().unwrap().clone();
        let target = attempt.target.unwrap();
        let entry = (target.to_string(), attempt.alternatives);
        let say = says(&entry.0, entry.1);
        log.lock().unwrap().push(entry);
        async move {
            match say {
                Say::Answer => {
                    let client = service_fn(|_: Request<()>| async {
                        let answer = Response::builder().header("content-type", "application/json");
                        Ok::<_, BoxError>(answer.body(Full::from(ANSWER)).unwrap())
                    });
                    PeekLayer::new().layer(client).oneshot(request).await
                }
                Say::Fail(kind) => Err(Error::new(kind).with_target(Some(target)).into()),
                Say::Hang => std::future::pending().await,
                Say::Open(seconds) => Err(Error::new(Kind::Refused(Refusal::CircuitOpen))
                    .with_target(Some(target))
                    .with_retry_after(Some(Duration::from_secs(seconds)))
                    .into()),
            }
        }
    });
    (FailoverLayer::new(targets.clone()).layer(inner), asked)
}

fn request() -> (Request<()>, Call) {
    let call = Call::open(CallSettings::new());
    let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
    request.extensions_mut().insert(call.clone());
    (request, call)
}

fn asked(log: &Log) -> Vec<(String, u32)> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn entry(target: &str, others: u32) -> (String, u32) {
    (target.to_owned(), others)
}

#[tokio::test(start_paused = true)]
async fn h10_a_hedge_always_has_another_place_to_go_and_is_no_last_resort() {
    let targets = Targets::ordered(["a", "b", "c"]).unwrap();
    let (service, log) = stack(&targets, |target, _| match target {
        "a" => Say::Hang,
        _ => Say::Open(0),
    });
    let (first, call) = request();
    let hedge = Attempt::new(call.number()).with_hedge(1);
    let mut first = Box::pin(service.clone().oneshot(first));
    let wait = tokio::time::timeout(Duration::from_secs(1), &mut first);
    assert!(wait.await.is_err());
    let mut second = Request::post("/v1/chat/completions").body(()).unwrap();
    second.extensions_mut().insert(call.clone());
    second.extensions_mut().insert(hedge);
    assert!(service.oneshot(second).await.is_err());
    assert_eq!(asked(&log), [entry("a", 2), entry("b", 2), entry("c", 1)]);
}

#[tokio::test(start_paused = true)]
async fn f06_a_refusal_is_no_rest() {
    let targets = Targets::ordered(["a", "b"]).unwrap();
    let (service, log) = stack(&targets, |target, _| match target {
        "a" => Say::Open(30),
        _ => Say::Answer,
    });
    for _ in 0..2 {
        let answer = service.clone().oneshot(request().0).await.unwrap();
        assert!(answer.outcome().is_success());
        // The breaker is asked each time: it knows best when to let a call through.
        assert_eq!(asked(&log), [entry("a", 1), entry("b", 0)]);
    }
    assert!(targets.snapshot().iter().all(|t| t.rests.is_none()));
}

#[tokio::test(start_paused = true)]
async fn f02_a_circuit_that_refuses_while_there_are_others_is_asked_again_when_there_are_none() {
    let targets = Targets::ordered(["a", "b", "c"]).unwrap();
    for failing in [Say::Open(20), Say::Fail(Kind::ServerError)] {
        let (service, log) = stack(&targets, move |target, others| match (target, others) {
            ("a", 0) => Say::Answer,
            ("a", _) => Say::Open(1),
            _ => failing,
        });
        let (request, call) = request();
        let answer = service.oneshot(request).await.unwrap();
        assert!(answer.outcome().is_success());
        let expected = [entry("a", 2), entry("b", 1), entry("c", 0), entry("a", 0)];
        assert_eq!(asked(&log), expected);
        assert_eq!(call.ledger().sent().count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn t01_a_target_that_takes_the_call_as_the_last_one_has_a_share_of_the_time() {
    let targets = Targets::ordered(["a", "b"]).unwrap();
    let (service, log) = stack(&targets, |target, others| match (target, others) {
        ("a", 0) => Say::Answer,
        ("a", _) => Say::Open(0),
        _ => Say::Hang,
    });
    let (request, call) = request();
    call.tighten(call.opened() + Duration::from_secs(10));
    let answer = service.oneshot(request).await.unwrap();
    assert!(answer.outcome().is_success());
    assert_eq!(asked(&log), [entry("a", 1), entry("b", 1), entry("a", 0)]);
    assert!(call.opened().elapsed() < Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn r17_a_refusal_does_not_hide_that_the_time_is_up() {
    let targets = Targets::ordered(["a", "b"]).unwrap();
    let time_is_up = Kind::TimedOut(Phase::Deadline);
    let (service, _) = stack(&targets, move |target, _| match target {
        "a" => Say::Open(30),
        _ => Say::Fail(time_is_up),
    });
    let error = service.oneshot(request().0).await.map(drop).unwrap_err();
    assert_eq!(Kind::of(&*error), time_is_up);
}

#[tokio::test(start_paused = true)]
async fn f03_all_open_is_one_error_with_the_soonest_return() {
    let targets = Targets::ordered(["a", "b", "c"]).unwrap();
    let (service, log) = stack(&targets, |target, _| match target {
        "a" => Say::Open(20),
        "b" => Say::Open(7),
        _ => Say::Open(30),
    });
    let (request, call) = request();
    let error = service.oneshot(request).await.map(drop).unwrap_err();
    let ours = find_cause::<Error>(&*error).unwrap();
    assert_eq!(ours.kind(), Kind::Refused(Refusal::CircuitOpen));
    assert_eq!(ours.outcome().retry_after, Some(Duration::from_secs(7)));
    let failed = find_cause::<AllFailed>(&*error).unwrap();
    assert_eq!(failed.attempts().len(), 3, "each is listed once");
    assert_eq!(call.ledger().entries.len(), 3);
    // The first two had others left and were asked once more.
    assert_eq!(asked(&log).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn r17_what_a_provider_said_tells_more_than_a_refusal() {
    let targets = Targets::ordered(["a", "b"]).unwrap();
    let (service, _) = stack(&targets, |target, _| match target {
        "a" => Say::Fail(Kind::ConnectFailed),
        _ => Say::Open(9),
    });
    let error = service.oneshot(request().0).await.map(drop).unwrap_err();
    let ours = find_cause::<Error>(&*error).unwrap();
    assert_eq!(ours.kind(), Kind::ConnectFailed);
    assert_eq!(ours.outcome().retry_after, Some(Duration::from_secs(9)));
}
