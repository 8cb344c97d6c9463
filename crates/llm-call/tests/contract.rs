//! The contract of a tower service, and nothing left behind by a drop, for each service and body.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use llm_call::{
    Answer, BoxError, Call, CallSettings, Commit, Ending, Guard, Guarded, IdentifyLayer, Kind,
    PeekLayer, RespondLayer, State,
};
use llm_chaos::testing::{
    BodyStep, Fuzzed, Gauges, Respond, Scripted, Strict, drop_fuzz, drop_fuzz_body, service,
};
use tower::{Layer, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};

const HEL: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}]}\n\n";
const STOP: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n";
const WHOLE: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";

fn second() -> Duration {
    Duration::from_secs(1)
}

fn stream() -> Respond {
    Respond::ok([
        BodyStep::data(": ping\n\n"),
        BodyStep::wait(second()),
        BodyStep::data(HEL),
        BodyStep::wait(second()),
        BodyStep::data(STOP),
        BodyStep::wait(second()),
        BodyStep::data("data: [DONE]\n\n"),
    ])
    .header("content-type", "text/event-stream")
    .after(second())
}

/// Every way an answer can go.
fn answers() -> Vec<Respond> {
    let json = |body: &'static str| {
        Respond::ok([BodyStep::data(body)]).header("content-type", "application/json")
    };
    vec![
        stream(),
        json(WHOLE),
        json("{\"object\":"),
        Respond::status(
            http::StatusCode::SERVICE_UNAVAILABLE,
            [BodyStep::data("{}"), BodyStep::wait(second() * 5)],
        ),
        Respond::error("connection reset"),
        Respond::hang(),
    ]
}

fn strict(answer: Respond) -> (Strict<Scripted>, Gauges) {
    let inner = service([answer]);
    let gauges = inner.gauges();
    (Strict::new(inner), gauges)
}

fn request(call: &Call) -> Request<Full<Bytes>> {
    let body = Full::from("{\"model\":\"m\",\"stream\":true}");
    let mut request = Request::post("/v1/chat/completions").body(body).unwrap();
    request.extensions_mut().insert(call.clone());
    request
}

fn call() -> Call {
    Call::open(CallSettings::new().max_attempts(u32::MAX))
}

#[tokio::test(start_paused = true)]
async fn r18_each_service_keeps_the_contract_over_one_permit() {
    for answer in answers() {
        let (inner, gauges) = strict(answer);
        let service = ServiceBuilder::new()
            .layer(RespondLayer::new())
            .layer(IdentifyLayer::new())
            .layer(PeekLayer::new())
            .layer(ConcurrencyLimitLayer::new(1))
            .service(inner);
        for _ in 0..3 {
            let asked = service.clone().oneshot(request(&call()));
            let _ = tokio::time::timeout(second() * 60, asked).await;
        }
        assert_eq!(gauges.calls(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn c03_a_dropped_future_leaves_nothing_and_one_record() {
    for commit in [Commit::FirstToken, Commit::Whole, Commit::Window(second())] {
        for answer in answers() {
            let (inner, gauges) = strict(answer);
            let service = ServiceBuilder::new()
                .layer(RespondLayer::new())
                .layer(IdentifyLayer::new())
                .layer(PeekLayer::new().commit(commit))
                .service(inner);
            let calls = std::cell::RefCell::new(Vec::new());
            let make = || {
                let call = call();
                calls.borrow_mut().push(call.clone());
                service.clone().oneshot(request(&call))
            };
            drop_fuzz(make, |polls| {
                assert_eq!(gauges.live(), 0, "after {polls} polls");
                let ledger = calls.borrow().last().unwrap().ledger();
                // Never polled, it never began.
                assert_eq!(ledger.ended.is_some(), polls > 0, "after {polls} polls");
                for entry in ledger.sent() {
                    assert!(entry.kind.is_some(), "an open record after {polls} polls");
                }
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c03_a_dropped_body_leaves_nothing_and_one_final_record() {
    let (inner, gauges) = strict(stream());
    let service = ServiceBuilder::new()
        .layer(RespondLayer::new())
        .layer(IdentifyLayer::new())
        .layer(PeekLayer::new())
        .service(inner);
    let calls = std::cell::RefCell::new(Vec::new());
    let make = || {
        let call = call();
        calls.borrow_mut().push(call.clone());
        let asked = service.clone().oneshot(request(&call));
        async { asked.await.unwrap().into_body() }
    };
    let fuzzed = drop_fuzz_body(make, |polls| {
        assert_eq!(gauges.live(), 0, "after {polls} polls");
        let ledger = calls.borrow().last().unwrap().ledger();
        assert!(
            ledger.ended.is_some(),
            "no final record after {polls} polls"
        );
        assert!(ledger.sent().all(|entry| entry.kind.is_some()));
    })
    .await;
    assert!(matches!(fuzzed, Fuzzed::Finished(_)));
    let last = calls.borrow().last().unwrap().ledger();
    assert_eq!(last.ended.unwrap().0, Ending::Complete);
    assert_eq!(last.entries[0].kind, Some(Kind::Success));
}

#[derive(Default)]
struct Count(std::rc::Rc<std::cell::Cell<u32>>);

impl Guard for Count {
    fn ended(&mut self, _: Ending, _: &State) {
        self.0.set(self.0.get() + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_hears_once_wherever_the_body_is_dropped() {
    let (inner, gauges) = strict(stream());
    let service = PeekLayer::new().layer(inner);
    let heard = std::rc::Rc::new(std::cell::Cell::new(0));
    let make = || {
        heard.set(0);
        let asked = service.clone().oneshot(request(&call()));
        let guard = Count(heard.clone());
        async {
            let answer: Result<_, BoxError> = asked.await;
            let body = answer.unwrap().into_body();
            assert!(body.state().first_token().is_some());
            Guarded::new(body, guard)
        }
    };
    drop_fuzz_body(make, |polls| {
        assert_eq!(heard.get(), 1, "after {polls} polls");
        assert_eq!(gauges.live(), 0);
    })
    .await;
}
