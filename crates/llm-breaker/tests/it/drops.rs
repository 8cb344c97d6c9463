//! Calls that are dropped, or unwind, before they have an end.

use std::{future::poll_fn, panic::AssertUnwindSafe, pin::pin, task::Poll, time::Duration};

use http_body_util::BodyExt;
use llm_breaker::{BreakerLayer, Breakers, CircuitState, Settings, Totals};
use llm_call::{Cause, Kind, PeekLayer, Phase, Refusal};
use llm_chaos::testing::{BodyStep, Respond, drop_fuzz, drop_fuzz_body, service};
use tokio::time::timeout;
use tower::{Service, ServiceExt};
use tower_layer::Layer;

use crate::support::*;

/// Polls a call once, and leaves it under way.
async fn begin<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    poll_fn(|cx| {
        assert!(std::pin::Pin::new(&mut *future).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

fn ends(t: Totals) -> [u64; 4] {
    [t.succeeded, t.failed, t.neutral, t.abandoned]
}

#[tokio::test(start_paused = true)]
async fn cb19_an_endpoint_that_hangs_opens_although_its_callers_leave() {
    let world = world([Respond::hang()]);
    for _ in 0..5 {
        timeout(s(9), world.send(request())).await.unwrap_err();
    }
    assert_eq!(world.state(), CircuitState::Open);
    let shot = world.circuit().snapshot();
    assert_eq!((shot.totals.failed, shot.totals.slow), (5, 5));
    assert_eq!(shot.last_failure, Some(Kind::TimedOut(Phase::Answer)));
    assert_eq!(world.gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn cb19_overdue_is_a_matter_of_what_was_asked_for() {
    for (streamed, thinking, limit) in [
        (true, false, 4),
        (false, false, 8),
        (true, true, 30),
        (false, true, 30),
    ] {
        let world = world([Respond::hang()]);
        for (more, expected) in [(0, [0, 0, 0, 1]), (1, [0, 1, 0, 1])] {
            let call = call_for(streamed, thinking);
            let patience = s(limit) + Duration::from_millis(more);
            let sent = world.send(copy_of(Some(&call), 1));
            timeout(patience, sent).await.unwrap_err();
            assert_eq!(
                ends(world.totals()),
                expected,
                "{streamed} {thinking} {more}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cb19_impatient_callers_of_a_healthy_endpoint_never_open_it() {
    let world = world([good().after(s(3))]);
    for i in 0..2_000 {
        let patience = if i % 100 == 0 { s(10) } else { s(2) };
        let _ = timeout(patience, world.call()).await;
    }
    assert_eq!(world.state(), CircuitState::Closed);
    assert_eq!(ends(world.totals()), [20, 0, 0, 1_980]);
    assert!(world.breakers.history().is_empty());
}

/// Two copies of a call: the later one answers, or the earlier one.
async fn hedge(world: &World, winner: &World, later_wins: bool) {
    let call = call_for(true, false);
    let mut first = Box::pin(world.send(copy_of(Some(&call), 1)));
    let mut other = Box::pin(winner.send(copy_of(Some(&call), 2)));
    let loser = if later_wins {
        begin(&mut first).await;
        tokio::time::advance(s(1)).await;
        let _won = other.await.unwrap();
        call.set_cause(1, Cause::HedgeLost);
        drop(first);
        return;
    } else {
        // The copy of `winner` was sent first, and that of `world` is the hedge.
        begin(&mut other).await;
        begin(&mut first).await;
        tokio::time::advance(s(1)).await;
        let _won = other.await.unwrap();
        first
    };
    call.set_cause(1, Cause::HedgeLost);
    drop(loser);
}

#[tokio::test(start_paused = true)]
async fn cb19_with_hedging_an_endpoint_that_hangs_opens_within_the_minimum_of_calls() {
    let hung = world([Respond::hang()]);
    let other = world([good_stream()]);
    for i in 0..10 {
        assert_eq!(hung.state(), CircuitState::Closed, "{i}");
        hedge(&hung, &other, true).await;
    }
    assert_eq!(hung.reasons(), ["10 of 10 calls were slow"]);
    let t = hung.totals();
    assert_eq!((t.abandoned, t.slow, t.failed), (10, 10, 0));
}

#[tokio::test(start_paused = true)]
async fn cb19_a_hedge_that_loses_to_the_copy_sent_before_it_says_nothing() {
    let hedged = world([good_stream().after(s(3))]);
    let other = world([good_stream().after(s(1))]);
    for _ in 0..100 {
        hedge(&hedged, &other, false).await;
    }
    let t = hedged.totals();
    assert_eq!((t.abandoned, t.slow), (100, 0));
    assert_eq!(hedged.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_a_layer_above_timed_out_counts_by_the_phase() {
    for (phase, expected) in [
        (Phase::Share, [0, 1, 0, 0]),
        (Phase::FirstToken, [0, 1, 0, 0]),
        (Phase::Deadline, [0, 0, 0, 1]),
        (Phase::Reader, [0, 0, 0, 1]),
    ] {
        let world = world([Respond::hang()]);
        let call = call_for(true, false);
        let mut sent = Box::pin(world.send(copy_of(Some(&call), 1)));
        begin(&mut sent).await;
        tokio::time::advance(s(1)).await;
        call.set_cause(1, Cause::TimedOut(phase));
        drop(sent);
        assert_eq!(ends(world.totals()), expected, "{phase:?}");
    }
    // The deadline of a call that was overdue already.
    let world = world([Respond::hang()]);
    let call = call_for(true, false);
    let mut sent = Box::pin(world.send(copy_of(Some(&call), 1)));
    begin(&mut sent).await;
    tokio::time::advance(s(5)).await;
    call.set_cause_all(Cause::TimedOut(Phase::Deadline));
    drop(sent);
    assert_eq!(ends(world.totals()), [0, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_still_queued_below_is_not_blamed_on_the_target() {
    let world = world([Respond::hang()]);
    // One permit below: the second copy waits for it.
    let stack = {
        tower::ServiceBuilder::new()
            .layer(BreakerLayer::new(world.breakers.clone()))
            .concurrency_limit(1)
            .layer(PeekLayer::new())
            .service(service([Respond::hang()]))
    };
    let (holder, waiter) = (call_for(true, false), call_for(true, false));
    let mut held = Box::pin(stack.clone().oneshot(copy_of(Some(&holder), 1)));
    begin(&mut held).await;
    let waiting = stack.clone().oneshot(copy_of(Some(&waiter), 1));
    timeout(s(60), waiting).await.map(drop).unwrap_err();
    assert_eq!(ends(world.totals()), [0, 0, 0, 1]);
    drop(held);
    assert_eq!(ends(world.totals()), [0, 1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_waits_below_to_be_sent_again_is_not_blamed_for_the_wait() {
    let breakers = Breakers::new();
    let client = PeekLayer::new().layer(service([Respond::error("reset")]));
    // In place of a retry: it failed once, and waits before it sends again.
    let waiting = tower::service_fn(move |request: http::Request<String>| {
        let client = client.clone();
        async move {
            let failed = client.oneshot(request).await;
            tokio::time::sleep(s(3_600)).await;
            failed
        }
    });
    let stack = BreakerLayer::new(breakers.clone()).layer(waiting);
    let call = call_for(true, false);
    let sent = stack.oneshot(copy_of(Some(&call), 1));
    timeout(s(60), sent).await.map(drop).unwrap_err();
    let totals = breakers.target(&target("a:m")).snapshot().totals;
    assert_eq!(ends(totals), [0, 0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn cb19_a_queue_below_opens_nothing_where_there_is_no_call_either() {
    let breakers = Breakers::new();
    let stack = tower::ServiceBuilder::new()
        .layer(BreakerLayer::new(breakers.clone()).alone())
        .concurrency_limit(1)
        .service(service([good().after(s(7))]));
    let impatient = || timeout(s(10), stack.clone().oneshot(request()));
    let calls = (0..20).map(|_| impatient());
    futures_util::future::join_all(calls).await;
    let circuit = breakers.target(&target("a:m"));
    // One was answered, one had its turn for 3 s, and the others never had any.
    assert_eq!(ends(circuit.snapshot().totals), [1, 0, 0, 19]);
    assert_eq!(circuit.state(), CircuitState::Closed);
    // The time in the queue is not that of the target.
    let hung = tower::ServiceBuilder::new()
        .layer(BreakerLayer::new(breakers.clone()).alone())
        .concurrency_limit(1)
        .service(service([Respond::hang()]));
    let held = timeout(s(9), hung.clone().oneshot(request()));
    let queued = timeout(s(18), hung.clone().oneshot(request()));
    let (held, queued) = futures_util::future::join(held, queued).await;
    assert!(held.is_err() && queued.is_err());
    assert_eq!(ends(circuit.snapshot().totals), [1, 2, 0, 19]);
}

#[tokio::test(start_paused = true)]
async fn cb19_copies_that_share_a_number_are_each_judged_by_their_own_time() {
    let hung = world([Respond::hang()]);
    let other = world([good_stream()]);
    for (head_start, expected) in [(5, [0, 1, 0, 0]), (3, [0, 1, 0, 1])] {
        let call = call_for(true, false);
        let mut first = Box::pin(hung.send(copy_of(Some(&call), 1)));
        timeout(s(head_start), &mut first)
            .await
            .map(drop)
            .unwrap_err();
        // A layer that does not number its copies sends another one, and drops the first.
        let _won = other.send(copy_of(Some(&call), 1)).await.unwrap();
        drop(first);
        assert_eq!(ends(hung.totals()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn cb02_dropped_before_its_first_poll_it_is_neutral() {
    let world = world([good()]);
    let mut stack = world.stack.clone();
    drop(stack.call(request()));
    let future = stack.call(request());
    tokio::time::advance(s(100)).await;
    drop(future);
    assert_eq!(ends(world.totals()), [0, 0, 2, 0]);
    assert_eq!(world.gauges.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn cb02_dropped_after_any_poll_it_is_settled_and_nothing_is_left() {
    let breakers = Breakers::new();
    let steps = [
        BodyStep::from(TOKEN),
        BodyStep::wait(s(1)),
        BodyStep::from(TOKEN),
        BodyStep::from(STOP),
    ];
    for call in [None, Some(call_for(true, false))] {
        let world = world_with(breakers.clone(), [stream(steps.clone()).after(s(1))]);
        let make = || world.send(copy_of(call.as_ref(), 1));
        drop_fuzz(make, |polls| {
            assert_eq!(world.totals().in_flight, 0, "after {polls} polls");
            assert_eq!(world.gauges.live(), 0, "after {polls} polls");
        })
        .await;
        let make = || async {
            let call = call.as_ref().map(|_| call_for(true, false));
            world
                .send(copy_of(call.as_ref(), 1))
                .await
                .unwrap()
                .into_body()
        };
        drop_fuzz_body(make, |polls| {
            assert_eq!(world.totals().in_flight, 0, "after {polls} polls");
            assert_eq!(world.gauges.live(), 0, "after {polls} polls");
        })
        .await;
        assert_eq!(world.totals().failed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn cb02_the_slot_of_a_trial_is_free_wherever_it_is_dropped() {
    let breakers = Breakers::new();
    let failing = world_with(breakers.clone(), [status(500)]);
    let steps = [BodyStep::from(TOKEN), BodyStep::wait(s(1)), STOP.into()];
    for body in [false, true] {
        let policy = Settings::new()
            .trials(1)
            .trial_successes(1)
            .build()
            .unwrap();
        let breakers = Breakers::with(policy);
        let failing = world_with(breakers.clone(), [status(500)]);
        let world = world_with(breakers, [stream(steps.clone()).after(s(1))]);
        let half_open = || {
            world.circuit().force_open();
            world.circuit().release();
        };
        half_open();
        let check = |polls: usize| {
            let shot = world.circuit().snapshot();
            assert_eq!(shot.trials, 0, "after {polls} polls");
            assert_eq!(shot.totals.refused, 0, "after {polls} polls");
            half_open();
        };
        let make = || world.send(request());
        if body {
            let make = || async { make().await.unwrap().into_body() };
            drop_fuzz_body(make, check).await;
        } else {
            drop_fuzz(make, check).await;
        }
        drop(failing);
    }
    drop(failing);
}

/// Whatever its inner service does: panics when it is called, or polled.
#[tokio::test(start_paused = true)]
async fn cb23_a_panic_of_the_inner_service_is_a_failure_and_goes_on() {
    for in_call in [true, false] {
        let breakers = Breakers::new();
        let stack = over(&breakers, move |_| {
            assert!(!in_call, "called");
            async { panic!("polled") }
        });
        for i in 0..5 {
            let future = stack.clone().oneshot(request());
            let panic = catch(future).await.unwrap_err();
            assert!(panic.downcast_ref::<&str>().is_some());
            let shot = breakers.target(&target("a:m")).snapshot();
            sum_holds(shot.totals);
            assert_eq!((shot.totals.failed, shot.totals.in_flight), (i + 1, 0));
        }
        let error = stack.oneshot(request()).await.unwrap_err();
        assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::CircuitOpen));
    }
}

/// Awaits a future whose polls may panic.
async fn catch<F: Future>(future: F) -> Result<F::Output, Box<dyn std::any::Any + Send>> {
    let mut future = Box::pin(future);
    let result = poll_fn(|cx| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await;
    drop(future);
    result
}

#[tokio::test(start_paused = true)]
async fn cb02_a_panic_of_the_class_or_the_policy_leaves_nothing() {
    let breakers = Breakers::new();
    let inner = PeekLayer::new().layer(service([good()]));
    let stack = BreakerLayer::new(breakers.clone())
        .class(|_| panic!("class"))
        .layer(inner.clone());
    let call = call_for(false, false);
    let called = catch(async { stack.clone().call(copy_of(Some(&call), 1)).await.map(drop) });
    called.await.unwrap_err();
    assert!(breakers.circuits().is_empty());

    let breakers = Breakers::by(|_| panic!("policy"));
    let stack = BreakerLayer::new(breakers.clone()).layer(inner);
    let called = catch(async { stack.clone().call(request()).await.map(drop) });
    called.await.unwrap_err();
    assert!(breakers.circuits().is_empty());
}

#[test]
fn cb02_the_end_of_the_runtime_settles_what_is_under_way() {
    let world = world([Respond::hang()]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let future = world.send(request());
    runtime.spawn(async move { drop(future.await) });
    runtime.block_on(tokio::task::yield_now());
    assert_eq!(world.gauges.live(), 1);
    drop(runtime);
    assert_eq!(world.totals().in_flight, 0);
    assert_eq!(world.gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn cb06_streams_that_deliver_close_a_half_open_circuit_after_its_dwell() {
    let breakers = Breakers::new();
    let failing = world_with(breakers.clone(), [status(500)]);
    for _ in 0..5 {
        failing.call().await;
    }
    tokio::time::advance(s(31)).await;
    let world = world_with(breakers.clone(), [stream([TOKEN.into(), BodyStep::Hang])]);
    let kept = world.send(request()).await.unwrap();
    let changed = pin!(breakers.changed());
    // Nobody calls and nobody looks.
    let transition = timeout(s(61), changed).await.unwrap();
    assert_eq!(transition.reason.to_string(), "the half-open time is over");
    assert_eq!(world.state(), CircuitState::Closed);
    let mut body = kept.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(world.totals().in_flight, 0);
}
