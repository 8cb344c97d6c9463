//! What an operator does to a circuit.

use tokio::time::Instant;

use super::{Core, Phase};
use crate::{Forced, Reason};

impl Core {
    /// Opens or closes it by hand, until it is released.
    pub(crate) fn force(&mut self, forced: Forced, now: Instant) {
        self.elapse(now);
        self.forced = Some(forced);
        let phase = match forced {
            Forced::Open => Phase::Open { until: now },
            Forced::Closed => Phase::Closed,
        };
        self.enter(phase, Reason::Forced, now);
    }

    /// Lets go of what was forced: an open circuit makes the next call a trial, a closed one
    /// begins anew.
    pub(crate) fn release(&mut self, now: Instant) {
        let phase = match self.forced.take() {
            None => return,
            Some(Forced::Open) => Phase::Open { until: now },
            Some(Forced::Closed) => Phase::Closed,
        };
        self.enter(phase, Reason::Released, now);
    }

    /// Closes it and forgets everything but the totals.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.elapse(now);
        self.forced = None;
        self.enter(Phase::Closed, Reason::Reset, now);
    }
}
