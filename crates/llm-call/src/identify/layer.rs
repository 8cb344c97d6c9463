use std::{fmt, sync::Arc};

use http::request::Parts;
use tower_layer::Layer;

use super::Identify;
use crate::{CallSettings, InvalidTarget, Target};

/// Makes calls of requests: stands at the top of a stack, below what only speaks to the caller.
///
/// The layers below send the same request again, elsewhere, or not at all. For that they need a
/// body that can be copied, and they need to know what is asked for. This layer reads the body,
/// opens the [`Call`](crate::Call), writes down the [`Facts`](crate::Facts) of the request (model,
/// streamed or not, thinking, tools, size) and puts an [`Attempt`](crate::Attempt) with a target
/// into its extensions. The bytes of the body and the headers go on as they came.
///
/// A `Call` that is in the extensions already is used as it is, and so is the target of an
/// `Attempt`; missing parts of that target are filled in.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_call::{CallSettings, IdentifyLayer, Workload};
/// use tower_layer::Layer;
/// # fn demo<S>(stack: S) -> Result<impl Sized, llm_call::InvalidTarget> {
/// let identify = IdentifyLayer::new()
///     .provider("openai")?
///     .settings(|parts| {
///         let settings = CallSettings::new().timeout(Duration::from_secs(25));
///         match parts.headers.get("x-tenant").and_then(|t| t.to_str().ok()) {
///             Some(tenant) => settings.tenant(tenant),
///             None => settings.workload(Workload::Internal),
///         }
///     });
/// # Ok(identify.layer(stack))
/// # }
/// ```
///
/// # Streaming
///
/// Request bodies are held whole; answers pass frame by frame. Each answer says who served it:
/// `x-llm-provider`, `x-llm-model` and `x-llm-attempts` (attempts sent when it was committed);
/// [`IdentifyLayer::stamp`] turns that off.
///
/// # Clone and shared state
///
/// Services share the settings and nothing else. `poll_ready` is always ready: the service below
/// is cloned, and made ready once the body has been read, so that a slow upload holds no permit.
///
/// # Cancellation
///
/// The call is finished exactly once on every path: with the ending of the answer, with the
/// failure, or as dropped when the future or the body is dropped, polled or not.
///
/// # Errors
///
/// [`Kind::RequestTooLarge`](crate::Kind::RequestTooLarge) when the body passes the limit,
/// [`Kind::Cancelled`](crate::Kind::Cancelled) when it breaks off. Errors from below pass
/// as they are. JSON that cannot be read is no error here: the request goes on, and the provider
/// answers it.
#[derive(Clone)]
pub struct IdentifyLayer<F = fn(&Parts) -> CallSettings> {
    pub(super) settings: F,
    pub(super) provider: Option<Target>,
    pub(super) max_body: usize,
    pub(super) stamp: bool,
}

impl IdentifyLayer {
    /// Default settings for each call; the host as the provider; bodies of 32 MiB at most; answers
    /// that say who served them.
    pub fn new() -> IdentifyLayer {
        IdentifyLayer {
            settings: |_| CallSettings::new(),
            provider: None,
            max_body: 32 * 1024 * 1024,
            stamp: true,
        }
    }
}

impl Default for IdentifyLayer {
    fn default() -> Self {
        IdentifyLayer::new()
    }
}

impl<F> IdentifyLayer<F> {
    /// How a call is opened: its tenant, workload and limits, by the head of the request. Not
    /// asked where the request brings its own [`Call`](crate::Call). Default: the default
    /// [`CallSettings`].
    #[must_use]
    pub fn settings<G>(self, settings: G) -> IdentifyLayer<G>
    where
        G: Fn(&Parts) -> CallSettings,
    {
        IdentifyLayer {
            settings,
            provider: self.provider,
            max_body: self.max_body,
            stamp: self.stamp,
        }
    }

    /// The most bytes of a request body. Default: 32 MiB.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    /// Whether an answer says in its headers who served it: `x-llm-provider`, `x-llm-model`,
    /// `x-llm-attempts`. Default: `true`. Turn it off where callers must not learn that.
    #[must_use]
    pub fn stamp(mut self, on: bool) -> Self {
        self.stamp = on;
        self
    }

    /// The provider of the target. Default: the host of the request's URI; `default` where it has
    /// none, or one with colons. Two servers on one host need names to be told apart.
    ///
    /// # Errors
    ///
    /// When the name is empty, has a colon, or cannot stand in an HTTP header.
    pub fn provider(mut self, name: &str) -> Result<Self, InvalidTarget> {
        self.provider = Some(Target::new(name, None, None)?);
        Ok(self)
    }
}

// By hand: closures are no `Debug`, and the stack is.
impl<F> fmt::Debug for IdentifyLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentifyLayer")
            .field("provider", &self.provider)
            .field("max_body", &self.max_body)
            .field("stamp", &self.stamp)
            .finish_non_exhaustive()
    }
}

impl<S, F: Clone> Layer<S> for IdentifyLayer<F> {
    type Service = Identify<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Identify::new(inner, Arc::new(self.clone()))
    }
}
