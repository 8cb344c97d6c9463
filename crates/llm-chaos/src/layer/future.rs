//! The response future of the layer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::FaultBody;
use super::body::connection_reset;
use super::rule::Injection;
use crate::{BoxError, Reply};

pin_project! {
    /// The response future of [`FaultService`](super::FaultService).
    pub struct FaultFuture<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        #[pin]
        state: State<S, ReqB, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, ReqB, F> {
        // The readied service waits with its request.
        Delayed { #[pin] sleep: Sleep, call: Option<(S, Request<ReqB>)> },
        Calling { #[pin] future: F, injection: Option<Injection> },
        Answered { reply: Option<Response<Bytes>> },
        Hanging,
        Reset,
    }
}

impl<S: Service<Request<ReqB>>, ReqB> FaultFuture<S, ReqB> {
    pub(super) fn delayed(time: Duration, service: S, request: Request<ReqB>) -> Self {
        Self {
            state: State::Delayed {
                sleep: sleep(time),
                call: Some((service, request)),
            },
        }
    }

    pub(super) fn calling(future: S::Future, injection: Option<Injection>) -> Self {
        Self {
            state: State::Calling { future, injection },
        }
    }

    pub(super) fn answered(reply: &Reply) -> Self {
        let mut response = Response::new(Bytes::copy_from_slice(reply.body.as_bytes()));
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers.clone();
        Self {
            state: State::Answered {
                reply: Some(response),
            },
        }
    }

    pub(super) fn hanging() -> Self {
        Self {
            state: State::Hanging,
        }
    }

    pub(super) fn reset() -> Self {
        Self {
            state: State::Reset,
        }
    }
}

impl<S, ReqB, B> Future for FaultFuture<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<FaultBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Delayed { sleep, call } => {
                    ready!(sleep.poll(cx));
                    let Some((mut service, request)) = call.take() else {
                        return Poll::Pending;
                    };
                    let future = service.call(request);
                    state.set(State::Calling {
                        future,
                        injection: None,
                    });
                }
                StateProj::Calling { future, injection } => {
                    let response = ready!(future.poll(cx)).map_err(Into::into)?;
                    let injection = injection.take();
                    return Poll::Ready(Ok(response.map(|body| FaultBody::new(body, injection))));
                }
                StateProj::Answered { reply } => {
                    let Some(reply) = reply.take() else {
                        return Poll::Pending;
                    };
                    return Poll::Ready(Ok(reply.map(FaultBody::whole)));
                }
                StateProj::Hanging => return Poll::Pending,
                StateProj::Reset => return Poll::Ready(Err(connection_reset())),
            }
        }
    }
}

impl<S: Service<Request<ReqB>>, ReqB> fmt::Debug for FaultFuture<S, ReqB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Delayed { .. } => "Delayed",
            State::Calling { .. } => "Calling",
            State::Answered { .. } => "Answered",
            State::Hanging => "Hanging",
            State::Reset => "Reset",
        };
        f.debug_struct("FaultFuture")
            .field("state", &state)
            .finish()
    }
}
