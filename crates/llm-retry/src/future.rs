use std::{
    fmt,
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response};
use llm_call::{
    Answer, Attempt, BoxError, Cause, Error, Guarded, Kind, Outcome, Phase, Refusal, ResponseExt,
    Retry, detach,
};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::util::Oneshot;
use tower_service::Service;

use crate::{
    RetryBody,
    budget::{Account, Deposit, Withdrawal},
    rules::{Rules, Situation},
};

pin_project! {
    /// The response future of [`Retry`](crate::Retry).
    ///
    /// Dropping it drops the attempt under way, or the wait; no other attempt is made.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        #[pin]
        state: State<S, ReqB>,
        // Goes along with the answer.
        account: Option<Account>,
        plan: Plan<S, ReqB>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        First {
            #[pin]
            future: S::Future,
        },
        /// Waiting first, then sending on a service that is made ready for it.
        Retrying {
            waiting: bool,
            // Of the wait; after it of the end of the target's share, where there is one.
            #[pin]
            timer: Option<Sleep>,
            #[pin]
            future: Oneshot<S, Request<ReqB>>,
        },
    }
}

/// Pending for ever where there is no timer.
fn poll_timer(timer: Pin<&mut Option<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    timer
        .as_pin_mut()
        .map_or(Poll::Pending, |sleep| sleep.poll(cx))
}

/// How a call goes on when an attempt fails.
pub(crate) struct Plan<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    rules: Rules,
    /// When the layer above ends this copy to go to another target.
    share_ends: Option<Instant>,
    /// The number of the copy.
    n: u32,
    alternatives: u32,
    /// Gone once nothing can follow.
    spare: Option<Spare<S, ReqB>>,
    retries: u32,
    used_once: bool,
    /// The token of the retry that is planned or under way.
    withdrawal: Option<Withdrawal>,
    /// How the last attempt that was sent ended. It holds no connection and no permit.
    last: Option<Box<Result<S::Response, S::Error>>>,
}

/// What is needed to send again.
#[derive(Clone)]
pub(crate) struct Spare<S, ReqB> {
    pub(crate) service: S,
    pub(crate) request: Request<ReqB>,
}

/// A wait, and what is sent after it.
type Again<S, ReqB> = (Duration, Oneshot<S, Request<ReqB>>);

impl<S, ReqB> ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) fn new(future: S::Future, account: Account, plan: Plan<S, ReqB>) -> Self {
        ResponseFuture {
            state: State::First { future },
            account: Some(account),
            plan,
        }
    }
}

impl<S, ReqB> Plan<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) fn new(rules: Rules, attempt: &Attempt, spare: Option<Spare<S, ReqB>>) -> Self {
        Plan {
            rules,
            share_ends: attempt.share_ends,
            n: attempt.n,
            alternatives: attempt.alternatives,
            spare,
            retries: 0,
            used_once: false,
            withdrawal: None,
            last: None,
        }
    }
}

impl<S, ReqB, B> Future for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    type Output = Result<Response<RetryBody<B>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let Some(account) = &*this.account else {
                polled_after_ready();
            };
            let result = match this.state.as_mut().project() {
                StateProj::First { future } => ready!(future.poll(cx)),
                StateProj::Retrying {
                    waiting,
                    mut timer,
                    future,
                } => {
                    if *waiting {
                        ready!(poll_timer(timer.as_mut(), cx));
                        *waiting = false;
                        timer.set(this.plan.share_ends.map(sleep_until));
                        if let Some(withdrawal) = &mut this.plan.withdrawal {
                            withdrawal.called(Instant::now());
                        }
                    }
                    match future.poll(cx) {
                        Poll::Ready(result) => result,
                        Poll::Pending => {
                            // Asked of the clock first: the layer above, whose timer is another one,
                            // must not drop what is kept.
                            if !this.plan.is_share_over() {
                                ready!(poll_timer(timer, cx));
                            }
                            Err(this.plan.end_share(account))
                        }
                    }
                }
            };
            if result
                .as_ref()
                .is_ok_and(|answer| answer.outcome().is_success())
            {
                this.plan.withdrawal = None;
                return Poll::Ready(pay_in(this.account, result));
            }
            match this.plan.settle(account, result) {
                ControlFlow::Break(result) => {
                    return Poll::Ready(pay_in(this.account, result));
                }
                // The failed attempt is gone before the wait begins.
                ControlFlow::Continue((wait, future)) => this.state.set(State::Retrying {
                    waiting: true,
                    timer: Some(sleep(wait)),
                    future,
                }),
            }
        }
    }
}

