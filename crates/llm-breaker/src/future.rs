use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use llm_call::{Answer, BoxError, Guarded, Outcome};
use pin_project_lite::pin_project;
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
        /// Waiting for the inner service to take it.
        Readying {
            ticket: Option<Ticket>,
            inner: S,
            request: Option<Request<ReqB>>,
        },
        Calling {
            // Fields are dropped in their order: the ticket asks the call why it is dropped, which
            // the call knows only while the inner future lives.
            ticket: Option<Ticket>,
            #[pin]
            future: S::Future,
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
            stage: Stage::Readying {
                ticket: Some(ticket),
                inner,
                request: Some(request),
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
        loop {
            let error = match stage.as_mut().project() {
                StageProj::Refused { error } => match error.take() {
                    Some(error) => error,
                    None => polled_after_ready(),
                },
                StageProj::Readying {
                    ticket,
                    inner,
                    request,
                } => {
                    let Some(open) = ticket else {
                        polled_after_ready();
                    };
                    open.polling();
                    match inner.poll_ready(cx) {
                        Poll::Pending => {
                            open.queued();
                            return Poll::Pending;
                        }
                        Poll::Ready(Ok(())) => {
                            open.taken();
                            let Some(request) = request.take() else {
                                polled_after_ready();
                            };
                            let future = inner.call(request);
                            let ticket = ticket.take();
                            stage.set(Stage::Calling { ticket, future });
                            continue;
                        }
                        Poll::Ready(Err(error)) => failed(open, error),
                    }
                }
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
                            // At once, since each move of an answer costs.
                            let response = response.map(|body| Guarded::new(body, ticket));
                            stage.set(Stage::Done);
                            return Poll::Ready(Ok(response));
                        }
                        Poll::Ready(Err(error)) => failed(open, error),
                    }
                }
                StageProj::Done => polled_after_ready(),
            };
            stage.set(Stage::Done);
            return Poll::Ready(Err(error));
        }
    }
}

fn failed(ticket: &mut Ticket, error: impl Into<BoxError>) -> BoxError {
    let error = error.into();
    ticket.failed(Outcome::of_error(&*error));
    error
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
            Stage::Readying { ticket, .. } => out.field("waiting", ticket),
            Stage::Calling { ticket, .. } => out.field("calling", ticket),
            Stage::Done => out.field("done", &true),
        };
        out.finish_non_exhaustive()
    }
}
