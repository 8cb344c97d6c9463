use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response};
use llm_call::{
    Answer, Attempt, BoxError, Call, Cause, Error, Kind, Lease, Outcome, Phase, Refusal,
    ResponseExt, detach,
};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower_service::Service;

use crate::{
    AllFailed, Targets,
    plan::{Plan, Sending},
    targets::Next,
};

pin_project! {
    /// The response future of [`Failover`](crate::Failover).
    ///
    /// Dropping it drops the attempt under way; no other is made.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, ReqB>
    where
        S: Service<Request<ReqB>>,
    {
        #[pin]
        sending: Sending<S, ReqB>,
        #[pin]
        share: Option<Sleep>,
        plan: Plan<S, ReqB>,
        under_way: Option<UnderWay>,
        // The last answer that a provider gave itself, although it was no success.
        answer: Option<S::Response>,
        failed: AllFailed,
        last: Option<Outcome>,
        // When the first of those that refused the call takes one again.
        refused_until: Option<Instant>,
    }
}

/// The attempt that is being waited for.
struct UnderWay {
    index: usize,
    lease: Lease,
    others: u32,
    n: u32,
    since: Instant,
    /// When its share of the deadline is used up.
    until: Option<Instant>,
}

/// What to do next.
enum Step<T> {
    Wait,
    Return(Result<T, BoxError>),
}

impl<S, ReqB> ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) fn new(ready: S, targets: Targets, call: Call, request: Request<ReqB>) -> Self {
        let attempt = request.extensions().get::<Attempt>();
        let is_hedge = attempt.is_some_and(|attempt| attempt.hedge > 0);
        ResponseFuture {
            sending: Sending::Nothing,
            share: None,
            plan: Plan {
                order: targets.order(&call, is_hedge),
                targets,
                call,
                ready: Some(ready),
                spare: None,
                request: Some(request),
            },
            under_way: None,
            answer: None,
            failed: AllFailed::default(),
            last: None,
            refused_until: None,
        }
    }
}

impl<S, ReqB, B> Future for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    type Output = Result<Response<B>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let result = match self.as_mut().project().sending.poll(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => Some(Err(ready!(self.as_mut().poll_share(cx)))),
            };
            if let Some(result) = result
                && let Some(settled) = self.as_mut().settle(result)
            {
                return Poll::Ready(settled);
            }
            match self.as_mut().send_next() {
                Step::Wait => {}
                Step::Return(result) => return Poll::Ready(result),
            }
        }
    }
}

