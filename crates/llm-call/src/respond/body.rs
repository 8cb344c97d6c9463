use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{convert::Caller, events::Events, form, message};
use crate::{Answer, BoxError, Dialect, Framing, Outcome, peek::longer};

/// What a body said when it was read ahead.
pub(super) type Ahead = VecDeque<Result<Frame<Bytes>, BoxError>>;

/// The data of a frame that is one.
pub(super) fn data_of(frame: &Result<Frame<Bytes>, BoxError>) -> Option<&Bytes> {
    frame.as_ref().ok()?.data_ref()
}

pin_project! {
    /// The body of an answer as [`Respond`](crate::Respond) hands it on: the body below, or the
    /// JSON that says what failed.
    ///
    /// In a stream of events it hands on whole events; where the body below fails, the error
    /// becomes the last event.
    pub struct RespondBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = InnerProj]
    enum Inner<B> {
        /// The body below.
        Passing {
            #[pin]
            body: B,
            stream: Option<Stream>,
        },
        /// The body below, of which some was read already.
        Unchanged { body: Pin<Box<B>>, ahead: Ahead },
        /// An error in JSON.
        Json { text: Option<Bytes> },
    }
}

/// A stream whose error becomes its last event.
#[derive(Debug)]
struct Stream {
    events: Events,
    caller: Caller,
    /// What was handed on last: the events of some dialects are numbered.
    last: Bytes,
    /// Trailers that wait for what is left of the data.
    trailers: Option<HeaderMap>,
    ended: bool,
}

impl<B: Answer> RespondBody<B> {
    /// The body below; with a framing, errors become events.
    pub(super) fn passing(body: B, framing: Option<Framing>, caller: Caller) -> Self {
        let stream = framing.map(|framing| Stream {
            events: Events::new(framing),
            caller,
            last: Bytes::new(),
            trailers: None,
            ended: false,
        });
        RespondBody {
            inner: Inner::Passing { body, stream },
        }
    }

    pub(super) fn unchanged(body: Pin<Box<B>>, ahead: Ahead) -> Self {
        RespondBody {
            inner: Inner::Unchanged { body, ahead },
        }
    }

    pub(super) fn json(text: Vec<u8>) -> Self {
        RespondBody {
            inner: Inner::Json {
                text: Some(text.into()),
            },
        }
    }
}

impl Stream {
    fn hand_on(&mut self, data: Bytes) -> Option<Frame<Bytes>> {
        if data.is_empty() {
            return None;
        }
        if self.caller.dialect == Dialect::OpenAiResponses {
            self.last = data.clone();
        }
        Some(Frame::data(data))
    }

    fn is_done(&self) -> bool {
        self.ended && self.events.is_empty() && self.trailers.is_none()
    }

    fn poll<B: Answer>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(trailers) = self.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let data = match ready!(body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.events.push(data),
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok();
                        self.events.flush()
                    }
                },
                Some(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Some(self.fail(error)));
                }
                None => {
                    self.ended = true;
                    self.events.flush()
                }
            };
            if let Some(frame) = self.hand_on(data) {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
    }

    /// The last event, or the error itself where no event can follow.
    fn fail(&mut self, error: BoxError) -> Result<Frame<Bytes>, BoxError> {
        if !self.events.cut() {
            return Err(error);
        }
        let outcome = Outcome::of_error(&*error);
        Ok(Frame::data(Bytes::from(form::event(
            outcome.kind,
            &message::of_error(outcome, &*error, self.caller.settings.details),
            self.caller.dialect,
            self.events.framing(),
            &self.last,
        ))))
    }
}

impl<B: Answer> Body for RespondBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().inner.project() {
            InnerProj::Passing { body, stream: None } => body.poll_frame(cx),
            InnerProj::Passing {
                body,
                stream: Some(stream),
            } => stream.poll(body, cx),
            InnerProj::Unchanged { body, ahead } => match ahead.pop_front() {
                Some(frame) => Poll::Ready(Some(frame)),
                None => body.as_mut().poll_frame(cx),
            },
            InnerProj::Json { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Passing { body, stream: None } => body.is_end_stream(),
            Inner::Passing {
                body,
                stream: Some(stream),
            } => {
                stream.is_done()
                    || (body.is_end_stream()
                        && stream.events.is_empty()
                        && stream.trailers.is_none())
            }
            Inner::Unchanged { body, ahead } => ahead.is_empty() && body.is_end_stream(),
            Inner::Json { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Passing { body, stream: None } => body.size_hint(),
            // An error event may follow, and an unfinished event may not.
            Inner::Passing { .. } if !self.is_end_stream() => SizeHint::default(),
            Inner::Passing { .. } => SizeHint::with_exact(0),
            Inner::Unchanged { body, ahead } => {
                let ahead = ahead.iter().filter_map(data_of).map(Bytes::len).sum();
                longer(&body.size_hint(), ahead)
            }
            Inner::Json { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}

impl<B: Answer> fmt::Debug for RespondBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RespondBody");
        match &self.inner {
            Inner::Passing { body, stream } => debug
                .field("state", body.state())
                .field("stream", stream)
                .finish(),
            Inner::Unchanged { body, .. } => debug.field("state", body.state()).finish(),
            Inner::Json { text } => debug.field("json", text).finish(),
        }
    }
}
