use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use llm_call::{Answer, BoxError, Ending, Error, Kind, State};
use pin_project_lite::pin_project;

use crate::translate::{Stream, piece::Garbled};

pin_project! {
    /// The body of an answer as [`Provide`](crate::Provide) hands it on: the provider's own bytes, or
    /// their translation into the caller's dialect.
    pub struct ProvideBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = InnerProj]
    enum Inner<B> {
        /// The caller's dialect already.
        Same {
            #[pin]
            body: B,
        },
        /// Translated event by event.
        Events {
            #[pin]
            body: B,
            stream: Box<Stream>,
            broken: Option<Broken>,
        },
        /// Translated whole; the answer has ended, and the state says how.
        Whole { text: Option<Bytes>, state: Box<State> },
    }
}

/// A stream that could not be translated to its end.
#[derive(Debug)]
enum Broken {
    /// What came before was handed on; this follows.
    Now(Error),
    Said,
}

impl<B> ProvideBody<B> {
    pub(crate) fn same(body: B) -> Self {
        ProvideBody {
            inner: Inner::Same { body },
        }
    }

    pub(crate) fn events(body: B, stream: Stream) -> Self {
        let stream = Box::new(stream);
        ProvideBody {
            inner: Inner::Events {
                body,
                stream,
                broken: None,
            },
        }
    }

    pub(crate) fn whole(text: Vec<u8>, state: &State) -> Self {
        let state = Box::new(state.clone().with_whole_body(text.len() as u64));
        ProvideBody {
            inner: Inner::Whole {
                text: Some(text.into()).filter(|text: &Bytes| !text.is_empty()),
                state,
            },
        }
    }
}

/// What the provider sent is not its own dialect.
pub(crate) fn garbled(state: &State, Garbled(reason): Garbled) -> Error {
    Error::new(Kind::Malformed)
        .with_target(state.target().cloned())
        .with_source(reason.into_owned())
}

fn translated<B: Answer>(
    mut body: Pin<&mut B>,
    stream: &mut Stream,
    broken: &mut Option<Broken>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
    if broken.is_some() {
        return Poll::Ready(match broken.replace(Broken::Said) {
            Some(Broken::Now(error)) => Some(Err(error.into())),
            _ => None,
        });
    }
    loop {
        let mut out = Vec::new();
        let (wrote, ended) = match ready!(body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => (stream.feed(&data, &mut out), false),
                // Trailers are about bytes that nobody gets.
                Err(_) => (Ok(()), false),
            },
            // The caller's edge writes it in the caller's dialect.
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => (stream.at_eof(&mut out), true),
        };
        if let Err(reason) = wrote {
            let error = garbled(body.state(), reason);
            body.as_mut().cut(Ending::Failed(error.outcome()));
            if out.is_empty() {
                *broken = Some(Broken::Said);
                return Poll::Ready(Some(Err(error.into())));
            }
            *broken = Some(Broken::Now(error));
        }
        if !out.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(out.into()))));
        }
        if ended {
            return Poll::Ready(None);
        }
    }
}

impl<B: Answer> Body for ProvideBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().inner.project() {
            InnerProj::Same { body } => body.poll_frame(cx),
            InnerProj::Events {
                body,
                stream,
                broken,
            } => translated(body, stream, broken, cx),
            InnerProj::Whole { text, .. } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Same { body } => body.is_end_stream(),
            Inner::Events {
                body,
                stream,
                broken,
            } => match broken {
                Some(broken) => matches!(broken, Broken::Said),
                None => stream.is_over() && body.is_end_stream(),
            },
            Inner::Whole { text, .. } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Same { body } => body.size_hint(),
            Inner::Events { .. } => SizeHint::default(),
            Inner::Whole { text, .. } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}

impl<B: Answer> Answer for ProvideBody<B> {
    fn state(&self) -> &State {
        match &self.inner {
            Inner::Same { body } | Inner::Events { body, .. } => body.state(),
            Inner::Whole { state, .. } => state,
        }
    }

    fn cut(self: Pin<&mut Self>, ending: Ending) {
        match self.project().inner.project() {
            InnerProj::Same { body } | InnerProj::Events { body, .. } => body.cut(ending),
            // It has ended, and keeps its bytes.
            InnerProj::Whole { .. } => {}
        }
    }
}

impl<B: Answer> fmt::Debug for ProvideBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match &self.inner {
            Inner::Same { .. } => "same",
            Inner::Events { .. } => "events",
            Inner::Whole { .. } => "whole",
        };
        f.debug_struct("ProvideBody")
            .field("form", &form)
            .field("state", self.state())
            .finish_non_exhaustive()
    }
}
