//! Which rows the tables show, what each is measured beyond, and whom it is compared with.

use benches::table::Line;

pub(crate) const ANSWER: &[Line] = &[
    Line::new("no layer", &[]),
    Line::new("no layer, in a call", &[]),
    Line::new("clone of the request", &[]),
    Line::new("clone of the request, in a call", &[]),
    Line::new("Call, opened", &[]),
    Line::new("JSON, checked by serde_json", &[]),
    Line::new("JSON, read by Watch", &[]).against(&["JSON, checked by serde_json"]),
    Line::new("Peek", &["no layer", "JSON, read by Watch"]),
    Line::new(
        "Peek, in a call",
        &["no layer, in a call", "JSON, read by Watch"],
    ),
    Line::new("tower Timeout", &["no layer"]),
    Line::new("tower-resilience TimeLimiter", &["no layer"]),
    Line::new("Timeout > Peek", &["Peek, in a call"]).against(&["tower Timeout"]),
    Line::new("Deadline > Peek", &["Peek, in a call"]).against(&["tower Timeout"]),
    Line::new("tower-resilience Breaker", &["no layer"]),
    Line::new(
        "tower-resilience Breaker, 1000 calls in its time window",
        &["no layer"],
    ),
    Line::new("seatbelt Breaker", &["no layer"]),
    Line::new("seatbelt Breaker, by id", &["no layer"]),
    Line::new("Breaker > Peek", &["Peek, in a call"]).against(&[
        "tower-resilience Breaker",
        "tower-resilience Breaker, 1000 calls in its time window",
        "seatbelt Breaker, by id",
    ]),
    Line::new("tower-resilience Breaker, open", &[]),
    Line::new("seatbelt Breaker, open", &[]),
    Line::new("Breaker, open", &[])
        .against(&["tower-resilience Breaker, open", "seatbelt Breaker, open"]),
    Line::new("tower ConcurrencyLimit", &["no layer"]),
    Line::new("tower-resilience Bulkhead", &["no layer"]),
    Line::new("tower-resilience Bulkhead, rejecting", &["no layer"]),
    Line::new("Bulkhead > Peek", &["Peek, in a call"]).against(&[
        "tower ConcurrencyLimit",
        "tower-resilience Bulkhead",
        "tower-resilience Bulkhead, rejecting",
    ]),
    Line::new("Bulkhead by target > Peek", &["Peek, in a call"])
        .against(&["tower-resilience Bulkhead"]),
    Line::new(
        "Breaker > Bulkhead > Timeout > Peek",
        &["no layer, in a call", "JSON, read by Watch"],
    ),
    Line::new(
        "tower Hedge, unarmed",
        &["no layer", "clone of the request"],
    ),
    Line::new("tower Hedge, armed", &["no layer", "clone of the request"]),
    Line::new(
        "tower-resilience Hedge",
        &["no layer", "clone of the request"],
    ),
    Line::new("seatbelt Hedging", &["no layer", "clone of the request"]),
    Line::new(
        "Hedge that is not due > Peek",
        &["Peek, in a call", "clone of the request, in a call"],
    )
    .against(&[
        "tower Hedge, unarmed",
        "tower Hedge, armed",
        "tower-resilience Hedge",
        "seatbelt Hedging",
    ]),
    Line::new("Hedge that may not hedge > Peek", &["Peek, in a call"]),
    Line::new("tower Retry", &["no layer", "clone of the request"]),
    Line::new(
        "tower-resilience Retry",
        &["no layer", "clone of the request"],
    ),
    Line::new(
        "tower-resilience Retry, with a budget",
        &["no layer", "clone of the request"],
    ),
    Line::new("seatbelt Retry", &["no layer", "clone of the request"]),
    Line::new(
        "Retry > Peek",
        &["Peek, in a call", "clone of the request, in a call"],
    )
    .against(&[
        "tower Retry",
        "tower-resilience Retry, with a budget",
        "seatbelt Retry",
    ]),
    Line::new("Retry that cannot retry > Peek", &["Peek, in a call"]),
    Line::new(
        "tower-resilience Fallback",
        &["no layer", "clone of the request"],
    ),
    Line::new(
        "Failover (2 targets) > Peek",
        &["Peek, in a call", "clone of the request, in a call"],
    )
    .against(&["tower-resilience Fallback"]),
    Line::new("Failover (1 target) > Peek", &["Peek, in a call"])
        .against(&["tower-resilience Fallback"]),
    Line::new("Identify > Peek", &["Peek"]),
    Line::new("the whole stack", &["no layer"]),
];

pub(crate) const STREAM: &[Line] = &[
    Line::new("no layer", &[]),
    Line::new("Peek", &["no layer"]),
    Line::new("Peek, in a call", &["no layer, in a call"]),
    Line::new("tower-http ResponseBodyTimeout", &["no layer"]),
    Line::new("Timeout > Peek", &["Peek, in a call"]).against(&["tower-http ResponseBodyTimeout"]),
    Line::new("Deadline > Peek", &["Peek, in a call"]).against(&["tower-http ResponseBodyTimeout"]),
    Line::new("Breaker > Peek", &["Peek, in a call"]),
    Line::new("Bulkhead > Peek", &["Peek, in a call"]),
    Line::new("Bulkhead by target > Peek", &["Peek, in a call"]),
    Line::new("Hedge that is not due > Peek", &["Peek, in a call"]),
    Line::new("Retry > Peek", &["Peek, in a call"]),
    Line::new("Failover (1 target) > Peek", &["Peek, in a call"]),
    Line::new("Failover (2 targets) > Peek", &["Peek, in a call"]),
    Line::new("Identify > Peek", &["Peek"]),
    Line::new("the whole stack", &["no layer"]),
];
