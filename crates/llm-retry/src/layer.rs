use std::time::Duration;

use tower_layer::Layer;

use crate::{Retry, RetryBudget, rules::Rules};

/// Sends the same request to the same target again when that is worth it. See the
/// [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct RetryLayer {
    budget: RetryBudget,
    rules: Rules,
}

impl RetryLayer {
    /// At most two retries on one target, within this budget.
    pub fn new(budget: RetryBudget) -> RetryLayer {
        RetryLayer {
            budget,
            rules: Rules::DEFAULT,
        }
    }

    /// Retries of one call on one target, the first attempt not counted. Default: 2. With 0
    /// nothing is retried and no request is cloned.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.rules.retries = retries;
        self
    }

    /// The waits: the first one is anything from nothing to `base`, evenly; the ceiling doubles
    /// with each retry and stops at `max`. Default: 250 ms and 5 s.
    #[must_use]
    pub fn backoff(mut self, base: Duration, max: Duration) -> Self {
        self.rules.base = base;
        self.rules.longest_backoff = max;
        self
    }

    /// The longest server's hint that is waited for while other targets are left. A longer one
    /// ends the retries on this target, so that the call goes elsewhere. Default: 2 s.
    #[must_use]
    pub fn hint_limit(mut self, limit: Duration) -> Self {
        self.rules.hint_limit = limit;
        self
    }

    /// The longest server's hint that is waited for at all, also where no other target is left and
    /// there is no deadline. Default: 60 s.
    #[must_use]
    pub fn longest_wait(mut self, limit: Duration) -> Self {
        self.rules.longest_wait = limit;
        self
    }

    /// The time that an attempt needs to be worth sending. Where the wait leaves less of the
    /// deadline, the call fails at once with what it has. Default: 500 ms.
    #[must_use]
    pub fn least_attempt(mut self, time: Duration) -> Self {
        self.rules.least_attempt = time;
        self
    }

    /// This layer over a [`PeekLayer`](llm_call::PeekLayer), for a stack that has nothing else.
    pub fn alone(self) -> (RetryLayer, llm_call::PeekLayer) {
        (self, llm_call::PeekLayer::new())
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry::new(inner, self.budget.clone(), self.rules)
    }
}
