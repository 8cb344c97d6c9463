use std::{fmt, sync::Arc, time::Duration};

use llm_call::{BoxError, Call, Error, Kind, Outcome, Phase, Refusal, Target};
use tokio::time::Instant;

/// Why a call was refused: what was full, and how many were before it.
///
/// The source of the [`Error`](llm_call::Error) that a refused call fails with.
///
/// # Example
///
/// ```
/// use llm_bulkhead::Full;
/// use llm_call::{BoxError, find_cause};
///
/// fn log(error: &BoxError) {
///     if let Some(full) = find_cause::<Full>(&**error) {
///         eprintln!("{full}");
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Full {
    /// The name of the pool.
    pub pool: Arc<str>,
    /// How many calls it takes.
    pub limit: usize,
    /// How many were under way in it.
    pub in_flight: usize,
    /// How many waited for it.
    pub queued: usize,
    /// The limit of the tenant, where that was reached.
    pub tenant_limit: Option<usize>,
    /// The limit over all pools, where that was reached and that of the pool was not.
    pub total_limit: Option<usize>,
    /// When there will probably be room: between 1 s and 60 s, by the pace at which calls ended.
    pub retry_after: Duration,
}

impl Full {
    /// The error that a refused call gets.
    #[cold]
    pub(crate) fn refuse(self, call: Option<&Call>, target: Option<Target>) -> BoxError {
        let refusal = match self.tenant_limit {
            Some(_) => Refusal::TenantFull,
            None => Refusal::BulkheadFull,
        };
        // It had no time left to wait, and has none to go elsewhere.
        let deadline = call.and_then(Call::deadline);
        let kind = if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            Kind::TimedOut(Phase::Deadline)
        } else {
            Kind::Refused(refusal)
        };
        let outcome = call.map_or_else(|| Outcome::of(kind), |call| call.outcome(kind));
        Error::from(outcome)
            .with_target(target)
            .with_retry_after(Some(self.retry_after))
            .with_source(self)
            .into()
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full {
            pool,
            limit,
            in_flight,
            queued,
            ..
        } = self;
        if let Some(tenant) = self.tenant_limit {
            write!(f, "the tenant has its {tenant} calls in the pool {pool}, ")?;
        } else if let Some(total) = self.total_limit {
            write!(f, "all {total} calls over all pools are taken, for {pool} ")?;
        } else {
            write!(f, "the pool {pool} is full, ")?;
        }
        write!(f, "{in_flight} of {limit} under way and {queued} waiting")
    }
}

impl std::error::Error for Full {}

/// What a reader finds that comes back to an answer whose permit is gone.
pub(crate) fn abandoned() -> BoxError {
    Error::from(Outcome::of(Kind::TimedOut(Phase::Reader)).committed()).into()
}

/// A limit that cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// There is no pool of this name.
    NoSuchPool(Arc<str>),
    /// A limit of zero.
    Zero,
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResizeError::NoSuchPool(name) => write!(
                f,
                "there is no pool {name}; use a name that the snapshot lists"
            ),
            ResizeError::Zero => f.write_str("the limit is 0; set it to a positive number"),
        }
    }
}

impl std::error::Error for ResizeError {}
