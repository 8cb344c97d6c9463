//! Our layers, and what they cannot do without.

use std::time::Duration;

use benches::{
    Form, JSON, Upstream,
    calls::{
        Calls,
        Made::{Bare, Identified},
    },
    identified,
    ours::{breaker, bulkhead, bulkhead_by_target, hedge, peek, retry, stack, targets},
    request,
    row::Row,
};
use llm_breaker::{BreakerLayer, Breakers, Settings};
use llm_call::{Call, CallSettings, Dialect, IdentifyLayer, Watch};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use serde::de::IgnoredAny;
use tower::Layer;

/// What is measured for answers in one piece and for streams alike.
pub(crate) fn layers(rows: &mut Calls) {
    rows.row("no layer", Bare, Upstream);
    rows.row("no layer, in a call", Identified, Upstream);
    rows.row("Peek", Bare, peek());
    rows.row("Peek, in a call", Identified, peek());
    let service = TimeoutLayer::new().layer(peek());
    rows.row("Timeout > Peek", Identified, service);
    let service = DeadlineLayer::default().layer(peek());
    rows.row("Deadline > Peek", Identified, service);
    let service = breaker().layer(peek());
    rows.row("Breaker > Peek", Identified, service);
    rows.row("Bulkhead > Peek", Identified, bulkhead().layer(peek()));
    let service = bulkhead_by_target().layer(peek());
    rows.row("Bulkhead by target > Peek", Identified, service);
    let service = hedge().whole_answers(true).layer(peek());
    rows.row("Hedge that is not due > Peek", Identified, service);
    let service = (breaker(), bulkhead(), TimeoutLayer::new()).layer(peek());
    rows.row("Breaker > Bulkhead > Timeout > Peek", Identified, service);
    let service = retry().layer(peek());
    rows.row("Retry > Peek", Identified, service);
    let service = retry().retries(0).layer(peek());
    rows.row("Retry that cannot retry > Peek", Identified, service);
    let service = targets(1).layer(peek());
    rows.row("Failover (1 target) > Peek", Identified, service);
    let service = targets(2).layer(peek());
    rows.row("Failover (2 targets) > Peek", Identified, service);
    let service = IdentifyLayer::new().layer(peek());
    rows.row("Identify > Peek", Bare, service);
    rows.row("the whole stack", Bare, stack());
}

/// A call that may not be hedged, since its answer comes in one piece.
pub(crate) fn not_hedged(rows: &mut Calls) {
    let service = hedge().layer(peek());
    rows.row("Hedge that may not hedge > Peek", Identified, service);
}

/// A breaker that refuses for as long as a bench takes.
pub(crate) fn open_circuit(rows: &mut Calls) {
    const HOUR: Duration = Duration::from_secs(3600);
    let settings = Settings::new().open_for(HOUR).open_max(HOUR);
    let breakers = Breakers::with(settings.build().unwrap());
    let service = BreakerLayer::new(breakers).layer(peek());
    rows.refused("Breaker, open", service);
}

/// What the layers cannot do without.
pub(crate) fn parts() -> [Row; 5] {
    let (bare, identified) = (request(Form::Whole), identified(Form::Whole));
    [
        Row::new("clone of the request", || (), move |()| bare.clone()),
        Row::new(
            "clone of the request, in a call",
            || (),
            move |()| identified.clone(),
        ),
        // Peek reads all of a JSON answer before it lets it through. The first row is what reading
        // costs, the second what it cannot cost less than.
        Row::new(
            "JSON, read by Watch",
            || (),
            |()| {
                let mut watch = Watch::new(Some(Dialect::OpenAiChat));
                watch.whole(JSON.as_bytes()).unwrap();
                watch
            },
        ),
        Row::new(
            "JSON, checked by serde_json",
            || (),
            |()| serde_json::from_str::<IgnoredAny>(JSON).unwrap(),
        ),
        Row::new("Call, opened", || (), |()| Call::open(CallSettings::new())),
    ]
}
