//! A provider in memory that plays a part.

use std::{
    collections::VecDeque,
    future::{Ready, ready},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use benches::{Req, wire};
use bytes::Bytes;
use http::{Response, header};
use http_body::{Body, Frame};
use llm_call::{Attempt, BoxError};
use tower::Service;

/// What a provider does with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A whole stream.
    Good,
    /// A stream that ends after its first token, without a word.
    Cut,
    /// A 200 with an error event in it.
    ErrorEvent,
    /// Headers, and then nothing.
    Hang,
    /// The first token, and then nothing.
    Open,
    /// No connection.
    Refuse,
}

/// A provider that plays its part for each call; it counts the calls.
#[derive(Clone)]
pub(crate) struct Provider {
    /// By the number of the call, from 0, and by its target.
    part: Arc<dyn Fn(u32, &str) -> Part + Send + Sync>,
    calls: Arc<AtomicU32>,
}

impl Provider {
    pub(crate) fn new(part: impl Fn(u32, &str) -> Part + Send + Sync + 'static) -> Provider {
        Provider {
            part: Arc::new(part),
            calls: Arc::default(),
        }
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Relaxed)
    }
}

impl Service<Req> for Provider {
    type Response = Response<Told>;
    type Error = BoxError;
    type Future = Ready<Result<Response<Told>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let attempt = request.extensions().get::<Attempt>();
        let target = attempt.and_then(|attempt| attempt.target.as_ref());
        let target = target.map(ToString::to_string).unwrap_or_default();
        let part = (self.part)(self.calls.fetch_add(1, Relaxed), &target);
        let frames = match part {
            Part::Good => wire::openai(10),
            Part::Cut | Part::Open => wire::openai_beginning(),
            Part::ErrorEvent => wire::error_event(),
            Part::Hang => [].into(),
            Part::Refuse => return ready(Err("connection refused".into())),
        };
        let body = Told {
            frames: frames.iter().cloned().collect(),
            hangs: matches!(part, Part::Hang | Part::Open),
        };
        let mut answer = Response::new(body);
        let media = header::HeaderValue::from_static("text/event-stream");
        answer.headers_mut().insert(header::CONTENT_TYPE, media);
        ready(Ok(answer))
    }
}

/// What it says.
#[derive(Debug)]
pub(crate) struct Told {
    frames: VecDeque<Bytes>,
    hangs: bool,
}

impl Body for Told {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(Frame::data(frame)))),
            None if self.hangs => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}
