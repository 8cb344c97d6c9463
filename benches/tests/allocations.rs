//! Allocations on the happy path: what a layer takes from the heap for one call, and for one event
//! of a stream.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{cell::Cell, time::Duration};

use allocation_counter::measure;
use benches::{
    EVENTS, Form, Req, Upstream, answer, committed, identified, open_circuit,
    ours::{breaker, bulkhead, bulkhead_by_target, hedge, peek, retry, stack, targets},
    read, refusal, request,
};
use http::Response;
use http_body::Body;
use llm_call::{BoxError, Call, CallSettings, PeekLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Layer, Service};

/// Allocations of one call, its answer read to the end. The request and the answer are made before.
fn of_call<S, B>(service: S, make: fn(Form) -> Req, form: Form) -> u64
where
    S: Service<Req, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut service = service;
    let call = |service: &mut S| {
        Upstream::prepare(form);
        let request = Cell::new(Some(make(form)));
        measure(|| {
            read(answer(service, request.take().unwrap()).into_body());
        })
    };
    // The first call may fill what later ones use.
    call(&mut service);
    let taken = call(&mut service);
    // Everything is given back.
    assert!(taken.count_current <= 0, "{taken:?}");
    taken.count_total
}

/// Allocations that a layer adds to a service below it.
fn added<L, S, B, C>(layer: L, below: S, make: fn(Form) -> Req, form: Form) -> u64
where
    L: Layer<S>,
    L::Service: Service<Req, Response = Response<B>>,
    <L::Service as Service<Req>>::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
    S: Service<Req, Response = Response<C>> + Clone,
    S::Error: Into<BoxError>,
    C: Body,
    C::Error: Into<BoxError>,
{
    let all = of_call(layer.layer(below.clone()), make, form);
    all - of_call(below, make, form)
}

/// Allocations of the events of a stream after its first token, read through `service`.
fn of_events<S, B>(mut service: S, make: fn(Form) -> Req) -> u64
where
    S: Service<Req, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut begin = || {
        Upstream::prepare(Form::Streamed);
        answer(&mut service, make(Form::Streamed)).into_body()
    };
    // The first call may fill what later ones use.
    read(begin());
    let body = begin();
    let mut count = 0;
    let taken = measure(|| count = read(body));
    assert_eq!(count, EVENTS);
    taken.count_total
}

/// Bytes that an answer holds once its first token has come, its body included.
fn held<S, B>(mut service: S, make: fn(Form) -> Req) -> i64
where
    S: Service<Req, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut commit = || {
        Upstream::prepare(Form::Streamed);
        committed(&mut service, make(Form::Streamed))
    };
    // The first call may fill what later ones use.
    drop(commit());
    let mut body = None;
    let taken = measure(|| body = Some(commit()));
    drop(body);
    taken.bytes_current
}

fn clone_of_the_request() -> u64 {
    let request = identified(Form::Whole);
    measure(|| drop(request.clone())).count_total
}

#[test]
fn an_upstream_that_costs_nothing() {
    for form in [Form::Whole, Form::Streamed] {
        assert_eq!(of_call(Upstream, request, form), 0);
        assert_eq!(of_call(Upstream, identified, form), 0);
    }
}

#[test]
fn peek_allocates_its_body() {
    for form in [Form::Whole, Form::Streamed] {
        assert_eq!(added(PeekLayer::new(), Upstream, request, form), 1);
        // And the first entry of the call's ledger.
        assert_eq!(added(PeekLayer::new(), Upstream, identified, form), 2);
    }
}

#[test]
fn time_limits_allocate_nothing() {
    for form in [Form::Whole, Form::Streamed] {
        let layer = TimeoutLayer::new();
        assert_eq!(added(layer, peek(), identified, form), 0);
        let layer = DeadlineLayer::default();
        assert_eq!(added(layer, peek(), identified, form), 0);
    }
}

#[test]
fn a_closed_circuit_allocates_nothing() {
    for form in [Form::Whole, Form::Streamed] {
        assert_eq!(added(breaker(), peek(), identified, form), 0);
    }
}

