//! A caller that leaves at any moment leaves nothing behind.

use std::{cell::RefCell, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use llm_breaker::{BreakerLayer, Breakers};
use llm_call::{BoxError, Call, CallSettings, IdentifyLayer, PeekLayer, RespondLayer, client};
use llm_chaos::testing::{
    BodyStep, BodyStep::Hang, BodyStep::Wait, Fuzzed, Gauges, Respond, Strict, drop_fuzz,
    drop_fuzz_body, service,
};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Layer, ServiceBuilder, ServiceExt};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const JSON: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;

fn data(text: &'static str) -> BodyStep {
    BodyStep::data(text)
}

fn stream(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "text/event-stream")
}

fn json(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "application/json")
}

/// One request through a new stack, whose targets answer so, the primary first.
struct Play {
    answers: [Respond; 2],
    streamed: bool,
    played: RefCell<Vec<Played>>,
}

/// What is left of a play.
struct Played {
    call: Call,
    gauges: Gauges,
    breakers: Breakers,
    budget: RetryBudget,
}

impl Play {
    fn ask(
        &self,
    ) -> impl Future<Output = Response<impl Body<Data = Bytes, Error = BoxError> + use<>>> + use<>
    {
        let http = service(self.answers.clone());
        let call = Call::open(CallSettings::new());
        let (breakers, budget) = (Breakers::new(), RetryBudget::new());
        self.played.borrow_mut().push(Played {
            call: call.clone(),
            gauges: http.gauges(),
            breakers: breakers.clone(),
            budget: budget.clone(),
        });
        let provider = || Provider::new("http://provider.test/v1").unwrap();
        let stack = ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(DeadlineLayer::default())
            .layer(FailoverLayer::new(Targets::ordered(["a", "b"]).unwrap()))
            .layer(RetryLayer::new(budget))
            .layer(BreakerLayer::new(breakers))
            .layer(TimeoutLayer::new())
            .layer(
                ProviderLayer::new()
                    .provider("a", provider())
                    .provider("b", provider()),
            )
            .layer(PeekLayer::new())
            .service(Strict::new(http));
        let body = format!(r#"{{"model":"m","stream":{}}}"#, self.streamed);
        let request = Request::post("/v1/chat/completions")
            .extension(call)
            .body(Full::from(body))
            .unwrap();
        let asking = RespondLayer::new().layer(client(stack)).oneshot(request);
        async { asking.await.unwrap_or_else(|never| match never {}) }
    }

    /// After a drop: nothing lives, no copy is open, the circuits wait for nobody, what was not sent
    /// was not paid for, and the call has ended.
    fn check(&self, polls: usize) {
        let played = self.played.borrow();
        let Played {
            call,
            gauges,
            breakers,
            budget,
        } = played.last().unwrap();
        let ledger = call.ledger();
        assert_eq!(gauges.live(), 0, "after {polls} polls: {ledger}");
        assert!(gauges.calls() <= 6, "after {polls} polls: {ledger}");
        for circuit in breakers.snapshot() {
            let totals = circuit.totals;
            let ended = totals.succeeded + totals.failed + totals.neutral + totals.abandoned;
            assert_eq!(
                (totals.in_flight, ended),
                (0, totals.admitted),
                "{circuit:?}"
            );
        }
        for target in ["a:m:streaming", "a:m:chat", "b:m:streaming", "b:m:chat"] {
            let target = target.parse().unwrap();
            let sent = ledger
                .sent()
                .filter(|entry| entry.target.as_ref() == Some(&target));
            let retries = sent.count().saturating_sub(1) as f64;
            // A floor of three tokens, of which one comes back every ten seconds, and a tenth for
            // an answer.
            let left = 3.0 - retries..=3.1;
            let balance = budget.balance(Some(&target));
            assert!(
                left.contains(&balance),
                "{balance} after {polls} polls: {ledger}"
            );
        }
        let open = ledger.entries.iter().any(|entry| entry.kind.is_none());
        assert!(!open, "after {polls} polls: {ledger}");
        // A future that was never polled has not called the stack.
        let begun = polls > 0 || gauges.calls() > 0;
        assert_eq!(ledger.ended.is_some(), begun, "{ledger}");
    }
}

#[tokio::test(start_paused = true)]
async fn c03_a_call_dropped_at_any_poll_leaves_nothing_behind() {
    let second = Duration::from_secs(1);
    let good = || {
        let steps = [
            Wait(second),
            data(TOKEN),
            Wait(second),
            data(TOKEN),
            Wait(second),
            data(FINISH),
        ];
        stream(steps).after(second)
    };
    let failures = || {
        vec![
            Respond::error("refused").after(second),
            Respond::hang(),
            stream([data(": ping\n\n"), Hang]).after(second),
            json([data("{\"error\":"), Wait(second), data("{}}")]).after(second),
            Respond::status(http::StatusCode::SERVICE_UNAVAILABLE, [data("{"), Hang]),
            stream([data(TOKEN), Wait(second), BodyStep::Error("reset")]).after(second),
            stream([data(TOKEN), Wait(second), Hang]).after(second),
            good(),
        ]
    };
    for streamed in [true, false] {
        for first in failures() {
            for second in failures().into_iter().chain([json([data(JSON)])]) {
                let play = Play {
                    answers: [first.clone(), second],
                    streamed,
                    played: RefCell::default(),
                };
                let ended = drop_fuzz(|| play.ask(), |polls| play.check(polls)).await;
                assert!(matches!(ended, Fuzzed::Finished(_)), "{ended:?}");
                let body = || async { play.ask().await.into_body() };
                let ended = drop_fuzz_body(body, |polls| play.check(polls)).await;
                assert!(matches!(ended, Fuzzed::Finished(_)), "{ended:?}");
            }
        }
    }
}
