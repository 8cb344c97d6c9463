use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use llm_call::{Call, Ending, Guard, Guarded, State, Target};
use tokio::time::Instant;

use crate::{
    share::{TOKEN, Terms},
    shares::Shares,
};

/// How many retries the answered calls pay for: a handle that the user makes, keeps and passes in.
///
/// Each target has a share. A call that is answered well pays a tenth of a token into it, a retry
/// takes a whole one; so in an outage, when nothing is answered well, retries add next to nothing
/// to the load. A few tokens, the floor, come back by themselves, so that a service with little
/// traffic can retry at all. Requests without a [`Target`] have one share in common.
///
/// The idea is that of the retry budgets of Finagle and Envoy. Finagle pays in for each request, and
/// Envoy allows a share of those under way, also while they fail; here only good answers pay in.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_retry::RetryBudget;
///
/// let budget = RetryBudget::new()
///     .percent(20) // a fifth of a token for each answered call
///     .floor(5)
///     .refill(Duration::from_secs(5));
/// assert_eq!(budget.balance(None), 5.0);
/// ```
///
/// # Clone and shared state
///
/// A clone is the same budget. The setters make a new one that nobody has used yet. A budget may
/// serve several layers; each call pays in once, whatever the number of layers.
/// [`balance`](RetryBudget::balance) and [`balances`](RetryBudget::balances) work at any time.
///
/// At most 10,000 targets have a share of their own. Beyond that, shares that have not changed or
/// were not used for a minute are forgotten, as long as they hold their floor; where there are none
/// of those, a new target uses the common share.
#[derive(Clone)]
pub struct RetryBudget(Arc<Shared>);

struct Shared {
    terms: Terms,
    shares: Mutex<Shares>,
}

impl RetryBudget {
    /// A tenth of a token for each answered call, at most 100 tokens, a floor of 3 of which one
    /// comes back every 10 s.
    pub fn new() -> RetryBudget {
        RetryBudget::with(Terms {
            deposit: 10 * TOKEN / 100,
            most: 100 * TOKEN,
            floor: 3 * TOKEN,
            refill: Duration::from_secs(10),
        })
    }

    fn with(terms: Terms) -> RetryBudget {
        RetryBudget(Arc::new(Shared {
            shares: Mutex::new(Shares::new(&terms)),
            terms,
        }))
    }

    /// How many retries 100 answered calls pay for. Default: 10. With 0 there is the floor alone.
    #[must_use]
    pub fn percent(self, retries: u32) -> RetryBudget {
        RetryBudget::with(Terms {
            deposit: u64::from(retries) * TOKEN / 100,
            ..self.0.terms
        })
    }

    /// The most tokens that one target holds, which is also the most retries that can come at
    /// once. Default: 100. With 0 nothing is retried.
    #[must_use]
    pub fn most(self, tokens: u32) -> RetryBudget {
        RetryBudget::with(Terms {
            most: u64::from(tokens) * TOKEN,
            ..self.0.terms
        })
    }

    /// The tokens that a target has at first, and up to which they come back by themselves;
    /// never more than [`most`](RetryBudget::most). Default: 3.
    #[must_use]
    pub fn floor(self, tokens: u32) -> RetryBudget {
        RetryBudget::with(Terms {
            floor: u64::from(tokens) * TOKEN,
            ..self.0.terms
        })
    }

    /// How long one token takes to come back while a target is below its floor. Default: 10 s.
    /// With [`Duration::ZERO`] the floor is always there, and does not limit how often is retried.
    #[must_use]
    pub fn refill(self, time: Duration) -> RetryBudget {
        RetryBudget::with(Terms {
            refill: time,
            ..self.0.terms
        })
    }

    /// How many tokens a target has; without one, the share of requests that have no target. A
    /// retry takes a whole token.
    pub fn balance(&self, target: Option<&Target>) -> f64 {
        let now = Instant::now();
        tokens(self.shares().balance(target, &self.0.terms, now))
    }

    /// How many tokens everybody has who has used the budget: the common share first, then the
    /// targets in the order of their text.
    pub fn balances(&self) -> Vec<(Option<Target>, f64)> {
        let (now, terms) = (Instant::now(), &self.0.terms);
        let shares = self.shares();
        let mut targets: Vec<_> = shares.targets().cloned().collect();
        targets.sort();
        std::iter::once(None)
            .chain(targets.into_iter().map(Some))
            .map(|target| {
                let balance = shares.balance(target.as_ref(), terms, now);
                (target, tokens(balance))
            })
            .collect()
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        // Nothing under the lock can panic half-way, so a poisoned state is a whole one.
        self.0.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tokens(micro: u64) -> f64 {
    micro as f64 / TOKEN as f64
}

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget::new()
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Terms {
            deposit,
            most,
            floor,
            refill,
        } = self.0.terms;
        f.debug_struct("RetryBudget")
            .field("deposit", &tokens(deposit))
            .field("most", &tokens(most))
            .field("floor", &tokens(floor))
            .field("refill", &refill)
            .finish_non_exhaustive()
    }
}

/// Where one copy of a request pays in and draws.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) budget: RetryBudget,
    pub(crate) target: Option<Target>,
    pub(crate) call: Call,
}

impl Account {
    /// The token of one retry, if there is one.
    pub(crate) fn withdraw(&self, now: Instant) -> Option<Withdrawal> {
        let terms = &self.budget.0.terms;
        let mut shares = self.budget.shares();
        let (share, target) = shares.share(self.target.as_ref(), terms, now);
        share.withdraw(terms, now).then(|| Withdrawal {
            budget: self.budget.clone(),
            share: target.cloned(),
            call: self.call.clone(),
            called: None,
        })
    }
}

/// The token of one retry, from its plan to its end. Dropped, it goes back if nothing was sent.
#[derive(Debug)]
pub(crate) struct Withdrawal {
    budget: RetryBudget,
    share: Option<Target>,
    call: Call,
    /// When the service below was called, and what the call had sent by then.
    called: Option<(Instant, u32)>,
}

impl Withdrawal {
    /// The service below is about to be called.
    pub(crate) fn called(&mut self, now: Instant) {
        self.called = Some((now, self.call.sent()));
    }

    /// A layer below refused the retry.
    pub(crate) fn refused(mut self) {
        self.called = None;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        let terms = &self.budget.0.terms;
        match self.called {
            Some((at, sent)) if self.call.sent() > sent => {
                let mut shares = self.budget.shares();
                shares.planned(self.share.as_ref()).spend(terms, at);
            }
            _ => {
                let now = Instant::now();
                let mut shares = self.budget.shares();
                shares.planned(self.share.as_ref()).refund(terms, now);
            }
        }
    }
}

/// The body of an answer that pays into the [`RetryBudget`] when it ends well.
pub type RetryBody<B> = Guarded<B, Deposit>;

/// The guest of a [`RetryBody`]: pays in once a call, if the answer ends complete and the caller's
/// own client did not have to retry.
#[derive(Debug)]
pub struct Deposit(pub(crate) Account);

impl Guard for Deposit {
    fn ended(&mut self, ending: Ending, _state: &State) {
        let Deposit(Account {
            budget,
            target,
            call,
        }) = self;
        let retried = call.facts().is_some_and(|facts| facts.caller_retries > 0);
        if ending == Ending::Complete && !retried && call.count_answered() {
            let (now, terms) = (Instant::now(), &budget.0.terms);
            let mut shares = budget.shares();
            let (share, _) = shares.share(target.as_ref(), terms, now);
            share.deposit(terms, now);
        }
    }
}

#[cfg(test)]
mod tests;
