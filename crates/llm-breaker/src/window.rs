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
    u64::try_from(time.as_nanos()).map_or(MOST, |nanos| nanos.min(MOST))
}
