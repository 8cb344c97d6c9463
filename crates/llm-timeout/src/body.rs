use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use llm_call::{Answer, BoxError, Cause, Ending, Error, Phase, State};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::{
    clock::{AnswerClock, RequestClock, Seen},
    copies::Copies,
};

pin_project! {
    /// The body of [`Timeout`](crate::Timeout) and [`Deadline`](crate::Deadline).
    ///
    /// When a limit passes, the answer is cut: its connection is let go in that moment, and the
    /// body yields one error of the kind [`TimedOut`](llm_call::Kind::TimedOut) and ends. An answer
    /// whose content is complete, and which only lacks its end, ends cleanly instead.
    ///
    /// Its timer is made at the first wait; a body that is already there needs none. It is
    /// `Unpin` and `Sync` where the inner body is.
    pub struct TimeoutBody<B> {
        #[pin]
        inner: B,
        // `None` where nothing limits this answer.
        clock: Option<AnswerClock>,
        copies: Copies,
        sleep: Option<Pin<Box<Sleep>>>,
        // A limit that passed while there was still something to hand on. What comes next is the
        // end of the answer, or too late.
        overdue: Option<Phase>,
        ended: bool,
    }
}

impl<B: Answer> TimeoutBody<B> {
    pub(crate) fn new(inner: B, clock: &mut RequestClock, copies: &mut Copies) -> Self {
        let state = inner.state();
        let mut clock = clock.committed(state.is_streamed(), state.token_events());
        if let (Some(clock), None) = (&mut clock, state.ending()) {
            clock.start(Instant::now());
        }
        TimeoutBody {
            inner,
            clock,
            copies: std::mem::take(copies),
            sleep: None,
            overdue: None,
            ended: false,
        }
    }

    /// Nothing came. Waits for the limit that passes first.
    fn poll_due(self: Pin<&mut Self>, mut now: Instant, cx: &mut Context<'_>) -> Poll<Phase> {
        let this = self.project();
        let Some(clock) = this.clock else {
            return Poll::Pending;
        };
        loop {
            let seen = seen(this.inner.as_ref().get_ref().state(), clock, this.copies);
            let Some(due) = clock.waiting(now, seen) else {
                return Poll::Pending;
            };
            if due.at <= now {
                return Poll::Ready(due.phase);
            }
            let sleep = this
                .sleep
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due.at)));
            // One that fires too early is cheaper than one that is set at each event.
            if sleep.is_elapsed() || sleep.deadline() > due.at {
                sleep.as_mut().reset(due.at);
            }
            ready!(sleep.as_mut().poll(cx));
            now = Instant::now();
        }
    }

    /// A limit passed: ends the answer, and says so unless all of its content came.
    fn fire(mut self: Pin<&mut Self>, phase: Phase) -> Option<Result<Frame<Bytes>, BoxError>> {
        let this = self.as_mut().project();
        let state = this.inner.as_ref().get_ref().state();
        let whole = is_whole(state);
        let error = Error::from(this.copies.outcome(phase).committed())
            .with_target(state.target().cloned());
        if !whole && state.ending().is_none() {
            this.copies.timed_out(phase);
        }
        self.cut(Ending::Cut(Cause::TimedOut(phase)));
        (!whole).then(|| Err(error.into()))
    }

    /// Nothing follows: lets the timer go.
    fn end(self: Pin<&mut Self>) {
        let this = self.project();
        *this.ended = true;
        *this.sleep = None;
    }
}

/// What the clock wants to know. The deadline bounds answers that are not streamed.
fn seen(state: &State, clock: &AnswerClock, copies: &Copies) -> Seen {
    Seen {
        started: state.started(),
        has_token: state.first_token().is_some(),
        tokens: state.token_events(),
        deadline: if clock.is_streamed() {
            None
        } else {
            copies.deadline()
        },
    }
}

/// Whether all content came, so that only the end is missing.
fn is_whole(state: &State) -> bool {
    state.is_finished() || state.ending() == Some(Ending::Complete)
}

impl<B: Answer> Body for TimeoutBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut this = self.as_mut().project();
        let state = this.inner.as_ref().get_ref().state();
        let open = state.ending().is_none();
        // What has ended is not timed unless it has to be waited for.
        let asked = this.clock.as_mut().filter(|_| open).map(|clock| {
            let now = Instant::now();
            clock.asked(now);
            now
        });
        match this.inner.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let state = this.inner.as_ref().get_ref().state();
                let goes_on = state.ending().is_none() && !state.is_finished();
                if let (Some(phase), true) = (*this.overdue, goes_on) {
                    return Poll::Ready(self.fire(phase));
                }
                if let (Some(clock), Some(now)) = (this.clock, asked) {
                    let seen = seen(state, clock, this.copies);
                    *this.overdue = clock.handed(now, seen);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(end) => {
                self.end();
                Poll::Ready(end)
            }
            Poll::Pending => {
                let now = asked.unwrap_or_else(Instant::now);
                let phase = ready!(self.as_mut().poll_due(now, cx));
                Poll::Ready(self.fire(phase))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.ended {
            SizeHint::with_exact(0)
        } else {
            self.inner.size_hint()
        }
    }
}

impl<B: Answer> Answer for TimeoutBody<B> {
    fn state(&self) -> &State {
        self.inner.state()
    }

    fn cut(mut self: Pin<&mut Self>, ending: Ending) {
        self.as_mut().project().inner.cut(ending);
        self.end();
    }
}

impl<B: Answer> fmt::Debug for TimeoutBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutBody")
            .field("state", self.state())
            .field("clock", &self.clock)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
