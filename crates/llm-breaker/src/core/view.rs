//! What can be seen of a circuit, and whether it may be forgotten.

use tokio::time::Instant;

use super::{Core, Counts, Phase};
use crate::{Key, Snapshot};

impl Core {
    /// Whether forgetting it loses nothing but totals.
    pub(crate) fn is_idle(&mut self, now: Instant) -> bool {
        matches!(self.phase, Phase::Closed)
            && self.may_go(now)
            && self.failures.counts(now).total == 0
            && self.slowness.counts(now).total == 0
            && self.in_a_row == 0
            && self.ramp.as_mut().is_none_or(|ramp| ramp.is_over(now))
    }

    /// Whether it may be forgotten if there is no room and no call holds it: closed, or open or
    /// half-open and left alone for so long after its time that it protects nobody.
    pub(crate) fn may_go(&self, now: Instant) -> bool {
        let set = self.policy.get();
        let over = |end: Option<Instant>| {
            let end = end.and_then(|end| end.checked_add(set.open_max));
            end.is_some_and(|end| end <= now)
        };
        self.forced.is_none()
            && match self.phase {
                Phase::Closed => true,
                Phase::Open { until } => over(Some(until)),
                Phase::HalfOpen(_) => over(self.dwell_end()),
            }
    }

    /// Everything that can be seen, for the circuit of `key`.
    pub(crate) fn snapshot(&mut self, key: Key, now: Instant) -> Snapshot {
        self.elapse(now);
        let min = self.policy.get().min_calls;
        let failures = self.failures.counts(now);
        let slowness = self.slowness.counts(now);
        let rate = |counts: Counts| {
            (counts.total >= min).then(|| counts.hits as f64 / counts.total as f64)
        };
        Snapshot {
            key,
            state: self.state(),
            forced: self.forced,
            retry_in: match self.phase {
                Phase::Open { until } if self.forced.is_none() => {
                    Some(until.saturating_duration_since(now))
                }
                _ => None,
            },
            failure_rate: rate(failures),
            slow_rate: rate(slowness),
            window_calls: failures.total,
            window_failures: failures.hits,
            window_timed: slowness.total,
            window_slow: slowness.hits,
            failures_in_a_row: self.in_a_row,
            failed_half_opens: self.failed_half_opens,
            trials: match self.phase {
                Phase::HalfOpen(trials) => trials.outstanding,
                _ => 0,
            },
            last_failure: self.last_failure,
            generation: self.generation,
            totals: self.totals,
        }
    }
}
