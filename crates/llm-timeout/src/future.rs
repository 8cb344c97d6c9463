use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use llm_call::{Answer, BoxError, Error, Phase, Target};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::{TimeoutBody, clock::RequestClock, copies::Copies};

pin_project! {
    /// The response future of [`Timeout`](crate::Timeout) and [`Deadline`](crate::Deadline).
    ///
    /// Its timer is made at the first wait and needs no allocation. When a limit passes, the inner
    /// future is dropped before this one resolves. Dropping this one drops both.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        stage: Stage<F>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F> {
        /// There was no time left to send it.
        Refused { error: Option<Error> },
        Waiting {
            #[pin]
            future: F,
            #[pin]
            sleep: Option<Sleep>,
            clock: RequestClock,
            copies: Copies,
            target: Option<Target>,
        },
        Done,
    }
}

impl<F> ResponseFuture<F> {
    pub(crate) fn refused(error: Error) -> Self {
        ResponseFuture {
            stage: Stage::Refused { error: Some(error) },
        }
    }

    pub(crate) fn new(
        future: F,
        clock: RequestClock,
        copies: Copies,
        target: Option<Target>,
    ) -> Self {
        ResponseFuture {
            stage: Stage::Waiting {
                future,
                sleep: None,
                clock,
                copies,
                target,
            },
        }
    }
}

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Answer,
{
    type Output = Result<Response<TimeoutBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        let error = match stage.as_mut().project() {
            StageProj::Refused { error } => match error.take() {
                Some(error) => error,
                None => polled_after_ready(),
            },
            StageProj::Waiting {
                future,
                sleep,
                clock,
                copies,
                target,
            } => match future.poll(cx) {
                Poll::Ready(Ok(response)) => {
                    let response = response.map(|body| TimeoutBody::new(body, clock, copies));
                    stage.set(Stage::Done);
                    return Poll::Ready(Ok(response));
                }
                Poll::Ready(Err(error)) => {
                    stage.set(Stage::Done);
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Pending => {
                    let phase = ready!(poll_due(sleep, clock, copies, cx));
                    copies.timed_out(phase);
                    Error::from(copies.outcome(phase)).with_target(target.take())
                }
            },
            StageProj::Done => polled_after_ready(),
        };
        stage.set(Stage::Done);
        Poll::Ready(Err(error.into()))
    }
}

/// Waits for the limit that passes first. The deadline is read again each time, since another layer
/// may have made it tighter. A stream that is held whole has its first token long before its commit;
/// the call knows.
fn poll_due(
    mut sleep: Pin<&mut Option<Sleep>>,
    clock: &mut RequestClock,
    copies: &Copies,
    cx: &mut Context<'_>,
) -> Poll<Phase> {
    loop {
        let Some(due) = clock.due(copies.deadline()) else {
            return Poll::Pending;
        };
        // Asked of the clock and not of the timer, which an inner future that has used up the
        // task's budget would keep from ever firing.
        if due.at <= Instant::now() {
            if due.phase == Phase::FirstToken && copies.have_token() {
                clock.first_token();
                continue;
            }
            return Poll::Ready(due.phase);
        }
        match sleep.as_mut().as_pin_mut() {
            None => sleep.set(Some(tokio::time::sleep_until(due.at))),
            Some(timer) if timer.deadline() != due.at || timer.is_elapsed() => timer.reset(due.at),
            Some(_) => {}
        }
        if let Some(timer) = sleep.as_mut().as_pin_mut() {
            ready!(timer.poll(cx));
        }
    }
}

#[expect(
    clippy::panic,
    reason = "the contract of Future: not polled after Ready"
)]
fn polled_after_ready() -> ! {
    panic!("a response future was polled after it was ready")
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ResponseFuture");
        match &self.stage {
            Stage::Refused { error } => out.field("refused", error),
            Stage::Waiting { clock, copies, .. } => out
                .field("clock", clock)
                .field("due", &clock.due(copies.deadline())),
            Stage::Done => out.field("done", &true),
        };
        out.finish_non_exhaustive()
    }
}
