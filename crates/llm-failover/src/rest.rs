//! How long a target is left alone: the pure core. `now` is an argument.

use std::{collections::HashMap, time::Duration};

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

/// The most tenants whose rests are kept apart at one target.
const TENANTS: usize = 10_000;

/// The rests of one target: one for all callers, or one a tenant where callers bring keys of their
/// own, so that the limits of one are not those of another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rests {
    all: Rest,
    tenants: HashMap<Box<str>, Rest>,
}

impl Rests {
    pub(crate) fn at(&self, tenant: Option<&str>, now: Instant) -> Rested {
        match tenant {
            None => self.all.at(now),
            Some(tenant) => self.tenants.get(tenant).map_or(Rested::Yes, |r| r.at(now)),
        }
    }

    pub(crate) fn record(
        &mut self,
        tenant: Option<&str>,
        outcome: Outcome,
        pace: Pace,
        now: Instant,
    ) {
        let Some(tenant) = tenant else {
            return self.all.record(outcome, pace, now);
        };
        let mut rest = self.tenants.get(tenant).copied().unwrap_or_default();
        let before = rest;
        rest.record(outcome, pace, now);
        if rest == Rest::default() {
            self.tenants.remove(tenant);
        } else if rest != before {
            self.make_room(tenant, now);
            self.tenants.insert(tenant.into(), rest);
        }
    }

    /// Forgets rests that are over, and where that is not enough those that end first.
    fn make_room(&mut self, tenant: &str, now: Instant) {
        if self.tenants.len() < TENANTS || self.tenants.contains_key(tenant) {
            return;
        }
        self.tenants.retain(|_, rest| rest.at(now) != Rested::Yes);
        if self.tenants.len() >= TENANTS {
            let mut ends: Vec<_> = self
                .tenants
                .values()
                .filter_map(|rest| rest.until)
                .collect();
            ends.sort_unstable();
            let median = ends.get(ends.len() / 2).copied();
            self.tenants.retain(|_, rest| rest.until > median);
        }
    }

    /// How many tenants are resting.
    pub(crate) fn resting(&self, now: Instant) -> usize {
        let tenants = self.tenants.values();
        tenants.filter(|rest| rest.at(now) != Rested::Yes).count()
    }
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
            // Who refused it (an open circuit, a full bulkhead) is asked again each time: it knows
            // best when to let a call through.
            (Kind::Refused(_), _) => return,
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
    fn k11_the_rests_of_tenants_are_bounded_and_apart() {
        let now = Instant::now();
        let mut rests = Rests::default();
        let limited = Outcome::of(Kind::RateLimited);
        for tenant in 0..TENANTS + 10 {
            let hint = Duration::from_secs(1 + tenant as u64);
            let told = limited.retry_after(Some(hint));
            rests.record(Some(&tenant.to_string()), told, PACE, now);
        }
        assert!(rests.tenants.len() <= TENANTS);
        let last = (TENANTS + 9).to_string();
        assert!(matches!(rests.at(Some(&last), now), Rested::No(_)));
        assert_eq!(rests.at(Some("another"), now), Rested::Yes);
        assert_eq!(rests.at(None, now), Rested::Yes);
        let later = now + Duration::from_secs(2 * TENANTS as u64);
        rests.record(Some(&last), Outcome::of(Kind::Success), PACE, later);
        assert!(!rests.tenants.contains_key(last.as_str()));
    }

    #[test]
    fn k11_rests_that_are_over_are_forgotten_first_and_then_those_that_end_first() {
        let now = Instant::now();
        let mut rests = Rests::default();
        let secs = |secs| Duration::from_secs(secs);
        let told = |wait| Outcome::of(Kind::RateLimited).retry_after(Some(secs(wait)));
        for tenant in 1..=TENANTS as u64 {
            rests.record(Some(&tenant.to_string()), told(tenant), PACE, now);
        }
        assert_eq!(rests.resting(now), TENANTS);
        // Whoever is known needs no room.
        rests.record(Some("5"), told(20_000), PACE, now);
        assert_eq!(rests.tenants.len(), TENANTS);
        let later = now + secs(100);
        rests.record(Some("new"), told(30_000), PACE, later);
        assert_eq!(rests.tenants.len(), TENANTS - 99 + 1);
        assert_eq!(rests.resting(later), rests.tenants.len());
        for tenant in 2..=99 {
            rests.record(Some(&format!("new {tenant}")), told(30_000), PACE, later);
        }
        assert_eq!(rests.resting(later), TENANTS);
        rests.record(Some("one more"), told(1), PACE, later);
        assert_eq!(rests.tenants.len(), TENANTS / 2);
        let kept = |tenant: &str| rests.tenants.contains_key(tenant);
        assert!(kept("5") && kept("new") && kept("10000") && kept("one more"));
        assert!(!kept("101") && !kept("5000") && kept("5200"));
        assert_eq!(rests.resting(later + secs(1)), TENANTS / 2 - 1);
    }

    #[test]
    fn f05_a_tenant_that_others_follow_still_rests_twice_as_long_the_second_time() {
        let limited = Outcome::of(Kind::RateLimited);
        let now = Instant::now();
        let mut rests = Rests::default();
        rests.record(Some("a"), limited, PACE, now);
        let later = now + PACE.first;
        rests.record(Some("b"), limited, PACE, later);
        rests.record(Some("a"), limited, PACE, later);
        let until = later + 2 * PACE.first;
        assert_eq!(rests.at(Some("a"), later), Rested::IfNeeded(until));
    }

    #[test]
    fn who_rests_how_long_without_a_hint() {
        let now = Instant::now();
        let after = |outcomes: &[Outcome], pace| {
            let mut rest = Rest::default();
            for outcome in outcomes {
                rest.record(*outcome, pace, now);
            }
            rest.at(now)
        };
        let (limited, spent) = (Kind::RateLimited, Kind::QuotaExhausted);
        let (limited, spent) = (Outcome::of(limited), Outcome::of(spent));
        assert_eq!(after(&[limited], PACE), Rested::IfNeeded(now + PACE.first));
        assert_eq!(after(&[spent], PACE), Rested::IfNeeded(now + PACE.quota));
        // A guess shortens no longer one, and a longer one counts.
        let short = Pace {
            quota: Duration::from_secs(5),
            ..PACE
        };
        assert_eq!(
            after(&[limited, spent], short),
            Rested::IfNeeded(now + PACE.first)
        );
        assert_eq!(
            after(&[limited, spent], PACE),
            Rested::IfNeeded(now + PACE.quota)
        );
        let refused = Outcome::of(Kind::Refused(llm_call::Refusal::CircuitOpen));
        let refused = refused.retry_after(Some(Duration::from_secs(5)));
        assert_eq!(after(&[refused], PACE), Rested::Yes);
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
