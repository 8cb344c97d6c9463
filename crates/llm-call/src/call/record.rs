use std::time::Duration;

use tokio::time::Instant;

use super::Call;
use crate::{Billed, Cause, Certainty, Ending, Kind, Outcome, Phase, State, Usage};

/// The open record of a sent attempt. Closed once: by [`Record::close`], or on drop with the cause
/// that was set before.
#[derive(Debug)]
pub(crate) struct Record {
    call: Call,
    index: usize,
    drop_stops_bill: bool,
    open: bool,
}

impl Record {
    /// The record at this place in the call's ledger.
    pub(super) fn new(call: Call, index: usize, drop_stops_bill: bool) -> Record {
        Record {
            call,
            index,
            drop_stops_bill,
            open: true,
        }
    }

    /// The first token came.
    pub(crate) fn first_token(&self, at: Instant) {
        let at = at.saturating_duration_since(self.call.0.opened);
        if let Some(entry) = self.call.core().ledger.entries.get_mut(self.index) {
            entry.first_token.get_or_insert(at);
        }
    }

    /// The attempt failed before there was a body.
    pub(crate) fn fail(mut self, outcome: Outcome) {
        self.write(outcome.kind, outcome.retry_after, None, Instant::now());
    }

    /// The body ended.
    pub(crate) fn close(mut self, ending: Ending, state: &State, now: Instant) {
        let hint = match ending {
            Ending::Failed(outcome) => outcome.retry_after,
            _ => None,
        };
        self.write(ending.kind(), hint, Some(state), now);
    }

    fn write(&mut self, kind: Kind, hint: Option<Duration>, state: Option<&State>, now: Instant) {
        self.open = false;
        let opened = self.call.0.opened;
        let billed = self.billed(kind, state);
        if let Some(entry) = self.call.core().ledger.entries.get_mut(self.index) {
            entry.billed = billed;
            // A copy that our own layer ended is written with that layer's reason.
            entry.kind = Some(match (kind, entry.cause) {
                (Kind::Cancelled, Some(Cause::TimedOut(phase))) => Kind::TimedOut(phase),
                _ => kind,
            });
            entry.ended = Some(now.saturating_duration_since(opened));
            entry.retry_after = hint;
            if let Some(state) = state {
                let first = state.first_token();
                entry.first_token = first.map(|at| at.saturating_duration_since(opened));
                entry.usage = state.usage();
                entry.bytes = state.bytes();
            }
        }
    }
}

impl Record {
    /// What the attempt is billed if it ended as `kind`.
    fn billed(&self, kind: Kind, state: Option<&State>) -> Option<Billed> {
        let usage = state.map(State::usage).unwrap_or_default();
        let counted = state.map_or(0, State::token_events);
        let left = match kind {
            Kind::Success => false,
            Kind::Cancelled
            | Kind::TimedOut(_)
            | Kind::ConnectionLost
            | Kind::Interrupted
            | Kind::Unknown => true,
            // The provider says itself that it failed; what it had delivered by then may count.
            _ if counted > 0 => true,
            _ => return None,
        };
        if kind == Kind::TimedOut(Phase::Connect) {
            return None;
        }
        let certainty = match usage {
            Usage {
                input: Some(_),
                output: Some(_),
                ..
            } if !left => Certainty::Reported,
            _ if left && !self.drop_stops_bill => Certainty::AtLeast,
            _ => Certainty::Estimated,
        };
        let estimate = || self.call.facts().map_or(0, |facts| facts.input_tokens);
        let reported = usage.output.map_or(0, u64::from);
        Some(Billed {
            input: usage.input.map_or_else(estimate, u64::from),
            output: match certainty {
                Certainty::Reported => reported,
                _ => reported.max(counted),
            },
            certainty,
        })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.open {
            self.write(Kind::Cancelled, None, None, Instant::now());
        }
    }
}
