//! [`Settings`]: how much may be hedged, and after how long.

use std::{fmt, time::Duration};

use crate::{Measure, budget::TOKEN, latency::Ask};

/// The weight that is left when the past is halved; more is not always known.
const MOST_SAMPLES: u32 = 1_000;

/// How much may be hedged, and after how long.
///
/// [`Settings::build`] checks them and makes a [`Policy`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_hedge::{Hedges, Settings};
///
/// let policy = Settings::new()
///     .percent(5.0)
///     .quantile(0.9)
///     .ceiling(Duration::from_secs(4))
///     .build()?;
/// let hedges = Hedges::with(policy);
/// # Ok::<(), llm_hedge::InvalidSettings>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    percent: f64,
    burst: u32,
    quantile: f64,
    min_samples: u32,
    first_delay: Duration,
    floor: Duration,
    ceiling: Duration,
}

impl Settings {
    /// The defaults.
    pub const fn new() -> Settings {
        Settings {
            percent: 10.0,
            burst: 10,
            quantile: 0.95,
            min_samples: 20,
            first_delay: Duration::from_secs(3),
            floor: Duration::from_millis(50),
            ceiling: Duration::from_secs(10),
        }
    }

    /// The most hedges for 100 calls that could be hedged, for each tenant: more than 0, at most
    /// 100. Default: 10. Counted in ten-thousandths of a percent.
    #[must_use]
    pub const fn percent(mut self, hedges: f64) -> Self {
        self.percent = hedges;
        self
    }

    /// The most hedges that a tenant can save up, and so have at once. Default: 10.
    #[must_use]
    pub const fn burst(mut self, hedges: u32) -> Self {
        self.burst = hedges;
        self
    }

    /// How many of a target's answers have their first token before a hedge is sent: from 0.5 to
    /// 0.999. Default: 0.95, so that one call in twenty asks for a hedge.
    #[must_use]
    pub const fn quantile(mut self, share: f64) -> Self {
        self.quantile = share;
        self
    }

    /// How many answers of a target must be known before its own times count: from 1 to 1,000.
    /// Default: 20, with which a p95 is the second slowest.
    #[must_use]
    pub const fn min_samples(mut self, answers: u32) -> Self {
        self.min_samples = answers;
        self
    }

    /// The delay until then. Default: 3 s, or the [`ceiling`](Settings::ceiling) where that is
    /// shorter. Not below [`floor`](Settings::floor). Calls that think or want a whole answer are not
    /// hedged until then, since their times tell nothing in advance.
    #[must_use]
    pub const fn first_delay(mut self, delay: Duration) -> Self {
        self.first_delay = delay;
        self
    }

    /// The shortest delay, however fast a target is. Default: 50 ms: below, a pause of the network
    /// or of this process looks like a slow target.
    #[must_use]
    pub const fn floor(mut self, delay: Duration) -> Self {
        self.floor = delay;
        self
    }

    /// The longest delay before a first token, however slow a target is. Default: 10 s. A limit on
    /// the first token that is shorter ends the attempt before it is hedged; set this below it where
    /// that should not be. Calls that think or want a whole answer have no longest delay.
    #[must_use]
    pub const fn ceiling(mut self, delay: Duration) -> Self {
        self.ceiling = delay;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// When they cannot work; the error says which one and what to do.
    pub fn build(self) -> Result<Policy, InvalidSettings> {
        use InvalidSettings as Invalid;
        let policy = Policy::of(&self);
        if !(self.percent > 0.0 && self.percent <= 100.0) || policy.deposit == 0 {
            return Err(Invalid::Percent(self.percent));
        }
        if self.burst == 0 {
            return Err(Invalid::Burst);
        }
        if !(0.5..=0.999).contains(&self.quantile) {
            return Err(Invalid::Quantile(self.quantile));
        }
        if !(1..=MOST_SAMPLES).contains(&self.min_samples) {
            return Err(Invalid::MinSamples(self.min_samples));
        }
        for (name, value) in [("ceiling", self.ceiling), ("first_delay", self.first_delay)] {
            if value < self.floor {
                let floor = self.floor;
                return Err(Invalid::BelowFloor { name, value, floor });
            }
        }
        Ok(policy)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new()
    }
}

/// Checked [`Settings`].
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// What a call pays in, in millionths of a token.
    pub(crate) deposit: u64,
    /// The most that is held, in the same unit.
    pub(crate) most: u64,
    pub(crate) ask: Ask,
    pub(crate) first_delay: Duration,
    pub(crate) floor: Duration,
    pub(crate) ceiling: Duration,
}

impl Policy {
    fn of(settings: &Settings) -> Policy {
        Policy {
            // A float cast saturates, and makes nothing of what is no number.
            deposit: (settings.percent * (TOKEN / 100) as f64).round() as u64,
            most: u64::from(settings.burst) * TOKEN,
            ask: Ask {
                quantile: settings.quantile,
                min_samples: settings.min_samples,
            },
            first_delay: settings.first_delay,
            floor: settings.floor,
            ceiling: settings.ceiling,
        }
    }

