//! [`Answer`]: a body that knows its own state, and [`Guarded`]: a body with a guest that learns
//! exactly once how it ended.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::{BoxError, Cause, Error, Framing, Kind, Outcome, Target, Usage};

/// The body of a committed answer: original bytes, and what is known of them.
///
/// [`PeekLayer`](crate::PeekLayer) makes the first one; the bodies of the layers above wrap it and
/// pass both methods through. A layer that needs the outcome asks for `B: Answer`; if the compiler
/// says that a body is no `Answer`, a `PeekLayer` is missing below, or a foreign layer replaced the
/// body and needs another `PeekLayer` above it.
#[diagnostic::on_unimplemented(
    message = "the body `{Self}` does not know its outcome",
    label = "this needs a `PeekLayer` below it",
    note = "put `llm_call::PeekLayer::new()` directly above the HTTP client (and its decompression)",
    note = "above a foreign layer that replaces the body, put another `PeekLayer`"
)]
pub trait Answer: Body<Data = Bytes, Error = BoxError> {
    /// What is known of this answer so far.
    fn state(&self) -> &State;

    /// Ends this answer now: the transport is dropped, every guard below is told `ending`, and
    /// nothing more is read. An answer that has already ended keeps its ending, and its bytes if all
    /// of them are here; one whose content is complete ends as complete.
    fn cut(self: Pin<&mut Self>, ending: Ending);
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Everything came: the end marker of a stream, or a whole body.
    Complete,
    /// The provider or the connection failed: an error answer, an error event, a cut, a missing
    /// end. The outcome says which.
    Failed(Outcome),
    /// A layer of ours ended it.
    Cut(Cause),
    /// The caller dropped it before its end.
    Dropped,
}

impl Ending {
    /// The kind that a ledger writes for this ending.
    pub fn kind(self) -> Kind {
        match self {
            Ending::Complete => Kind::Success,
            Ending::Failed(outcome) => outcome.kind,
            Ending::Cut(Cause::TimedOut(phase)) => Kind::TimedOut(phase),
            Ending::Cut(_) | Ending::Dropped => Kind::Cancelled,
        }
    }
}

/// What is known of an answer: its outcome from the first moment, the rest as it goes.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) outcome: Outcome,
    pub(crate) target: Option<Target>,
    pub(crate) started: Instant,
    pub(crate) first_token: Option<Instant>,
    pub(crate) framing: Option<Framing>,
    pub(crate) capped: bool,
    pub(crate) tokens: u64,
    pub(crate) bytes: u64,
    pub(crate) usage: Usage,
    pub(crate) finished: bool,
    pub(crate) ending: Option<Ending>,
}

impl State {
    /// What the answer was when it was committed.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The state of an answer whose whole body was replaced by one of so many bytes: a translation.
    /// It is for a body that has ended and is all here.
    #[must_use]
    pub fn with_whole_body(mut self, bytes: u64) -> State {
        self.bytes = bytes;
        self
    }

    /// Who answered, if the request had a target.
    pub fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// When the request was sent.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When the first content token came. For an answer that is not streamed, when it was whole.
    pub fn first_token(&self) -> Option<Instant> {
        self.first_token
    }

    /// Whether the answer comes event by event.
    pub fn is_streamed(&self) -> bool {
        self.framing.is_some()
    }

    /// How the events of a streamed answer are told apart, by its bytes rather than by its media
    /// type.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Whether it was committed because a bound on held bytes or the commit window was reached,
    /// and not because its beginning was seen to be good.
    pub fn is_capped(&self) -> bool {
        self.capped
    }

    /// Events with content so far. It grows exactly when the answer makes progress, which bytes do
    /// not show: keep-alives are bytes too.
    pub fn token_events(&self) -> u64 {
        self.tokens
    }

    /// Body bytes read from the provider so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Tokens as reported by the provider so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Whether all content has come, although the end marker or EOF may not have.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The ending to write down when something other than the transport ends the answer.
    pub(crate) fn ending_or(&self, ending: Ending) -> Ending {
        match self.ending {
            Some(ended) => ended,
            None if self.finished => Ending::Complete,
            None => ending,
        }
    }

    /// How the answer ended, or `None` while it goes on.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }
}

/// What must last as long as an answer: a permit, a ticket, a record.
pub trait Guard {
    /// The answer ended. Called exactly once, also when the body is dropped.
    fn ended(&mut self, ending: Ending, state: &State);

    /// The body was polled and has not ended. `pending`: it had nothing to hand on. Does nothing
    /// unless a guard says otherwise.
    fn polled(&mut self, pending: bool, state: &State) {
        let _ = (pending, state);
    }
}

