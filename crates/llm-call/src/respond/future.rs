use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;

use super::{RespondBody, convert::Caller};
use crate::{Answer, BoxError, ready::polled_after_ready};

pin_project! {
    /// The response future of [`Respond`](crate::Respond).
    #[must_use = "futures do nothing unless polled"]
    pub struct RespondFuture<F> {
        #[pin]
        stage: Stage<F>,
        caller: Caller,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F> {
        /// Waiting for what comes.
        Calling {
            #[pin]
            future: F,
        },
        /// The service below was not ready.
        Failed { error: BoxError },
        Done,
    }
}

impl<F> RespondFuture<F> {
    pub(super) fn calling(future: F, caller: Caller) -> Self {
        RespondFuture {
            stage: Stage::Calling { future },
            caller,
        }
    }

    pub(super) fn failed(error: BoxError, caller: Caller) -> Self {
        RespondFuture {
            stage: Stage::Failed { error },
            caller,
        }
    }
}

impl<F, B, E> Future for RespondFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Answer,
{
    type Output = Result<Response<RespondBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let response = match this.stage.as_mut().project() {
            StageProj::Calling { future } => match ready!(future.poll(cx)) {
                Ok(response) => this.caller.answer(response, cx),
                Err(error) => this.caller.error(&error.into()),
            },
            StageProj::Failed { error } => this.caller.error(error),
            StageProj::Done => polled_after_ready(),
        };
        this.stage.set(Stage::Done);
        Poll::Ready(Ok(response))
    }
}

impl<F> fmt::Debug for RespondFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Calling { .. } => "Calling",
            Stage::Failed { .. } => "Failed",
            Stage::Done => "Done",
        };
        f.debug_struct("RespondFuture")
            .field("stage", &stage)
            .field("caller", &self.caller)
            .finish()
    }
}
