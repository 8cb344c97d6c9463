//! Where a second copy may go, and what it leaves alone.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use llm_breaker::{BreakerLayer, Breakers, CircuitState};
use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool};
use llm_call::{
    Answer, BoxError, Call, CallSettings, IdentifyLayer, Kind, PeekLayer, ResponseExt, Target,
};
use llm_chaos::testing::{BodyStep, Gauges, Respond, Scripted, Strict, service};
use llm_failover::{ByTarget, FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges, Settings};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Service, ServiceBuilder, ServiceExt};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A stream whose first token comes after so long.
fn token_after(ms: u64) -> Respond {
    Respond::ok([
        BodyStep::wait(Duration::from_millis(ms)),
        BodyStep::data(TOKEN),
        BodyStep::data(END),
    ])
    .header("content-type", "text/event-stream")
}

fn status(code: u16) -> Respond {
    let body = "{\"error\":{\"message\":\"no\"}}";
    Respond::status(StatusCode::from_u16(code).unwrap(), [body])
        .header("content-type", "application/json")
}

fn target(name: &str) -> Target {
    format!("{name}:m:streaming").parse().unwrap()
}

/// The handles of a stack.
struct Handles {
    hedges: Hedges,
    targets: Targets,
    breakers: Breakers,
    bulkheads: [Bulkhead; 2],
}

impl Handles {
    fn new(names: &[&str], policy: llm_breaker::Policy) -> Handles {
        let each_pays = Settings::new().percent(100.0).build().unwrap();
        let one = || Pool::new(1);
        let all = llm_bulkhead::Settings::new(one()).build().unwrap();
        let each = llm_bulkhead::Settings::each(one()).build().unwrap();
        Handles {
            hedges: Hedges::with(each_pays),
            targets: Targets::ordered(names.iter().map(|name| format!("{name}:m"))).unwrap(),
            breakers: Breakers::with(policy),
            bulkheads: [all, each],
        }
    }

    /// One permit for all calls and one for each target, so that whatever is kept too long is noticed.
    fn stack<const N: usize>(
        &self,
        clients: [(&str, Vec<Respond>); N],
    ) -> (
        impl Service<
            Request<Full<Bytes>>,
            Response = Response<impl Answer + Unpin>,
            Error = BoxError,
            Future: Future,
        > + Clone,
        [Gauges; N],
    ) {
        let clients = clients.map(|(name, answers)| (name, service(answers)));
        let gauges = clients.each_ref().map(|(_, client)| client.gauges());
        let mut by_target = ByTarget::<Strict<Scripted>>::strict();
        for (name, client) in clients {
            by_target = by_target.with(name, Strict::new(client));
        }
        let stack = ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(DeadlineLayer::new(seconds(20)))
            .layer(BulkheadLayer::new(self.bulkheads[0].clone()))
            .layer(HedgeLayer::new(self.hedges.clone()))
            .layer(FailoverLayer::new(self.targets.clone()))
            .layer(RetryLayer::new(RetryBudget::new()))
            .layer(BreakerLayer::new(self.breakers.clone()))
            .layer(BulkheadLayer::new(self.bulkheads[1].clone()).by_target())
            .layer(TimeoutLayer::new().first_token(seconds(15)))
            .layer(PeekLayer::new())
            .service(by_target);
        (stack, gauges)
    }
}

fn policy() -> llm_breaker::Policy {
    llm_breaker::Settings::new().build().unwrap()
}

/// Asks for a stream: what it came to, with its bytes read to the end, and the call.
async fn ask<S, B>(stack: &S) -> (Kind, Call)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = BoxError> + Clone,
    B: Answer + Unpin,
{
    let call = Call::open(CallSettings::new());
    let request = Request::post("/v1/chat/completions")
        .extension(call.clone())
        .header("content-type", "application/json")
        .body(Full::from(
            "{\"model\":\"m\",\"stream\":true,\"messages\":[]}",
        ))
        .unwrap();
    let kind = match stack.clone().oneshot(request).await {
        Ok(answer) => {
            let kind = answer.outcome().kind;
            answer.into_body().collect().await.unwrap();
            kind
        }
        Err(error) => Kind::of(&*error),
    };
    (kind, call)
}

#[tokio::test(start_paused = true)]
async fn h10_a_late_first_copy_is_hedged_at_the_next_target() {
    let handles = Handles::new(&["a", "b"], policy());
    let (stack, [a, b]) = handles.stack([
        ("a", vec![token_after(9_000)]),
        ("b", vec![token_after(500)]),
    ]);
    let (kind, call) = ask(&stack).await;
    assert_eq!((kind, a.calls(), b.calls()), (Kind::Success, 1, 1));
    assert_eq!(call.opened().elapsed(), Duration::from_millis(3_500));
    assert_eq!((a.live(), b.live()), (0, 0));
    for bulkhead in &handles.bulkheads {
        assert!(bulkhead.snapshot().in_flight == 0);
    }
    assert_eq!(handles.hedges.snapshot().won, 1);
}

