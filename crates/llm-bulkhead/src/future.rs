use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use llm_call::BoxError;
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use crate::{
    BulkheadBody, Until,
    permit::{Permit, Place},
    service::Origin,
};

pin_project! {
    /// The response future of [`BulkheadService`](crate::BulkheadService).
    ///
    /// Dropping it drops the inner future and gives back its permit or its place in the queue.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        until: Until,
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
        /// Waiting for a permit.
        Parked {
            wait: Box<Wait>,
            inner: Option<S>,
            request: Option<Request<ReqB>>,
        },
        /// Waiting for the inner service to take it.
        Readying {
            inner: S,
            request: Option<Request<ReqB>>,
            permit: Option<Permit>,
        },
        Calling {
            // Fields are dropped in their order: the permit is free once nothing is under way.
            #[pin]
            future: S::Future,
            permit: Option<Permit>,
        },
        Done,
    }
}

/// What only a call that waits needs.
struct Wait {
    place: Place,
    sleep: Option<Pin<Box<Sleep>>>,
    origin: Origin,
}

impl Wait {
    /// A permit that is there wins over the end of the time.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, BoxError>> {
        let mut answer = self.place.poll(cx);
        while answer.is_pending() {
            let at = self.place.looks_at;
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            ready!(sleep.as_mut().poll(cx));
            answer = self.place.look(sleep.deadline());
            if answer.is_pending() {
                sleep.as_mut().reset(self.place.looks_at);
            }
        }
        answer.map_err(|full| full.refuse(self.origin.call.as_ref(), self.origin.target.take()))
    }
}

impl<S, ReqB> ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) fn refused(error: BoxError) -> Self {
        ResponseFuture {
            until: Until::Response,
            stage: Stage::Refused { error: Some(error) },
        }
    }

    pub(crate) fn admitted(permit: Permit, until: Until, inner: S, request: Request<ReqB>) -> Self {
        ResponseFuture {
            until,
            stage: Stage::Readying {
                inner,
                request: Some(request),
                permit: Some(permit),
            },
        }
    }

    pub(crate) fn parked(
        place: Place,
        origin: Origin,
        until: Until,
        inner: S,
        request: Request<ReqB>,
    ) -> Self {
        let wait = Wait {
            place,
            sleep: None,
            origin,
        };
        ResponseFuture {
            until,
            stage: Stage::Parked {
                wait: Box::new(wait),
                inner: Some(inner),
                request: Some(request),
            },
        }
    }
}

impl<S, ReqB, B> Future for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<BulkheadBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut stage = this.stage;
        loop {
            let result = match stage.as_mut().project() {
                StageProj::Refused { error } => match error.take() {
                    Some(error) => Err(error),
                    None => polled_after_ready(),
                },
                StageProj::Parked {
                    wait,
                    inner,
                    request,
                } => match wait.poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => Err(error),
                    Poll::Ready(Ok(permit)) => {
                        let (Some(inner), request) = (inner.take(), request.take()) else {
                            polled_after_ready();
                        };
                        stage.set(Stage::Readying {
                            inner,
                            request,
                            permit: Some(permit),
                        });
                        continue;
                    }
                },
                StageProj::Readying {
                    inner,
                    request,
                    permit,
                } => match inner.poll_ready(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => Err(error.into()),
                    Poll::Ready(Ok(())) => {
                        let Some(request) = request.take() else {
                            polled_after_ready();
                        };
                        let future = inner.call(request);
                        let permit = permit.take();
                        stage.set(Stage::Calling { future, permit });
                        continue;
                    }
                },
                StageProj::Calling { future, permit } => match future.poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => Err(error.into()),
                    Poll::Ready(Ok(response)) => {
                        let permit = permit.take();
                        // What the inner future holds goes before the permit.
                        stage.set(Stage::Done);
                        let permit = permit.filter(|_| *this.until == Until::BodyEnd);
                        let response = response.map(|body| BulkheadBody::new(body, permit));
                        return Poll::Ready(Ok(response));
                    }
                },
                StageProj::Done => polled_after_ready(),
            };
            stage.set(Stage::Done);
            return Poll::Ready(result);
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

impl<S, ReqB> fmt::Debug for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ResponseFuture");
        match &self.stage {
            Stage::Refused { error } => out.field("refused", error),
            Stage::Parked { wait, .. } => out.field("parked", &wait.place),
            Stage::Readying { permit, .. } => out.field("readying", permit),
            Stage::Calling { permit, .. } => out.field("calling", permit),
            Stage::Done => out.field("done", &true),
        };
        out.finish_non_exhaustive()
    }
}
