//! Traffic that grows after an outage. Pure: `now` is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// A share of calls that grows in a straight line from a tenth to all. Without dice: credit is
/// saved up, and a call costs one.
#[derive(Debug)]
pub(crate) struct Ramp {
    since: Instant,
    length: Duration,
    credit: u64,
}

/// One call's worth of credit.
const CALL: u64 = 1_000_000;

impl Ramp {
    /// `None` where there is none.
    pub(crate) fn new(length: Duration, now: Instant) -> Option<Ramp> {
        (!length.is_zero()).then_some(Ramp {
            since: now,
            length,
            // The first call goes through.
            credit: CALL,
        })
    }

    /// Whether a call that could go elsewhere goes through; `None` once the ramp is over.
    pub(crate) fn admits(&mut self, now: Instant) -> Option<bool> {
        if self.is_over(now) {
            return None;
        }
        let passed = now.saturating_duration_since(self.since);
        let grown = passed.as_secs_f64() / self.length.as_secs_f64();
        let share = (0.1 + 0.9 * grown) * CALL as f64;
        self.credit += share as u64;
        let admits = self.credit >= CALL;
        if admits {
            self.credit -= CALL;
        }
        Some(admits)
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= self.length
    }
}
