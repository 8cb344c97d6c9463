//! The last calls within a span of time. Pure: `now` is an argument.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Exactly the last `limit` events that are younger than `span`, each one a hit or not.
#[derive(Debug)]
pub(crate) struct Window {
    limit: usize,
    span: u64,
    base: Instant,
    /// Nanoseconds since the base, and in the lowest bit whether it was a hit.
    ring: VecDeque<u64>,
    hits: usize,
    /// The clock does not run backwards, but calls come in whatever order they get the lock.
    latest: u64,
}

/// What is in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) hits: usize,
    pub(crate) total: usize,
}

impl Counts {
    /// Whether the share of hits is at least `percent`. In integers, so that the threshold itself
    /// is on the right side.
    pub(crate) fn reach(self, percent: u8) -> bool {
        self.hits as u64 * 100 >= u64::from(percent) * self.total as u64
    }
}

impl Window {
    /// Reserves what it will ever need.
    pub(crate) fn new(limit: usize, span: Duration, base: Instant) -> Window {
        Window {
            limit,
            span: nanos(span),
            base,
            ring: VecDeque::with_capacity(limit),
            hits: 0,
            latest: 0,
        }
    }

    pub(crate) fn push(&mut self, hit: bool, now: Instant) {
        self.evict(now);
        if self.ring.len() >= self.limit {
            self.pop();
        }
        self.ring.push_back(self.latest << 1 | u64::from(hit));
        self.hits += usize::from(hit);
    }

    pub(crate) fn counts(&mut self, now: Instant) -> Counts {
        self.evict(now);
        Counts {
            hits: self.hits,
            total: self.ring.len(),
        }
    }

    /// Whether there is a hit, perhaps one that is no longer in the window.
    pub(crate) fn has_hits(&self) -> bool {
        self.hits > 0
    }

    pub(crate) fn clear(&mut self) {
        self.ring.clear();
        self.hits = 0;
    }

    fn evict(&mut self, now: Instant) {
        let now = nanos(now.saturating_duration_since(self.base));
        self.latest = self.latest.max(now);
        while let Some(oldest) = self.ring.front()
            && self.latest - (oldest >> 1) >= self.span
        {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(entry) = self.ring.pop_front() {
            self.hits -= (entry & 1) as usize;
        }
    }
}

/// At most what 63 bits hold, which is 292 years.
const MOST: u64 = u64::MAX >> 1;

fn nanos(time: Duration) -> u64 {
    let nanos = time.as_secs().saturating_mul(1_000_000_000);
    nanos.saturating_add(time.subsec_nanos().into()).min(MOST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Recounts everything that ever happened.
    fn recount(events: &[(Instant, bool)], limit: usize, span: Duration, now: Instant) -> Counts {
        let last = events.iter().rev().take(limit);
        let young: Vec<_> = last.filter(|(at, _)| now - *at < span).collect();
        Counts {
            hits: young.iter().filter(|(_, hit)| *hit).count(),
            total: young.len(),
        }
    }

    proptest! {
        #[test]
        fn cb09_the_window_is_a_recount(
            limit in 1..20usize,
            history in prop_oneof![Just(0u32), Just(0), Just(100_000)],
            events in proptest::collection::vec((0..3u64, 0..400u64, any::<bool>()), 1..200),
        ) {
            let base = Instant::now();
            let (span, mut now) = (ms(1_000), base);
            let mut window = Window::new(limit, span, base);
            let mut all = Vec::new();
            for i in 0..history {
                now = base + ms(u64::from(i));
                window.push(false, now);
                all.push((now, false));
            }
            for (rare, gap, hit) in events {
                if rare == 0 {
                    now += ms(gap);
                }
                window.push(hit, now);
                all.push((now, hit));
                prop_assert_eq!(window.counts(now), recount(&all, limit, span, now));
                let later = now + ms(gap);
                now = later;
                prop_assert_eq!(window.counts(now), recount(&all, limit, span, now));
            }
        }
    }

    #[test]
    fn cb10_an_idle_gap_of_a_window_empties_it_and_not_a_moment_before() {
        let base = Instant::now();
        let mut window = Window::new(5, ms(100), base);
        window.push(true, base);
        window.push(false, base + ms(40));
        assert_eq!(window.counts(base + ms(99)), Counts { hits: 1, total: 2 });
        assert_eq!(window.counts(base + ms(100)), Counts { hits: 0, total: 1 });
        assert_eq!(window.counts(base + ms(140)), Counts { hits: 0, total: 0 });
        assert_eq!(window.counts(base + ms(1 << 40)), Counts::default());
    }

    #[test]
    fn cb10_a_clock_that_stands_or_runs_backwards_does_no_harm() {
        let base = Instant::now() + ms(10_000);
        let mut window = Window::new(5, ms(100), base);
        window.push(true, base + ms(50));
        window.push(true, base);
        window.push(false, base - ms(5_000));
        assert_eq!(window.counts(base), Counts { hits: 2, total: 3 });
        // What came with an earlier stamp counts as of the latest one.
        assert_eq!(window.counts(base + ms(149)), Counts { hits: 2, total: 3 });
        assert_eq!(window.counts(base + ms(150)), Counts::default());
    }

    #[test]
    fn it_allocates_once() {
        let base = Instant::now();
        let mut window = Window::new(50, Duration::MAX, base);
        let capacity = window.ring.capacity();
        for i in 0..1_000 {
            window.push(i % 3 == 0, base);
        }
        assert_eq!(window.ring.capacity(), capacity);
        assert_eq!(window.counts(base).total, 50);
    }

    #[test]
    fn cb11_the_threshold_itself_is_reached() {
        for percent in 1..=100u8 {
            for total in 1..=120usize {
                for hits in 0..=total {
                    let share = hits as u128 * 100;
                    let reached = share >= u128::from(percent) * total as u128;
                    assert_eq!(Counts { hits, total }.reach(percent), reached);
                }
            }
        }
        assert!(
            Counts {
                hits: 25,
                total: 100
            }
            .reach(25)
        );
        assert!(
            !Counts {
                hits: 24,
                total: 99
            }
            .reach(25)
        );
        assert!(
            Counts {
                hits: 7,
                total: 100
            }
            .reach(7)
        );
    }
}
