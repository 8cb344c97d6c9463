//! The nearest layers of others.

use benches::{
    Form, PRIMARY, Req, Upstream, answer,
    calls::{
        Calls,
        Made::{self, Bare},
    },
    ours::ROOM,
    read, request,
    theirs::{
        HOUR, LIMIT, OnError, Shared, seatbelt_breaker, seatbelt_hedging, seatbelt_retry,
        tower_retry,
    },
    upstream::Frames,
};
use http::Response;
use llm_call::BoxError;
use seatbelt::breaker;
use tower::{Layer, ServiceExt, hedge::Hedge, limit::ConcurrencyLimitLayer, timeout};
use tower_http::timeout::ResponseBodyTimeoutLayer;
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::{
    CircuitBreaker, CircuitBreakerConfigBuilder, CircuitBreakerLayer, DefaultClassifier,
    SlidingWindowType,
};
use tower_resilience_fallback::FallbackLayer;
use tower_resilience_hedge::HedgeLayer;
use tower_resilience_retry::{RetryBudgetBuilder, RetryLayer};
use tower_resilience_timelimiter::TimeLimiterLayer;

pub(crate) fn layers(rows: &mut Calls) {
    timeouts(rows);
    retries(rows);
    breakers(rows);
    bulkheads(rows);
    hedges(rows);
    // The nearest to failover over there: another service, asked with a clone of the request when
    // the first one gave an error. It has two services, not a list of targets, knows of no rests,
    // and decides on errors alone.
    let layer = FallbackLayer::<Req, _, BoxError>::tower_service(Upstream);
    rows.row("tower-resilience Fallback", Bare, layer.layer(Upstream));
}

/// Those that wrap the body.
pub(crate) fn over_bodies(rows: &mut Calls) {
    let service = ResponseBodyTimeoutLayer::new(LIMIT).layer(Upstream);
    rows.row("tower-http ResponseBodyTimeout", Bare, service);
}

fn timeouts(rows: &mut Calls) {
    let service = timeout::TimeoutLayer::new(LIMIT).layer(Upstream);
    rows.row("tower Timeout", Bare, service);
    let layer = TimeLimiterLayer::builder()
        .timeout_duration(LIMIT)
        .cancel_running_future(true)
        .build();
    rows.row("tower-resilience TimeLimiter", Bare, layer.layer(Upstream));
}

/// They would retry errors, of which there are none. All of them clone the request.
fn retries(rows: &mut Calls) {
    let service = tower_retry().layer(Upstream);
    rows.row("tower Retry", Bare, service);
    let layer = RetryLayer::<Req, Response<Frames>, BoxError>::builder();
    rows.row(
        "tower-resilience Retry",
        Bare,
        layer.build().layer(Upstream),
    );
    let budget = RetryBudgetBuilder::new().token_bucket().build().unwrap();
    let layer = RetryLayer::<Req, Response<Frames>, BoxError>::builder().budget(budget);
    rows.row(
        "tower-resilience Retry, with a budget",
        Bare,
        layer.build().layer(Upstream),
    );
    rows.row("seatbelt Retry", Bare, seatbelt_retry().layer(Upstream));
}

fn breakers(rows: &mut Calls) {
    let service = by_count().build().unwrap().layer(Upstream);
    rows.row("tower-resilience Breaker", Bare, service);
    rows.row("seatbelt Breaker", Bare, seatbelt_breaker().layer(Upstream));
    let by_id = seatbelt_breaker().breaker_id(|_| breaker::BreakerId::from(PRIMARY));
    rows.row("seatbelt Breaker, by id", Bare, by_id.layer(Upstream));
    rows.row_anew(
        "tower-resilience Breaker, 1000 calls in its time window",
        Made::Bare,
        || by_time(1000),
    );
}

/// Their permits end with the headers.
fn bulkheads(rows: &mut Calls) {
    let service = ConcurrencyLimitLayer::new(ROOM).layer(Upstream);
    rows.row("tower ConcurrencyLimit", Bare, service);
    let layer = BulkheadLayer::builder().max_concurrent_calls(ROOM);
    let service = layer.build().unwrap().layer(Upstream);
    rows.row("tower-resilience Bulkhead", Bare, service);
    let layer = BulkheadLayer::builder()
        .max_concurrent_calls(ROOM)
        .reject_when_full();
    let service = layer.build().unwrap().layer(Upstream);
    rows.row("tower-resilience Bulkhead, rejecting", Bare, service);
}

/// They would send a second request after a while that does not pass. All of them clone the first.
fn hedges(rows: &mut Calls) {
    let unarmed = Hedge::new(Upstream, OnError, u64::MAX, 0.95, LIMIT);
    rows.row("tower Hedge, unarmed", Bare, unarmed);
    let armed = Hedge::new_with_mock_latencies(Upstream, OnError, 1, 0.95, HOUR, &[1; 100]);
    rows.row("tower Hedge, armed", Bare, armed);
    let layer = HedgeLayer::builder().delay(LIMIT).build();
    let service = layer.layer(Upstream.map_err(Shared::from));
    rows.row("tower-resilience Hedge", Bare, service);
    rows.row("seatbelt Hedging", Bare, seatbelt_hedging().layer(Upstream));
}

/// Breakers that refuse for as long as a bench takes.
pub(crate) fn open_circuits(rows: &mut Calls) {
    let layer = by_count().wait_duration_in_open(HOUR).build().unwrap();
    rows.refused("tower-resilience Breaker, open", layer.layer(Upstream));
    let layer = seatbelt_breaker().break_duration(HOUR);
    rows.refused("seatbelt Breaker, open", layer.layer(Upstream));
}

/// The default: the last 100 calls.
fn by_count() -> CircuitBreakerConfigBuilder<DefaultClassifier> {
    CircuitBreakerLayer::builder()
}

/// It counts all calls in its window with each call, so they are a part of the cost.
fn by_time(calls: usize) -> CircuitBreaker<Upstream, DefaultClassifier> {
    let mut service = CircuitBreakerLayer::builder()
        .sliding_window_type(SlidingWindowType::TimeBased)
        .sliding_window_duration(HOUR)
        .build()
        .unwrap()
        .layer(Upstream);
    for _ in 0..calls {
        Upstream::prepare(Form::Whole);
        read(answer(&mut service, request(Form::Whole)).into_body());
    }
    service
}
