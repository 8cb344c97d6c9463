//! [`Ticket`]: what an admitted call owes its circuit, from its admission to the end of its answer.

use std::{fmt, sync::Arc, time::Duration};

use llm_call::{Call, Cause, Ending, Guard, Health, Kind, Outcome, Phase, State};
use tokio::time::Instant;

use crate::{
    circuit::Shared,
    copy::SentCopy,
    core::{End, Permit},
};

/// What an admitted call owes its circuit: exactly one outcome. It stays with the answer until that
/// has ended, and settles when it is dropped.
pub struct Ticket {
    /// `None` once it is settled, or where no circuit watches.
    open: Option<Open>,
}

struct Open {
    circuit: Arc<Shared>,
    permit: Permit,
    admitted: Instant,
    /// When the inner service was last found not ready for it, or took it after that.
    taken: Option<Instant>,
    call: Option<Call>,
    n: u32,
    /// What the request asks for; the answer may know better.
    streamed: bool,
    thinking: bool,
    /// Whether the answer was slow, where that is to be counted at its end.
    slow: Option<bool>,
    /// How long the reader of a stream did not ask for its first token, before the last time.
    away: Duration,
    /// Since when it has not asked.
    handed: Option<Instant>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody has polled it.
    Admitted,
    /// The inner service is being called or polled. Whoever finds it so is unwinding.
    Polling,
    /// The inner service is not ready for it.
    Queued,
    /// The inner service is waited for.
    Waiting,
    /// There is an answer.
    Answering,
    /// There is an answer, and its slowness has been counted.
    Delivering,
}

impl Ticket {
    pub(crate) fn new(
        circuit: Arc<Shared>,
        permit: Permit,
        admitted: Instant,
        call: Option<Call>,
        n: u32,
    ) -> Ticket {
        let facts = call.as_ref().and_then(Call::facts);
        Ticket {
            open: Some(Open {
                streamed: facts.is_some_and(|facts| facts.streamed == Some(true)),
                thinking: facts.is_some_and(|facts| facts.thinking),
                circuit,
                permit,
                admitted,
                taken: None,
                call,
                n,
                slow: None,
                away: Duration::ZERO,
                handed: None,
                stage: Stage::Admitted,
            }),
        }
    }

    /// The ticket of a call that no circuit watches.
    pub(crate) fn unwatched() -> Ticket {
        Ticket { open: None }
    }

    /// The inner service is about to be called or polled.
    pub(crate) fn polling(&mut self) {
        self.stage(Stage::Polling);
    }

    /// The inner service is not ready for it.
    pub(crate) fn queued(&mut self) {
        if let Some(open) = &mut self.open {
            open.stage = Stage::Queued;
            open.taken = Some(Instant::now());
        }
    }

    /// The inner service takes it.
    pub(crate) fn taken(&mut self) {
        if let Some(Open {
            taken: Some(at), ..
        }) = &mut self.open
        {
            *at = Instant::now();
        }
    }

    /// The inner service has been polled and has nothing yet.
    pub(crate) fn waiting(&mut self) {
        self.stage(Stage::Waiting);
    }

    fn stage(&mut self, stage: Stage) {
        if let Some(open) = &mut self.open {
            open.stage = stage;
        }
    }

    /// There is an answer.
    pub(crate) fn answered(&mut self, state: &State) {
        let Some(open) = &mut self.open else {
            return;
        };
        open.stage = Stage::Answering;
        open.streamed = state.is_streamed();
        let outcome = state.outcome();
        if !outcome.is_success() {
            // What it is worth is known; its body is the caller's affair.
            let now = Instant::now();
            let slow = open.is_slow(now.saturating_duration_since(state.started()));
            return self.settle(end(outcome), slow, now);
        }
        if open.streamed {
            open.first_token(state);
            open.polled(false, state);
        } else {
            // Without a stamp it is read by its reader from here on, at the reader's pace.
            let at = state.first_token().unwrap_or_else(Instant::now);
            open.slow = Some(open.is_slow(at.saturating_duration_since(state.started())));
        }
    }

    /// There is none.
    pub(crate) fn failed(&mut self, outcome: Outcome) {
        let Some(open) = &self.open else {
            return;
        };
        let now = Instant::now();
        let waited = now.saturating_duration_since(open.taken());
        let slow = outcome.kind.is_silent() || open.is_slow(waited);
        self.settle(end(outcome), slow, now);
    }

    /// Settles a call whose slowness says something if it was a failure.
    fn settle(&mut self, end: End, slow: bool, now: Instant) {
        if let Some(open) = self.open.take() {
            let counts = matches!(end, End::Success | End::Failure { .. });
            open.settle(end, counts.then_some(slow), now);
        }
    }
}

/// What the verdict of an outcome is to a circuit.
fn end(outcome: Outcome) -> End {
    match outcome.verdict.breaker {
        Health::Success => End::Success,
        Health::Failure => End::Failure {
            kind: outcome.kind,
            hint: outcome.retry_after,
        },
        Health::Neutral => End::Neutral,
    }
}

impl Open {
    fn is_slow(&self, time: Duration) -> bool {
        let set = self.circuit.policy.get();
        let limit = if self.thinking {
            set.slow_thinking
        } else if self.streamed {
            set.slow_first_token
        } else {
            set.slow_answer
        };
        time > limit
    }

    /// When the inner service took it.
    fn taken(&self) -> Instant {
        self.taken.unwrap_or(self.admitted)
    }

