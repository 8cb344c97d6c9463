use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, TRAILER},
    response::Parts,
};
use llm_call::{Answer, BoxError, Ending, Error, Framing, Kind};
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

/// The most that is read of an answer that failed.
const MAX_FAILED: usize = 64 * 1024;

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
        // What the request lost.
        lost: Option<Arc<str>>,
        // Boxed: most answers are in the caller's dialect already.
        translation: Option<Box<Translation<B>>>,
    }
}

/// What becomes of the answer to a translated request.
struct Translation<B> {
    answering: Answering,
    /// A whole answer that is being read.
    reading: Option<Reading<B>>,
}

struct Reading<B> {
    parts: Parts,
    body: Pin<Box<B>>,
    text: BytesMut,
}

impl<F, B> ResponseFuture<F, B> {
    pub(crate) fn calling(future: F, answering: Option<Answering>, lost: Option<Arc<str>>) -> Self {
        let translation = answering.map(|answering| {
            Box::new(Translation {
                answering,
                reading: None,
            })
        });
        ResponseFuture {
            calling: Some(future),
            error: None,
            lost,
            translation,
        }
    }

    pub(crate) fn failed(error: Error) -> Self {
        ResponseFuture {
            calling: None,
            error: Some(error),
            lost: None,
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
            let mut response = match answered {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let Some(translation) = this.translation else {
                stamp(response.headers_mut(), this.lost.as_deref(), &[]);
                return Poll::Ready(Ok(response.map(ProvideBody::same)));
            };
            if let Some(mut response) = translation.begin(response) {
                *this.translation = None;
                stamp(response.headers_mut(), this.lost.as_deref(), &[]);
                return Poll::Ready(Ok(response));
            }
        }
        let Some(translation) = this.translation.as_mut() else {
            polled_after_ready();
        };
        let result = ready!(translation.poll_whole(cx));
        *this.translation = None;
        Poll::Ready(result.map(|(mut response, lost)| {
            stamp(response.headers_mut(), this.lost.as_deref(), &lost);
            response
        }))
    }
}

/// A translated answer, and what of it was lost.
type Whole<B> = (Response<ProvideBody<B>>, Vec<&'static str>);

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

    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Result<Whole<B>, BoxError>> {
        let Some(Reading { parts, body, text }) = &mut self.reading else {
            polled_after_ready();
        };
        let outcome = body.state().outcome();
        // A filter's refusal has the form of an answer.
        let is_answer = parts.status.is_success()
            && (outcome.is_success() || outcome.kind == Kind::ContentFiltered);
        loop {
            let frame = match body.as_mut().poll_frame(cx) {
                Poll::Ready(None) => break,
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) if is_answer => return Poll::Ready(Err(error)),
                Poll::Pending if is_answer => return Poll::Pending,
                // What was waited for of a failure is here, and its end may never come.
                Poll::Pending | Poll::Ready(Some(Err(_))) => break,
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if is_answer && text.len() + data.len() > MAX_WHOLE {
                let error = garbled(body.state(), Garbled("the answer is too large".into()));
                body.as_mut().cut(Ending::Failed(error.outcome()));
                return Poll::Ready(Err(error.into()));
            }
            text.extend_from_slice(&data);
            if !is_answer && text.len() >= MAX_FAILED {
                break;
            }
        }
        if !is_answer {
            body.as_mut().cut(Ending::Failed(outcome));
        }
        let Some(reading) = self.reading.take() else {
            polled_after_ready();
        };
        Poll::Ready(self.whole(reading, is_answer))
    }

    /// All that is waited for is here.
    fn whole(&self, reading: Reading<B>, is_answer: bool) -> Result<Whole<B>, BoxError> {
        let Reading {
            mut parts,
            body,
            text,
        } = reading;
        let state = body.state();
        let (text, lost) = if is_answer {
            self.answering
                .whole(&text)
                .map_err(|reason| garbled(state, reason))?
        } else {
            let kind = state.outcome().kind;
            if parts.status.is_client_error() || parts.status.is_server_error() {
                parts.status = self.answering.caller.error_status(kind);
            }
            (self.answering.failure(kind, &text), Vec::new())
        };
        let json = HeaderValue::from_static("application/json");
        parts.headers.insert(CONTENT_TYPE, json);
        let body = ProvideBody::whole(text, state);
        Ok((Response::from_parts(parts, body), lost))
    }
}

/// Says in the head of an answer what the request lost, and the answer.
fn stamp(headers: &mut HeaderMap, lost: Option<&str>, more: &[&'static str]) {
    let names: Vec<&str> = lost.into_iter().chain(more.iter().copied()).collect();
    if !names.is_empty()
        && let Ok(value) = HeaderValue::from_str(&names.join(", "))
    {
        headers.insert(LOST, value);
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
