use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use llm_call::{Answer, BoxError, Guarded, Outcome};
use pin_project_lite::pin_project;
use tower::util::Oneshot;
use tower_service::Service;

use crate::{BreakerBody, ticket::Ticket};

pin_project! {
    /// The response future of [`Breaker`](crate::Breaker).
    ///
    /// Dropping it drops the inner future and tells the circuit.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        #[pin]
        stage: Stage<S, ReqB>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        Refused { error: Option<BoxError> },
        Calling {
            // Fields are dropped in their order: the ticket asks the call why it is dropped, which
            // the call knows only while the inner future lives.
            ticket: Option<Ticket>,
            #[pin]
            future: Oneshot<S, Request<ReqB>>,
        },
        Done,
    }
}

impl<S, ReqB> ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) fn refused(error: BoxError) -> Self {
        ResponseFuture {
            stage: Stage::Refused { error: Some(error) },
        }
    }

    pub(crate) fn calling(ticket: Ticket, inner: S, request: Request<ReqB>) -> Self {
        ResponseFuture {
            stage: Stage::Calling {
                ticket: Some(ticket),
                future: Oneshot::new(inner, request),
            },
        }
    }
}

impl<S, ReqB, B> Future for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Answer,
{
    type Output = Result<Response<BreakerBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        let result = match stage.as_mut().project() {
            StageProj::Refused { error } => match error.take() {
                Some(error) => Err(error),
                None => polled_after_ready(),
            },
            StageProj::Calling { ticket, future } => {
                let Some(open) = ticket else {
                    polled_after_ready();
                };
                open.polling();
                match future.poll(cx) {
                    Poll::Pending => {
                        open.waiting();
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(response)) => {
                        open.answered(response.body().state());
                        let ticket = ticket.take().unwrap_or_else(Ticket::unwatched);
                        Ok(response.map(|body| Guarded::new(body, ticket)))
                    }
                    Poll::Ready(Err(error)) => {
                        let error = error.into();
                        open.failed(Outcome::of_error(&*error));
                        Err(error)
                    }
                }
            }
            StageProj::Done => polled_after_ready(),
        };
        stage.set(Stage::Done);
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
        let mut out = f.debug_struct("ResponseFuture");
        match &self.stage {
            Stage::Refused { error } => out.field("refused", error),
            Stage::Calling { ticket, .. } => out.field("calling", ticket),
            Stage::Done => out.field("done", &true),
        };
        out.finish_non_exhaustive()
    }
}
