//! How long a target is left alone: the pure core. `now` is an argument.

use std::time::Duration;

use llm_call::{Kind, Outcome};
use tokio::time::Instant;

/// When resting targets come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The first rest of a rate-limited target that gave no hint; it doubles.
    pub(crate) first: Duration,
    /// The longest such rest.
    pub(crate) longest: Duration,
    /// The rest of a target whose quota is spent and that gave no hint.
    pub(crate) quota: Duration,
}

/// Whether one target rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    until: Option<Instant>,
    /// The server said so itself; otherwise `until` is a guess.
    told: bool,
    /// Rate limits without a hint in a row.
    guesses: u32,
}

/// Whether a target may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    /// It may.
    Yes,
    /// Only if no other target is left: it rests by a guess of ours.
    IfNeeded(Instant),
    /// The server asked to be left alone until then.
    No(Instant),
}

impl Rest {
    pub(crate) fn at(&self, now: Instant) -> Rested {
        match self.until {
            Some(until) if until > now && self.told => Rested::No(until),
            Some(until) if until > now => Rested::IfNeeded(until),
            _ => Rested::Yes,
        }
    }

    /// An attempt ended.
    pub(crate) fn record(&mut self, outcome: Outcome, pace: Pace, now: Instant) {
        let told = outcome.retry_after.filter(|_| outcome.verdict.fail_over);
        let rest = match (outcome.kind, told) {
            (Kind::Success, _) => {
                // A call that was sent before the limit was hit says nothing about it.
                if self.at(now) == Rested::Yes {
                    *self = Rest::default();
                }
                return;
            }
            (_, Some(hint)) => hint,
            (Kind::RateLimited, None) => {
                // Calls that were under way together are told the same thing: one guess.
                if self.at(now) != Rested::Yes {
                    return;
                }
                let rest = doubled(pace.first, self.guesses).min(pace.longest);
                self.guesses = self.guesses.saturating_add(1);
                rest
            }
            (Kind::QuotaExhausted, None) => pace.quota,
            _ => return,
        };
        // A wait too long for the clock is as good as one of a century.
        let until = now
            .checked_add(rest)
            .unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 86_400));
        let told = told.is_some();
        // A server's word is never shortened, least of all by a guess.
        match self.at(now) {
            Rested::No(already) if !told || already >= until => {}
            Rested::IfNeeded(already) if !told && already >= until => {}
            _ => {
                self.until = Some(until);
                self.told = told;
            }
        }
    }

    /// The target may be called again.
    pub(crate) fn wake(&mut self) {
        *self = Rest::default();
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    1u32.checked_shl(times)
        .and_then(|factor| first.checked_mul(factor))
        .unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACE: Pace = Pace {
        first: Duration::from_secs(10),
        longest: Duration::from_secs(60),
        quota: Duration::from_secs(600),
    };

    #[test]
    fn doubling_never_overflows() {
        for times in [0, 31, 32, u32::MAX] {
            assert!(doubled(Duration::from_secs(10), times) >= Duration::from_secs(10));
        }
    }

    #[test]
    fn r12_a_wait_beyond_the_clock_is_a_long_one() {
        let now = Instant::now();
        let mut rest = Rest::default();
        let told = Outcome::of(Kind::RateLimited).retry_after(Some(Duration::MAX));
        rest.record(told, PACE, now);
        assert!(matches!(rest.at(now), Rested::No(until) if until > now + PACE.quota));
    }

    proptest! {
        #[test]
        fn r12_a_server_s_word_is_never_shortened(
            events in proptest::collection::vec((0..40u64, 0..5u8, 1..100u64), 1..50),
        ) {
            let mut now = Instant::now();
            let mut rest = Rest::default();
            // The model: until when the server asked to be left alone, and until when anybody says so.
            let mut told = now;
            let mut longest = now;
            for (gap, what, hint) in events {
                now += Duration::from_secs(gap);
                let hint = Duration::from_secs(hint);
                let outcome = match what {
                    0 => Outcome::of(Kind::Success),
                    1 => Outcome::of(Kind::RateLimited),
                    2 => Outcome::of(Kind::QuotaExhausted),
                    3 => Outcome::of(Kind::ServerError),
                    _ => Outcome::of(Kind::Overloaded).retry_after(Some(hint)),
                };
                rest.record(outcome, PACE, now);
                match what {
                    1 => longest = longest.max(now + PACE.longest),
                    2 => longest = longest.max(now + PACE.quota),
                    4 => {
                        told = told.max(now + hint);
                        longest = longest.max(told);
                    }
                    _ => {}
                }
                match rest.at(now) {
                    Rested::No(until) => {
                        prop_assert!(until >= told && until > now);
                        prop_assert!(until <= longest);
                    }
                    Rested::IfNeeded(until) => {
                        prop_assert!(told <= now);
                        prop_assert!(until > now && until <= longest);
                    }
                    Rested::Yes => prop_assert!(told <= now),
                }
            }
        }
    }
}
