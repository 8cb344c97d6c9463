//! [`Ticket`]: what an admitted call owes its circuit, from its admission to the end of its answer.

use std::{fmt, sync::Arc, time::Duration};

use llm_call::{Call, Cause, Ending, Guard, Health, Kind, Outcome, State};
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
    call: Option<Call>,
    n: u32,
    /// What the request asks for; the answer may know better.
    streamed: bool,
    thinking: bool,
    /// Whether the answer was slow, where that is to be counted at its end.
    slow: Option<bool>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody has polled it.
    Admitted,
    /// The inner service is being called or polled. Whoever finds it so is unwinding.
    Polling,
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
                call,
                n,
                slow: None,
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
        let waited = now.saturating_duration_since(open.admitted);
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

    /// Counts the slowness of a stream, by the stamps of whoever read it from the wire.
    fn first_token(&mut self, state: &State) {
        if let (Some(at), Stage::Answering) = (state.first_token(), self.stage) {
            self.stage = Stage::Delivering;
            let slow = self.is_slow(at.saturating_duration_since(state.started()));
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
        if self.streamed {
            // It may have been committed before its first token.
            self.first_token(state);
        }
        let end = match ending {
            Ending::Complete => End::Success,
            Ending::Failed(outcome) => end(outcome),
            Ending::Cut(Cause::TimedOut(phase)) => end(self.outcome(Kind::TimedOut(phase))),
            _ => End::Abandoned,
        };
        let now = match state.first_token() {
            // It was whole in that moment, which is now.
            Some(at) if end == End::Success && !self.streamed => at,
            _ => Instant::now(),
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
    fn dropped(self) {
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
            Stage::Answering | Stage::Delivering => {
                return self.settle(End::Abandoned, None, now);
            }
            Stage::Waiting if self.streamed => Kind::TimedOut(llm_call::Phase::FirstToken),
            Stage::Waiting => Kind::TimedOut(llm_call::Phase::Answer),
        };
        let (at, cause, overtaken) = match &self.call {
            None => (self.admitted, None, false),
            Some(call) => match SentCopy::find(call, self.n) {
                Some(copy) => (copy.at, copy.cause, copy.overtaken),
                // It waited below for leave to be sent: the target was not asked.
                None => return self.settle(End::Abandoned, None, now),
            },
        };
        if let Some(Cause::TimedOut(phase)) = cause
            && let end @ End::Failure { .. } = end(self.outcome(Kind::TimedOut(phase)))
        {
            return self.settle(end, Some(true), now);
        }
        if self.is_slow(now.saturating_duration_since(at)) {
            let end = End::Failure { kind, hint: None };
            return self.settle(end, Some(true), now);
        }
        // It was slower than a copy that was sent later.
        let slow = (cause == Some(Cause::HedgeLost) && overtaken).then_some(true);
        self.settle(End::Abandoned, slow, now);
    }
}

impl Guard for Ticket {
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
