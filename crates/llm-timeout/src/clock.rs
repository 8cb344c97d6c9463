//! Which limit passes next. Pure: `now` is an argument.

use std::{sync::Arc, time::Duration};

use llm_call::Phase;
use tokio::time::Instant;

use crate::Limits;

/// A limit, and when it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Instant,
    pub(crate) phase: Phase,
}

/// The limit that passes first; of several at one instant the first in the list.
fn earliest<const N: usize>(limits: [(Phase, Option<Instant>); N]) -> Option<Due> {
    limits
        .into_iter()
        .filter_map(|(phase, at)| Some(Due { at: at?, phase }))
        .min_by_key(|due| due.at)
}

/// `None` where the limit is not set or lies beyond all time.
fn after(start: Option<Instant>, limit: Option<Duration>) -> Option<Instant> {
    start?.checked_add(limit?)
}

/// The clock of a request until its answer is committed.
#[derive(Debug)]
pub(crate) struct RequestClock {
    started: Instant,
    streamed: bool,
    /// `None` where the deadline alone counts.
    limits: Option<Arc<Limits>>,
    /// Whether a token is known to have come, although the answer is still held.
    has_token: bool,
}

impl RequestClock {
    /// The clock of one attempt. `streamed` where the request is known to ask for a stream.
    pub(crate) fn attempt(started: Instant, streamed: bool, limits: Arc<Limits>) -> RequestClock {
        RequestClock {
            started,
            streamed,
            limits: Some(limits),
            has_token: false,
        }
    }

    /// A clock that knows the call's deadline alone.
    pub(crate) fn deadline(started: Instant, streamed: bool) -> RequestClock {
        RequestClock {
            started,
            streamed,
            limits: None,
            has_token: false,
        }
    }

    /// A token came, and the answer is still held.
    pub(crate) fn first_token(&mut self) {
        self.has_token = true;
    }

    /// The limit that leaves no time to send the request at all.
    pub(crate) fn spent(&self, deadline: Option<Instant>) -> Option<Phase> {
        let limits = self.limits.as_deref();
        let zero = limits.is_some_and(|limits| {
            let first = if self.streamed {
                [limits.first_token, limits.stream]
            } else {
                [limits.answer, None]
            };
            first.contains(&Some(Duration::ZERO))
        });
        if !zero && deadline.is_none_or(|deadline| deadline > self.started) {
            return None;
        }
        self.due(deadline).map(|due| due.phase)
    }

    pub(crate) fn due(&self, deadline: Option<Instant>) -> Option<Due> {
        let start = Some(self.started);
        let (first_token, answer, stream) = match &self.limits {
            None => (None, None, None),
            Some(limits) if self.streamed => {
                let first_token = limits.first_token.filter(|_| !self.has_token);
                (first_token, None, limits.stream)
            }
            Some(limits) => (None, limits.answer, None),
        };
        earliest([
            (Phase::Deadline, deadline),
            (Phase::FirstToken, after(start, first_token)),
            (Phase::Answer, after(start, answer)),
            (Phase::Stream, after(start, stream)),
        ])
    }

    /// The clock of the answer, once it is committed; `None` where nothing limits it.
    pub(crate) fn committed(&mut self, streamed: bool, tokens: u64) -> Option<AnswerClock> {
        let streamed_at_all = self.streamed || streamed;
        // The deadline is that of the answer's beginning where it is streamed.
        if streamed_at_all && self.limits.is_none() {
            return None;
        }
        Some(AnswerClock {
            limits: self.limits.take(),
            streamed: streamed_at_all,
            watched: streamed,
            tokens,
            handed: None,
            absent: false,
            away: Duration::ZERO,
            silent: None,
            stalled: None,
        })
    }
}

/// What is known of an answer so far, and of its call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// When the request was sent.
    pub(crate) started: Instant,
    pub(crate) has_token: bool,
    /// Events with content.
    pub(crate) tokens: u64,
    /// Until when an answer that is not streamed must be whole.
    pub(crate) deadline: Option<Instant>,
}