#[test]
fn an_open_circuit_allocates_its_error() {
    let mut service = breaker().layer(peek());
    open_circuit(&mut service, Form::Whole);
    let request = Cell::new(Some(identified(Form::Whole)));
    let taken = measure(|| {
        drop(refusal(&mut service, request.take().unwrap()));
    });
    // It, what it is the source of, and the box that goes up.
    assert_eq!(taken.count_total, 3);
}

#[test]
fn a_free_permit_allocates_nothing() {
    for form in [Form::Whole, Form::Streamed] {
        assert_eq!(added(bulkhead(), peek(), identified, form), 0);
        assert_eq!(added(bulkhead_by_target(), peek(), identified, form), 0);
    }
}

#[test]
fn a_hedge_clones_the_request_where_it_may_hedge() {
    // Ten calls pay for the first hedge.
    let saved = || {
        let layer = hedge();
        let mut service = layer.layer(peek());
        for _ in 0..10 {
            Upstream::prepare(Form::Streamed);
            read(answer(&mut service, identified(Form::Streamed)).into_body());
        }
        layer
    };
    let clone = clone_of_the_request();
    assert_eq!(added(saved(), peek(), identified, Form::Streamed), clone);
    // Without a token, and where the answer comes in one piece.
    assert_eq!(added(hedge(), peek(), identified, Form::Streamed), 0);
    assert_eq!(added(saved(), peek(), identified, Form::Whole), 0);
}

#[test]
fn retry_clones_the_request_where_it_can_retry() {
    let clone = clone_of_the_request();
    for form in [Form::Whole, Form::Streamed] {
        assert_eq!(added(retry(), peek(), identified, form), clone);
        assert_eq!(added(retry().retries(0), peek(), identified, form), 0);
    }
}

#[test]
fn failover_clones_the_request_where_another_target_may_follow() {
    let clone = clone_of_the_request();
    for form in [Form::Whole, Form::Streamed] {
        // The call's list of targets that are taken.
        assert_eq!(added(targets(1), peek(), identified, form), 1);
        assert_eq!(added(targets(2), peek(), identified, form), clone + 1);
    }
}

#[test]
fn a_call_and_its_ledger() {
    let opened = measure(|| {
        Call::open(CallSettings::new().timeout(Duration::from_secs(9)));
    });
    assert_eq!(opened.count_total, 1);
    // Its targets and its ledger make three, as above. Whose it is was allocated by the caller.
    let tenant: std::sync::Arc<str> = "acme".into();
    let opened = measure(|| {
        Call::open(CallSettings::new().tenant(tenant));
    });
    assert_eq!(opened.count_total, 1);
}

#[test]
fn the_whole_stack() {
    // Nearly all of it is reading the request, rewriting it, and cloning it twice.
    assert_eq!(of_call(stack(), request, Form::Whole), 43);
    assert_eq!(of_call(stack(), request, Form::Streamed), 43);
}

#[test]
fn events_after_the_first_token_allocate_nothing() {
    assert_eq!(of_events(peek(), request), 0);
    assert_eq!(of_events(TimeoutLayer::new().layer(peek()), identified), 0);
    assert_eq!(of_events(breaker().layer(peek()), identified), 0);
    assert_eq!(of_events(retry().layer(peek()), identified), 0);
    assert_eq!(of_events(bulkhead().layer(peek()), identified), 0);
    assert_eq!(of_events(stack(), request), 0);
}

#[test]
fn an_open_stream_holds_little() {
    assert!(held(peek(), request) <= 576);
    let in_a_call = held(peek(), identified);
    let breaker = held(breaker().layer(peek()), identified) - in_a_call;
    assert!(breaker <= 112, "{breaker} bytes");
    assert!(held(retry().layer(peek()), identified) - in_a_call <= 32);
    let bulkhead = held(bulkhead().layer(peek()), identified) - in_a_call;
    assert!(bulkhead <= 112, "{bulkhead} bytes");
    assert_eq!(held(hedge().layer(peek()), identified), in_a_call);
    // About 900 are the bodies of the layers, the rest is the call with its ledger and targets.
    let stack = held(stack(), request);
    assert!(stack <= 1552, "{stack} bytes");
}
