//! What an event costs on its way into the caller's dialect.

use std::sync::Arc;

use benches::{
    Form, MODEL, PRIMARY, Req, Upstream, committed, identified, identify,
    ours::{peek, speaking},
    read_on,
    row::Row,
    table::Line,
    wire,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use llm_call::{BoxError, CallSettings, Dialect};
use tower::{Layer, Service};

pub(crate) const EVENTS: usize = 1000;

pub(crate) const LINES: &[Line] = &[
    Line::new("OpenAI: Peek", &[]),
    Line::new(
        "OpenAI: Provider of the same dialect > Peek",
        &["OpenAI: Peek"],
    )
    .against(&["OpenAI: Peek"]),
    Line::new("OpenAI into Anthropic", &["OpenAI: Peek"]),
    Line::new("Anthropic: Peek", &[]),
    Line::new("Anthropic into OpenAI", &["Anthropic: Peek"]),
    Line::new("Gemini: Peek", &[]),
    Line::new("Gemini into OpenAI", &["Gemini: Peek"]),
    Line::new("Gemini into Anthropic", &["Gemini: Peek"]),
];

pub(crate) fn rows() -> Vec<Row> {
    let (openai, anthropic, gemini) = (
        wire::openai(EVENTS),
        wire::anthropic(EVENTS),
        wire::gemini(EVENTS),
    );
    let speaks = |dialect| speaking(dialect).layer(peek());
    vec![
        row("OpenAI: Peek", &openai, identified, peek()),
        row(
            "OpenAI: Provider of the same dialect > Peek",
            &openai,
            identified,
            speaks(Dialect::OpenAiChat),
        ),
        row(
            "OpenAI into Anthropic",
            &openai,
            messages,
            speaks(Dialect::OpenAiChat),
        ),
        row("Anthropic: Peek", &anthropic, messages, peek()),
        row(
            "Anthropic into OpenAI",
            &anthropic,
            identified,
            speaks(Dialect::Anthropic),
        ),
        row("Gemini: Peek", &gemini, identified, peek()),
        row(
            "Gemini into OpenAI",
            &gemini,
            identified,
            speaks(Dialect::Gemini),
        ),
        row(
            "Gemini into Anthropic",
            &gemini,
            messages,
            speaks(Dialect::Gemini),
        ),
    ]
}

/// A caller of Anthropic's dialect.
fn messages(form: Form) -> Req {
    let stream = form == Form::Streamed;
    let body = format!(
        r#"{{"model":"{MODEL}","max_tokens":99,"messages":[{{"role":"user","content":"Say it in one word."}}],"stream":{stream}}}"#
    );
    let mut request = Request::post("http://gateway.local/v1/messages")
        .body(Full::from(body))
        .unwrap();
    identify(
        &mut request,
        form,
        &PRIMARY.parse().unwrap(),
        CallSettings::new(),
    );
    request
}

/// Reads a stream on from its first token to its end.
fn row<S, B>(
    name: &'static str,
    frames: &Arc<[Bytes]>,
    make: fn(Form) -> Req,
    mut service: S,
) -> Row
where
    S: Service<Req, Response = Response<B>> + 'static,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    let frames = frames.clone();
    let prepare = move || {
        Upstream::prepare_stream(&frames);
        committed(&mut service, make(Form::Streamed))
    };
    Row::new(name, prepare, |mut body| {
        let (events, ended) = read_on(body.as_mut());
        assert!(ended && events > EVENTS - 10, "{events} events");
    })
}