/// The clock of a committed answer.
///
/// Silence is counted from the moment the answer had nothing to give to a reader who asked, so a
/// slow reader is never taken for a slow server.
#[derive(Debug)]
pub(crate) struct AnswerClock {
    limits: Option<Arc<Limits>>,
    streamed: bool,
    /// Whether its tokens are counted.
    watched: bool,
    tokens: u64,
    /// When the reader last got something and has not asked again.
    handed: Option<Instant>,
    /// Whether the reader stayed away for longer than its limit.
    absent: bool,
    /// How long the reader stayed away altogether.
    away: Duration,
    /// Since when nothing has come.
    silent: Option<Instant>,
    /// Since when no token has come, the reader's absence left out.
    stalled: Option<Instant>,
}

impl AnswerClock {
    pub(crate) fn is_streamed(&self) -> bool {
        self.streamed
    }

    fn limit(&self, of: impl Fn(&Limits) -> Option<Duration>) -> Option<Duration> {
        self.limits.as_deref().and_then(of)
    }

    /// The reader has the answer from now on.
    pub(crate) fn start(&mut self, now: Instant) {
        self.handed = Some(now);
    }

    /// The reader asks.
    pub(crate) fn asked(&mut self, now: Instant) {
        if let Some(handed) = self.handed.take() {
            let away = now.saturating_duration_since(handed);
            self.away = self.away.saturating_add(away);
            if let Some(stalled) = &mut self.stalled {
                *stalled += away;
            }
            self.absent |= self
                .limit(|limits| limits.reader)
                .is_some_and(|limit| away > limit);
        }
    }

    /// The reader got something. Returns the limit that passed meanwhile.
    pub(crate) fn handed(&mut self, now: Instant, seen: Seen) -> Option<Phase> {
        self.handed = Some(now);
        self.silent = None;
        if seen.tokens != self.tokens {
            self.tokens = seen.tokens;
            self.stalled = None;
        }
        if self.absent {
            return Some(Phase::Reader);
        }
        self.total(seen)
            .filter(|due| due.at <= now)
            .map(|due| due.phase)
    }

    /// There is nothing to hand on: until when may that be so?
    pub(crate) fn waiting(&mut self, now: Instant, seen: Seen) -> Option<Due> {
        let silent = Some(*self.silent.get_or_insert(now));
        let stalled = Some(*self.stalled.get_or_insert(now));
        if self.absent {
            let phase = Phase::Reader;
            return Some(Due { at: now, phase });
        }
        let total = self.total(seen);
        if !self.streamed {
            return total;
        }
        let first_token =
            Some(seen.started + self.away).filter(|_| self.watched && !seen.has_token);
        let silence = earliest([
            (
                Phase::FirstToken,
                after(first_token, self.limit(|limits| limits.first_token)),
            ),
            (Phase::Idle, after(silent, self.limit(|limits| limits.idle))),
            (
                Phase::Stall,
                after(
                    stalled.filter(|_| self.watched),
                    self.limit(|limits| limits.stall),
                ),
            ),
        ]);
        match (total, silence) {
            (Some(total), Some(silence)) if silence.at <= total.at => Some(silence),
            (Some(total), _) => Some(total),
            (None, silence) => silence,
        }
    }

    /// The limits on the whole, which pass whether or not something comes.
    fn total(&self, seen: Seen) -> Option<Due> {
        let (phase, limit, deadline) = if self.streamed {
            (Phase::Stream, self.limit(|limits| limits.stream), None)
        } else {
            let limit = self.limit(|limits| limits.answer);
            (Phase::Answer, limit, seen.deadline)
        };
        // The target is not to blame for an answer that its reader drew out.
        let phase = match limit {
            Some(limit) if self.away > limit / 2 => Phase::Reader,
            _ => phase,
        };
        let whole = (phase, after(Some(seen.started), limit));
        earliest([(Phase::Deadline, deadline), whole])
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
