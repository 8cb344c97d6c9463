use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::{Settings, future::Sent, held::Held};
use crate::{
    Answer, BoxError, Classify, Ending, Error, Finish, Framing, Kind, Outcome, Scanner, Seen,
    Standard, State, Usage, Watch, call::Record, clock::wall_now,
};

/// The body of an answer, as [`Peek`](crate::Peek) hands it on: the original bytes, watched.
///
/// It is fused, drops the transport at its end and when it is cut, and never ends cleanly before
/// the answer did.
pub struct Peeked<B, C = Standard>(
    // Boxed, since it is large and each layer above moves an answer more than once.
    Box<Watched<B, C>>,
);

impl<B, C> Peeked<B, C> {
    pub(super) fn new(watched: Box<Watched<B, C>>) -> Self {
        Peeked(watched)
    }
}

/// What a [`Peeked`] is made of.
pub(super) struct Watched<B, C> {
    transport: Option<B>,
    pub(super) held: Held,
    /// Yielded after the held frames.
    failing: Option<Error>,
    scan: Scan,
    /// Whether the answer was handed to the caller.
    committed: bool,
    pub(super) state: State,
    settings: Arc<Settings<C>>,
    record: Option<Record>,
}

/// How the bytes are watched.
enum Scan {
    /// Not at all: the end of the body is the end of the answer.
    Off,
    /// Not while they pass: the holder judges them at their end.
    Deferred,
    /// Event by event.
    Events { scanner: Scanner, watch: Watch },
}

/// What one event made of the answer.
enum Over {
    Complete,
    Failed(Outcome),
    /// It finished, and nothing was in it.
    Empty,
}

impl<B, C> Watched<B, C>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    C: Classify,
{
    /// A body of which nothing has been read.
    pub(super) fn new(transport: B, sent: Sent<C>) -> Self {
        Watched {
            transport: Some(transport),
            held: Held::default(),
            failing: None,
            scan: Scan::Deferred,
            committed: false,
            state: State {
                outcome: Outcome::of(Kind::Success),
                target: sent.target,
                started: sent.started,
                first_token: None,
                framing: None,
                capped: false,
                tokens: 0,
                bytes: 0,
                usage: Usage::default(),
                finished: false,
                ending: None,
            },
            settings: sent.settings,
            record: sent.record,
        }
    }

    pub(super) fn settings(&self) -> &Settings<C> {
        &self.settings
    }

    /// Whether the transport has ended.
    pub(super) fn is_drained(&self) -> bool {
        self.transport.is_none()
    }

    /// Reads one frame and takes note of it. `headers` are those of the answer, where they are
    /// still at hand.
    pub(super) fn poll_pull(
        &mut self,
        cx: &mut Context<'_>,
        headers: Option<&HeaderMap>,
    ) -> Poll<Option<Frame<Bytes>>> {
        let Some(transport) = &mut self.transport else {
            return Poll::Ready(None);
        };
        match ready!(Pin::new(&mut *transport).poll_frame(cx)) {
            Some(Ok(frame)) => {
                let at_end = transport.is_end_stream();
                if let Some(data) = frame.data_ref() {
                    self.state.bytes += data.len() as u64;
                    self.watch(data, headers);
                }
                // Whoever polls us may trust `is_end_stream` and not come back for the end.
                if at_end {
                    self.end_of_transport(None);
                }
                Poll::Ready(Some(frame))
            }
            Some(Err(error)) => {
                self.end_of_transport(Some(error.into()));
                Poll::Ready(None)
            }
            None => {
                self.end_of_transport(None);
                Poll::Ready(None)
            }
        }
    }

    /// From here on the bytes are events; what is held already is watched now.
    pub(super) fn watch_events(&mut self, framing: Framing, watch: Watch, headers: &HeaderMap) {
        self.scan = Scan::Events {
            scanner: Scanner::new(framing),
            watch,
        };
        self.state.framing = Some(framing);
        let broke = self.failing.take();
        if !self.held.is_empty() {
            let held = self.held.data();
            self.watch(&held, Some(headers));
        }
        if self.transport.is_none() {
            // The transport ended before it was known what it carried.
            match broke {
                Some(error) if self.state.ending.is_none() && !self.state.finished => {
                    self.end(Ending::Failed(error.outcome()));
                    self.failing = Some(error);
                }
                _ => self.end_of_transport(None),
            }
        }
    }

