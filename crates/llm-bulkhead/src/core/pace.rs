//! How fast a full pool gets room.

use std::time::Duration;

use tokio::time::Instant;

const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);

/// The mean time between two releases while somebody finds the pool full.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    mean: Option<Duration>,
    last: Option<Instant>,
    busy: bool,
}

impl Pace {
    /// Somebody found no room.
    pub(crate) fn found_full(&mut self) {
        self.busy = true;
    }

    /// Whether releases are timed.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// A call ended while the pool was busy; `half_empty` is the end of that.
    pub(crate) fn released(&mut self, now: Instant, half_empty: bool) {
        if let Some(last) = self.last {
            let span = now.saturating_duration_since(last);
            // An eighth of what is new, as TCP smooths its round trips.
            self.mean = Some(self.mean.map_or(span, |mean| (mean * 7 + span) / 8));
        }
        self.last = Some(now).filter(|_| !half_empty);
        self.busy = !half_empty;
    }

    /// When the one behind `queued` others can be served.
    pub(crate) fn estimate(&self, queued: usize) -> Duration {
        let behind = u32::try_from(queued).unwrap_or(u32::MAX).saturating_add(1);
        let mean = self.mean.unwrap_or_default();
        mean.saturating_mul(behind).clamp(LEAST, MOST)
    }
}
