//! Scripted bodies and services.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use llm_call::BoxError;
use tower::util::ServiceFn;

/// One step of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Data(&'static str),
    /// Pending, for ever.
    Hang,
    Break,
}

pub(crate) use Step::{Break, Data, Hang};

/// A body that does what it is told.
#[derive(Clone, Debug)]
pub(crate) struct Script(VecDeque<Step>);

pub(crate) fn script(steps: &[Step]) -> Script {
    Script(steps.iter().copied().collect())
}

impl Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.0.pop_front() {
            None => Poll::Ready(None),
            Some(Data(data)) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(data))))),
            Some(Break) => Poll::Ready(Some(Err("connection reset".into()))),
            Some(Hang) => {
                self.0.push_front(Hang);
                Poll::Pending
            }
        }
    }
}

pub(crate) const SSE: &str = "text/event-stream";
pub(crate) const JSON: &str = "application/json";

pub(crate) fn answer(status: u16, media: &str, steps: &[Step]) -> Response<Script> {
    Response::builder()
        .status(status)
        .header("content-type", media)
        .body(script(steps))
        .unwrap()
}

/// A client below that always gives this answer.
pub(crate) fn answering<ReqB>(
    status: u16,
    media: &'static str,
    steps: &'static [Step],
) -> ServiceFn<
    impl Fn(Request<ReqB>) -> std::future::Ready<Result<Response<Script>, Infallible>> + Clone,
> {
    tower::service_fn(move |_: Request<ReqB>| std::future::ready(Ok(answer(status, media, steps))))
}

/// What a response is at its end: status, body, and the error that the body ended with.
pub(crate) async fn read<B>(response: Response<B>) -> (u16, String, Option<BoxError>)
where
    B: Body<Data = Bytes, Error = BoxError>,
{
    let status = response.status().as_u16();
    let mut body = Box::pin(response.into_body());
    let mut text = Vec::new();
    loop {
        match body.as_mut().frame().await {
            Some(Ok(frame)) => text.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
            Some(Err(error)) => return (status, String::from_utf8(text).unwrap(), Some(error)),
            None => return (status, String::from_utf8(text).unwrap(), None),
        }
    }
}
