//! The contract of a tower service, and nothing left behind by a drop.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{
    cell::RefCell,
    future::poll_fn,
    task::{Context, Poll},
};

use common::*;
use llm_call::{BoxError, PeekLayer, ResponseExt};
use llm_chaos::testing::{BodyStep, Fuzzed, Respond, Strict, drop_fuzz, drop_fuzz_body, service};
use llm_retry::{RetryBudget, RetryLayer};
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::test(start_paused = true)]
async fn r18_each_attempt_gets_a_readiness_of_its_own() {
    let client = service([status(503), Respond::error("broken"), whole()]);
    let gauges = client.gauges();
    let stack = ServiceBuilder::new()
        .layer(tower::layer::layer_fn(Strict::new))
        .layer(RetryLayer::new(RetryBudget::new()))
        .layer(tower::layer::layer_fn(Strict::new))
        .layer(PeekLayer::new())
        .service(Strict::new(client));
    let answer = stack.oneshot(request()).await.unwrap();
    assert!(answer.outcome().is_success());
    assert_eq!(gauges.calls(), 3);
    drop(answer);
    assert_eq!(gauges.live(), 0);
}

/// Fails to become ready once, after its first call.
#[derive(Clone)]
struct Breaks<S> {
    inner: S,
    calls: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl<S, R> Service<R> for Breaks<S>
where
    S: Service<R, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let first = 1;
        let next = std::sync::atomic::Ordering::SeqCst;
        if self.calls.compare_exchange(first, 2, next, next).is_ok() {
            return Poll::Ready(Err("not ready".into()));
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.inner.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn r18_a_service_that_fails_to_become_ready_is_a_failed_attempt() {
    let client = service([status(503), whole()]);
    let gauges = client.gauges();
    let budget = RetryBudget::new();
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(budget.clone()))
        .layer(tower::layer::layer_fn(|inner| Breaks {
            inner,
            calls: Default::default(),
        }))
        .layer(PeekLayer::new())
        .service(client);
    let answer = stack.oneshot(request()).await.unwrap();
    assert!(answer.outcome().is_success());
    assert_eq!(gauges.calls(), 2);
    // Of two retries one was never sent.
    assert_eq!(budget.balance(None), 2.1);
}

#[tokio::test(start_paused = true)]
async fn c03_dropped_anywhere_it_leaves_nothing_and_only_what_was_sent_is_paid() {
    let state = RefCell::new(None);
    let make = || {
        let client = service([
            status(503).after(millis(10)),
            later("1000"),
            whole().after(millis(10)),
        ]);
        let (budget, call) = (RetryBudget::new(), within(20_000));
        *state.borrow_mut() = Some((client.gauges(), call.clone(), budget.clone()));
        default_stack(&budget, client).oneshot(request_of(&call))
    };
    let ended = drop_fuzz(make, |polls| {
        let state = state.borrow();
        let (gauges, call, budget) = state.as_ref().unwrap();
        assert_eq!(gauges.live(), 0, "after {polls} polls");
        let ledger = call.ledger();
        assert!(ledger.entries.iter().all(|entry| entry.kind.is_some()));
        let retries = gauges.calls().saturating_sub(1);
        let left = budget.balance(None).floor();
        assert_eq!(left, 3.0 - retries as f64, "after {polls} polls");
    })
    .await;
    assert!(
        matches!(ended, Fuzzed::Finished(polls) if polls > 4),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn c03_a_body_dropped_anywhere_pays_only_at_its_end() {
    let state = RefCell::new(None);
    let make = || {
        let client = service([stream([
            BodyStep::data(TOKEN),
            BodyStep::wait(millis(10)),
            BodyStep::data(TOKEN),
            BodyStep::data(END),
        ])]);
        let budget = RetryBudget::new();
        *state.borrow_mut() = Some((client.gauges(), budget.clone()));
        let answer = default_stack(&budget, client).oneshot(request());
        async { answer.await.unwrap().into_body() }
    };
    let paid = RefCell::new(Vec::new());
    drop_fuzz_body(make, |polls| {
        let state = state.borrow();
        let (gauges, budget) = state.as_ref().unwrap();
        assert_eq!(gauges.live(), 0, "after {polls} polls");
        paid.borrow_mut().push(budget.balance(None) > 3.0);
    })
    .await;
    let paid = paid.into_inner();
    assert_eq!(paid.first(), Some(&false));
    assert_eq!(paid.last(), Some(&true));
    assert!(paid.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn a_panic_below_unwinds_and_the_token_of_a_retry_that_was_not_sent_goes_back() {
    let budget = RetryBudget::new();
    let client = service([status(503)]);
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(budget.clone()))
        .map_request(move |request| {
            let calls = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            assert!(calls == 0, "a bug below");
            request
        })
        .layer(PeekLayer::new())
        .service(client);
    let future = stack.oneshot(request());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(future);
    let joined = tasks.join_next().await.unwrap();
    assert!(joined.unwrap_err().is_panic());
    assert_eq!(budget.balance(None), 3.0);
}

#[tokio::test(start_paused = true)]
async fn debug_says_what_is_waited_for() {
    let budget = RetryBudget::new();
    let mut stack = default_stack(&budget, service([status(503), Respond::hang()]));
    assert!(format!("{stack:?}").starts_with("Retry"));
    poll_fn(|cx| Service::<http::Request<String>>::poll_ready(&mut stack, cx))
        .await
        .unwrap();
    let mut future = Box::pin(stack.call(request()));
    assert!(format!("{future:?}").contains("\"Calling\""));
    while budget.balance(None) == 3.0 {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
    }
    let debug = format!("{future:?}");
    assert!(
        debug.contains("\"Waiting\"") && debug.contains("retries: 1"),
        "{debug}"
    );
}
