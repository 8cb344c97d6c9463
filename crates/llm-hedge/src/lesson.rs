//! [`Lesson`]: what one call teaches about the targets it went to.

use llm_call::{Call, Entry, Kind, State};
use tokio::time::Instant;

use crate::{Hedges, Measure, hedges::Times, layer::Admitted};

/// What the first copy of a call has met, until it has been learned from: when it answers, else on
/// drop, after the copies themselves.
///
/// Only first copies teach. They are a fair sample of all calls, which hedges are not: those are
/// sent when somebody was slow, which is when everybody may be, and would make a target look the
/// slower the more it is hedged.
#[derive(Debug)]
pub(crate) struct Lesson {
    pub(crate) hedges: Hedges,
    pub(crate) call: Call,
    pub(crate) measure: Measure,
    /// Which copy of a hedged request the first copy is; 0 unless a layer above hedges too.
    pub(crate) own: u32,
    /// The same of the hedge, once there is one.
    pub(crate) hedge: Option<u32>,
    /// How many attempts were left before: earlier ones belong to somebody else.
    attempts: u32,
    open: bool,
}

impl Lesson {
    pub(crate) fn new(
        hedges: Hedges,
        call: Call,
        Admitted { measure, attempts }: Admitted,
        own: u32,
    ) -> Lesson {
        Lesson {
            hedges,
            call,
            measure,
            own,
            hedge: None,
            attempts,
            open: true,
        }
    }

    /// The first copy answered.
    pub(crate) fn answered(&mut self, state: &State) {
        self.open = false;
        let times = Times {
            target: state.target().cloned(),
            measure: self.measure,
        };
        let now = match state.first_token() {
            // Just now.
            Some(at) => {
                let after = at.saturating_duration_since(state.started());
                self.hedges.answered(&times, after, at);
                at
            }
            // Committed for another reason than a token.
            None => {
                let now = Instant::now();
                let after = now.saturating_duration_since(state.started());
                self.hedges.left(&times, after, now);
                now
            }
        };
        // Most calls are one attempt, and need no look at the ledger.
        if self.sent() > 1 {
            self.learn_from_left(now);
        }
    }

    /// How many attempts were sent since.
    fn sent(&self) -> usize {
        self.attempts.saturating_sub(self.call.attempts_left()) as usize
    }

    /// Learns from attempts that were given up. One that answered is not among them: it is under way,
    /// or has ended as a success.
    fn learn_from_left(&self, now: Instant) {
        let sent = self.sent();
        let ledger = self.call.ledger();
        let earlier = ledger.sent().count().saturating_sub(sent);
        for entry in ledger.sent().skip(earlier) {
            let Some(ended) = entry.ended else { continue };
            if entry.hedge != self.own || !was_left(entry) {
                continue;
            }
            let times = Times {
                target: entry.target.clone(),
                measure: self.measure,
            };
            match entry.first_token {
                Some(at) => {
                    let after = at.saturating_sub(entry.opened);
                    self.hedges.answered(&times, after, now);
                }
                None => {
                    let after = ended.saturating_sub(entry.opened);
                    self.hedges.left(&times, after, now);
                }
            }
        }
    }
}

/// Whether somebody stopped waiting: a race, a time limit, the caller. What failed by itself says
/// nothing of how long an answer takes.
fn was_left(entry: &Entry) -> bool {
    matches!(entry.kind, Some(Kind::Cancelled | Kind::TimedOut(_)))
}

impl Drop for Lesson {
    fn drop(&mut self) {
        if self.open && self.sent() > 0 {
            self.learn_from_left(Instant::now());
        }
    }
}