    /// How long the provider has taken by then, as far as the reader asked.
    fn waited(&self, now: Instant, state: &State) -> Duration {
        let all = now.saturating_duration_since(state.started());
        all.saturating_sub(self.away)
    }

    /// A stream was asked for its next frame, and had one or not.
    fn polled(&mut self, pending: bool, state: &State) {
        if self.stage != Stage::Answering || !self.streamed {
            return;
        }
        let now = Instant::now();
        self.asked(now);
        self.first_token(state);
        self.handed = (!pending).then_some(now);
    }

    /// The reader has come back.
    fn asked(&mut self, now: Instant) {
        if let Some(handed) = self.handed.take() {
            self.away += now.saturating_duration_since(handed);
        }
    }

    /// Whether a stream that was committed before its first token keeps its reader waiting for it,
    /// and too long.
    fn is_overdue(&self, now: Instant, state: &State) -> bool {
        let waits = self.streamed && self.stage == Stage::Answering && self.handed.is_none();
        waits && self.is_slow(self.waited(now, state))
    }

    /// Counts the slowness of a stream, by the stamps of whoever read it from the wire.
    fn first_token(&mut self, state: &State) {
        if let (Some(at), Stage::Answering) = (state.first_token(), self.stage) {
            self.stage = Stage::Delivering;
            let slow = self.is_slow(self.waited(at, state));
            let permit = &mut self.permit;
            self.circuit.with(|core| core.first_token(permit, slow, at));
        }
    }

    fn outcome(&self, kind: Kind) -> Outcome {
        match &self.call {
            Some(call) => call.outcome(kind),
            None => Outcome::of(kind),
        }
    }

    fn settle(self, end: End, slow: Option<bool>, now: Instant) {
        let Open {
            circuit, permit, ..
        } = self;
        circuit.with(|core| core.settle(permit, end, slow, now));
    }

    /// The answer ended.
    fn ended(mut self, ending: Ending, state: &State) {
        let now = match (ending, state.first_token()) {
            // It was whole in that moment, which is now.
            (Ending::Complete, Some(at)) if !self.streamed => at,
            _ => Instant::now(),
        };
        if self.streamed && state.first_token().is_some() {
            // Its first token came with its end.
            self.asked(now);
            self.first_token(state);
        }
        let end = match ending {
            Ending::Complete => End::Success,
            Ending::Failed(outcome) => end(outcome),
            Ending::Cut(Cause::TimedOut(phase)) => end(self.outcome(Kind::TimedOut(phase))),
            _ if self.is_overdue(now, state) => End::Failure {
                kind: Kind::TimedOut(Phase::FirstToken),
                hint: None,
            },
            _ => End::Abandoned,
        };
        let slow = match end {
            _ if self.stage == Stage::Delivering => None,
            End::Success => self.slow,
            End::Failure { kind, .. } => {
                let late = self.is_slow(now.saturating_duration_since(state.started()));
                Some(self.slow.unwrap_or(late) || kind.is_silent())
            }
            End::Neutral | End::Abandoned => None,
        };
        self.settle(end, slow, now);
    }

    /// The call was dropped, or unwinds, before there was an answer.
    fn dropped(mut self) {
        let now = Instant::now();
        let kind = match self.stage {
            Stage::Polling => {
                let slow = self.is_slow(now.saturating_duration_since(self.admitted));
                let end = End::Failure {
                    kind: Kind::Unknown,
                    hint: None,
                };
                return self.settle(end, Some(slow), now);
            }
            Stage::Admitted => return self.settle(End::Neutral, None, now),
            // It waited below for leave to be sent: the target was not asked.
            Stage::Queued => return self.settle(End::Abandoned, None, now),
            Stage::Answering | Stage::Delivering => {
                return self.settle(End::Abandoned, None, now);
            }
            Stage::Waiting if self.streamed => Kind::TimedOut(Phase::FirstToken),
            Stage::Waiting => Kind::TimedOut(Phase::Answer),
        };
        let copy = match &self.call {
            None => SentCopy::unknown(self.taken()),
            Some(call) => match SentCopy::find(call, self.n, self.admitted) {
                Some(copy) => copy,
                None => return self.settle(End::Abandoned, None, now),
            },
        };
        let failed = match copy.cause {
            Some(Cause::TimedOut(phase)) => Some(end(self.outcome(Kind::TimedOut(phase)))),
            _ => None,
        };
        let failed = failed.filter(|end| matches!(end, End::Failure { .. }));
        if let Some(first_token) = copy.first_token {
            // A stream that is held to its end, and delivers.
            self.streamed = true;
            let slow = self.is_slow(first_token.saturating_duration_since(copy.at));
            return self.settle(failed.unwrap_or(End::Abandoned), Some(slow), now);
        }
        if let Some(failed) = failed {
            return self.settle(failed, Some(true), now);
        }
        if self.is_slow(now.saturating_duration_since(copy.at)) {
            let end = End::Failure { kind, hint: None };
            return self.settle(end, Some(true), now);
        }
        // It was slower than a copy that was sent later.
        let slow = (copy.cause == Some(Cause::HedgeLost) && copy.overtaken).then_some(true);
        self.settle(End::Abandoned, slow, now);
    }
}

impl Guard for Ticket {
    fn polled(&mut self, pending: bool, state: &State) {
        if let Some(open) = &mut self.open {
            open.polled(pending, state);
        }
    }

    fn ended(&mut self, ending: Ending, state: &State) {
        if let Some(open) = self.open.take() {
            open.ended(ending, state);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.dropped();
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.open.as_ref().map(|open| &open.circuit.key);
        f.debug_struct("Ticket").field("open", &key).finish()
    }
}
