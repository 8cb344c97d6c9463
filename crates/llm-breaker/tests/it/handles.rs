//! What an operator sees and does, and how many circuits there are.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use llm_breaker::{Breakers, CircuitState, Forced, Key, Settings, Transition};
use llm_call::{Attempt, Kind, Refusal};
use llm_chaos::testing::{BodyStep, Respond};
use tokio::time::{Instant, timeout};

use crate::support::*;

async fn call_to(world: &World, text: &str) -> Kind {
    let mut request = request();
    let attempt = Attempt::new(1).with_target(Some(target(text)));
    request.extensions_mut().insert(attempt);
    world.call_with(request).await
}

async fn open(world: &World, text: &str) {
    for _ in 0..5 {
        call_to(world, text).await;
    }
}

#[tokio::test(start_paused = true)]
async fn cb13_changes_are_numbered_over_all_circuits_in_their_order() {
    let world = world([status(500)]);
    open(&world, "a").await;
    open(&world, "b").await;
    world.breakers.target(&target("a")).reset();
    let history = world.breakers.history();
    let lines: Vec<_> = history.iter().map(Transition::to_string).collect();
    assert_eq!(
        lines,
        [
            "#1 a: closed -> open, 5 calls failed in a row",
            "#2 b: closed -> open, 5 calls failed in a row",
            "#3 a: open -> closed, reset by hand"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cb13_the_last_thousand_are_kept() {
    let breakers = Breakers::new();
    let circuit = breakers.target(&target("a"));
    let early = breakers.changed();
    for _ in 0..1_000 {
        circuit.force_open();
        circuit.reset();
    }
    let history = breakers.history();
    assert_eq!(history.len(), 1_000);
    assert_eq!(history[0].number, 1_001);
    assert_eq!(history[999].number, 2_000);
    // Who comes too late for the first gets the first that is left.
    assert_eq!(early.await.number, 1_001);
}

#[tokio::test(start_paused = true)]
async fn cb13_changed_gives_the_first_change_after_the_call_whenever_it_is_polled() {
    let breakers = Breakers::new();
    let circuit = breakers.target(&target("a"));
    circuit.force_open();
    let unpolled = breakers.changed();
    let mut polled = pin!(breakers.changed());
    assert!(timeout(s(3_600), &mut polled).await.is_err());
    circuit.reset();
    circuit.force_open();
    assert_eq!(unpolled.await.number, 2);
    assert_eq!(polled.await.number, 2);
    // Chained, none is missed as long as the next is asked for in time.
    let next = breakers.changed();
    circuit.reset();
    let after = breakers.changed();
    circuit.force_open();
    assert_eq!((next.await.number, after.await.number), (4, 5));
}

#[tokio::test(start_paused = true)]
async fn cb13_whoever_follows_the_numbers_misses_none_of_many_at_once() {
    let breakers = Breakers::new();
    let circuits = ["a", "b", "c"].map(|text| breakers.target(&target(text)));
    let mut last = 0;
    for round in 1..=2 {
        for circuit in &circuits {
            circuit.force_open();
            circuit.reset();
        }
        while last < 6 * round {
            let change = timeout(s(1), breakers.changed_after(last)).await.unwrap();
            assert_eq!(change.number, last + 1);
            last = change.number;
        }
    }
    // Nothing is after the last, nor after what will never be.
    for number in [last, u64::MAX] {
        let next = timeout(s(1), breakers.changed_after(number)).await;
        assert!(next.is_err(), "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn cb13_changed_wakes_for_a_change_that_a_call_makes() {
    let world = world([status(500)]);
    // A task of its own, so that it is polled when it is woken, and else never.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(world.breakers.changed());
    tokio::task::yield_now().await;
    open(&world, "a").await;
    let changed = tasks.join_next().await.unwrap();
    assert_eq!(changed.unwrap().to, CircuitState::Open);
}

/// A waker that looks at the circuits in the moment it is woken.
struct Look(Breakers, AtomicU64);

impl std::task::Wake for Look {
    fn wake(self: std::sync::Arc<Self>) {
        let _ = self.0.snapshot();
        let _ = self.0.history();
        self.0.target(&target("made by the waker")).state();
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn cb13_whoever_waits_is_woken_outside_every_lock() {
    let world = world([status(500)]);
    let look = std::sync::Arc::new(Look(world.breakers.clone(), AtomicU64::new(0)));
    let waker = look.clone().into();
    let mut changed = pin!(world.breakers.changed());
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(changed.as_mut().poll(&mut cx).is_pending());
    open(&world, "a").await;
    assert_eq!(look.1.load(Ordering::SeqCst), 1);
    assert!(changed.as_mut().poll(&mut cx).is_ready());
}

#[tokio::test(start_paused = true)]
async fn cb06_changed_keeps_the_time_of_the_dwell_without_traffic() {
    let world = world([Respond::hang()]);
    for text in ["a", "b"] {
        let circuit = world.breakers.target(&target(text));
        circuit.force_open();
        circuit.release();
    }
    let mut hung = [
        Box::pin(call_to(&world, "a")),
        Box::pin(call_to(&world, "b")),
    ];
    let start = Instant::now();
    let [a, b] = &mut hung;
    assert!(timeout(s(5), a).await.is_err());
    assert!(timeout(s(5), b).await.is_err());
    let first = world.breakers.changed().await;
    assert_eq!(
        (first.key.to_string(), start.elapsed()),
        ("a".into(), s(60))
    );
    assert_eq!(first.to, CircuitState::Open);
    let second = world.breakers.changed().await;
    assert_eq!(
        (second.key.to_string(), start.elapsed()),
        ("b".into(), s(65))
    );
    // Then nothing is due any more.
    let third = world.breakers.changed();
    assert!(timeout(s(86_400), third).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn changed_goes_on_waiting_when_a_half_open_circuit_is_decided_by_a_call() {
    let breakers = Breakers::new();
    let circuit = breakers.target(&target("a:m"));
    circuit.force_open();
    circuit.release();
    let world = world_with(breakers.clone(), [stream([TOKEN.into(), BodyStep::Hang])]);
    let kept = world.send(request()).await.unwrap();
    let mut first = pin!(breakers.changed());
    assert!(timeout(s(10), &mut first).await.is_err());
    circuit.force_closed();
    assert_eq!(first.await.to, CircuitState::Closed);
    assert!(timeout(s(3_600), breakers.changed()).await.is_err());
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn cb27_a_snapshot_can_be_taken_at_any_time() {
    let world = world([status(500), good()]);
    assert!(world.breakers.snapshot().is_empty());
    let shot = world.circuit().snapshot();
    assert_eq!((shot.failure_rate, shot.slow_rate), (None, None));
    for _ in 0..10 {
        world.call().await;
    }
    let shot = world.circuit().snapshot();
    assert_eq!((shot.failure_rate, shot.slow_rate), (Some(0.1), Some(0.0)));
    tokio::time::advance(s(30)).await;
    let shot = world.circuit().snapshot();
    assert_eq!((shot.failure_rate, shot.window_calls), (None, 0));
    assert_eq!(shot.totals.admitted, 10);
}

#[tokio::test(start_paused = true)]
async fn cb26_the_number_of_circuits_is_bounded() {
    let breakers = Breakers::new().max_keys(100);
    let world = world_with(breakers.clone(), [good()]);
    for i in 0..2_000 {
        assert_eq!(call_to(&world, &format!("t{i}")).await, Kind::Success);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(breakers.circuits().len() <= 100, "{i}");
    }
    assert!(breakers.circuits().len() > 80);
    assert_eq!(breakers.unwatched(), 0);
    // Those used last are the ones that are left.
    let left = breakers.snapshot();
    let oldest = left.iter().map(|shot| number(&shot.key)).min();
    assert!(oldest.unwrap() >= 1_880, "{oldest:?}");
}

fn number(key: &Key) -> usize {
    key.to_string()[1..].parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn cb26_idle_circuits_go_before_there_are_too_many() {
    let breakers = Breakers::new();
    let world = world_with(breakers.clone(), [good()]);
    for i in 0..1_000 {
        call_to(&world, &format!("t{i}")).await;
        tokio::time::advance(s(1)).await;
    }
    // At any time about thirty have something in their window.
    assert!(
        breakers.circuits().len() <= 64,
        "{}",
        breakers.circuits().len()
    );
}

#[tokio::test(start_paused = true)]
async fn cb26_one_that_is_open_half_open_forced_or_in_use_is_never_forgotten() {
    let breakers = Breakers::new().max_keys(8);
    let failing = world_with(breakers.clone(), [status(500)]);
    open(&failing, "open").await;
    breakers.target(&target("forced")).force_closed();
    for text in ["half", "left"] {
        let half = breakers.target(&target(text));
        half.force_open();
        half.release();
    }
    let wrong = world_with(breakers.clone(), [status(400)]);
    assert_eq!(call_to(&wrong, "left").await, Kind::InvalidRequest);
    let hung = world_with(breakers.clone(), [Respond::hang()]);
    let mut waiting = [
        Box::pin(call_to(&hung, "half")),
        Box::pin(call_to(&hung, "busy")),
    ];
    for call in &mut waiting {
        assert!(timeout(s(1), call).await.is_err());
    }
    let held = breakers.target(&target("held"));
    let world = world_with(breakers.clone(), [good()]);
    for i in 0..1_000 {
        call_to(&world, &format!("t{i}")).await;
    }
    drop(waiting);
    let state = |text: &str| {
        let mut shots = breakers.snapshot().into_iter();
        shots
            .find(|shot| shot.key.to_string() == text)
            .map(|shot| shot.state)
    };
    assert_eq!(state("open"), Some(CircuitState::Open));
    assert_eq!(state("half"), Some(CircuitState::HalfOpen));
    assert_eq!(state("left"), Some(CircuitState::HalfOpen));
    assert_eq!(state("forced"), Some(CircuitState::Closed));
    assert_eq!(state("busy"), Some(CircuitState::Closed));
    assert_eq!(state("held"), Some(CircuitState::Closed));
    drop(held);
    assert!(breakers.circuits().len() <= 8);
}

#[tokio::test(start_paused = true)]
async fn cb26_where_none_can_go_a_new_key_goes_through_unwatched() {
    let breakers = Breakers::new().max_keys(2);
    let failing = world_with(breakers.clone(), [status(500)]);
    open(&failing, "a").await;
    open(&failing, "b").await;
    for i in 0..50 {
        assert_eq!(call_to(&failing, &format!("t{i}")).await, Kind::ServerError);
    }
    assert_eq!((breakers.unwatched(), breakers.circuits().len()), (50, 2));
    // By hand it is made all the same, and then it counts.
    let circuit = breakers.target(&target("t0"));
    circuit.force_open();
    assert!(matches!(call_to(&failing, "t0").await, Kind::Refused(_)));
    // What was left alone for long after its open time makes room in the end.
    circuit.reset();
    drop(circuit);
    tokio::time::advance(s(200)).await;
    open(&failing, "new").await;
    open(&failing, "new").await;
    assert_eq!(breakers.circuits().len(), 2);
    assert!(matches!(call_to(&failing, "new").await, Kind::Refused(_)));
}

#[tokio::test(start_paused = true)]
async fn a_known_key_is_one_circuit_however_it_is_looked_up() {
    let breakers = Breakers::new();
    let key = Key::url("h:1", "/v1");
    let circuit = breakers.circuit(&key);
    circuit.force_open();
    assert_eq!(breakers.circuit(&key.clone()).state(), CircuitState::Open);
    let with_class = breakers.circuit(&key.with_class("x"));
    assert_eq!(with_class.state(), CircuitState::Closed);
    assert_eq!(breakers.circuits().len(), 2);
}

/// Eight threads, one circuit, no runtime: what adds up, adds up at any time.
#[test]
fn cb01_threads_that_hammer_one_circuit_do_not_lose_a_call() {
    let policy = Settings::new()
        .open_for(Duration::from_nanos(1))
        .open_max(Duration::from_nanos(1))
        .dwell(Duration::from_micros(50))
        .ramp(Duration::ZERO);
    let breakers = Breakers::with(policy.build().unwrap());
    let world = world_with(
        breakers.clone(),
        (0..30_000).flat_map(|_| [good(), status(500), status(429), Respond::hang()]),
    );
    let (done, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread();
                    let runtime = { runtime }.enable_time().build().unwrap();
                    runtime.block_on(async {
                        for _ in 0..5_000 {
                            use std::task::{Context, Poll, Waker};
                            let mut sent = pin!(world.send(request()));
                            let mut cx = Context::from_waker(Waker::noop());
                            // Either there is an answer at once or it hangs and is dropped.
                            if let Poll::Ready(Err(_)) = sent.as_mut().poll(&mut cx) {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sum_holds(world.circuit().snapshot().totals);
            }
        });
        for caller in callers {
            caller.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let t = world.totals();
    assert_eq!((t.admitted + t.refused, t.in_flight), (40_000, 0));
    assert_eq!(t.refused, refused.load(Ordering::Relaxed));
    assert_eq!(t.admitted as usize, world.gauges.calls());
    let history = breakers.history();
    for pair in history.windows(2) {
        assert_eq!(pair[0].number + 1, pair[1].number);
        assert_eq!(pair[0].to, pair[1].from);
    }
    assert!(history.len() > 10, "{}", history.len());
}

#[test]
fn cb14_a_target_is_forced_with_all_its_circuits_and_those_that_come() {
    let breakers = Breakers::new();
    let circuit = |text: &str| breakers.target(&target(text));
    let before = circuit("a:m:streaming");
    let other = circuit("a:n:chat");
    breakers.force_open(&target("a:m"));
    let after = circuit("a:m:chat");
    let classed = breakers.circuit(&Key::target(target("a:m:chat")).with_class("x"));
    for circuit in [&before, &after, &classed] {
        assert_eq!(circuit.snapshot().forced, Some(Forced::Open), "{circuit:?}");
    }
    assert_eq!(other.snapshot().forced, None);
    assert_eq!(circuit("b:m:chat").snapshot().forced, None);
    assert_eq!(breakers.history().len(), 3, "each is written down");
    // The last word counts, also for what comes.
    breakers.force_closed(&target("a"));
    for circuit in [&before, &other, &circuit("a:o")] {
        assert_eq!(circuit.snapshot().forced, Some(Forced::Closed));
    }
    breakers.release(&target("a"));
    for circuit in [&before, &after, &classed, &other, &circuit("a:m:audio")] {
        assert_eq!(circuit.snapshot().forced, None, "{circuit:?}");
    }
}

#[test]
fn cb14_a_release_leaves_what_is_forced_for_a_wider_target() {
    let breakers = Breakers::new();
    let before = breakers.target(&target("a:m:streaming"));
    breakers.force_open(&target("a"));
    breakers.force_closed(&target("a:m"));
    assert_eq!(before.snapshot().forced, Some(Forced::Closed));
    breakers.release(&target("a:m"));
    let new = breakers.target(&target("a:m:chat"));
    for circuit in [&before, &new] {
        assert_eq!(circuit.snapshot().forced, Some(Forced::Open), "{circuit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cb14_a_forced_target_is_refused_although_there_is_no_room_for_its_circuit() {
    let world = world_with(Breakers::new().max_keys(1), [good()]);
    let _held = world.breakers.target(&target("b"));
    world.breakers.force_open(&target("a"));
    for _ in 0..3 {
        let kind = call_to(&world, "a:m").await;
        assert_eq!(kind, Kind::Refused(Refusal::CircuitOpen));
    }
    assert_eq!(world.breakers.unwatched(), 0);
    assert!(world.breakers.history().is_empty());
}

#[test]
fn a_circuit_that_nobody_made_is_not_there() {
    let breakers = Breakers::new();
    let key = Key::target(target("a:m"));
    assert!(breakers.get(&key).is_none());
    breakers.circuit(&key);
    assert!(breakers.get(&key).is_some());
}
