//! A client whose answers are there at once.

use std::{
    cell::RefCell,
    future::{Ready, ready},
    num::NonZeroU32,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use llm_call::BoxError;
use tower_service::Service;

use crate::{Form, Req, wire};

/// A body whose frames are all there, but for one that has to be waited for, if it was told so.
#[derive(Debug)]
pub struct Frames {
    frames: Arc<[Bytes]>,
    // Small, since what a body holds is measured too.
    next: u32,
    /// Before which frame it is pending once.
    pause: Option<NonZeroU32>,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.pause.is_some_and(|pause| pause.get() == self.next) {
            self.pause = None;
            return Poll::Pending;
        }
        let frame = self.frames.get(self.next as usize).cloned();
        self.next += 1;
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.pause.is_none() && self.next as usize >= self.frames.len()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.frames[..] {
            [whole] if self.next == 0 => SizeHint::with_exact(whole.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// A client whose answers are there at once.
///
/// It hands out what [`Upstream::prepare`] has put down on this thread, so that making an answer is
/// no part of what is measured; a call for which nothing was put down panics.
#[derive(Clone, Copy, Debug)]
pub struct Upstream;

thread_local! {
    static ANSWERS: RefCell<Vec<Result<Response<Frames>, BoxError>>> = const { RefCell::new(Vec::new()) };
}

impl Upstream {
    /// Puts down the answer to one call.
    pub fn prepare(form: Form) {
        Upstream::put(form, wire::frames(form), None);
    }

    /// Puts down a stream of one's own.
    pub fn prepare_stream(frames: &Arc<[Bytes]>) {
        Upstream::put(Form::Streamed, frames.clone(), None);
    }

    /// Puts down a stream that has to be waited for once, after this many frames.
    pub fn prepare_pausing(frames: &Arc<[Bytes]>, after: NonZeroU32) {
        Upstream::put(Form::Streamed, frames.clone(), Some(after));
    }

    /// Puts down an answer that asks to be left alone for an hour.
    pub fn prepare_rate_limit() {
        Upstream::put(Form::Whole, wire::rate_limit(), None);
        ANSWERS.with_borrow_mut(|answers| {
            if let Some(Ok(answer)) = answers.last_mut() {
                *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                let hour = header::HeaderValue::from_static("3600");
                answer.headers_mut().insert(header::RETRY_AFTER, hour);
            }
        });
    }

    fn put(form: Form, frames: Arc<[Bytes]>, pause: Option<NonZeroU32>) {
        let media = match form {
            Form::Whole => "application/json",
            Form::Streamed => "text/event-stream",
        };
        let body = Frames {
            frames,
            next: 0,
            pause,
        };
        let mut answer = Response::new(body);
        let headers = answer.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static(media),
        );
        headers.insert(
            "x-request-id",
            header::HeaderValue::from_static("req_0123456789"),
        );
        ANSWERS.with_borrow_mut(|answers| answers.push(Ok(answer)));
    }

    /// Puts down an error.
    pub(crate) fn prepare_failure() {
        ANSWERS.with_borrow_mut(|answers| answers.push(Err("connection reset".into())));
    }

    /// Takes the last thing away that was put down, if nobody has called for it.
    pub(crate) fn take_away() -> bool {
        ANSWERS.with_borrow_mut(Vec::pop).is_some()
    }
}

impl Service<Req> for Upstream {
    type Response = Response<Frames>;
    type Error = BoxError;
    type Future = Ready<Result<Response<Frames>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    #[expect(
        clippy::expect_used,
        reason = "a bench that forgot an answer has nothing to measure"
    )]
    fn call(&mut self, request: Req) -> Self::Future {
        drop(request);
        let answer = ANSWERS.with_borrow_mut(Vec::pop);
        ready(answer.expect("an answer was prepared for each call"))
    }
}
