//! Retry, breaker and time limit, as each family builds them.

use benches::{
    Form, Upstream,
    calls::{
        Calls,
        Made::{Bare, Identified},
    },
    ours::{ROOM, breaker, bulkhead, peek, retry},
    row::Row,
    table::Line,
    theirs::{LIMIT, context, seatbelt_breaker, seatbelt_retry, tower_retry},
};
use llm_call::{BoxError, Commit, PeekLayer};
use llm_timeout::TimeoutLayer;
use seatbelt::timeout::Timeout;
use tower::{Layer, ServiceBuilder, limit::ConcurrencyLimitLayer, timeout};
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_retry::RetryBudgetBuilder;
use tower_resilience_timelimiter::TimeLimiterLayer;

const ALL: &[&str] = &[
    "tower: Retry > ConcurrencyLimit > Timeout",
    "tower-resilience: Retry > Breaker > Bulkhead > TimeLimiter",
    "seatbelt: Retry > Breaker > Timeout",
];

pub(crate) const LINES: &[Line] = &[
    Line::new("no layer", &[]),
    Line::new("Peek", &["no layer"]),
    Line::new("tower: Retry > ConcurrencyLimit > Timeout", &["no layer"]),
    Line::new(
        "tower-resilience: Retry > Breaker > Bulkhead > TimeLimiter",
        &["no layer"],
    ),
    Line::new("seatbelt: Retry > Breaker > Timeout", &["no layer"]),
    Line::new(
        "ours: Retry > Breaker > Bulkhead > Timeout > Peek",
        &["no layer"],
    )
    .against(ALL),
    Line::new(
        "ours: Retry > Breaker > Bulkhead > Timeout > Peek at the headers",
        &["no layer"],
    )
    .against(ALL),
];

pub(crate) fn rows(form: Form) -> Vec<Row> {
    let mut rows = Calls::new(form);
    rows.row("no layer", Bare, Upstream);
    rows.row("Peek", Identified, peek());
    let service = ServiceBuilder::new()
        .layer(tower_retry())
        .layer(ConcurrencyLimitLayer::new(ROOM))
        .layer(timeout::TimeoutLayer::new(LIMIT))
        .service(Upstream);
    rows.row("tower: Retry > ConcurrencyLimit > Timeout", Bare, service);
    resilience(&mut rows);
    let limit = Timeout::layer("timeout", &context())
        .timeout(LIMIT)
        .timeout_error(|_| BoxError::from("timed out"));
    let service = (seatbelt_retry(), seatbelt_breaker(), limit).layer(Upstream);
    rows.row("seatbelt: Retry > Breaker > Timeout", Bare, service);
    let service = (retry(), breaker(), bulkhead(), TimeoutLayer::new()).layer(peek());
    rows.row(
        "ours: Retry > Breaker > Bulkhead > Timeout > Peek",
        Identified,
        service,
    );
    // As the others do: what comes after the headers is nobody's business.
    let headers = PeekLayer::new().commit(Commit::Headers).layer(Upstream);
    let service = (retry(), breaker(), bulkhead(), TimeoutLayer::new()).layer(headers);
    rows.row(
        "ours: Retry > Breaker > Bulkhead > Timeout > Peek at the headers",
        Identified,
        service,
    );
    rows.finish([])
}

fn resilience(rows: &mut Calls) {
    let budget = RetryBudgetBuilder::new().token_bucket().build().unwrap();
    let retry = tower_resilience_retry::RetryLayer::builder()
        .budget(budget)
        .build();
    let bulkhead = BulkheadLayer::builder().max_concurrent_calls(ROOM);
    let limit = TimeLimiterLayer::builder()
        .timeout_duration(LIMIT)
        .cancel_running_future(true)
        .build();
    let service = ServiceBuilder::new()
        .layer(retry)
        .layer(CircuitBreakerLayer::builder().build().unwrap())
        .layer(bulkhead.build().unwrap())
        .layer(limit)
        .service(Upstream);
    rows.row(
        "tower-resilience: Retry > Breaker > Bulkhead > TimeLimiter",
        Bare,
        service,
    );
}
