//! [`Hedges`]: what all calls share.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use llm_call::Target;
use tokio::time::Instant;

use crate::{
    Measure, Policy, Snapshot, TargetTimes,
    budget::{Budget, TOKEN, Tenant},
    latency::Latency,
    recent::Recent,
    snapshot::Totals,
};

/// Targets whose times are remembered.
const MOST_TARGETS: usize = 1_000;

/// How much may be hedged and how long that takes to be worth it: a handle that the user makes,
/// keeps and passes in.
///
/// It holds the times to the first token of each target, as learned, and the tokens of each tenant:
/// a call that could be hedged pays in a tenth of one, a hedge takes a whole one.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_hedge::{Hedges, Measure};
///
/// let hedges = Hedges::new();
/// // Nothing is known yet, and nobody has paid.
/// let delay = hedges.delay(None, Measure::FirstToken);
/// assert_eq!(delay, Some(Duration::from_secs(3)));
/// assert_eq!(hedges.balance(Some("acme")), 0.0);
/// hedges.pause(); // no hedge is sent until hedges.resume()
/// ```
///
/// # Clone and shared state
///
/// A clone is the same handle. It may serve several layers. What is learned and paid lives in this
/// process alone.
///
/// At most 1,000 targets (each with what it is measured for) and 10,000 tenants are remembered, at least
/// the half of them that was used last. A target that was
/// forgotten is learned again; a tenant that was forgotten has no tokens.
#[derive(Clone)]
pub struct Hedges(Arc<Shared>);

struct Shared {
    policy: Policy,
    budget: Mutex<Budget>,
    learned: Mutex<Recent<Times, Latency>>,
    paused: AtomicBool,
    totals: Totals,
}

/// Which times belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Times {
    pub(crate) target: Option<Target>,
    pub(crate) measure: Measure,
}

impl Hedges {
    /// At most ten hedges for a hundred calls, after the p95 of a target.
    pub fn new() -> Hedges {
        Hedges::with(Policy::default())
    }

    /// By a policy of your own, from [`Settings::build`](crate::Settings::build).
    pub fn with(policy: Policy) -> Hedges {
        Hedges(Arc::new(Shared {
            policy,
            budget: Mutex::new(Budget::new(policy.deposit, policy.most)),
            learned: Mutex::new(Recent::new(MOST_TARGETS)),
            paused: AtomicBool::new(false),
            totals: Totals::default(),
        }))
    }

    /// Sends no hedge until [`resume`](Hedges::resume). Those under way go on; times are learned;
    /// nothing is paid in.
    pub fn pause(&self) {
        self.0.paused.store(true, Ordering::Relaxed);
    }

    /// Ends a pause. Does nothing where there is none.
    pub fn resume(&self) {
        self.0.paused.store(false, Ordering::Relaxed);
    }

    /// Whether no hedges are sent.
    pub fn is_paused(&self) -> bool {
        self.0.paused.load(Ordering::Relaxed)
    }

    /// How long a call waits at a target before it is hedged, as of now; without a target, that of
    /// requests that have none. `None`: too little is known to say.
    pub fn delay(&self, target: Option<&Target>, measure: Measure) -> Option<Duration> {
        let target = target.cloned();
        let learned = self.learned();
        let latency = learned.peek(&Times { target, measure });
        let known = latency.and_then(Latency::last_quantile);
        self.0.policy.delay(measure, known)
    }

    /// How many tokens a tenant has; without one, calls that have none. A hedge takes a whole token.
    pub fn balance(&self, tenant: Option<&str>) -> f64 {
        let balance = self.budget().balance(&tenant.map(Arc::from));
        balance as f64 / TOKEN as f64
    }

    /// What happened so far, and what is known of each target.
    pub fn snapshot(&self) -> Snapshot {
        let policy = &self.0.policy;
        let learned = self.learned();
        let mut targets: Vec<_> = learned
            .iter()
            .map(|(times, latency)| TargetTimes {
                target: times.target.clone(),
                measure: times.measure,
                samples: latency.samples(),
                delay: policy.delay(times.measure, latency.last_quantile()),
            })
            .collect();
        drop(learned);
        targets.sort_by(|a, b| (&a.target, a.measure).cmp(&(&b.target, b.measure)));
        self.totals().snapshot(self.is_paused(), targets)
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.0.totals
    }

    /// The delay at a target, for a call that waits for it.
    pub(crate) fn delay_of(&self, times: &Times, now: Instant) -> Option<Duration> {
        let policy = &self.0.policy;
        let mut learned = self.learned();
        let latency = learned.get_or(times, || Latency::new(now));
        policy.delay(times.measure, latency.quantile(policy.ask, now))
    }

    pub(crate) fn answered(&self, times: &Times, after: Duration, now: Instant) {
        let mut learned = self.learned();
        let latency = learned.get_or(times, || Latency::new(now));
        latency.answered(after, self.0.policy.ask, now);
    }

    pub(crate) fn left(&self, times: &Times, after: Duration, now: Instant) {
        let mut learned = self.learned();
        let latency = learned.get_or(times, || Latency::new(now));
        latency.left(after, self.0.policy.ask, now);
    }

    /// A call that could be hedged pays in: whether its tenant has a token now.
    pub(crate) fn deposit(&self, tenant: &Tenant) -> bool {
        self.budget().deposit(tenant)
    }

    pub(crate) fn withdraw(&self, tenant: &Tenant) -> bool {
        self.budget().withdraw(tenant)
    }

    pub(crate) fn give_back(&self, tenant: &Tenant) {
        self.budget().give_back(tenant);
    }

    // Nothing under either lock can panic half-way, so a poisoned state is a whole one.
    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.0.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learned(&self) -> MutexGuard<'_, Recent<Times, Latency>> {
        (self.0.learned.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Hedges {
    fn default() -> Self {
        Hedges::new()
    }
}

impl fmt::Debug for Hedges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedges")
            .field("policy", &self.0.policy)
            .field("paused", &self.is_paused())
            .finish_non_exhaustive()
    }
}