    /// From here on the bytes are not watched.
    pub(super) fn watch_nothing(&mut self) {
        self.scan = Scan::Off;
        // Whoever is told of the end does not come back for it.
        if self.failing.is_none() && self.transport.as_ref().is_none_or(Body::is_end_stream) {
            self.end_of_transport(None);
        }
    }

    fn watch(&mut self, data: &[u8], headers: Option<&HeaderMap>) {
        let Scan::Events { scanner, watch } = &mut self.scan else {
            return;
        };
        let (state, committed) = (&mut self.state, self.committed);
        let classify = &self.settings.classify;
        // What follows an ending says nothing any more, in the same frame or in another.
        let mut over = None;
        if state.ending.is_some() {
            return;
        }
        let scanned = scanner.feed(data, |event| {
            if over.is_some() {
                return;
            }
            let sight = watch.event(&event, committed);
            // A stream in no dialect we know: each event is content, and EOF is its end.
            let foreign = watch.dialect().is_none();
            let content = foreign
                && !(sight.error || sight.end || event.data.is_empty() || event.name == b"ping");
            if sight.token || content {
                state.tokens += 1;
                if state.first_token.is_none() {
                    let now = Instant::now();
                    state.first_token = Some(now);
                    if let Some(record) = &self.record {
                        record.first_token(now);
                    }
                }
            }
            let finish = watch.finish();
            if !state.finished {
                let data = event.data;
                let failure = match finish {
                    _ if sight.error => Some(Seen::Event { headers, data }),
                    Some(Finish::Failed { kind, random }) => Some(Seen::Finish { kind, random }),
                    _ => None,
                };
                over = failure.map(|seen| Over::Failed(classify.classify(&seen, wall_now())));
                state.finished = over.is_none() && is_whole(watch);
            }
            if sight.end && over.is_none() {
                over = match finish {
                    _ if state.finished => Some(Over::Complete),
                    Some(_) => Some(Over::Empty),
                    None => foreign.then_some(Over::Complete),
                };
            }
        });
        state.usage = watch.usage();
        if scanned.is_err() {
            // An event larger than the scanner holds. The bytes flow on, unwatched.
            state.capped = true;
            self.scan = Scan::Off;
        }
        match over {
            Some(Over::Complete) => self.end(Ending::Complete),
            Some(Over::Failed(outcome)) => self.fail(outcome),
            Some(Over::Empty) => self.fail_without_answer(&Seen::Empty { finished: true }),
            None => {}
        }
    }

    /// The transport is at its end: was the answer?
    fn end_of_transport(&mut self, error: Option<BoxError>) {
        self.transport = None;
        if let Some(ending) = self.state.ending {
            // The answer had its ending; a failed one may still break while it is handed on.
            if let (Ending::Failed(outcome), Some(error)) = (ending, error) {
                self.failing = Some(self.error(outcome, Some(error)));
            }
            return;
        }
        if self.state.finished {
            return self.end(Ending::Complete);
        }
        let (empty, foreign) = match &self.scan {
            Scan::Events { watch, .. } => (
                watch
                    .finish()
                    .map(|_| true)
                    .or((self.state.bytes == 0).then_some(false)),
                watch.dialect().is_none() && self.state.tokens > 0,
            ),
            Scan::Off => (None, true),
            Scan::Deferred => {
                if error.is_some() {
                    let cut = Seen::Cut(error.as_deref().map(|e| e as _));
                    let outcome = self.settings.classify.classify(&cut, wall_now());
                    self.failing = Some(self.error(outcome, error));
                }
                return;
            }
        };
        match (error, empty) {
            (None, Some(finished)) => self.fail_without_answer(&Seen::Empty { finished }),
            (None, None) if foreign => self.end(Ending::Complete),
            (None, None) => self.fail_without_answer(&Seen::Cut(None)),
            (Some(error), _) => {
                let outcome = self.classify(&Seen::Cut(Some(&*error)));
                self.failing = Some(self.error(outcome, Some(error)));
                self.end(Ending::Failed(outcome));
            }
        }
    }

    /// The error that the transport ended with while the holder was to judge.
    pub(super) fn take_failing(&mut self) -> Option<Error> {
        self.failing.take()
    }

    /// Classifies, with the verdict of a committed answer where it is one.
    fn classify(&self, seen: &Seen<'_>) -> Outcome {
        let outcome = self.settings.classify.classify(seen, wall_now());
        if self.committed {
            outcome.committed()
        } else {
            outcome
        }
    }

