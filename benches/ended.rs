//! An upstream that costs next to nothing: its answers are read to their end already, so that what
//! is measured over it is the layer alone.

use std::{
    cell::RefCell,
    future::{Ready, ready},
    pin::{Pin, pin},
    sync::LazyLock,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use llm_call::{Answer, BoxError, Ending, PeekLayer, State};
use tower::Layer;
use tower_service::Service;

use crate::{Form, Upstream, answer, request};

/// A body that has been read to its end, which is when a breaker has its verdict.
#[derive(Debug)]
pub struct Ended(State);

impl Body for Ended {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(None)
    }
}

impl Answer for Ended {
    fn state(&self) -> &State {
        &self.0
    }

    fn cut(self: Pin<&mut Self>, _: Ending) {}
}

/// What a `PeekLayer` has to say of an answer in one piece.
static STATE: LazyLock<State> = LazyLock::new(|| {
    Upstream::prepare(Form::Whole);
    let mut peek = PeekLayer::new().layer(Upstream);
    let mut body = pin!(answer(&mut peek, request(Form::Whole)).into_body());
    while body.frame().now_or_never().flatten().is_some() {}
    let state = body.state().clone();
    assert_eq!(state.ending(), Some(Ending::Complete));
    state
});

thread_local! {
    /// Requests to send again: making one is no part of what is measured.
    static SPARE: RefCell<Vec<Request<()>>> = const { RefCell::new(Vec::new()) };
}

/// An upstream that allocates nothing and shares nothing with itself on another thread.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce;

impl AtOnce {
    /// Makes the answer once, which needs a moment.
    pub fn warm_up() {
        LazyLock::force(&STATE);
    }

    /// A request that came down on this thread, to be sent again.
    pub fn spare() -> Option<Request<()>> {
        SPARE.with_borrow_mut(Vec::pop)
    }
}

impl Service<Request<()>> for AtOnce {
    type Response = Response<Ended>;
    type Error = BoxError;
    type Future = Ready<Result<Response<Ended>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        SPARE.with_borrow_mut(|spare| spare.push(request));
        ready(Ok(Response::new(Ended(STATE.clone()))))
    }
}
