use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use llm_call::{Answer, BoxError};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use crate::race::{Race, Which};

pin_project! {
    /// The response future of [`Hedge`](crate::Hedge).
    ///
    /// Dropping it drops both copies.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        // The first copy, until it ends. Dropped before the race, which learns from what it has left.
        #[pin]
        first: Option<S::Future>,
        #[pin]
        timer: Option<Sleep>,
        // `None` for a call that cannot be hedged, and after the end.
        race: Option<Race<S, ReqB>>,
    }
}

impl<S, ReqB> ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) fn new(first: S::Future, race: Option<Race<S, ReqB>>) -> Self {
        ResponseFuture {
            first: Some(first),
            timer: None,
            race,
        }
    }
}

impl<S, ReqB, B> Future for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    type Output = Result<Response<B>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(race) = this.race else {
            let Some(first) = this.first.as_mut().as_pin_mut() else {
                polled_after_ready();
            };
            // Nothing is to be done with the result, and it is large to move.
            let polled = first.poll(cx);
            if polled.is_ready() {
                this.first.set(None);
            }
            return polled;
        };
        if let Some(first) = this.first.as_mut().as_pin_mut()
            && let Poll::Ready(result) = first.poll(cx)
        {
            // It takes its permit and its timers along before anything else happens.
            this.first.set(None);
            this.timer.set(None);
            if race.settle(Which::First, &result, race.has_hedge()) {
                *this.race = None;
                return Poll::Ready(result);
            }
            if let Some(result) = race.fail(Which::First, result, race.has_hedge()) {
                *this.race = None;
                return Poll::Ready(result);
            }
        }
        if !race.has_hedge() {
            ready!(race.poll_start(this.timer, cx));
        }
        let Some(hedge) = &mut race.hedge else {
            return Poll::Pending;
        };
        let result = ready!(hedge.as_mut().poll(cx));
        race.hedge = None;
        if race.settle(Which::Hedge, &result, this.first.is_some()) {
            this.first.set(None);
            *this.race = None;
            return Poll::Ready(result);
        }
        let Some(result) = race.fail(Which::Hedge, result, this.first.is_some()) else {
            return Poll::Pending;
        };
        *this.race = None;
        Poll::Ready(result)
    }
}

#[expect(
    clippy::panic,
    reason = "the contract of Future: not polled after Ready"
)]
fn polled_after_ready() -> ! {
    panic!("a response future was polled after it was ready")
}

impl<S, ReqB> fmt::Debug for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("first", &self.first.is_some())
            .field("timer", &self.timer.is_some())
            .field("hedge", &self.race.as_ref().is_some_and(Race::has_hedge))
            .finish()
    }
}
