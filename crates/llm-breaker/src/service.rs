use std::{
    fmt,
    task::{Context, Poll},
};

use http::{Request, Response};
use llm_call::{Answer, Attempt, BoxError, Call};
use tokio::time::Instant;
use tower_service::Service;

use crate::{
    BreakerBody, Breakers, CircuitOpen, ResponseFuture, circuit::Shared, core::Permit, key::KeyRef,
    layer::Scope, ticket::Ticket,
};

/// The service of [`BreakerLayer`](crate::BreakerLayer).
///
/// It is always ready: an open circuit refuses calls, it does not make the service wait, nor does
/// it reserve anything of the inner service. A call that is let through waits for a clone of it.
#[derive(Clone)]
pub struct Breaker<S> {
    inner: S,
    breakers: Breakers,
    scope: Scope,
}

impl<S> Breaker<S> {
    pub(crate) fn new(inner: S, breakers: Breakers, scope: Scope) -> Breaker<S> {
        Breaker {
            inner,
            breakers,
            scope,
        }
    }

    /// The circuits.
    pub fn breakers(&self) -> &Breakers {
        &self.breakers
    }

    /// Asks the circuit of a request. The ticket must be settled on every path.
    fn admit<B>(&self, request: Request<B>) -> (Request<B>, Result<Ticket, BoxError>) {
        match &self.scope {
            Scope::Place => {
                let admitted = self.ask(KeyRef::of(&request, None), &request);
                (request, admitted)
            }
            Scope::Class(class) => {
                let class = request
                    .extensions()
                    .get::<Call>()
                    .and_then(|call| class(call));
                let admitted = self.ask(KeyRef::of(&request, class), &request);
                (request, admitted)
            }
            Scope::Key(key) => {
                let (parts, body) = request.into_parts();
                let key = key(&parts);
                let request = Request::from_parts(parts, body);
                let admitted = self.ask(key.borrow(), &request);
                (request, admitted)
            }
        }
    }

    fn ask<B>(&self, key: KeyRef<'_>, request: &Request<B>) -> Result<Ticket, BoxError> {
        let call = request.extensions().get::<Call>();
        let Some(circuit) = self.breakers.watch(key) else {
            return Ok(Ticket::unwatched());
        };
        let (n, alternatives) = match request.extensions().get::<Attempt>() {
            Some(attempt) => (attempt.n, attempt.alternatives),
            None => (0, 0),
        };
        let now = Instant::now();
        match ask(&circuit, alternatives, now) {
            Ok(permit) => Ok(Ticket::new(circuit, permit, now, call.cloned(), n)),
            Err((open, refused)) => Err(open.refuse(refused, call)),
        }
    }
}

fn ask(
    circuit: &Shared,
    alternatives: u32,
    now: Instant,
) -> Result<Permit, (CircuitOpen, crate::core::Refused)> {
    circuit.with(|core| {
        core.admit(alternatives, now).map_err(|refused| {
            let open = CircuitOpen {
                key: circuit.key.clone(),
                state: core.state(),
                last_failure: core.last_failure(),
            };
            (open, refused)
        })
    })
}

impl<S, ReqB, B> Service<Request<ReqB>> for Breaker<S>
where
    S: Service<Request<ReqB>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Answer,
{
    type Response = Response<BreakerBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, ReqB>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqB>) -> Self::Future {
        match self.admit(request) {
            (request, Ok(ticket)) => ResponseFuture::calling(ticket, self.inner.clone(), request),
            (_, Err(error)) => ResponseFuture::refused(error),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Breaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("inner", &self.inner)
            .field("breakers", &self.breakers)
            .field("scope", &self.scope)
            .finish()
    }
}