#[tokio::test(start_paused = true)]
async fn h10_a_hedge_never_goes_to_a_target_that_rests() {
    for code in [429, 402] {
        let handles = Handles::new(&["a", "b"], policy());
        // The first target rests by a guess of ours, so that a call with no other place would go there.
        let (stack, [a, b]) = handles.stack([
            ("a", vec![status(code)]),
            ("b", vec![token_after(0), token_after(9_000)]),
        ]);
        assert_eq!(ask(&stack).await.0, Kind::Success);
        assert!(handles.targets.snapshot()[0].rests.is_some());
        let (before, refused) = (handles.hedges.balance(None), a.calls());
        let (kind, call) = ask(&stack).await;
        assert_eq!((kind, a.calls(), b.calls()), (Kind::Success, refused, 2));
        assert_eq!(call.opened().elapsed(), seconds(9));
        // It is not sent, so its token comes back.
        assert_eq!(handles.hedges.snapshot().unsent, 1);
        assert_eq!(handles.hedges.balance(None), before + 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn h10_nor_where_all_rest_and_the_first_copy_had_no_other_place_to_go() {
    let handles = Handles::new(&["a", "b"], policy());
    let (stack, [a, b]) = handles.stack([
        ("a", vec![status(402), token_after(9_000)]),
        ("b", vec![status(402), token_after(0)]),
    ]);
    assert_eq!(ask(&stack).await.0, Kind::QuotaExhausted);
    let (kind, call) = ask(&stack).await;
    assert_eq!((kind, a.calls(), b.calls()), (Kind::Success, 2, 1));
    assert_eq!(call.opened().elapsed(), seconds(9));
    assert_eq!(handles.hedges.snapshot().unsent, 1);
}

#[tokio::test(start_paused = true)]
async fn h10_a_hedge_never_reaches_an_open_circuit() {
    let handles = Handles::new(&["a", "b"], policy());
    let (stack, [_, b]) =
        handles.stack([("a", vec![token_after(9_000)]), ("b", vec![token_after(0)])]);
    handles.breakers.force_open(&target("b"));
    let (kind, call) = ask(&stack).await;
    assert_eq!((kind, b.calls()), (Kind::Success, 0));
    assert_eq!(call.opened().elapsed(), seconds(9));
    assert_eq!(
        (
            handles.hedges.balance(None),
            handles.hedges.snapshot().unsent
        ),
        (1.0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn h10_hedges_are_no_way_around_the_ramp_of_a_circuit_that_has_just_closed() {
    let quick = llm_breaker::Settings::new()
        .failures_in_a_row(1)
        .open_for(seconds(1))
        .trial_successes(1)
        .ramp(seconds(3_600));
    let handles = Handles::new(&["a", "b"], quick.build().unwrap());
    let (stack, [a, b]) = handles.stack([
        ("a", vec![token_after(9_000)]),
        ("b", vec![status(500), token_after(0)]),
    ]);
    // It is slow all the time, and is to stay the first one.
    handles.breakers.force_closed(&target("a"));
    handles.targets.drain(&"a:m".parse().unwrap());
    assert_ne!(ask(&stack).await.0, Kind::Success);
    assert_eq!(
        handles.breakers.target(&target("b")).state(),
        CircuitState::Open
    );
    tokio::time::sleep(seconds(2)).await;
    assert_eq!(ask(&stack).await.0, Kind::Success);
    assert_eq!(
        handles.breakers.target(&target("b")).state(),
        CircuitState::Closed
    );
    handles.targets.restore(&"a:m".parse().unwrap());
    let (before, unsent) = (b.calls(), handles.hedges.snapshot().unsent);
    for _ in 0..20 {
        assert_eq!(ask(&stack).await.0, Kind::Success);
    }
    // A tenth of what asks for it, as of any calls with another place to go.
    assert_eq!((a.calls(), b.calls() - before), (20, 3));
    assert_eq!(handles.hedges.snapshot().unsent - unsent, 17);
}

#[tokio::test(start_paused = true)]
async fn h03_a_first_copy_whose_share_is_up_goes_on_where_the_hedge_has_taken_the_last_target() {
    let handles = Handles::new(&["a", "b"], policy());
    let (stack, [a, _]) =
        handles.stack([("a", vec![token_after(12_000)]), ("b", vec![status(500)])]);
    let (kind, call) = ask(&stack).await;
    // Half of 20 s, since another target was left when it was sent.
    assert_eq!((kind, a.calls()), (Kind::Success, 1));
    assert_eq!(call.opened().elapsed(), seconds(12));
}
