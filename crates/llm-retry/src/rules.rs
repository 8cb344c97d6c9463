//! Whether and when to send again: the pure core. `now` and the random number are arguments.

use std::time::Duration;

use llm_call::{Outcome, Retry};
use tokio::time::Instant;

/// The settings of a [`RetryLayer`](crate::RetryLayer).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Retries on one target, the first attempt not counted.
    pub(crate) retries: u32,
    /// The longest first wait; it doubles.
    pub(crate) base: Duration,
    /// The longest wait that is a guess of ours.
    pub(crate) longest_backoff: Duration,
    /// The longest hint that is waited for while other targets are left.
    pub(crate) hint_limit: Duration,
    /// The longest hint that is waited for at all.
    pub(crate) longest_wait: Duration,
    /// The time that an attempt needs to be worth sending.
    pub(crate) least_attempt: Duration,
}

/// What is known when an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) outcome: Outcome,
    /// Retries so far.
    pub(crate) retries: u32,
    /// Whether one of them was for a failure that is worth one more attempt and not two.
    pub(crate) used_once: bool,
    /// Attempts that the call may still send.
    pub(crate) attempts_left: u32,
    /// Other targets that are left.
    pub(crate) alternatives: u32,
    /// Until when the target may be asked: the deadline, or while other targets are left, the end
    /// of its share of it.
    pub(crate) until: Option<Instant>,
    pub(crate) now: Instant,
}

impl Rules {
    pub(crate) const DEFAULT: Rules = Rules {
        retries: 2,
        base: Duration::from_millis(250),
        longest_backoff: Duration::from_secs(5),
        hint_limit: Duration::from_secs(2),
        longest_wait: Duration::from_secs(60),
        least_attempt: Duration::from_millis(500),
    };

    /// How long to wait before sending again; `None` to give up. `roll` is a random number.
    pub(crate) fn wait(&self, s: &Situation, roll: u32) -> Option<Duration> {
        let sound = match s.outcome.verdict.retry {
            Retry::Never => false,
            Retry::Once => !s.used_once,
            Retry::Yes => true,
        };
        let elsewhere = s.alternatives > 0 && s.outcome.verdict.fail_over;
        // Each of the other targets can have its attempt.
        let reserved = if elsewhere { s.alternatives } else { 0 };
        if s.outcome.is_success()
            || !sound
            || s.retries >= self.retries
            || s.attempts_left <= reserved
            || elsewhere && s.outcome.kind.is_silent()
        {
            return None;
        }
        let hint = s.outcome.retry_after.unwrap_or_default();
        if hint > self.longest_wait || elsewhere && hint > self.hint_limit {
            return None;
        }
        // The server asked for the hint itself; the jitter keeps its callers from coming back
        // all at once.
        let wait = hint.saturating_add(self.jitter(s.retries, roll));
        match s.until {
            Some(until) => {
                let ends = s.now.checked_add(wait)?.checked_add(self.least_attempt)?;
                (ends <= until).then_some(wait)
            }
            None => Some(wait),
        }
    }

    /// Full jitter: anything from nothing to the ceiling, evenly.
    fn jitter(&self, retries: u32, roll: u32) -> Duration {
        let ceiling = 1u32
            .checked_shl(retries)
            .and_then(|factor| self.base.checked_mul(factor))
            .unwrap_or(if self.base.is_zero() {
                Duration::ZERO
            } else {
                Duration::MAX
            })
            .min(self.longest_backoff);
        // The nanoseconds of any duration fit in 94 bits.
        let nanos = (ceiling.as_nanos() * u128::from(roll)) >> u32::BITS;
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        Duration::new(
            u64::try_from(seconds).unwrap_or(u64::MAX),
            u32::try_from(nanos).unwrap_or(0),
        )
    }
}

#[cfg(test)]
mod tests;
