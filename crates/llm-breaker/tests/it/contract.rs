//! The contract of a tower service.

use std::task::{Context, Poll, Waker};

use llm_breaker::{BreakerLayer, Breakers, CircuitState};
use llm_call::{Kind, PeekLayer, Refusal};
use llm_chaos::testing::{Respond, Strict, service};
use tokio::time::timeout;
use tower::{Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn each_call_goes_to_a_service_that_was_made_ready() {
    // `Strict` stands right below, and at the bottom.
    let mut world = world([good()]);
    for _ in 0..10 {
        let ready: &mut Stack = ServiceExt::<http::Request<String>>::ready(&mut world.stack)
            .await
            .unwrap();
        let _ = ready.call(request()).await.unwrap();
        // It is always ready, so this is no breach.
        let _ = world.stack.call(request()).await.unwrap();
    }
    assert_eq!(world.totals().succeeded, 20);
}

#[tokio::test(start_paused = true)]
async fn cb25_an_open_circuit_neither_waits_for_the_inner_service_nor_holds_it() {
    let breakers = Breakers::new();
    let mut stack = ServiceBuilder::new()
        .layer(BreakerLayer::new(breakers.clone()))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(PeekLayer::new())
        .service(Strict::new(service([Respond::hang()])));
    let mut idle = stack.clone();
    let ready = |stack: &mut _| {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(
            Service::<http::Request<String>>::poll_ready(stack, &mut cx),
            Poll::Ready(Ok(()))
        ));
    };
    // A clone that was made ready and is never called holds no permit.
    ready(&mut idle);
    ready(&mut stack);
    let mut held = Box::pin(stack.call(request()));
    assert!(tokio::time::timeout(s(1), &mut held).await.is_err());
    // The only permit is taken, and an open circuit still answers at once.
    breakers.target(&target("a:m")).force_open();
    ready(&mut idle);
    let error = idle.call(request()).await.unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::CircuitOpen));
    breakers.target(&target("a:m")).reset();
    // A call that waited for the permit and was dropped has left the queue.
    let waiting = idle.call(request());
    assert!(tokio::time::timeout(s(1), waiting).await.is_err());
    drop(held);
    let mut next = Box::pin(stack.call(request()));
    assert!(tokio::time::timeout(s(1), &mut next).await.is_err());
    let totals = breakers.target(&target("a:m")).snapshot().totals;
    sum_holds(totals);
    assert_eq!(totals.in_flight, 1);
}

#[tokio::test(start_paused = true)]
async fn one_permit_below_is_enough_for_call_after_call() {
    let breakers = Breakers::new();
    let stack = ServiceBuilder::new()
        .layer(BreakerLayer::new(breakers.clone()))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(PeekLayer::new())
        .service(Strict::new(service([good().after(s(1))])));
    let calls = (0..20).map(|_| stack.clone().oneshot(request()));
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(
        breakers.target(&target("a:m")).state(),
        CircuitState::Closed
    );
}

#[test]
fn it_is_send_and_sync_where_the_inner_service_is() {
    fn check<T: Send + Sync + Clone + std::fmt::Debug>(_: &T) {}
    fn check_future<T: Send>(_: &T) {}
    let world = world([good()]);
    check(&world.stack);
    check(&world.breakers);
    check(&world.circuit());
    check(&BreakerLayer::new(world.breakers.clone()));
    check_future(&world.send(request()));
    check_future(&world.breakers.changed());
}

#[tokio::test(start_paused = true)]
async fn everything_has_a_debug_that_says_something() {
    let world = world([Respond::hang()]);
    let mut stack = world.stack.clone();
    let future = stack.call(request());
    let text = format!("{:?} {:?} {future:?}", world.breakers, world.stack);
    assert!(text.contains("a:m") && text.contains("Closed"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn to_print_a_circuit_does_not_change_it() {
    let world = world([Respond::hang()]);
    let circuit = world.circuit();
    circuit.force_open();
    circuit.release();
    let mut trial = Box::pin(world.call());
    assert!(timeout(s(61), &mut trial).await.is_err());
    let before = world.breakers.history().len();
    let text = format!("{:?}", world.breakers);
    assert!(text.contains("HalfOpen"), "{text}");
    assert_eq!(world.breakers.history().len(), before);
    // Its time is over, as whoever looks at it finds out.
    assert_eq!(circuit.state(), CircuitState::Open);
}
