use tower_layer::Layer;

use super::Respond;

/// Writes errors down for callers: stands at the very top of a server's stack.
///
/// Below, no answer is an error, and a failure may come as a 200. A caller over HTTP can read
/// neither. This layer never fails: an error becomes a status and a JSON error in the dialect of
/// the request's path (OpenAI's where the path tells nothing), so that the official SDKs raise
/// what they would raise over the provider itself.
///
/// | what came | what the caller gets |
/// | --- | --- |
/// | an answer | the same |
/// | an error answer of the provider | the same |
/// | a failure in a 200, before its first token | its proper status, with the provider's own error |
/// | a refusal of content in the form of an answer | the same |
/// | an error | a status by its kind: 504 timed out, 503 refused, 502 no usable answer, … |
/// | an error within a stream | a last event that says so |
///
/// Failing answers carry `x-should-retry: false`; see [`RespondLayer::client_retries`]. Hints are
/// handed on as `retry-after` (whole seconds, rounded up) and `retry-after-ms`; a full bulkhead or
/// a spent budget without a hint says one second.
///
/// The message of an error says what kind of failure it was, and when to come back if that is
/// known; an error of the provider's keeps its own words. What the layers below know, such as the
/// names of targets and the texts of their errors, stays inside: see [`RespondLayer::details`].
///
/// Headers that belong to one connection (`transfer-encoding`, `connection` and those it names)
/// are not handed on.
///
/// # Example
///
/// ```
/// use llm_call::{IdentifyLayer, PeekLayer, RespondLayer};
/// use tower::ServiceBuilder;
/// # fn demo<S>(client: S) -> impl Sized {
/// // An axum router takes this as a layer or as a fallback service: its error is `Infallible`.
/// ServiceBuilder::new()
///     .layer(RespondLayer::new())
///     .layer(IdentifyLayer::new())
///     .layer(PeekLayer::new())
///     .service(client)
/// # }
/// ```
///
/// # Streaming
///
/// In server-sent events and NDJSON, whatever their media type says, the caller gets whole events:
/// the beginning of one is held (64 KiB at most) until its end has come, and dropped where the
/// stream breaks. The error is then the last event, in the caller's dialect, and no end marker
/// follows. An event larger than that is handed on in pieces, and where it breaks the body fails,
/// as it does for any other answer: a server then breaks the connection off. See
/// [`RespondLayer::error_events`].
///
/// # Clone and shared state
///
/// Services share nothing.
///
/// # Cancellation
///
/// Dropping the future or the body drops what is below.
///
/// # Errors
///
/// None. When the service below fails to become ready, this one is ready all the same, and answers
/// the next call with that error; the service is asked again before the call after it. A clone
/// does not have the error.
#[derive(Clone, Copy, Debug)]
pub struct RespondLayer {
    pub(super) error_events: bool,
    pub(super) client_retries: bool,
    pub(super) details: bool,
}

impl RespondLayer {
    /// With error events, without retries of the caller's client, and without details.
    pub fn new() -> RespondLayer {
        RespondLayer {
            error_events: true,
            client_retries: false,
            details: false,
        }
    }

    /// Whether an error within a stream becomes its last event. Without, the body fails, and a
    /// server breaks the connection off. Default: `true`.
    #[must_use]
    pub fn error_events(mut self, on: bool) -> Self {
        self.error_events = on;
        self
    }

    /// Whether the caller's client decides on its own if it sends a failed request again.
    /// Default: `false`.
    ///
    /// Without, failing answers carry `x-should-retry: false`, which the official SDKs obey. Every
    /// target was tried as often as was sound by then, and a client's own retries multiply: two of
    /// them over three attempts are nine requests, sent while the provider is down. The header is
    /// left out where nothing was sent (bulkhead full, budget spent, no target).
    ///
    /// With, an `x-should-retry` of the provider is handed on, and none is added.
    #[must_use]
    pub fn client_retries(mut self, on: bool) -> Self {
        self.client_retries = on;
        self
    }

    /// Whether the message of an error is its whole chain of sources: targets, the HTTP client's
    /// own words, what to set to avoid it. Default: `false`.
    ///
    /// For gateways whose callers are colleagues; the caller of a public service learns from it
    /// how the service is built. It is bounded to 1 KiB, and URLs in it lose their user and query,
    /// where keys may stand.
    #[must_use]
    pub fn details(mut self, on: bool) -> Self {
        self.details = on;
        self
    }
}

impl Default for RespondLayer {
    fn default() -> Self {
        RespondLayer::new()
    }
}

impl<S> Layer<S> for RespondLayer {
    type Service = Respond<S>;

    fn layer(&self, inner: S) -> Respond<S> {
        Respond::new(inner, *self)
    }
}
