//! [`Latency`]: how long a target takes to its first token, learned also from copies that were
//! dropped before they had one. Pure: `now` is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// One bucket is 4 % wider than the one before it, so that its middle is within 2 % of all in it.
const RATIO: f64 = 1.04;
/// The lower end of the first bucket, in seconds. Shorter times count as this one.
const SHORTEST: f64 = 1e-3;
/// From 1 ms to 10 minutes. Longer times count as the last one.
const BUCKETS: usize = 340;
/// The weight at which the past is halved.
const MOST: f64 = 2_000.0;
/// The time after which it is.
const HALF_LIFE: Duration = Duration::from_secs(3_600);
/// A bucket with less than that is empty, so that the past fades to nothing.
const LEAST: f32 = 1.0 / 64.0;
/// How many records are taken in before the quantile is computed again.
const EVERY: u32 = 16;

/// Which quantile is asked for, and how much must be known first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) quantile: f64,
    pub(crate) min_samples: u32,
}

/// Times to the first token, as an estimate after Kaplan and Meier (1958).
///
/// A copy that was dropped at two seconds without a token took *at least* two seconds. Leaving it
/// out would make a target look the faster the more often it is overtaken, so that it is hedged
/// ever sooner. The estimate counts such a copy among those that might still have been answered up
/// to the time it was dropped, and not after.
#[derive(Debug)]
pub(crate) struct Latency {
    buckets: Box<[Bucket]>,
    /// What all buckets hold. Counts are whole or halved, so that no sum of them is rounded.
    weight: f64,
    /// What they hold of copies that were answered.
    answers: f64,
    halved: Instant,
    unread: u32,
    quantile: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Copies that were answered then.
    answered: f32,
    /// Copies that had not been answered by then, and of which no more is known.
    left: f32,
}

impl Latency {
    pub(crate) fn new(now: Instant) -> Latency {
        Latency {
            buckets: vec![Bucket::default(); BUCKETS].into_boxed_slice(),
            weight: 0.0,
            answers: 0.0,
            halved: now,
            unread: 0,
            quantile: None,
        }
    }

    /// A copy had its first token after so long.
    pub(crate) fn answered(&mut self, after: Duration, ask: Ask, now: Instant) {
        self.buckets[index(after)].answered += 1.0;
        self.answers += 1.0;
        self.added(ask, now);
    }

    /// A copy that had none after so long was dropped.
    pub(crate) fn left(&mut self, after: Duration, ask: Ask, now: Instant) {
        self.buckets[index(after)].left += 1.0;
        self.added(ask, now);
    }

    fn added(&mut self, ask: Ask, now: Instant) {
        self.weight += 1.0;
        self.unread += 1;
        if self.weight > MOST {
            self.halve(1);
        }
        self.follow(ask, now);
        if self.unread >= EVERY || self.quantile.is_none() {
            self.read(ask);
        }
    }

    /// The quantile as of the last time it was computed; `None` while too little is known.
    pub(crate) fn quantile(&mut self, ask: Ask, now: Instant) -> Option<Duration> {
        self.follow(ask, now);
        self.quantile
    }

    /// The same, for somebody who only looks.
    pub(crate) fn last_quantile(&self) -> Option<Duration> {
        self.quantile
    }

    /// How much is known: copies, of which older ones count half, a quarter, and so on.
    pub(crate) fn samples(&self) -> f64 {
        self.weight
    }

    /// Halves the past for each hour.
    fn follow(&mut self, ask: Ask, now: Instant) {
        let since = now.saturating_duration_since(self.halved);
        if since < HALF_LIFE {
            return;
        }
        let hours = since.as_secs() / HALF_LIFE.as_secs();
        self.halve(i32::try_from(hours.min(24)).unwrap_or(24));
        self.halved = now;
        self.read(ask);
    }

    fn halve(&mut self, times: i32) {
        let factor = 0.5_f32.powi(times);
        let fade = |count: &mut f32| {
            *count *= factor;
            if *count < LEAST {
                *count = 0.0;
            }
            f64::from(*count)
        };
        (self.weight, self.answers) = (0.0, 0.0);
        for bucket in &mut self.buckets {
            let answered = fade(&mut bucket.answered);
            self.answers += answered;
            self.weight += answered + fade(&mut bucket.left);
        }
    }

    fn read(&mut self, ask: Ask) {
        self.unread = 0;
        // Copies that were left say that it takes long, and not how long. Half an answer less is no
        // less: what was halved does not fall below by rounding.
        self.quantile = (self.answers > f64::from(ask.min_samples) - 0.5)
            .then(|| self.estimate(ask.quantile))
            .flatten();
    }

    /// The time by which this share of all copies would have been answered. Where so many never
    /// were, the longest time after which one was; `None` where none ever was.
    fn estimate(&self, quantile: f64) -> Option<Duration> {
        let mut at_risk = self.weight;
        let mut unanswered = 1.0;
        let mut longest = None;
        for (i, bucket) in self.buckets.iter().enumerate() {
            if bucket.answered > 0.0 {
                unanswered *= 1.0 - f64::from(bucket.answered) / at_risk;
                longest = Some(middle(i));
                // A hair more, since the product of fractions is no exact fraction.
                if unanswered <= 1.0 - quantile + 1e-9 {
                    break;
                }
            }
            at_risk -= f64::from(bucket.answered) + f64::from(bucket.left);
        }
        longest
    }
}

fn index(time: Duration) -> usize {
    let ratio = (time.as_secs_f64() / SHORTEST).max(1.0);
    // A float cast saturates.
    ((ratio.ln() / RATIO.ln()) as usize).min(BUCKETS - 1)
}

fn middle(index: usize) -> Duration {
    Duration::from_secs_f64(SHORTEST * RATIO.powf(index as f64 + 0.5))
}

#[cfg(test)]
mod tests;