    fn error(&self, outcome: Outcome, source: Option<BoxError>) -> Error {
        let error = Error::from(outcome).with_target(self.state.target.clone());
        match source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }

    /// There is no usable answer: the caller gets an error, now or after the held bytes.
    pub(super) fn fail_without_answer(&mut self, seen: &Seen<'_>) {
        let outcome = self.classify(seen);
        self.failing = Some(self.error(outcome, None));
        self.end(Ending::Failed(outcome));
    }

    /// The provider's own answer is a failure: its bytes are handed on as they are.
    pub(super) fn fail(&mut self, outcome: Outcome) {
        let outcome = if self.committed {
            outcome.committed()
        } else {
            self.state.outcome = outcome;
            outcome
        };
        self.end(Ending::Failed(outcome));
    }

    pub(super) fn end(&mut self, ending: Ending) {
        if self.state.ending.is_none() {
            self.state.ending = Some(ending);
            if let Some(record) = self.record.take() {
                record.close(ending, &self.state, Instant::now());
            }
        }
    }

    /// A whole answer came in one piece.
    pub(super) fn whole(&mut self, usage: Usage) {
        let now = Instant::now();
        self.state.first_token = Some(now);
        self.state.tokens = 1;
        self.state.usage = usage;
        self.state.finished = true;
        self.state.ending = Some(Ending::Complete);
        if let Some(record) = self.record.take() {
            record.close(Ending::Complete, &self.state, now);
        }
    }

    /// From here on the bytes belong to the caller.
    pub(super) fn commit(&mut self, capped: bool) {
        self.committed = true;
        self.state.capped |= capped;
    }

    /// Reads no more of the transport; what is held is all there is.
    pub(super) fn drop_transport(&mut self) {
        self.transport = None;
    }
}

/// The size of a body with so many bytes before it.
pub(crate) fn longer(rest: &SizeHint, by: usize) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(by as u64));
    if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(by as u64)) {
        hint.set_upper(upper);
    }
    hint
}

/// Whether everything that makes an answer has come.
fn is_whole(watch: &Watch) -> bool {
    match watch.finish() {
        Some(Finish::Complete) => watch.has_token(),
        // All tokens went into thinking: short, and still the whole answer.
        Some(Finish::Length) => true,
        _ => false,
    }
}

impl<B, C> Body for Peeked<B, C>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    C: Classify,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self.get_mut().0;
        if let Some(frame) = this.held.pop() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match ready!(this.poll_pull(cx, None)) {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Poll::Ready(this.failing.take().map(|error| Err(error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let this = &*self.0;
        this.held.is_empty()
            && this.failing.is_none()
            && match &this.transport {
                None => true,
                // A transport at its end without an answer at its end has an error to yield.
                Some(transport) => {
                    transport.is_end_stream()
                        && (matches!(this.scan, Scan::Off)
                            || this.state.finished
                            || this.state.ending.is_some())
                }
            }
    }

    fn size_hint(&self) -> SizeHint {
        let this = &*self.0;
        // Whoever knows a length reads no further, and misses the error of a cut stream.
        let may_break = matches!(this.scan, Scan::Events { .. }) && this.transport.is_some();
        match &this.transport {
            _ if may_break || this.failing.is_some() => SizeHint::default(),
            Some(transport) => longer(&transport.size_hint(), this.held.len()),
            None => SizeHint::with_exact(this.held.len() as u64),
        }
    }
}

impl<B, C> Answer for Peeked<B, C>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    C: Classify,
{
    fn state(&self) -> &State {
        &self.0.state
    }

    fn cut(self: Pin<&mut Self>, ending: Ending) {
        let this = &mut *self.get_mut().0;
        // Of an answer that has ended and is all here nothing is taken away.
        if this.state.ending.is_none() || this.transport.is_some() {
            this.transport = None;
            this.held.clear();
            this.failing = None;
        }
        let ending = this.state.ending_or(ending);
        this.end(ending);
    }
}

impl<B, C> Drop for Watched<B, C> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            let ending = self.state.ending_or(Ending::Dropped);
            record.close(ending, &self.state, Instant::now());
        }
    }
}

impl<B, C> fmt::Debug for Peeked<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<B, C> fmt::Debug for Watched<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peeked")
            .field("state", &self.state)
            .field("held", &self.held.len())
            .field(
                "failing",
                &self.failing.as_ref().map(|e| e as &dyn StdError),
            )
            .finish_non_exhaustive()
    }
}
