//! [`Lesson`]: what one call teaches about the targets it went to.

use llm_call::{Call, Entry, Kind, State};
use tokio::time::Instant;

use crate::{Hedges, Measure, hedges::Times};

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
    /// Earlier copies belong to somebody else.
    since: Instant,
    open: bool,
}

impl Lesson {
    pub(crate) fn new(hedges: Hedges, call: Call, measure: Measure, own: u32) -> Lesson {
        Lesson {
            hedges,
            call,
            measure,
            own,
            hedge: None,
            since: Instant::now(),
            open: true,
        }
    }

    /// The first copy answered, and the other one is gone.
    pub(crate) fn answered(&mut self, state: &State) {
        self.open = false;
        let now = Instant::now();
        let times = Times {
            target: state.target().cloned(),
            measure: self.measure,
        };
        match state.first_token() {
            Some(at) => {
                let after = at.saturating_duration_since(state.started());
                self.hedges.answered(&times, after, now);
            }
            // Committed for another reason than a token.
            None => {
                let after = now.saturating_duration_since(state.started());
                self.hedges.left(&times, after, now);
            }
        }
        // Most calls are one attempt, and need no look at the ledger.
        if self.call.sent() > 1 {
            self.learn_from_left(now);
        }
    }

    /// Learns from attempts that were given up. One that answered is not among them: it is under way,
    /// or has ended as a success.
    fn learn_from_left(&self, now: Instant) {
        let since = self.since.saturating_duration_since(self.call.opened());
        for entry in self.call.ledger().sent() {
            let Some(ended) = entry.ended else { continue };
            if entry.hedge != self.own || entry.opened < since || !was_left(entry) {
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
        if self.open && self.call.sent() > 0 {
            self.learn_from_left(Instant::now());
        }
    }
}
