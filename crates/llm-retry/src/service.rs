use std::task::{Context, Poll};

use http::{Request, Response};
use llm_call::{Answer, Attempt, BoxError, Call};
use tower_service::Service;

use crate::{
    ResponseFuture, RetryBody, RetryBudget,
    budget::Account,
    future::{Plan, Spare},
    rules::Rules,
};

/// The service of [`RetryLayer`](crate::RetryLayer).
#[derive(Clone, Debug)]
pub struct Retry<S> {
    inner: S,
    budget: RetryBudget,
    rules: Rules,
}

impl<S> Retry<S> {
    pub(crate) fn new(inner: S, budget: RetryBudget, rules: Rules) -> Retry<S> {
        Retry {
            inner,
            budget,
            rules,
        }
    }

    /// The budget.
    pub fn budget(&self) -> &RetryBudget {
        &self.budget
    }
}

impl<S, ReqB, B> Service<Request<ReqB>> for Retry<S>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    type Response = Response<RetryBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, ReqB>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<ReqB>) -> Self::Future {
        let call = Call::of(&mut request);
        let none = Attempt::default();
        let attempt = request.extensions().get::<Attempt>().unwrap_or(&none);
        let account = Account {
            budget: self.budget.clone(),
            target: attempt.target.clone(),
            call,
        };
        let mut rules = self.rules;
        if let Some(retries) = account.call.retries() {
            rules.retries = rules.retries.min(retries);
        }
        // What cannot be sent twice is not cloned.
        let can_retry = rules.retries > 0 && account.call.attempts_left() > 1;
        let spare = can_retry.then(|| Spare {
            service: self.inner.clone(),
            request: request.clone(),
        });
        let plan = Plan::new(rules, attempt, spare);
        ResponseFuture::new(self.inner.call(request), account, plan)
    }
}
