use std::{sync::Arc, time::Duration};

use llm_call::PeekLayer;
use tower_layer::Layer;

use super::Timeout;
use crate::{Limits, limits::Settings};

/// Limits each phase of an attempt: until the first token, between tokens, and the whole.
///
/// One timeout cannot fit an LLM call. Twenty seconds are much too long to wait for a provider that
/// is down, and much too short for a stream that is well under way. So each phase has its own
/// limit, and its own error ([`Kind::TimedOut`](llm_call::Kind::TimedOut)):
///
/// | phase | limits | default |
/// | --- | --- | --- |
/// | [`FirstToken`](llm_call::Phase::FirstToken) | a stream: from sending to its first content token, connecting included | 5 s |
/// | [`Answer`](llm_call::Phase::Answer) | not a stream, or not known: from sending to the answer | 20 s |
/// | [`Idle`](llm_call::Phase::Idle) | a stream: silence, keep-alives counted as sound | 10 s |
/// | [`Stall`](llm_call::Phase::Stall) | a stream: silence between two tokens, keep-alives counted as silence | 20 s |
/// | [`Stream`](llm_call::Phase::Stream) | a stream: from sending to its end | 120 s |
/// | [`Reader`](llm_call::Phase::Reader) | the reader's absence between two reads | 120 s |
/// | [`Deadline`](llm_call::Phase::Deadline) | the call's own deadline, until commit or the end of an answer that is not streamed | |
///
/// Requests that ask the model to think get at least 60 s to the first token and 80 s to an answer
/// in one piece; the rest is as above. Whether a request is for a stream, asks to think, and names
/// which model is read from the facts of its [`Call`](llm_call::Call); without one it counts as not
/// known.
///
/// Stands above `PeekLayer`, below everything that may send again: what times out here can still be
/// answered by another attempt.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_timeout::{Limits, TimeoutLayer};
/// use tower_layer::Layer;
/// # fn demo<S>(client: S) -> impl Sized {
/// let timeout = TimeoutLayer::new()
///     .first_token(Duration::from_secs(4))
///     .thinking(Limits::new().first_token(Duration::from_secs(45)))
///     .model("o3", Limits::new().first_token(Duration::from_secs(90)));
/// timeout.alone().layer(client)
/// # }
/// ```
///
/// # Streaming
///
/// The body counts only the time for which its reader asked and had nothing to get, so a slow
/// reader is not taken for a slow server. What is there is handed on before a timer is looked at.
///
/// A stream that `PeekLayer` holds whole ([`Commit::Whole`](llm_call::Commit::Whole)) must have its
/// first token in time as any other, and then be whole within its deadline and the limit on the
/// whole. Its silences are not seen.
///
/// A body that nobody polls cannot act. A reader that stopped for longer than its limit is found
/// out at its next read, and not blamed on the target. Where a server's client has stopped reading
/// its socket for good, no next read may come: let the server set a TCP user timeout, which ends
/// the connection and with it the body.
///
/// # Clone and shared state
///
/// Services share the limits and nothing else.
///
/// # Cancellation
///
/// When a limit passes, the inner future or body is dropped in that same poll, and with it the
/// connection; the reason is in the call's ledger. Dropping the future or the body drops its timer.
///
/// # Errors
///
/// [`llm_call::Error`] of kind `TimedOut(phase)` with the target of the attempt: in place of a
/// response, or at the end of a body. An error or answer of the inner service that is there at the
/// same instant is handed on instead. A request that has no time left is not sent.
///
/// # Panics
///
/// Waits on `tokio::time`: panics when it has to wait outside a Tokio runtime with time enabled.
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    settings: Settings,
}

impl TimeoutLayer {
    /// All phases, with the defaults above.
    pub fn new() -> TimeoutLayer {
        TimeoutLayer {
            settings: Settings::new(),
        }
    }

    /// This layer above a `PeekLayer` with default settings: for use without the rest of the family.
    pub fn alone(self) -> (TimeoutLayer, PeekLayer) {
        (self, PeekLayer::new())
    }

    /// The most time from sending to the first content token of a stream. Default: 5 s.
    #[must_use]
    pub fn first_token(self, limit: Duration) -> Self {
        self.set(Limits::new().first_token(limit))
    }

    /// The most time from sending to an answer that is not streamed. Default: 20 s.
    #[must_use]
    pub fn answer(self, limit: Duration) -> Self {
        self.set(Limits::new().answer(limit))
    }

    /// The longest silence of a stream, keep-alives counted as sound. Default: 10 s.
    #[must_use]
    pub fn idle(self, limit: Duration) -> Self {
        self.set(Limits::new().idle(limit))
    }

    /// The longest silence between two tokens of a stream. Default: 20 s.
    #[must_use]
    pub fn stall(self, limit: Duration) -> Self {
        self.set(Limits::new().stall(limit))
    }

    /// The most time from sending to the end of a stream. Default: 120 s.
    #[must_use]
    pub fn stream(self, limit: Duration) -> Self {
        self.set(Limits::new().stream(limit))
    }

    /// The longest time between two reads of the body by its reader. Default: 120 s.
    #[must_use]
    pub fn reader(self, limit: Duration) -> Self {
        self.set(Limits::new().reader(limit))
    }

    /// What differs for requests that ask the model to think. Default: at least 60 s to the first
    /// token, at least 80 s to an answer that is not streamed.
    #[must_use]
    pub fn thinking(mut self, limits: Limits) -> Self {
        self.settings.set_thinking(limits);
        self
    }

    /// What differs for one model, thinking or not: the target's model by its exact name, else the
    /// one that the caller asked for. Default: nothing.
    #[must_use]
    pub fn model(mut self, name: impl Into<Box<str>>, limits: Limits) -> Self {
        self.settings.set_model(name.into(), limits);
        self
    }

    fn set(mut self, limits: Limits) -> Self {
        self.settings.set(limits);
        self
    }
}

impl Default for TimeoutLayer {
    fn default() -> Self {
        TimeoutLayer::new()
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout::new(inner, Arc::new(self.settings.table()))
    }
}
