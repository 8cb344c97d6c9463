use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Method, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::{Peeked, Settings, hold::Holding};
use crate::{
    BoxError, Classify, Dialect, Error, Seen, Target, call::Record, clock::wall_now,
    ready::polled_after_ready,
};

pin_project! {
    /// The response future of [`Peek`](crate::Peek): resolves when the answer is committed.
    ///
    /// Dropping it drops the client's future and everything held.
    #[must_use = "futures do nothing unless polled"]
    pub struct PeekFuture<F, B, C> {
        #[pin]
        stage: Stage<F, B, C>,
    }
}

pin_project! {
    #[project = StageProj]
    pub(super) enum Stage<F, B, C> {
        /// The call had no attempt or no time left.
        Refused { error: Option<Error> },
        /// Waiting for headers.
        Sending {
            #[pin]
            future: F,
            sent: Option<Sent<C>>,
        },
        /// Waiting for what decides.
        Holding { holding: Option<Holding<B, C>> },
    }
}

/// What is known of a request once it is on its way.
pub(super) struct Sent<C> {
    pub(super) method: Method,
    pub(super) dialect: Option<Dialect>,
    pub(super) target: Option<Target>,
    pub(super) started: Instant,
    pub(super) settings: Arc<Settings<C>>,
    pub(super) record: Option<Record>,
}

impl<F, B, C> PeekFuture<F, B, C> {
    pub(super) fn new(stage: Stage<F, B, C>) -> Self {
        PeekFuture { stage }
    }
}

impl<F, B, C, E> Future for PeekFuture<F, B, C>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    C: Classify,
{
    type Output = Result<Response<Peeked<B, C>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        let mut holding = match stage.as_mut().project() {
            StageProj::Refused { error } => return Poll::Ready(Err(take(error).into())),
            StageProj::Sending { future, sent } => {
                let result = ready!(future.poll(cx)).map_err(Into::into);
                let sent = take(sent);
                match result {
                    Ok(response) => Holding::new(response, sent),
                    Err(error) => return Poll::Ready(Err(failed(error, sent))),
                }
            }
            StageProj::Holding { holding } => {
                let Some(held) = holding else {
                    polled_after_ready()
                };
                ready!(held.poll_commit(cx));
                return Poll::Ready(take(holding).into_result());
            }
        };
        // The client's future goes first. What is decided at once is not worth storing.
        stage.set(Stage::Holding { holding: None });
        if holding.poll_commit(cx).is_ready() {
            return Poll::Ready(holding.into_result());
        }
        let holding = Some(holding);
        stage.set(Stage::Holding { holding });
        Poll::Pending
    }
}

/// The client failed before an answer began.
fn failed<C: Classify>(error: BoxError, sent: Sent<C>) -> BoxError {
    let outcome = sent
        .settings
        .classify
        .classify(&Seen::Transport(&*error), wall_now());
    if let Some(record) = sent.record {
        record.fail(outcome);
    }
    Error::from(outcome)
        .with_target(sent.target)
        .with_source(error)
        .into()
}

fn take<T>(slot: &mut Option<T>) -> T {
    slot.take().unwrap_or_else(|| polled_after_ready())
}

impl<F, B, C> fmt::Debug for PeekFuture<F, B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Refused { .. } => "Refused",
            Stage::Sending { .. } => "Sending",
            Stage::Holding { .. } => "Holding",
        };
        f.debug_struct("PeekFuture")
            .field("stage", &stage)
            .finish_non_exhaustive()
    }
}
