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
        if let Some(first) = this.first.as_mut().as_pin_mut()
            && let Poll::Ready(result) = first.poll(cx)
        {
            // It takes its permit and its timers along before anything else happens.
            this.first.set(None);
            this.timer.set(None);
            let Some(race) = this.race else {
                return Poll::Ready(result);
            };
            let settled = race.settle(Which::First, result, race.has_hedge());
            if let Some(result) = settled {
                if let Some(race) = this.race.take() {
                    race.finish(Which::First, &result);
                }
                return Poll::Ready(result);
            }
        }
        let Some(race) = this.race else {
            if this.first.is_none() {
                polled_after_ready();
            }
            return Poll::Pending;
        };
        if !race.has_hedge() {
            ready!(race.poll_start(this.timer, cx));
        }
        let Some(hedge) = &mut race.hedge else {
            return Poll::Pending;
        };
        let result = ready!(hedge.as_mut().poll(cx));
        race.hedge = None;
        let Some(result) = race.settle(Which::Hedge, result, this.first.is_some()) else {
            return Poll::Pending;
        };
        this.first.set(None);
        if let Some(race) = this.race.take() {
            race.finish(Which::Hedge, &result);
        }
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
