//! From the first byte of a stream to its first token: what delays the answer that a caller waits
//! for.

use std::{cell::RefCell, num::NonZeroU32, rc::Rc, sync::Arc};

use benches::{
    Form, Req, Upstream, answer,
    ours::{peek, stack},
    request,
    row::Row,
    table::Line,
    wire,
};
use bytes::Bytes;
use http::Response;
use llm_call::{BoxError, Framing, Scanner, Watch};
use tower::Service;

pub(crate) const LINES: &[Line] = &[
    Line::new("no layer, to the headers", &[]),
    Line::new("OpenAI, scanned and watched", &[]),
    Line::new("OpenAI, through Peek", &["no layer, to the headers"]),
    Line::new(
        "OpenAI, through the whole stack",
        &["no layer, to the headers"],
    ),
    Line::new("Anthropic, scanned and watched", &[]),
    Line::new("Anthropic, through Peek", &["no layer, to the headers"]),
];

pub(crate) fn rows() -> Vec<Row> {
    let (openai, anthropic) = (wire::openai_beginning(), wire::anthropic_beginning());
    vec![
        through("no layer, to the headers", openai.clone(), Upstream),
        watched("OpenAI, scanned and watched", openai.clone()),
        through("OpenAI, through Peek", openai.clone(), peek()),
        through("OpenAI, through the whole stack", openai, stack()),
        watched("Anthropic, scanned and watched", anthropic.clone()),
        through("Anthropic, through Peek", anthropic, peek()),
    ]
}

/// The bytes alone.
fn watched(name: &'static str, frames: Arc<[Bytes]>) -> Row {
    Row::new(
        name,
        || (),
        move |()| {
            let (mut scanner, mut watch) = (Scanner::new(Framing::Sse), Watch::new(None));
            let mut token = false;
            for frame in &*frames {
                let fed = scanner.feed(frame, |event| token |= watch.event(&event, false).token);
                fed.unwrap();
            }
            assert!(token, "the last frame has the first token");
            watch
        },
    )
}

/// A call, until its answer is handed to the caller. Dropping the answer is left out.
fn through<S, B>(name: &'static str, frames: Arc<[Bytes]>, mut service: S) -> Row
where
    S: Service<Req, Response = Response<B>> + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    // It goes on, but nobody waits for that.
    let end = NonZeroU32::new(frames.len() as u32).unwrap();
    let answers = Rc::new(RefCell::new(Vec::with_capacity(64)));
    let before = answers.clone();
    let prepare = move || {
        before.borrow_mut().clear();
        Upstream::prepare_pausing(&frames, end);
        request(Form::Streamed)
    };
    Row::new(name, prepare, move |request| {
        let answer = answer(&mut service, request);
        answers.borrow_mut().push(answer);
    })
}
