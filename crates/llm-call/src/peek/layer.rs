use std::{fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

use super::Peek;
use crate::{Classify, Standard};

/// When an answer is handed to the caller.
///
/// Until then it can still be replaced by another attempt; after that its bytes flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Commit {
    /// At the headers: nothing of a successful answer is held back, and nothing of it can be
    /// replaced. Error statuses are still read and classified.
    Headers,
    /// At the first content token of a stream, at the end of an answer that is not streamed.
    #[default]
    FirstToken,
    /// As [`Commit::FirstToken`], but at the latest so long after the request was sent: for
    /// gateways whose callers give up when headers are late. An answer committed by the window
    /// says so ([`State::is_capped`](crate::State::is_capped)). Error statuses have a bound of
    /// their own: [`PeekLayer::error_wait`].
    Window(Duration),
    /// At the end: a stream is held whole, so that even a late cut is replaced. The caller sees
    /// nothing until then.
    Whole,
}

/// What a `PeekLayer` was told.
pub(crate) struct Settings<C> {
    pub(crate) commit: Commit,
    pub(crate) classify: Arc<C>,
    pub(crate) max_held: usize,
    pub(crate) max_whole: usize,
    pub(crate) max_error: usize,
    pub(crate) error_wait: Duration,
}

/// Makes answers of responses: stands once, directly above the HTTP client and its decompression.
///
/// The headers of an LLM answer say nothing: a 200 can stall, carry an error event, or die
/// half-way. This layer holds a response back until it is *committed*, classifies what came, and
/// turns the body into an [`Answer`](crate::Answer) that knows its outcome and how it ended.
///
/// - A usable answer is `Ok`, committed at its first content token.
/// - A real answer of the provider that is no success (an error status, an error object or event
///   in a 200) is `Ok` too, unchanged and classified: see
///   [`response.outcome()`](crate::ResponseExt::outcome).
/// - No usable answer (no connection, a cut, nothing in it, HTML) is `Err`, with a
///   [`Error`](crate::Error) inside: see [`Kind::of`](crate::Kind::of).
///
/// | answer | held until |
/// | --- | --- |
/// | `HEAD`, `CONNECT`, 1xx, 204, 205, 304 | not held, not looked at |
/// | error status | 64 KiB or 1 s of body, then classified by what is there |
/// | SSE or NDJSON, also when mislabelled | the first content token, 256 KiB at most |
/// | JSON | its end, 8 MiB at most |
/// | HTML; text where an answer was due | not held: `Err` |
/// | audio, bytes, a content encoding, any other media type | not held, not read |
///
/// # Example
///
/// ```
/// use llm_call::{Commit, PeekLayer};
/// use tower_layer::Layer;
/// # fn demo<S>(client: S) -> impl Sized {
/// PeekLayer::new().commit(Commit::FirstToken).layer(client)
/// # }
/// ```
///
/// # Streaming
///
/// The body hands on the original bytes, its size hint and its trailers. An interrupted stream
/// ends in an error, never in a clean end; a stream whose content is complete ends cleanly, with
/// or without its end marker. A stream has no `content-length`: a server that knows one stops
/// there and never learns of the error.
///
/// # Clone and shared state
///
/// Services share the settings and nothing else. The body of the client below must be `Unpin`
/// (hyper's, reqwest's and axum's are; box another one).
///
/// # Cancellation
///
/// Dropping the future or the body drops the client's future or body at once, and the attempt is
/// written to the call's ledger as cancelled, or with the cause that an outer layer set.
///
/// # Errors
///
/// Errors of the client are classified and wrapped; the original is the
/// [`source`](std::error::Error::source).
///
/// # Panics
///
/// The body of an error answer, and a commit window, are waited for with tokio's timer, which
/// panics outside of a tokio runtime with time.
pub struct PeekLayer<C = Standard> {
    settings: Settings<C>,
}

// By hand, since a classifier need be neither.
impl<C> Clone for Settings<C> {
    fn clone(&self) -> Self {
        Settings {
            classify: self.classify.clone(),
            ..*self
        }
    }
}

impl<C> Clone for PeekLayer<C> {
    fn clone(&self) -> Self {
        PeekLayer {
            settings: self.settings.clone(),
        }
    }
}

impl<C> fmt::Debug for PeekLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeekLayer")
            .field("commit", &self.settings.commit)
            .finish_non_exhaustive()
    }
}

impl PeekLayer {
    /// Commits at the first token and classifies by the standard rules.
    pub fn new() -> PeekLayer {
        PeekLayer {
            settings: Settings {
                commit: Commit::FirstToken,
                classify: Arc::new(Standard::default()),
                max_held: 256 * 1024,
                max_whole: 8 * 1024 * 1024,
                max_error: 64 * 1024,
                error_wait: Duration::from_secs(1),
            },
        }
    }
}

impl Default for PeekLayer {
    fn default() -> Self {
        PeekLayer::new()
    }
}

impl<C> PeekLayer<C> {
    /// When answers are handed on. Default: [`Commit::FirstToken`].
    #[must_use]
    pub fn commit(mut self, commit: Commit) -> Self {
        self.settings.commit = commit;
        self
    }

    /// Who classifies. Default: [`Standard`] with the default matrix.
    #[must_use]
    pub fn classify<D: Classify>(self, classify: D) -> PeekLayer<D> {
        PeekLayer {
            settings: Settings {
                commit: self.settings.commit,
                classify: Arc::new(classify),
                max_held: self.settings.max_held,
                max_whole: self.settings.max_whole,
                max_error: self.settings.max_error,
                error_wait: self.settings.error_wait,
            },
        }
    }

    /// The most bytes of a stream that are held before its first token. At the bound the answer is
    /// committed as it is. Default: 256 KiB.
    #[must_use]
    pub fn max_held(mut self, bytes: usize) -> Self {
        self.settings.max_held = bytes;
        self
    }

    /// The most bytes of an answer that is held whole. Above, the answer is committed as it is.
    /// Default: 8 MiB.
    #[must_use]
    pub fn max_whole(mut self, bytes: usize) -> Self {
        self.settings.max_whole = bytes;
        self
    }

    /// The most bytes of an error answer that are read to classify it; the rest is handed on
    /// unread. Default: 64 KiB.
    #[must_use]
    pub fn max_error(mut self, bytes: usize) -> Self {
        self.settings.max_error = bytes;
        self
    }

    /// How long the body of an error answer is waited for, counted from its headers. A body that
    /// has not ended by then is handed on as far as it came. Default: 1 s.
    #[must_use]
    pub fn error_wait(mut self, wait: Duration) -> Self {
        self.settings.error_wait = wait;
        self
    }
}

impl<S, C> Layer<S> for PeekLayer<C> {
    type Service = Peek<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Peek::new(inner, Arc::new(self.settings.clone()))
    }
}
