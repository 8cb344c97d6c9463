use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use crate::Matrix;

/// Attempts that one call may send over all its layers, the first one included.
pub const MAX_ATTEMPTS: u32 = 6;

/// What kind of work a request is, for layers that treat the kinds differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Workload {
    /// A person waits for the answer.
    #[default]
    Interactive,
    /// Nobody waits for this very answer.
    Background,
    /// The service talks to itself: probes, evaluations.
    Internal,
}

/// What the opener of a call says about it.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_call::{Call, CallSettings, Workload};
///
/// let call = Call::open(
///     CallSettings::new()
///         .tenant("acme")
///         .workload(Workload::Background)
///         .max_attempts(2)
///         .timeout(Duration::from_secs(90)),
/// );
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(call);
/// ```
#[derive(Clone, Debug)]
pub struct CallSettings {
    pub(super) tenant: Option<Arc<str>>,
    pub(super) class: Option<Arc<str>>,
    pub(super) side_effects: bool,
    pub(super) workload: Workload,
    pub(super) max_attempts: u32,
    pub(super) retries: Option<u32>,
    pub(super) timeout: Option<Duration>,
    pub(super) affinity: Option<u64>,
    pub(super) matrix: Option<Arc<Matrix>>,
    pub(super) required: Arc<[Box<str>]>,
}

impl CallSettings {
    /// No tenant, no class, interactive, no side effects, at most six attempts, no time limit of its own.
    pub fn new() -> CallSettings {
        CallSettings {
            tenant: None,
            class: None,
            side_effects: false,
            workload: Workload::Interactive,
            max_attempts: MAX_ATTEMPTS,
            retries: None,
            timeout: None,
            affinity: None,
            matrix: None,
            required: Arc::default(),
        }
    }

    /// Whose call this is. Default: nobody's in particular.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Which class the tenant is of, e.g. `premium` or `free`, for layers that treat the classes
    /// differently. Default: none.
    #[must_use]
    pub fn class(mut self, class: impl Into<Arc<str>>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Answering this call does more than to answer: tools that run at the provider, answers that
    /// are stored there. It is then never sent a second time while the first is still under way, and
    /// is not hedged. Sending it again after it failed is up to [`retries`](CallSettings::retries)
    /// and [`max_attempts`](CallSettings::max_attempts). Default: `false`.
    #[must_use]
    pub fn side_effects(mut self, on: bool) -> Self {
        self.side_effects = on;
        self
    }

    /// What kind of work this is. Default: [`Workload::Interactive`].
    #[must_use]
    pub fn workload(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self
    }

    /// How often this call may be sent over all layers, the first attempt included: to other targets
    /// as well as again. Default: 6. At least one is sent.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// At most so many retries on one target, where the layer would allow more; 0 for none. The call
    /// may still fail over. Default: as many as the layer allows.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// What the call belongs to (a conversation, a prompt prefix): where targets are drawn by
    /// weight, calls of one key begin at the same target while it is well, so that its prompt
    /// cache is used. Default: each call is drawn anew.
    #[must_use]
    pub fn affinity(mut self, key: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.affinity = Some(hasher.finish());
        self
    }

    /// The verdicts of failures that the layers themselves find for this call (time limits,
    /// refusals). Default: [`Matrix::default`]. What the provider sends is classified by the
    /// [`PeekLayer`](crate::PeekLayer), which has a matrix of its own
    /// ([`Standard::with_matrix`](crate::Standard::with_matrix)): give both the same.
    #[must_use]
    pub fn matrix(mut self, matrix: impl Into<Arc<Matrix>>) -> Self {
        self.matrix = Some(matrix.into());
        self
    }

    /// Fields of the request that must reach the target, by their names: `seed`, `logprobs`. A target
    /// whose dialect has no words for one of them is not asked. Default: none; what is lost is said
    /// in `x-llm-lost` and in the [ledger](crate::Entry::lost).
    #[must_use]
    pub fn require<N: Into<Box<str>>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.required = fields.into_iter().map(Into::into).collect();
        self
    }

    /// How long the call may take until it is answered, counted from its opening. Default: as long
    /// as the deadline layer says; a deadline layer shortens this and never lengthens it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Default for CallSettings {
    fn default() -> Self {
        CallSettings::new()
    }
}
