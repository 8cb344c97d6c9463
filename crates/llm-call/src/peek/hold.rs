use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Method, Response, header, response::Parts};
use http_body::Body;
use memchr::memchr;
use tokio::time::Sleep;

use super::{Commit, Peeked, body::Watched, future::Sent};
use crate::{
    BoxError, Classify, Dialect, Ending, Error, Finish, Framing, Outcome, Seen, Watch,
    clock::wall_now,
    media::{Media, is_encoded, media},
    plan::{Head, Plan, plan},
};

/// An answer that is held back, until it is committed or found to be none.
pub(super) struct Holding<B, C> {
    parts: Parts,
    body: Box<Watched<B, C>>,
    method: Method,
    dialect: Option<Dialect>,
    plan: Plan,
    /// What has come of a body that looks like JSON.
    lines: Lines,
    /// Made at the first wait that is bounded.
    timer: Option<Pin<Box<Sleep>>>,
    /// Why there is no usable answer.
    error: Option<Error>,
}

impl<B, C> Holding<B, C>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
    C: Classify,
{
    pub(super) fn new(response: Response<B>, sent: Sent<C>) -> Self {
        let (parts, transport) = response.into_parts();
        let (method, dialect) = (sent.method.clone(), sent.dialect);
        let mut holding = Holding {
            plan: Plan::Sniff,
            parts,
            body: Box::new(Watched::new(transport, sent)),
            method,
            dialect,
            lines: Lines::First,
            timer: None,
            error: None,
        };
        holding.replan();
        holding
    }

    /// The committed answer, or why there is none.
    pub(super) fn into_result(self) -> Result<Response<Peeked<B, C>>, BoxError> {
        match self.error {
            Some(error) => Err(error.into()),
            None => Ok(Response::from_parts(self.parts, Peeked::new(self.body))),
        }
    }

    pub(super) fn poll_commit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.is_decided() {
                return Poll::Ready(());
            }
            let pulled = self.body.poll_pull(cx, Some(&self.parts.headers));
            let Poll::Ready(pulled) = pulled else {
                ready!(self.poll_timer(cx));
                return Poll::Ready(());
            };
            if let Some(frame) = pulled {
                let telling = match (self.plan, frame.data_ref()) {
                    (Plan::Sniff, Some(data)) => !data.trim_ascii().is_empty(),
                    // Its first line may show that it is one of many.
                    (Plan::Whole, Some(data)) => self.lines.see(data),
                    _ => false,
                };
                self.body.held.push(frame);
                if telling {
                    self.replan();
                }
            } else if self.plan == Plan::Sniff {
                // The body ended without a byte that tells.
                self.begin_unread();
            }
        }
    }

    /// Looks the plan up again with the bytes that have come.
    fn replan(&mut self) {
        let first = self.body.held.data();
        let head = Head {
            method: &self.method,
            status: self.parts.status,
            headers: &self.parts.headers,
            dialect_known: self.dialect.is_some(),
        };
        self.plan = match plan(head, &first) {
            Plan::Events(framing) => self.begin_events(framing),
            Plan::Sniff if self.body.settings().commit == Commit::Headers => {
                if media(&self.parts.headers) == Media::Events {
                    self.begin_events(Framing::Sse)
                } else {
                    Plan::Opaque
                }
            }
            Plan::Whole if self.body.settings().commit == Commit::Headers => Plan::Opaque,
            plan => plan,
        };
    }

    /// Nothing that tells has come: goes by the media type.
    fn begin_unread(&mut self) {
        self.plan = if media(&self.parts.headers) == Media::Events {
            self.begin_events(Framing::Sse)
        } else {
            Plan::Whole
        };
    }

    fn begin_events(&mut self, framing: Framing) -> Plan {
        self.body
            .watch_events(framing, Watch::new(self.dialect), &self.parts.headers);
        Plan::Events(framing)
    }

    /// Decides if what has come is enough to.
    fn is_decided(&mut self) -> bool {
        match self.plan {
            Plan::Sniff => {
                let full = self.body.held.cost() >= self.body.settings().max_held;
                if full {
                    self.body.watch_nothing();
                }
                full && self.commit(true)
            }
            Plan::Untouched => {
                let status = self.parts.status;
                if status.is_client_error() || status.is_server_error() {
                    self.judge_failure(&[]);
                } else {
                    self.body.end(Ending::Complete);
                }
                self.body.watch_nothing();
                self.commit(false)
            }
            Plan::Opaque => {
                self.body.watch_nothing();
                self.commit(false)
            }
            Plan::Page => {
                let body = self.body.held.data();
                self.refuse(&Seen::Malformed {
                    status: self.parts.status,
                    headers: &self.parts.headers.clone(),
                    body: &body,
                })
            }
            Plan::Failure => self.is_failure_read(),
            Plan::Whole => self.is_whole_read(),
            Plan::Events(_) => self.is_stream_decided(),
        }
    }

    /// An error status: enough of its body is there, or all of it.
    fn is_failure_read(&mut self) -> bool {
        let unreadable = is_encoded(&self.parts.headers);
        let full = self.body.held.cost() >= self.body.settings().max_error;
        if !(unreadable || full || self.body.is_drained()) {
            return false;
        }
        let body = self.body.held.data();
        if self.body.take_failing().is_some() {
            // Classified by what came, and handed on as what came.
            self.parts.headers.remove(header::CONTENT_LENGTH);
        }
        self.judge_failure(if unreadable { &[] } else { &body });
        self.body.watch_nothing();
        self.commit(false)
    }

    fn judge_failure(&mut self, body: &[u8]) {
        let outcome = self.classify(&Seen::Answer {
            status: self.parts.status,
            headers: &self.parts.headers,
            body,
        });
        self.body.fail(outcome);
    }

    /// JSON: all of it is there, or more than is held.
    fn is_whole_read(&mut self) -> bool {
        if !self.body.is_drained() {
            if self.body.held.cost() < self.body.settings().max_whole {
                return false;
            }
            self.body.watch_nothing();
            return self.commit(true);
        }
        let body = self.body.held.data();
        let mut watch = Watch::new(self.dialect);
        let read = watch.whole(&body);
        if let Some(error) = self.body.take_failing() {
            if read.is_err() {
                self.body.end(Ending::Failed(error.outcome()));
                self.error = Some(error);
                return true;
            }
            // An error after the last brace comes too late to matter.
            self.parts.headers.remove(header::CONTENT_LENGTH);
        }
        if body.trim_ascii().is_empty() {
            return self.refuse(&Seen::Empty { finished: false });
        }
        let Ok(sight) = read else {
            return self.refuse(&Seen::Malformed {
                status: self.parts.status,
                headers: &self.parts.headers.clone(),
                body: &body,
            });
        };
        let finish = watch.finish();
        if sight.error {
            self.judge_failure(&body);
        } else if let Some(Finish::Failed { kind, random }) = finish {
            let outcome = self.classify(&Seen::Finish { kind, random });
            self.body.fail(outcome);
        } else if watch.is_answer_like() && !watch.has_token() && finish != Some(Finish::Length) {
            return self.refuse(&Seen::Empty {
                finished: finish.is_some(),
            });
        } else {
            self.body.whole(watch.usage());
        }
        self.commit(false)
    }

    /// A stream: the first token came, or it failed, or it ended, or too much is held.
    fn is_stream_decided(&mut self) -> bool {
        let state = &self.body.state;
        match state.ending() {
            Some(Ending::Complete) => return self.commit(false),
            Some(_) => {
                // Nothing was delivered yet, so a late failure is still an early one.
                self.error = self.body.take_failing();
                // An error event is the provider's own answer.
                return self.error.is_some() || self.commit(false);
            }
            None => {}
        }
        let settings = self.body.settings();
        let (decided, bound) = match settings.commit {
            Commit::Headers => (true, usize::MAX),
            Commit::FirstToken | Commit::Window(_) => {
                (state.first_token().is_some(), settings.max_held)
            }
            Commit::Whole => (false, settings.max_whole),
        };
        if decided {
            return self.commit(false);
        }
        self.body.held.cost() >= bound && self.commit(true)
    }

    /// There is no usable answer.
    fn refuse(&mut self, seen: &Seen<'_>) -> bool {
        self.body.fail_without_answer(seen);
        self.error = self.body.take_failing();
        true
    }

    fn commit(&mut self, capped: bool) -> bool {
        if matches!(self.plan, Plan::Events(_)) {
            // Whoever knows a length reads no further, and misses the error of a cut stream.
            self.parts.headers.remove(header::CONTENT_LENGTH);
        }
        self.body.commit(capped);
        true
    }

    fn classify(&self, seen: &Seen<'_>) -> Outcome {
        self.body.settings().classify.classify(seen, wall_now())
    }

    /// The bounded waits: for the body of an error answer, and for the commit window.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let settings = self.body.settings();
        let until = match (self.plan, settings.commit) {
            (Plan::Failure, _) => tokio::time::Instant::now().checked_add(settings.error_wait),
            (_, Commit::Window(window)) => self.body.state.started().checked_add(window),
            _ => None,
        };
        if self.timer.is_none() {
            match until {
                Some(until) => self.timer = Some(Box::pin(tokio::time::sleep_until(until))),
                None => return Poll::Pending,
            }
        }
        if let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(cx));
        }
        if self.plan == Plan::Failure {
            let body = self.body.held.data();
            self.judge_failure(&body);
            self.body.drop_transport();
            self.parts.headers.remove(header::CONTENT_LENGTH);
            self.commit(false);
        } else {
            if self.plan == Plan::Sniff {
                self.begin_unread();
            }
            if !matches!(self.plan, Plan::Events(_)) {
                self.body.watch_nothing();
            }
            self.commit(true);
        }
        Poll::Ready(())
    }
}

/// How much of a body that looks like JSON has come: a second line may follow the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    First,
    /// The first line is whole, and only blanks have followed.
    One,
    More,
}

impl Lines {
    /// Takes a frame; whether it tells something new about the lines.
    fn see(&mut self, data: &[u8]) -> bool {
        let before = *self;
        let rest = match before {
            Lines::First => memchr(b'\n', data).map(|end| &data[end..]),
            Lines::One => Some(data),
            Lines::More => None,
        };
        if let Some(rest) = rest {
            *self = match rest.trim_ascii() {
                [] => Lines::One,
                _ => Lines::More,
            };
        }
        *self != before
    }
}

impl<B, C> fmt::Debug for Holding<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding")
            .field("plan", &self.plan)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}
