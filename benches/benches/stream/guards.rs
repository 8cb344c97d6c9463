//! What each guard adds to an event of a stream whose first token has come.

use benches::{
    Form, Req, Upstream, committed, identified,
    ours::{breaker, bulkhead, peek, retry, stack},
    read_on, request,
    row::Row,
    table::Line,
    wire,
};
use http::Response;
use http_body::Body;
use llm_call::BoxError;
use llm_timeout::TimeoutLayer;
use tower::{Layer, Service};

/// So many that settling at the end is lost among them.
pub(crate) const EVENTS: usize = 1000;

pub(crate) const LINES: &[Line] = &[
    Line::new("no layer", &[]),
    Line::new("Peek", &["no layer"]),
    Line::new("Breaker > Peek", &["Peek"]),
    Line::new("Retry > Breaker > Peek", &["Breaker > Peek"]),
    Line::new(
        "Retry > Breaker > Timeout > Peek",
        &["Retry > Breaker > Peek"],
    ),
    Line::new(
        "Bulkhead > Retry > Breaker > Timeout > Peek",
        &["Retry > Breaker > Timeout > Peek"],
    ),
    Line::new("the whole stack", &["Peek"]),
];

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row("no layer", identified, Upstream),
        row("Peek", identified, peek()),
        row("Breaker > Peek", identified, breaker().layer(peek())),
        row(
            "Retry > Breaker > Peek",
            identified,
            (retry(), breaker()).layer(peek()),
        ),
        row(
            "Retry > Breaker > Timeout > Peek",
            identified,
            (retry(), breaker(), TimeoutLayer::new()).layer(peek()),
        ),
        row(
            "Bulkhead > Retry > Breaker > Timeout > Peek",
            identified,
            (bulkhead(), retry(), breaker(), TimeoutLayer::new()).layer(peek()),
        ),
        row("the whole stack", request, stack()),
    ]
}

/// Reads a stream on from its first token to its end.
fn row<S, B>(name: &'static str, make: fn(Form) -> Req, mut service: S) -> Row
where
    S: Service<Req, Response = Response<B>> + 'static,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    let frames = wire::openai(EVENTS);
    let prepare = move || {
        Upstream::prepare_stream(&frames);
        committed(&mut service, make(Form::Streamed))
    };
    Row::new(name, prepare, |mut body| {
        let (events, ended) = read_on(body.as_mut());
        assert!(ended && events == EVENTS, "{events} events");
    })
}