    /// The delay before a target is hedged of which this quantile is known.
    pub(crate) fn delay(&self, measure: Measure, known: Option<Duration>) -> Option<Duration> {
        match measure {
            Measure::FirstToken => {
                let time = known.unwrap_or(self.first_delay);
                Some(time.clamp(self.floor, self.ceiling))
            }
            Measure::AfterThinking | Measure::WholeAnswer => known.map(|time| time.max(self.floor)),
        }
    }
}

impl Default for Policy {
    /// The default settings, which are sound.
    fn default() -> Self {
        Policy::of(&Settings::new())
    }
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InvalidSettings {
    /// A share of calls that is none.
    Percent(f64),
    /// No token can be held.
    Burst,
    /// A quantile at which nearly everything or nothing would be hedged.
    Quantile(f64),
    /// A number of answers that is always or never known.
    MinSamples(u32),
    /// A delay below the shortest one.
    BelowFloor {
        /// Which setting.
        name: &'static str,
        /// What it was set to.
        value: Duration,
        /// The shortest delay.
        floor: Duration,
    },
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidSettings::Percent(percent) => write!(
                f,
                "percent is {percent}; set it to a number from 0.0001 to 100 (a percentage, not a \
                 fraction), or pause the hedges"
            ),
            InvalidSettings::Burst => f.write_str(
                "burst is 0, so that no hedge could be paid for; set it to at least 1, or pause \
                 the hedges",
            ),
            InvalidSettings::Quantile(quantile) => write!(
                f,
                "quantile is {quantile}; set it to a number from 0.5 to 0.999 (a fraction, not a \
                 percentage)"
            ),
            InvalidSettings::MinSamples(samples) => write!(
                f,
                "min_samples is {samples}; set it to a number from 1 to {MOST_SAMPLES}"
            ),
            InvalidSettings::BelowFloor { name, value, floor } => write!(
                f,
                "{name} ({value:?}) is shorter than floor ({floor:?}); raise the one or set the \
                 other lower"
            ),
        }
    }
}

impl std::error::Error for InvalidSettings {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound() {
        let built = Settings::new().build().unwrap();
        assert_eq!(format!("{built:?}"), format!("{:?}", Policy::default()));
        assert_eq!((built.deposit, built.most), (TOKEN / 10, 10 * TOKEN));
    }

    #[test]
    fn what_cannot_work_is_refused_and_named() {
        let new = Settings::new;
        let ms = Duration::from_millis;
        for (settings, named) in [
            (new().percent(0.0), "percent is 0"),
            (new().percent(-1.0), "percent is -1"),
            (new().percent(100.1), "percent is 100.1"),
            (new().percent(0.00001), "percent is 0.00001"),
            (new().percent(f64::NAN), "percent is NaN"),
            (new().burst(0), "burst is 0"),
            (new().quantile(0.4), "quantile is 0.4"),
            (new().quantile(95.0), "quantile is 95"),
            (new().quantile(f64::NAN), "quantile is NaN"),
            (new().min_samples(0), "min_samples is 0"),
            (new().min_samples(1_001), "min_samples is 1001"),
            (new().ceiling(ms(49)), "ceiling (49ms)"),
            (new().first_delay(ms(49)), "first_delay (49ms)"),
        ] {
            let error = settings.build().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
            assert!(error.contains("set "), "{error}");
        }
    }

    #[test]
    fn h15_a_delay_is_never_below_the_floor_nor_above_the_ceiling() {
        let policy = Policy::default();
        let ms = Duration::from_millis;
        for (known, delay) in [
            (None, 3_000),
            (Some(ms(1)), 50),
            (Some(ms(400)), 400),
            (Some(ms(60_000)), 10_000),
        ] {
            assert_eq!(policy.delay(Measure::FirstToken, known), Some(ms(delay)));
        }
        let short = Settings::new().ceiling(ms(2_000)).build().unwrap();
        assert_eq!(short.delay(Measure::FirstToken, None), Some(ms(2_000)));
        for measure in [Measure::AfterThinking, Measure::WholeAnswer] {
            for known in [None, Some(ms(50)), Some(ms(60_000))] {
                assert_eq!(policy.delay(measure, known), known);
            }
            assert_eq!(policy.delay(measure, Some(ms(1))), Some(ms(50)));
        }
    }

    #[test]
    fn the_bounds_themselves_work() {
        let ms = Duration::from_millis;
        for settings in [
            Settings::new().percent(0.0001),
            Settings::new().percent(100.0),
            Settings::new().quantile(0.5).min_samples(1_000),
            Settings::new().ceiling(ms(50)).first_delay(ms(50)),
            Settings::new()
                .floor(Duration::ZERO)
                .first_delay(Duration::ZERO),
            Settings::new().ceiling(Duration::MAX),
        ] {
            settings.build().unwrap();
        }
    }
}
