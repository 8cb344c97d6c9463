use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{
    HeaderName, HeaderValue, Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, TRAILER},
    response::Parts,
};
use llm_call::{Answer, BoxError, Ending, Error, Framing, Kind, State};
use pin_project_lite::pin_project;

use crate::{
    ProvideBody,
    body::garbled,
    translate::{Answering, piece::Garbled},
};

/// What a translation left out.
const LOST: HeaderName = HeaderName::from_static("x-llm-lost");

/// The largest answer that is translated whole, in bytes.
const MAX_WHOLE: usize = 64 * 1024 * 1024;

pin_project! {
    /// The response future of [`Provide`](crate::Provide).
    ///
    /// # Panics
    ///
    /// When it is polled again after it was ready.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B> {
        // `None` where there is nobody to call, and once the answer has come.
        #[pin]
        calling: Option<F>,
        error: Option<Error>,
        // Boxed: most answers are in the caller's dialect already.
        translation: Option<Box<Translation<B>>>,
    }
}

/// What becomes of the answer to a translated request.
pub(crate) struct Translation<B> {
    pub(crate) answering: Answering,
    /// What the request lost.
    pub(crate) lost: Option<Arc<str>>,
    /// A whole answer that is being read.
    reading: Option<Reading<B>>,
}

struct Reading<B> {
    parts: Parts,
    body: Pin<Box<B>>,
    text: BytesMut,
}

impl<B> Translation<B> {
    pub(crate) fn new(answering: Answering, lost: Option<Arc<str>>) -> Translation<B> {
        Translation {
            answering,
            lost,
            reading: None,
        }
    }
}

impl<F, B> ResponseFuture<F, B> {
    pub(crate) fn calling(future: F, translation: Option<Box<Translation<B>>>) -> Self {
        ResponseFuture {
            calling: Some(future),
            error: None,
            translation,
        }
    }

    pub(crate) fn failed(error: Error) -> Self {
        ResponseFuture {
            calling: None,
            error: Some(error),
            translation: None,
        }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Answer,
{
    type Output = Result<Response<ProvideBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(error) = this.error.take() {
            return Poll::Ready(Err(error.into()));
        }
        if let Some(calling) = this.calling.as_mut().as_pin_mut() {
            let answered = ready!(calling.poll(cx)).map_err(Into::into);
            this.calling.set(None);
            let response = match answered {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let Some(translation) = this.translation else {
                return Poll::Ready(Ok(response.map(ProvideBody::same)));
            };
            if let Some(response) = translation.begin(response) {
                *this.translation = None;
                return Poll::Ready(Ok(response));
            }
        }
        let Some(translation) = this.translation.as_mut() else {
            polled_after_ready();
        };
        let result = ready!(translation.poll_whole(cx));
        *this.translation = None;
        Poll::Ready(result)
    }
}

impl<B: Answer> Translation<B> {
    /// Takes an answer: a stream is translated as it comes, anything else once it is whole.
    fn begin(&mut self, response: Response<B>) -> Option<Response<ProvideBody<B>>> {
        let (mut parts, body) = response.into_parts();
        // What they say is true of other bytes.
        for name in [CONTENT_LENGTH, CONTENT_ENCODING, TRAILER, ETAG] {
            parts.headers.remove(name);
        }
        rename_id(&mut parts, &self.answering);
        if parts.status.is_success() && body.state().framing() == Some(Framing::Sse) {
            self.stamp(&mut parts, &[]);
            let body = ProvideBody::events(body, self.answering.stream());
            return Some(Response::from_parts(parts, body));
        }
        self.reading = Some(Reading {
            parts,
            body: Box::pin(body),
            text: BytesMut::new(),
        });
        None
    }

    fn poll_whole(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<ProvideBody<B>>, BoxError>> {
        let Some(reading) = &mut self.reading else {
            polled_after_ready();
        };
        while let Some(frame) = ready!(reading.body.as_mut().poll_frame(cx)) {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            if reading.text.len() + data.len() > MAX_WHOLE {
                let error = garbled(
                    reading.body.state(),
                    Garbled("the answer is too large".into()),
                );
                reading.body.as_mut().cut(Ending::Failed(error.outcome()));
                return Poll::Ready(Err(error.into()));
            }
            reading.text.extend_from_slice(&data);
        }
        let Some(Reading { parts, body, text }) = self.reading.take() else {
            polled_after_ready();
        };
        Poll::Ready(self.whole(parts, body.state(), &text.freeze()))
    }

    /// A whole answer is here.
    fn whole(
        &self,
        mut parts: Parts,
        state: &State,
        text: &Bytes,
    ) -> Result<Response<ProvideBody<B>>, BoxError> {
        let outcome = state.outcome();
        // A filter's refusal has the form of an answer.
        let is_answer = outcome.is_success() || outcome.kind == Kind::ContentFiltered;
        let (text, lost) = if parts.status.is_success() && is_answer {
            self.answering
                .whole(text)
                .map_err(|reason| garbled(state, reason))?
        } else {
            if parts.status.is_client_error() || parts.status.is_server_error() {
                parts.status = self.answering.caller.error_status(outcome.kind);
            }
            (self.answering.failure(outcome.kind, text), Vec::new())
        };
        parts
            .headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.stamp(&mut parts, &lost);
        Ok(Response::from_parts(parts, ProvideBody::whole(text, state)))
    }

    fn stamp(&self, parts: &mut Parts, more: &[&'static str]) {
        let names: Vec<&str> = (self.lost.as_deref().into_iter())
            .chain(more.iter().copied())
            .collect();
        if !names.is_empty()
            && let Ok(value) = HeaderValue::from_str(&names.join(", "))
        {
            parts.headers.insert(LOST, value);
        }
    }
}

/// The provider's id of the request, under the name that the caller's client looks for.
fn rename_id(parts: &mut Parts, answering: &Answering) {
    const OPENAI: HeaderName = HeaderName::from_static("x-request-id");
    const ANTHROPIC: HeaderName = HeaderName::from_static("request-id");
    let (from, to) = match answering.caller {
        llm_call::Dialect::Anthropic => (OPENAI, ANTHROPIC),
        _ => (ANTHROPIC, OPENAI),
    };
    if let Some(id) = parts.headers.get(from).cloned()
        && !parts.headers.contains_key(&to)
    {
        parts.headers.insert(to, id);
    }
}

#[expect(
    clippy::panic,
    reason = "the contract of Future: not polled after Ready"
)]
fn polled_after_ready() -> ! {
    panic!("a response future was polled after it was ready")
}

impl<F, B> fmt::Debug for ResponseFuture<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
