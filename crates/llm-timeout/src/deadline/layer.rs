use std::time::Duration;

use llm_call::PeekLayer;
use tower_layer::Layer;

use super::Deadline;

/// One deadline for the whole call, whatever its layers do to save it.
///
/// Three attempts of five seconds each, a queue, and the waits between them are what a person waits
/// for. This layer writes one absolute deadline into the [`Call`](llm_call::Call), which every
/// layer below keeps to: no attempt, fallback or hedge renews it. The deadline bounds the time to
/// the answer: to the first token of a stream, to the last byte of an answer that is not streamed.
///
/// Counted from the moment the request passes this layer for the first time. A tighter deadline
/// that the caller set ([`CallSettings::timeout`](llm_call::CallSettings::timeout)) stays. Opens a
/// call where there is none. Stands above everything that may send again.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_timeout::{DeadlineLayer, TimeoutLayer};
/// use tower_layer::Layer;
/// # fn demo<S>(client: S) -> impl Sized {
/// let deadline = DeadlineLayer::new(Duration::from_secs(15)).thinking(Duration::from_secs(90));
/// (deadline, TimeoutLayer::new().alone()).layer(client)
/// # }
/// ```
///
/// # Streaming
///
/// A stream that was answered in time is left alone.
///
/// # Clone and shared state
///
/// Services share nothing but what the call holds.
///
/// # Cancellation
///
/// When the deadline passes, the inner future or body is dropped in that same poll, with every copy
/// of the request that is under way; each has the reason in the call's ledger.
///
/// # Errors
///
/// [`llm_call::Error`] of kind
/// [`TimedOut(Phase::Deadline)`](llm_call::Phase::Deadline), without a target. A request whose
/// deadline has passed is not sent.
///
/// # Panics
///
/// Waits on `tokio::time`: panics when it has to wait outside a Tokio runtime with time enabled.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineLayer {
    limits: Limits,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    any: Duration,
    thinking: Option<Duration>,
}

impl Limits {
    pub(super) fn of(self, thinking: bool) -> Duration {
        if thinking {
            self.thinking
                .unwrap_or(self.any.max(DeadlineLayer::THINKING))
        } else {
            self.any
        }
    }
}

impl DeadlineLayer {
    const STANDARD: Duration = Duration::from_secs(25);
    const THINKING: Duration = Duration::from_secs(120);

    /// At most so long to the answer. [`DeadlineLayer::default`] is 25 s.
    ///
    /// Zero sends nothing; [`Duration::MAX`] sets no deadline.
    pub const fn new(limit: Duration) -> DeadlineLayer {
        DeadlineLayer {
            limits: Limits {
                any: limit,
                thinking: None,
            },
        }
    }

    /// At most so long for requests that ask the model to think. Default: 120 s, or the plain limit
    /// where that is longer.
    #[must_use]
    pub const fn thinking(mut self, limit: Duration) -> Self {
        self.limits.thinking = Some(limit);
        self
    }

    /// This layer above a `PeekLayer` with default settings: for use without the rest of the family.
    pub fn alone(self) -> (DeadlineLayer, PeekLayer) {
        (self, PeekLayer::new())
    }
}

impl Default for DeadlineLayer {
    fn default() -> Self {
        DeadlineLayer::new(DeadlineLayer::STANDARD)
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline::new(inner, self.limits)
    }
}