/// What is returned: an answer pays into the account when it ends well.
fn pay_in<B: Answer>(
    account: &mut Option<Account>,
    result: Result<Response<B>, BoxError>,
) -> Result<Response<RetryBody<B>>, BoxError> {
    let account = account.take().unwrap_or_else(|| polled_after_ready());
    result.map(|answer| answer.map(|body| Guarded::new(body, Deposit(account))))
}

#[expect(
    clippy::panic,
    reason = "the contract of Future: not polled after Ready"
)]
fn polled_after_ready() -> ! {
    panic!("a response future was polled after it was ready")
}

impl<S, ReqB, B> Plan<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    /// An attempt ended: what to return, or how to go on.
    fn settle(
        &mut self,
        account: &Account,
        result: Result<Response<B>, BoxError>,
    ) -> ControlFlow<Result<Response<B>, BoxError>, Again<S, ReqB>> {
        let outcome = match &result {
            Ok(response) => response.outcome(),
            Err(error) => Outcome::of_error(&**error),
        };
        let withdrawal = self.withdrawal.take();
        match outcome.kind {
            Kind::Refused(_) => {
                if let Some(withdrawal) = withdrawal {
                    withdrawal.refused();
                }
            }
            _ => drop(withdrawal),
        }
        if let Kind::Refused(_) | Kind::TimedOut(Phase::Deadline | Phase::Share) = outcome.kind
            && let Some(last) = self.last.take()
        {
            if let Kind::Refused(
                Refusal::CircuitOpen | Refusal::BulkheadFull | Refusal::TenantFull,
            ) = outcome.kind
            {
                let Account { target, call, .. } = account;
                call.note_refused(self.n, target.as_ref(), outcome.kind);
            }
            // Our own layers did not let the retry through, or end; what came before says more.
            return ControlFlow::Break(*last);
        }
        let Some((wait, future)) = self.retry(account, outcome) else {
            return ControlFlow::Break(result);
        };
        let last = result.and_then(|answer| detach(answer).map_err(Into::into));
        self.last = Some(Box::new(last));
        ControlFlow::Continue((wait, future))
    }

    fn is_share_over(&self) -> bool {
        self.share_ends.is_some_and(|end| end <= Instant::now())
    }

    /// The error of the retry under way, whose share is over.
    fn end_share(&self, account: &Account) -> BoxError {
        let Account { target, call, .. } = account;
        call.set_cause(self.n, Cause::TimedOut(Phase::Share));
        Error::from(call.outcome(Kind::TimedOut(Phase::Share)))
            .with_target(target.clone())
            .into()
    }

    /// The retry that follows, and the wait before it.
    fn retry(&mut self, account: &Account, outcome: Outcome) -> Option<Again<S, ReqB>> {
        let spare = self.spare.as_ref()?;
        let Account { target, call, .. } = account;
        let (now, attempts_left) = (Instant::now(), call.attempts_left());
        let situation = Situation {
            outcome,
            retries: self.retries,
            used_once: self.used_once,
            attempts_left,
            alternatives: self.alternatives,
            until: self.share_ends.into_iter().chain(call.deadline()).min(),
            now,
        };
        let wait = self.rules.wait(&situation, fastrand::u32(..))?;
        // Asked last, so that a token is taken only for a retry that is planned.
        let Some(withdrawal) = account.withdraw(now) else {
            call.note_refused(self.n, target.as_ref(), Kind::Refused(Refusal::BudgetSpent));
            return None;
        };
        call.note_wait(wait);
        self.withdrawal = Some(withdrawal);
        self.retries += 1;
        self.used_once |= outcome.verdict.retry == Retry::Once;
        let is_last = self.retries >= self.rules.retries || attempts_left == 1;
        let spare = if is_last {
            self.spare.take()?
        } else {
            spare.clone()
        };
        Some((wait, Oneshot::new(spare.service, spare.request)))
    }
}

impl<S, ReqB> fmt::Debug for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Retrying { waiting: true, .. } => "Waiting",
            State::First { .. } | State::Retrying { .. } => "Calling",
        };
        let target = self.account.as_ref().and_then(|own| own.target.as_ref());
        f.debug_struct("ResponseFuture")
            .field("state", &state)
            .field("target", &target)
            .field("retries", &self.plan.retries)
            .finish_non_exhaustive()
    }
}
