//! The contract of a tower service, permits, and nothing left behind by a drop.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{
    cell::RefCell,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use common::*;
use http::Request;
use http_body_util::{BodyExt, Full};
use llm_call::{CallSettings, Kind, PeekLayer, ResponseExt};
use llm_chaos::testing::{Fuzzed, Respond, Strict, drop_fuzz, drop_fuzz_body, service};
use llm_hedge::{HedgeLayer, Hedges};
use tower::{Service, ServiceBuilder, ServiceExt, layer::layer_fn, limit::ConcurrencyLimitLayer};

#[tokio::test(start_paused = true)]
async fn r18_each_copy_gets_a_readiness_of_its_own() {
    let client = service([Respond::hang(), token_after(100)]);
    let gauges = client.gauges();
    let stack = ServiceBuilder::new()
        .layer(layer_fn(Strict::new))
        .layer(HedgeLayer::new(free()))
        .layer(layer_fn(Strict::new))
        .layer(PeekLayer::new())
        .service(Strict::new(client));
    let answer = stack.oneshot(request_of(&call())).await.unwrap();
    assert!(answer.outcome().is_success());
    assert_eq!(gauges.calls(), 2);
    drop(answer);
    assert_eq!(gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_gets_no_permit_never_holds_up_the_first_copy() {
    let client = service([token_after(6_000)]);
    let gauges = client.gauges();
    let (hedges, call) = (free(), call());
    let stack = ServiceBuilder::new()
        .layer(HedgeLayer::new(hedges.clone()))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(PeekLayer::new())
        .service(Strict::new(client));
    let answer = stack.clone().oneshot(request_of(&call)).await;
    assert_eq!((kind(&answer), gauges.calls()), (Kind::Success, 1));
    assert_eq!(call.opened().elapsed(), seconds(6));
    // It was never sent, so its token is back; and the permit is free.
    assert_eq!((hedges.balance(None), hedges.snapshot().unsent), (1.0, 1));
    drop(answer);
    stack.oneshot(request_of(&call)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_permit_is_enough_where_the_first_copy_has_failed() {
    // Before the hedge is due, and while it waits for the permit.
    for (after, took) in [(1_000, 1_100), (5_000, 5_100)] {
        let client = service([status_after(500, after), token_after(100)]);
        let call = call();
        let stack = ServiceBuilder::new()
            .layer(HedgeLayer::new(free()))
            .layer(ConcurrencyLimitLayer::new(1))
            .layer(PeekLayer::new())
            .service(Strict::new(client));
        let answer = stack.oneshot(request_of(&call)).await;
        assert_eq!(kind(&answer), Kind::Success);
        assert_eq!(call.opened().elapsed(), millis(took));
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_in_a_queue_below_is_no_time_of_the_target() {
    let client = service([token_after(4_000)]);
    let gauges = client.gauges();
    let stack = ServiceBuilder::new()
        .layer(HedgeLayer::new(free()))
        // Waits in the future, as a bulkhead does.
        .layer(layer_fn(|inner| Queue { inner }))
        .layer(PeekLayer::new())
        .service(client);
    let call = call();
    let answer = tokio::time::timeout(seconds(12), stack.oneshot(request_of(&call))).await;
    // Ten seconds in the queue, and four at the target, of which three without a hedge.
    assert!(answer.is_err());
    assert_eq!(gauges.calls(), 1);
}

#[derive(Clone)]
struct Queue<S> {
    inner: S,
}

impl<S, R> Service<R> for Queue<S>
where
    S: Service<R> + Clone + 'static,
    R: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, S::Error>>>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move {
            tokio::time::sleep(seconds(10)).await;
            inner.oneshot(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn h16_c03_dropped_anywhere_it_leaves_nothing_and_only_what_was_sent_is_paid() {
    type Answers = fn() -> Vec<Respond>;
    let races: [Answers; 4] = [
        || vec![token_after(9_000), token_after(500)],
        || vec![status_after(500, 100), token_after(500)],
        || vec![status_after(500, 4_000), status_after(500, 3_000)],
        || vec![token_after(5_000), Respond::hang()],
    ];
    for answers in races {
        let state = RefCell::new(None);
        let make = || {
            let client = service(answers());
            let (hedges, call) = (free(), call());
            *state.borrow_mut() = Some((client.gauges(), call.clone(), hedges.clone()));
            stack(&hedges, client).oneshot(request_of(&call))
        };
        let ended = drop_fuzz(make, |polls| {
            let state = state.borrow();
            let (gauges, call, hedges) = state.as_ref().unwrap();
            assert_eq!(gauges.live(), 0, "after {polls} polls");
            let ledger = call.ledger();
            assert!(ledger.entries.iter().all(|entry| entry.kind.is_some()));
            let calls = hedges.snapshot().calls as f64;
            let sent = gauges.calls().saturating_sub(1) as f64;
            assert_eq!(hedges.balance(None), calls - sent, "after {polls} polls");
        })
        .await;
        assert!(
            matches!(ended, Fuzzed::Finished(polls) if polls > 1),
            "{ended:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h16_four_hundred_callers_leave_at_all_times() {
    let hedges = free();
    let client = service([Respond::hang()]);
    let gauges = client.gauges();
    let stack = stack(&hedges, client);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut sent = 0;
    for _ in 0..400 {
        let (call, patience) = (call(), Duration::from_millis(rng.u64(..6_000)));
        let future = stack.clone().oneshot(request_of(&call));
        assert!(tokio::time::timeout(patience, future).await.is_err());
        assert_eq!(gauges.live(), 0);
        sent += u64::from(call.sent() - 1);
        let causes = call.ledger().entries.into_iter().map(|entry| entry.cause);
        // Who leaves is no loser.
        assert!(causes.into_iter().all(|cause| cause.is_none()));
    }
    let snapshot = hedges.snapshot();
    assert!(sent > 100);
    assert_eq!(
        (snapshot.calls, snapshot.hedges - snapshot.unsent),
        (400, sent)
    );
    assert_eq!(gauges.drops().len() as u64, 400 + sent);
}

#[tokio::test(start_paused = true)]
async fn c03_a_winners_body_dropped_anywhere_leaves_nothing() {
    let gauges = RefCell::new(None);
    let make = || {
        let client = service([token_after(9_000), token_after(100)]);
        *gauges.borrow_mut() = Some(client.gauges());
        let answer = stack(&free(), client).oneshot(request_of(&call()));
        async { answer.await.unwrap().into_body() }
    };
    drop_fuzz_body(make, |polls| {
        let gauges = gauges.borrow();
        assert_eq!(gauges.as_ref().unwrap().live(), 0, "after {polls} polls");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_below_unwinds_and_the_token_of_a_hedge_that_was_not_sent_goes_back() {
    let hedges = free();
    let calls = Arc::new(AtomicUsize::new(0));
    let stack = ServiceBuilder::new()
        .layer(HedgeLayer::new(hedges.clone()))
        .map_request(move |request| {
            assert!(calls.fetch_add(1, Ordering::SeqCst) == 0, "a bug below");
            request
        })
        .layer(PeekLayer::new())
        .service(service([Respond::hang()]));
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(stack.oneshot(request_of(&call())));
    let joined = tasks.join_next().await.unwrap();
    assert!(joined.unwrap_err().is_panic());
    assert_eq!(hedges.balance(None), 1.0);
}

/// A body that counts how often it is cloned.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Counted {
        self.0.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::clone(&self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn c05_a_request_is_cloned_once_and_only_where_a_hedge_could_be_paid() {
    let side_effects = || open(CallSettings::new().side_effects(true));
    for (call, hedges, clones) in [
        (call(), free(), 1),
        (call(), Hedges::new(), 0),
        (side_effects(), free(), 0),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let stack = ServiceBuilder::new()
            .layer(HedgeLayer::new(hedges))
            .layer(PeekLayer::new())
            .service(service([token_after(5_000)]));
        let request = request_of(&call).map(|_| Counted(Arc::clone(&count)));
        stack.oneshot(request).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), clones);
    }
}

#[tokio::test(start_paused = true)]
async fn it_can_be_sent_between_threads_and_stacked_twice() {
    let client = service([Respond::hang(), token_after(100)]);
    let gauges = client.gauges();
    let (inner, outer) = (free(), free());
    let stack = ServiceBuilder::new()
        .layer(HedgeLayer::new(outer.clone()))
        .layer(HedgeLayer::new(inner.clone()))
        .layer(PeekLayer::new())
        .service(Strict::new(client));
    let call = call();
    let future = stack.oneshot(request_of(&call).map(|_| Full::<Bytes>::default()));
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(future);
    let answer = tasks.join_next().await.unwrap().unwrap().unwrap();
    answer.into_body().collect().await.unwrap();
    // The inner layer learns from both copies that it was given, and not from its own.
    let targets = inner.snapshot().targets;
    assert_eq!((gauges.calls(), targets[0].samples), (3, 2.0));
    assert_eq!(gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn debug_says_what_is_under_way() {
    let hedges = free();
    let mut stack = stack(&hedges, service([Respond::hang()]));
    assert!(format!("{stack:?}").starts_with("Hedge"));
    poll_fn(|cx| Service::<Request<String>>::poll_ready(&mut stack, cx))
        .await
        .unwrap();
    let mut future = Box::pin(stack.call(request_of(&call())));
    assert!(format!("{future:?}").contains("timer: false"));
    assert!(tokio::time::timeout(seconds(1), &mut future).await.is_err());
    assert!(format!("{future:?}").contains("timer: true"));
    assert!(tokio::time::timeout(seconds(9), &mut future).await.is_err());
    assert!(format!("{future:?}").contains("hedge: true"));
}
