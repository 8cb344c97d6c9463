//! Who wins, and what the caller gets when nobody does.

use std::{cell::Cell, collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool};
use llm_call::{
    Attempt, BoxError, Call, CallSettings, Cause, Certainty, IdentifyLayer, Kind, PeekLayer,
    ResponseExt,
};
use llm_failover::{FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges, Settings};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tokio::time::{Instant, sleep};
use tower::{ServiceBuilder, ServiceExt, service_fn};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const ASK: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Is it?"}]}"#;

/// What a target does: after so many ms, a status.
type Does = (u64, u16);

struct World {
    does: Arc<HashMap<&'static str, Does>>,
    hedges: Hedges,
    breakers: Breakers,
    places: Bulkhead,
    /// Places that a test holds itself.
    taken: Cell<usize>,
}

/// A call that went through the whole stack.
struct Played {
    kind: Kind,
    status: Option<StatusCode>,
    took: Duration,
    call: Call,
}

impl World {
    /// Every call pays for a hedge of its own, and each target takes one call at a time.
    fn new(does: impl IntoIterator<Item = (&'static str, Does)>) -> World {
        let each = llm_bulkhead::Settings::each(Pool::new(1).wait(Duration::ZERO));
        World {
            does: Arc::new(does.into_iter().collect()),
            hedges: Hedges::with(Settings::new().percent(100.0).build().unwrap()),
            breakers: Breakers::new(),
            places: each.build().unwrap(),
            taken: Cell::new(0),
        }
    }

    /// A body that holds the only place of a target.
    async fn take_place_of(&self, target: &str) -> impl Sized {
        let service = ServiceBuilder::new()
            .layer(BulkheadLayer::new(self.places.clone()).by_target())
            .service(service_fn(async |_: Request<()>| {
                Ok::<_, BoxError>(Response::new(Full::<Bytes>::from("held")))
            }));
        let attempt = Attempt::new(1).with_target(Some(target.parse().unwrap()));
        let request = Request::get("/").extension(attempt).body(()).unwrap();
        self.taken.set(1);
        service.oneshot(request).await.unwrap()
    }

    async fn play(&self, targets: &[&str]) -> Played {
        let does = self.does.clone();
        let client = service_fn(move |request: Request<Full<Bytes>>| {
            let attempt = request.extensions().get::<Attempt>().unwrap();
            let (ms, status) = does[attempt.target.as_ref().unwrap().provider()];
            async move {
                sleep(Duration::from_millis(ms)).await;
                let (media, body) = match status {
                    200 => ("text/event-stream", TOKEN),
                    _ => ("application/json", "{\"error\":{\"message\":\"no\"}}"),
                };
                Response::builder()
                    .status(status)
                    .header("content-type", media)
                    .body(Full::<Bytes>::from(body))
                    .map_err(BoxError::from)
            }
        });
        let stack = ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(DeadlineLayer::new(Duration::from_secs(25)))
            .layer(HedgeLayer::new(self.hedges.clone()))
            .layer(FailoverLayer::new(Targets::ordered(targets).unwrap()))
            .layer(RetryLayer::new(RetryBudget::new()))
            .layer(BreakerLayer::new(self.breakers.clone()))
            .layer(BulkheadLayer::new(self.places.clone()).by_target())
            .layer(TimeoutLayer::new().first_token(Duration::from_secs(20)))
            .layer(PeekLayer::new())
            .service(client);
        let call = Call::open(CallSettings::new());
        let request = Request::post("/v1/chat/completions")
            .extension(call.clone())
            .body(Full::<Bytes>::from(ASK))
            .unwrap();
        let start = Instant::now();
        let answer = stack.oneshot(request).await;
        let took = start.elapsed();
        let (kind, status) = match answer {
            Ok(answer) => {
                let seen = (answer.outcome().kind, Some(answer.status()));
                answer.into_body().collect().await.unwrap();
                seen
            }
            Err(error) => (Kind::of(&*error), None),
        };
        let left = self.places.snapshot();
        assert_eq!(left.in_flight, self.taken.get(), "{left:?}");
        let circuits = self.breakers.snapshot();
        assert!(circuits.iter().all(|circuit| circuit.totals.in_flight == 0));
        Played {
            kind,
            status,
            took,
            call,
        }
    }
}

impl Played {
    /// Who was sent to, in order.
    fn sent_to(&self) -> Vec<String> {
        let ledger = self.call.ledger();
        let names = ledger.sent().map(|entry| entry.target.clone().unwrap());
        names.map(|target| target.provider().to_owned()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn h10_a_late_target_is_hedged_at_another_one() {
    let world = World::new([("a", (15_000, 200)), ("b", (500, 200))]);
    let played = world.play(&["a:m", "b:m"]).await;
    assert_eq!(
        (played.kind, played.sent_to()),
        (Kind::Success, vec!["a".into(), "b".into()])
    );
    assert_eq!(played.took, Duration::from_millis(3_500));
    let ledger = played.call.ledger();
    let lost = &ledger.entries[0];
    assert_eq!((lost.cause, lost.hedge), (Some(Cause::HedgeLost), 0));
    assert_eq!(lost.billed.unwrap().certainty, Certainty::AtLeast);
    assert!(ledger.entries[1].hedge > 0);
}

#[tokio::test(start_paused = true)]
async fn h10_an_open_circuit_and_a_full_pool_are_not_hedged_at() {
    for is_open in [true, false] {
        let world = World::new([("a", (5_000, 200)), ("b", (500, 200))]);
        let taken = if is_open {
            world.breakers.force_open(&"b".parse().unwrap());
            None
        } else {
            // Its only place is taken.
            Some(world.take_place_of("b:m").await)
        };
        let played = world.play(&["a:m", "b:m"]).await;
        drop(taken);
        assert_eq!(
            (played.kind, played.sent_to()),
            (Kind::Success, vec!["a".into()])
        );
        assert_eq!(played.took, Duration::from_secs(5));
        let snapshot = world.hedges.snapshot();
        assert_eq!((snapshot.hedges, snapshot.unsent), (1, 1));
        // The token is back.
        assert_eq!(world.hedges.balance(None), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn h05_after_a_rate_limit_on_the_way_nothing_is_hedged() {
    let world = World::new([("a", (10, 429)), ("b", (9_000, 200)), ("c", (10, 200))]);
    let played = world.play(&["a:m", "b:m", "c:m"]).await;
    assert_eq!(played.kind, Kind::Success);
    // Retried at a, then elsewhere, and then there was no second copy.
    assert!(
        !played.sent_to().contains(&"c".to_owned()),
        "{}",
        played.call.ledger()
    );
    assert_eq!(world.hedges.snapshot().skipped.kind, 1);
}

#[tokio::test(start_paused = true)]
async fn h04_a_failure_of_the_hedge_waits_for_the_first_copy() {
    let world = World::new([("a", (8_000, 200)), ("b", (10, 500))]);
    let played = world.play(&["a:m", "b:m"]).await;
    assert_eq!(
        (played.kind, played.took),
        (Kind::Success, Duration::from_secs(8))
    );
}

#[tokio::test(start_paused = true)]
async fn h12_when_all_fail_the_caller_gets_a_provider_s_answer() {
    let world = World::new([("a", (5_000, 503)), ("b", (10, 500))]);
    let played = world.play(&["a:m", "b:m"]).await;
    assert!(
        played.status.is_some(),
        "{:?}\n{}",
        played.kind,
        played.call.ledger()
    );
    assert!(played.call.sent() <= 6);
}
