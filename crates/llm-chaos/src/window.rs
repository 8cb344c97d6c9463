//! When a fault strikes: one rule for scripts and for the layer.

use std::time::Duration;

/// A span of time, a share of the requests in it, and a limit to their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) from: Duration,
    pub(crate) to: Option<Duration>,
    /// Open for the second duration in each of the first.
    pub(crate) cycle: Option<(Duration, Duration)>,
    pub(crate) rate: f64,
    /// Requests that it takes and leaves alone before the first it strikes.
    pub(crate) skip: u64,
    pub(crate) times: Option<u64>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            from: Duration::ZERO,
            to: None,
            cycle: None,
            rate: 1.0,
            skip: 0,
            times: None,
        }
    }
}

impl Window {
    /// Counts a request that was taken; true if it is struck.
    pub(crate) fn take(&self, hits: &mut u64) -> bool {
        *hits += 1;
        *hits > self.skip
    }

    fn open(&self, elapsed: Duration, hits: u64) -> bool {
        elapsed >= self.from
            && self.to.is_none_or(|to| elapsed < to)
            && self.cycle.is_none_or(|(every, lasts)| {
                let into = (elapsed - self.from).as_nanos() % every.as_nanos().max(1);
                into < lasts.as_nanos()
            })
            && self
                .times
                .is_none_or(|times| hits < self.skip.saturating_add(times))
    }
}

/// The first window that takes the request.
///
/// `draw` is uniform in 0..1 and is drawn once for a request: the rates of windows that are open at
/// the same time are shares of all requests, in order, not chances one after another.
pub(crate) fn pick<'a>(
    windows: impl IntoIterator<Item = (usize, &'a Window)>,
    hits: &[u64],
    elapsed: Duration,
    draw: f64,
) -> Option<usize> {
    let mut taken = 0.0;
    windows.into_iter().find_map(|(index, window)| {
        if !window.open(elapsed, hits.get(index).copied().unwrap_or(0)) {
            return None;
        }
        taken += window.rate;
        (draw < taken).then_some(index)
    })
}

/// The random numbers of request `n`: the same for the same seed, whatever other requests do.
pub(crate) fn rng_of(seed: u64, n: u64) -> fastrand::Rng {
    let mut outer = fastrand::Rng::with_seed(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    fastrand::Rng::with_seed(outer.u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_window_is_open_from_its_start_to_before_its_end() {
        let window = Window {
            from: secs(10),
            to: Some(secs(20)),
            ..Window::default()
        };
        let at = |seconds| pick([(0, &window)], &[0], secs(seconds), 0.5);
        assert_eq!(
            [at(9), at(10), at(19), at(20)],
            [None, Some(0), Some(0), None]
        );
    }

    #[test]
    fn a_cycle_opens_and_closes_again_and_again() {
        let cycle = Some((secs(40), secs(20)));
        let window = Window {
            from: secs(20),
            to: Some(secs(120)),
            cycle,
            ..Window::default()
        };
        let open: Vec<_> = (0..14)
            .map(|tens| window.open(secs(10 * tens), 0))
            .collect();
        let expected = [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0].map(|open| open == 1);
        assert_eq!(open, expected);
    }

    #[test]
    fn rates_are_shares_of_one_draw() {
        let share = |rate| Window {
            rate,
            ..Window::default()
        };
        let windows = [share(0.4), share(0.2), share(0.3)];
        let at = |draw| pick(windows.iter().enumerate(), &[0; 3], secs(0), draw);
        assert_eq!(
            [at(0.0), at(0.39), at(0.41), at(0.61), at(0.91)],
            [Some(0), Some(0), Some(1), Some(2), None]
        );
    }

    #[test]
    fn a_used_up_window_takes_no_share() {
        let once = Window {
            times: Some(1),
            ..Window::default()
        };
        assert_eq!(pick([(0, &once)], &[0], secs(0), 0.9), Some(0));
        assert_eq!(pick([(0, &once)], &[1], secs(0), 0.0), None);
    }

    #[test]
    fn a_window_can_leave_the_first_requests_alone() {
        let window = Window {
            skip: 2,
            times: Some(1),
            ..Window::default()
        };
        let mut hits = 0;
        let struck: Vec<_> = (0..4)
            .map(|_| {
                pick([(0, &window)], &[hits], secs(0), 0.5).is_some() && window.take(&mut hits)
            })
            .collect();
        assert_eq!(struck, [false, false, true, false]);
    }

    #[test]
    fn neighbours_draw_independently_and_replayably() {
        let draws: Vec<f64> = (0..2000).map(|n| rng_of(7, n).f64()).collect();
        assert_eq!(
            draws,
            (0..2000).map(|n| rng_of(7, n).f64()).collect::<Vec<_>>()
        );
        let below = draws.iter().filter(|draw| **draw < 0.3).count();
        assert!((520..680).contains(&below), "{below} of 2000 below 0.3");
    }
}
