use std::time::Duration;

use tokio::time::Instant;

use super::Call;
use crate::{Cause, Ending, Kind, Outcome, State};

/// The open record of a sent attempt. Closed once: by [`Record::close`], or on drop with the cause
/// that was set before.
#[derive(Debug)]
pub(crate) struct Record {
    call: Call,
    index: usize,
    open: bool,
}

impl Record {
    /// The record at this place in the call's ledger.
    pub(super) fn new(call: Call, index: usize) -> Record {
        Record {
            call,
            index,
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
        if let Some(entry) = self.call.core().ledger.entries.get_mut(self.index) {
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

impl Drop for Record {
    fn drop(&mut self) {
        if self.open {
            self.write(Kind::Cancelled, None, None, Instant::now());
        }
    }
}
