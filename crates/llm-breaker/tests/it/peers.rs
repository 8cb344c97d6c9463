//! What goes wrong in other circuit breakers, each as a test of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use http_body_util::BodyExt;
use llm_breaker::{Breakers, CircuitState};
use llm_call::{Kind, Refusal};
use llm_chaos::testing::{BodyStep, Respond};
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

use crate::support::*;

async fn open(breakers: &Breakers) {
    let failing = world_with(breakers.clone(), [status(500)]);
    for _ in 0..5 {
        failing.call().await;
    }
    assert_eq!(failing.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_long_good_past_does_not_delay_the_opening() {
    let breakers = Breakers::new();
    let healthy = world_with(breakers.clone(), [good()]);
    for _ in 0..100_000 {
        let _ = healthy.send(request()).await.unwrap();
    }
    let failing = world_with(breakers, [status(500)]);
    for _ in 0..5 {
        failing.call().await;
    }
    assert_eq!(failing.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_call_from_before_the_outage_does_not_close_a_half_open_circuit() {
    let breakers = Breakers::new();
    let steps = [BodyStep::from(TOKEN), BodyStep::wait(s(40)), STOP.into()];
    let streaming = world_with(breakers.clone(), [stream(steps)]);
    let mut old = Vec::new();
    for _ in 0..3 {
        old.push(streaming.send(request()).await.unwrap().into_body());
    }
    open(&breakers).await;
    tokio::time::advance(s(31)).await;
    let hung = world_with(breakers.clone(), [Respond::hang()]);
    let mut trial = Box::pin(hung.send(request()));
    assert!(timeout(Duration::from_millis(1), &mut trial).await.is_err());
    assert_eq!(hung.state(), CircuitState::HalfOpen);
    for body in join_all(old.into_iter().map(BodyExt::collect)).await {
        body.unwrap();
    }
    let shot = hung.circuit().snapshot();
    assert_eq!((shot.state, shot.trials), (CircuitState::HalfOpen, 1));
    assert_eq!(shot.totals.succeeded, 3);
}

#[tokio::test(start_paused = true)]
async fn a_late_failure_from_before_the_recovery_does_not_open_it_again() {
    let breakers = Breakers::new();
    let steps = [
        BodyStep::from(TOKEN),
        BodyStep::wait(s(60)),
        BodyStep::Error("cut"),
    ];
    let streaming = world_with(breakers.clone(), [stream(steps)]);
    let mut old = Vec::new();
    for _ in 0..20 {
        old.push(streaming.send(request()).await.unwrap().into_body());
    }
    open(&breakers).await;
    tokio::time::advance(s(31)).await;
    let healthy = world_with(breakers.clone(), [good()]);
    for _ in 0..3 {
        healthy.call().await;
    }
    for body in join_all(old.into_iter().map(BodyExt::collect)).await {
        body.unwrap_err();
    }
    let shot = healthy.circuit().snapshot();
    assert_eq!(
        (shot.state, shot.window_failures),
        (CircuitState::Closed, 0)
    );
    assert_eq!(shot.totals.failed, 25);
}

#[tokio::test(start_paused = true)]
async fn trials_that_hang_do_not_hold_it_half_open() {
    let breakers = Breakers::new();
    open(&breakers).await;
    tokio::time::advance(s(31)).await;
    let hung = world_with(breakers.clone(), [Respond::hang()]);
    let mut hanging: Vec<_> = (0..5).map(|_| Box::pin(hung.send(request()))).collect();
    for trial in &mut hanging {
        assert!(timeout(Duration::from_millis(1), trial).await.is_err());
    }
    assert_eq!(hung.call().await, Kind::Refused(Refusal::CircuitOpen));
    tokio::time::advance(s(60)).await;
    let healthy = world_with(breakers, [good()]);
    for _ in 0..3 {
        assert_eq!(healthy.call().await, Kind::Success);
    }
    assert_eq!(healthy.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn fifty_calls_that_an_outer_timeout_drops_open_it() {
    let world = world([Respond::hang()]);
    let calls = (0..50).map(|_| timeout(s(20), world.send(request())));
    let results = join_all(calls).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(world.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_trial_cancelled_before_its_headers_gives_its_slot_back() {
    let breakers = Breakers::new();
    open(&breakers).await;
    tokio::time::advance(s(31)).await;
    let hung = world_with(breakers.clone(), [Respond::hang()]);
    for _ in 0..100 {
        timeout(s(0), hung.send(request())).await.unwrap_err();
        let mut stack = hung.stack.clone();
        drop(tower::Service::call(&mut stack, request()));
    }
    let shot = hung.circuit().snapshot();
    assert_eq!((shot.state, shot.trials), (CircuitState::HalfOpen, 0));
    assert_eq!(shot.totals.refused, 0);
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_says_nothing_about_the_target_does_not_wedge_it() {
    let breakers = Breakers::new();
    open(&breakers).await;
    tokio::time::advance(s(31)).await;
    let wrong = world_with(breakers.clone(), [status(400)]);
    for _ in 0..49_607 {
        assert_eq!(wrong.call().await, Kind::InvalidRequest);
        if wrong.gauges.calls().is_multiple_of(10_000) {
            tokio::time::advance(s(20)).await;
        }
    }
    let healthy = world_with(breakers, [good()]);
    for _ in 0..3 {
        assert_eq!(healthy.call().await, Kind::Success);
    }
    assert_eq!(healthy.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_state_is_asked_before_the_inner_service_is_touched() {
    let breakers = Breakers::new();
    open(&breakers).await;
    let touched = Arc::new(AtomicUsize::new(0));
    let counter = touched.clone();
    let stack = over(&breakers, move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok(whole()) }
    });
    for _ in 0..10 {
        stack.clone().oneshot(request()).await.unwrap_err();
    }
    assert_eq!(touched.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_circuit_is_not_stormed_by_a_crowd() {
    let breakers = Breakers::new();
    open(&breakers).await;
    tokio::time::advance(s(31)).await;
    let world = world_with(breakers.clone(), [good().after(s(1))]);
    let results = join_all((0..1_000).map(|_| world.call())).await;
    let good = results.iter().filter(|k| **k == Kind::Success).count();
    assert_eq!((good, world.gauges.calls()), (5, 5));
    assert_eq!(world.state(), CircuitState::Closed);
    // Each change happened once.
    let numbers: Vec<_> = breakers.history().iter().map(|t| t.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_run_concurrently() {
    let world = world([good().after(s(1))]);
    let start = Instant::now();
    join_all((0..100).map(|_| world.call())).await;
    assert_eq!(start.elapsed(), s(1));
}

#[tokio::test(start_paused = true)]
async fn one_failed_call_of_one_is_not_a_hundred_percent() {
    let world = world([status(500), good()]);
    world.call().await;
    assert_eq!(world.state(), CircuitState::Closed);
    assert_eq!(world.circuit().snapshot().failure_rate, None);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_between_failures_does_not_reset_the_row() {
    // A 429 between failures is no success.
    let answers = [500, 500, 429, 500, 429, 500, 429, 500].map(status);
    let world = world(answers);
    for _ in 0..8 {
        world.call().await;
    }
    assert_eq!(world.reasons(), ["5 calls failed in a row"]);
}