pin_project! {
    /// A body with a [`Guard`].
    ///
    /// The guard hears exactly one [`Ending`]: at the end *marker* of a stream rather than at its
    /// EOF (SDKs stop reading at `[DONE]`), at an error, when an outer layer cuts the answer, or
    /// when the body is dropped, polled or not, also by a panic that unwinds. Where the answer has
    /// already ended when the guard moves in, it hears so at once.
    ///
    /// # Example
    ///
    /// ```
    /// use llm_call::{Answer, Ending, Guard, Guarded, State};
    ///
    /// struct Print;
    /// impl Guard for Print {
    ///     fn ended(&mut self, ending: Ending, state: &State) {
    ///         println!("{:?} ended after {} bytes: {ending:?}", state.target(), state.bytes());
    ///     }
    /// }
    ///
    /// fn watch<B: Answer>(response: http::Response<B>) -> http::Response<Guarded<B, Print>> {
    ///     response.map(|body| Guarded::new(body, Print))
    /// }
    /// ```
    pub struct Guarded<B, G>
    where
        B: Answer,
        G: Guard,
    {
        #[pin]
        body: B,
        guard: Option<G>,
    }

    impl<B: Answer, G: Guard> PinnedDrop for Guarded<B, G> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let state = this.body.as_ref().get_ref().state();
            let ending = state.ending_or(Ending::Dropped);
            if let Some(mut guard) = this.guard.take() {
                guard.ended(ending, state);
            }
        }
    }
}

impl<B: Answer, G: Guard> Guarded<B, G> {
    /// Puts a guard into a body.
    // Inlined, since a body is large and each layer moves it.
    #[inline]
    pub fn new(body: B, mut guard: G) -> Guarded<B, G> {
        let guard = match body.state().ending() {
            Some(ending) => {
                guard.ended(ending, body.state());
                None
            }
            None => Some(guard),
        };
        Guarded { body, guard }
    }

    /// Tells the guard how it stands after a poll.
    fn tell(self: Pin<&mut Self>, pending: bool) {
        let this = self.project();
        let state = this.body.as_ref().get_ref().state();
        match state.ending() {
            Some(ending) => {
                if let Some(mut guard) = this.guard.take() {
                    guard.ended(ending, state);
                }
            }
            None => {
                if let Some(guard) = this.guard {
                    guard.polled(pending, state);
                }
            }
        }
    }
}

impl<B: Answer, G: Guard> Body for Guarded<B, G> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = self.as_mut().project().body.poll_frame(cx);
        self.tell(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Answer, G: Guard> Answer for Guarded<B, G> {
    fn state(&self) -> &State {
        self.body.state()
    }

    fn cut(mut self: Pin<&mut Self>, ending: Ending) {
        self.as_mut().project().body.cut(ending);
        self.tell(false);
    }
}

impl<B: Answer, G: Guard> std::fmt::Debug for Guarded<B, G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded")
            .field("state", self.state())
            .finish_non_exhaustive()
    }
}

impl<A: Answer + Unpin + ?Sized> Answer for Box<A> {
    fn state(&self) -> &State {
        (**self).state()
    }

    fn cut(mut self: Pin<&mut Self>, ending: Ending) {
        Pin::new(&mut **self).cut(ending);
    }
}

impl<A: Answer + ?Sized> Answer for Pin<Box<A>> {
    fn state(&self) -> &State {
        (**self).state()
    }

    fn cut(self: Pin<&mut Self>, ending: Ending) {
        self.get_mut().as_mut().cut(ending);
    }
}

/// Reads what a response is worth.
///
/// # Example
///
/// ```
/// use llm_call::{Answer, ResponseExt};
///
/// fn log<B: Answer>(response: &http::Response<B>) {
///     println!("{} -> {}", response.status(), response.outcome().kind);
/// }
/// ```
pub trait ResponseExt {
    /// What the answer was when it was committed: the classified truth, where the status may say
    /// 200 and mean an error.
    fn outcome(&self) -> Outcome;
}

impl<B: Answer> ResponseExt for http::Response<B> {
    fn outcome(&self) -> Outcome {
        self.body().state().outcome()
    }
}

/// Detaches a failed answer from what it came through, to keep it while something else is tried.
///
/// Detached it holds no connection, and nothing that layers below hold until a body has been read,
/// such as a permit: whoever sends again may need it.
///
/// # Errors
///
/// When not all of it is here: a large or encoded error, or a stream that began with an error event,
/// has ended as an answer while the rest of its bytes may still be on their way. It is dropped, and
/// an error of its outcome stands for it.
pub fn detach<B: Answer + Unpin>(
    mut answer: http::Response<B>,
) -> Result<http::Response<B>, Error> {
    let state = answer.body().state();
    let here = state.bytes();
    if state.ending().is_none() || answer.body().size_hint().exact() != Some(here) {
        return Err(Error::from(state.outcome()).with_target(state.target().cloned()));
    }
    Pin::new(answer.body_mut()).cut(Ending::Dropped);
    Ok(answer)
}
