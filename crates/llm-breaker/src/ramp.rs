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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_from_a_tenth_to_all() {
        let now = Instant::now();
        let length = Duration::from_secs(10);
        let mut ramp = Ramp::new(length, now).unwrap();
        let mut admitted = [0; 10];
        for (second, admitted) in admitted.iter_mut().enumerate() {
            for call in 0..1_000 {
                let at = now + Duration::from_millis(second as u64 * 1_000 + call);
                *admitted += u32::from(ramp.admits(at) == Some(true));
            }
        }
        // In the middle of each second: 14.5 %, 23.5 %, ... 95.5 %.
        for (second, admitted) in admitted.iter().enumerate() {
            let expected = 145 + 90 * second as i64;
            assert!(
                (i64::from(*admitted) - expected).abs() <= 2,
                "{second}: {admitted}"
            );
        }
        assert_eq!(ramp.admits(now + length), None);
    }

    #[test]
    fn the_first_call_goes_through_and_then_nine_do_not() {
        let now = Instant::now();
        let mut ramp = Ramp::new(Duration::from_secs(10), now).unwrap();
        let admitted: Vec<_> = (0..21).map(|_| ramp.admits(now) == Some(true)).collect();
        let went: Vec<_> = (0..21).filter(|i| admitted[*i]).collect();
        assert_eq!(went, [0, 9, 19]);
    }

    #[test]
    fn a_length_of_zero_is_no_ramp_and_the_longest_one_works() {
        let now = Instant::now();
        assert!(Ramp::new(Duration::ZERO, now).is_none());
        let mut ramp = Ramp::new(Duration::MAX, now).unwrap();
        assert_eq!(ramp.admits(now), Some(true));
        assert_eq!(ramp.admits(now), Some(false));
    }
}
