//! What one call needs to send again, and how a copy is on its way.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Request;
use llm_call::{Attempt, Call, Lease};
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::util::Oneshot;
use tower_service::Service;

use crate::{
    Targets,
    targets::{Next, Order},
};

/// What is needed to send again.
pub(crate) struct Plan<S, ReqB> {
    pub(crate) targets: Targets,
    pub(crate) order: Order,
    pub(crate) call: Call,
    /// The service that was made ready for the first attempt, until it is used.
    pub(crate) ready: Option<S>,
    /// A clone for the later ones.
    pub(crate) spare: Option<S>,
    pub(crate) request: Option<Request<ReqB>>,
}

impl<S, ReqB> Plan<S, ReqB>
where
    S: Service<Request<ReqB>> + Clone,
    ReqB: Clone,
{
    /// A copy of the request; the request itself when nothing can follow.
    pub(crate) fn copy(&mut self, is_last: bool) -> Option<Request<ReqB>> {
        if is_last {
            self.request.take()
        } else {
            self.request.clone()
        }
    }

    /// Whether another target could be asked now. Another copy of the call may have taken the last one.
    pub(crate) fn can_go_on(&self, now: Instant) -> bool {
        if self.request.is_none() || self.call.attempts_left() == 0 {
            return false;
        }
        match self.targets.next(&mut self.order.clone(), &self.call, now) {
            Next::Target { lease, .. } => {
                lease.give_back();
                true
            }
            Next::None { .. } => false,
        }
    }

    /// Writes the target and its share on a copy; its number.
    pub(crate) fn address(
        &self,
        request: &mut Request<ReqB>,
        lease: &Lease,
        others: u32,
        share_ends: Option<Instant>,
    ) -> u32 {
        let extensions = request.extensions_mut();
        let first = self.ready.is_some();
        let given = extensions.get::<Attempt>().map_or(0, |attempt| attempt.n);
        let n = if first && given > 0 {
            given
        } else {
            self.call.number()
        };
        let target = Some(lease.target().clone());
        // The first copy has a target too.
        let alternatives = others + u32::from(self.order.is_of_hedge());
        match extensions.get_mut::<Attempt>() {
            Some(attempt) => {
                attempt.n = n;
                attempt.target = target;
                attempt.alternatives = alternatives;
                // A failover above may end it sooner.
                attempt.share_ends = share_ends.into_iter().chain(attempt.share_ends).min();
            }
            None => {
                let attempt = Attempt::new(n)
                    .with_target(target)
                    .with_alternatives(alternatives)
                    .with_share_ends(share_ends);
                extensions.insert(attempt);
            }
        }
        n
    }

    pub(crate) fn send(&mut self, request: Request<ReqB>) -> Sending<S, ReqB> {
        if let Some(mut ready) = self.ready.take() {
            if self.request.is_some() {
                self.spare = Some(ready.clone());
            }
            return Sending::First {
                future: ready.call(request),
            };
        }
        // A fresh clone has to be made ready first.
        match self.spare.clone() {
            Some(spare) => Sending::Next {
                future: Oneshot::new(spare, request),
            },
            None => Sending::Nothing,
        }
    }
}

pin_project! {
    #[project = SendingProj]
    pub(crate) enum Sending<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        Nothing,
        First {
            #[pin]
            future: S::Future,
        },
        Next {
            #[pin]
            future: Oneshot<S, Request<ReqB>>,
        },
    }
}

impl<S, ReqB> Sending<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    /// The result of the attempt; `None` where there is none under way.
    pub(crate) fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<S::Response, S::Error>>> {
        match self.project() {
            SendingProj::Nothing => Poll::Ready(None),
            SendingProj::First { future } => future.poll(cx).map(Some),
            SendingProj::Next { future } => future.poll(cx).map(Some),
        }
    }
}