impl<S, ReqB, B> ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    /// Waits for the end of the attempt's share, if another target takes over then; the error it failed
    /// with.
    fn poll_share(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BoxError> {
        let mut this = self.project();
        let Some(under_way) = this.under_way.as_mut() else {
            return Poll::Pending;
        };
        let Some(until) = under_way.until else {
            return Poll::Pending;
        };
        if this.share.is_none() {
            this.share.set(Some(sleep_until(until)));
        }
        let Some(sleep) = this.share.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        if sleep.poll(cx).is_pending() {
            return Poll::Pending;
        }
        if !this.plan.can_go_on(Instant::now()) {
            // Nobody takes what is left of the time, so this attempt has it.
            under_way.until = None;
            this.share.set(None);
            return Poll::Pending;
        }
        let cause = Cause::TimedOut(Phase::Share);
        this.plan.call.set_cause(under_way.n, cause);
        let error = Error::from(this.plan.call.outcome(Kind::TimedOut(Phase::Share)))
            .with_target(Some(under_way.lease.target().clone()));
        Poll::Ready(error.into())
    }

    /// An attempt ended: the result to return, or `None` to go on with the next target.
    fn settle(
        self: Pin<&mut Self>,
        result: Result<Response<B>, BoxError>,
    ) -> Option<Result<Response<B>, BoxError>> {
        let mut this = self.project();
        // The attempt, its connection and its timer go before anything else is sent.
        this.sending.set(Sending::Nothing);
        this.share.set(None);
        let under_way = this.under_way.take()?;
        let outcome = match &result {
            Ok(response) => response.outcome(),
            Err(error) => Outcome::of_error(&**error),
        };
        let now = Instant::now();
        let plan = &*this.plan;
        plan.targets
            .record(under_way.index, &plan.call, outcome, now);
        if !outcome.verdict.fail_over {
            return Some(match (result, outcome.kind) {
                (Err(error), Kind::Refused(Refusal::AttemptsSpent))
                | (Err(error), Kind::TimedOut(Phase::Deadline)) => {
                    // The call ran out of its means; what came before says more.
                    match (
                        this.answer.take(),
                        this.last.take().filter(is_from_a_target),
                    ) {
                        (Some(answer), _) => Ok(answer),
                        (None, Some(last)) => {
                            Err(give_up(&plan.call, this.failed, Some(last), None))
                        }
                        (None, None) => Err(error),
                    }
                }
                (result, _) => result,
            });
        }
        let target = under_way.lease.target().clone();
        let (index, others, since) = (under_way.index, under_way.others, under_way.since);
        let refused = matches!(
            outcome.kind,
            Kind::Refused(
                Refusal::CircuitOpen
                    | Refusal::BulkheadFull
                    | Refusal::TenantFull
                    | Refusal::Unable
            )
        );
        let plan = &mut *this.plan;
        if refused {
            // Never reached: another copy of this call may still use it.
            under_way.lease.give_back();
            let wait = outcome.retry_after.filter(|wait| !wait.is_zero());
            let until = wait.and_then(|wait| now.checked_add(wait));
            *this.refused_until = until.into_iter().chain(*this.refused_until).min();
            if plan.order.is_last_resort() {
                // Asked once more, and refused once more.
                return None;
            }
            (plan.call).note_refused(under_way.n, Some(&target), outcome.kind);
        }
        if plan.request.is_none() && this.failed.attempts().is_empty() {
            // It was the only target, and what it said is all there is to say.
            return Some(result);
        }
        if outcome.kind == Kind::Refused(Refusal::CircuitOpen) && others > 0 {
            let willing = outcome.retry_after == Some(Duration::ZERO);
            plan.order.ask_again(index, willing);
        }
        if is_unreachable(outcome.kind) {
            plan.targets.fell_silent(&mut plan.order, index);
        }
        let error = result.as_ref().err().map(|error| &**error as _);
        this.failed.push(target, outcome.kind, now - since, error);
        // What a provider said or did not say tells more than a refusal of ours.
        if !refused || this.last.is_none() {
            *this.last = Some(outcome);
        }
        if let Ok(response) = result {
            *this.answer = Some(response);
        }
        None
    }

    /// Sends to the next target, or gives up.
    fn send_next(self: Pin<&mut Self>) -> Step<Response<B>> {
        let mut this = self.project();
        let plan = this.plan;
        let now = Instant::now();
        let deadline = plan.call.deadline();
        let spent = if deadline.is_some_and(|deadline| deadline <= now) {
            Some(Kind::TimedOut(Phase::Deadline))
        } else if plan.call.attempts_left() == 0 {
            Some(Kind::Refused(Refusal::AttemptsSpent))
        } else {
            None
        };
        let next = if spent.is_some() || plan.request.is_none() {
            Next::None { soonest: None }
        } else {
            plan.targets.next(&mut plan.order, &plan.call, now)
        };
        match next {
            Next::Target {
                index,
                lease,
                others,
                is_last,
            } => {
                // What holds a connection or a permit does not wait for what comes next.
                *this.answer = this.answer.take().and_then(|answer| detach(answer).ok());
                let Some(mut request) = plan.copy(is_last) else {
                    let error = give_up(&plan.call, this.failed, *this.last, None);
                    return Step::Return(Err(error));
                };
                let share = deadline.filter(|_| others > 0).map(|deadline| {
                    // What is left, split evenly over the targets that are left.
                    now + deadline.saturating_duration_since(now) / (others + 1)
                });
                let n = plan.address(&mut request, &lease, others, share);
                *this.under_way = Some(UnderWay {
                    index,
                    lease,
                    others,
                    n,
                    since: now,
                    until: share,
                });
                let next = plan.send(request);
                this.sending.set(next);
                Step::Wait
            }
            Next::None { soonest } => Step::Return(match (this.answer.take(), spent) {
                (Some(answer), _) => Ok(answer),
                (None, Some(kind))
                    if this
                        .last
                        .as_ref()
                        .is_none_or(|last| !is_from_a_target(last)) =>
                {
                    Err(Error::from(plan.call.outcome(kind)).into())
                }
                (None, _) => {
                    let soonest = soonest.into_iter().chain(*this.refused_until).min();
                    let wait = soonest.map(|soonest| soonest.saturating_duration_since(now));
                    Err(match plan.order.lack() {
                        Some(lack) => {
                            Error::from(plan.call.outcome(Kind::Refused(Refusal::Unable)))
                                .with_told(format!("it needs {lack}, which no target has"))
                                .into()
                        }
                        None => give_up(&plan.call, this.failed, *this.last, wait),
                    })
                }
            }),
        }
    }
}

/// Whether a failure speaks of the provider rather than of the model.
fn is_unreachable(kind: Kind) -> bool {
    kind.is_silent() || matches!(kind, Kind::ConnectFailed | Kind::ConnectionLost)
}

/// Whether an outcome says more of a target than that a layer of ours refused it.
fn is_from_a_target(outcome: &Outcome) -> bool {
    !matches!(outcome.kind, Kind::Refused(_))
}

/// One error for all attempts: the last one's outcome, and the earliest time to come back.
fn give_up(
    call: &Call,
    failed: &mut AllFailed,
    last: Option<Outcome>,
    wait: Option<Duration>,
) -> BoxError {
    let outcome = last.unwrap_or_else(|| call.outcome(Kind::Refused(Refusal::NoTarget)));
    let told = failed.told(outcome.kind);
    let hint = match (outcome.retry_after, wait) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let error = Error::from(outcome)
        .with_retry_after(hint)
        .with_source(std::mem::take(failed));
    match told {
        Some(told) => error.with_told(told).into(),
        None => error.into(),
    }
}

impl<S, ReqB> fmt::Debug for ResponseFuture<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self
            .under_way
            .as_ref()
            .map(|under_way| under_way.lease.target());
        f.debug_struct("ResponseFuture")
            .field("target", &target)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
