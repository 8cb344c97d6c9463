//! [`Settings`]: when a circuit opens, for how long, and how it comes back.

use std::{fmt, sync::Arc, time::Duration};

/// The most calls that a window may hold: it is reserved when its circuit is made.
const MOST_CALLS: usize = 10_000;

/// When a circuit opens, for how long, and how it comes back.
///
/// The defaults suit a chat model that many callers share. [`Settings::build`] checks them and
/// makes a [`Policy`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_breaker::Settings;
///
/// let policy = Settings::new()
///     .slow_first_token(Duration::from_secs(2))
///     .failure_percent(15)
///     .build()?;
/// # Ok::<(), llm_breaker::InvalidSettings>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) window_calls: usize,
    pub(crate) window_time: Duration,
    pub(crate) min_calls: usize,
    pub(crate) failure_percent: u8,
    pub(crate) slow_percent: u8,
    pub(crate) slow_answer: Duration,
    pub(crate) slow_first_token: Duration,
    pub(crate) slow_thinking: Duration,
    pub(crate) failures_in_a_row: u32,
    pub(crate) open_for: Duration,
    pub(crate) open_max: Duration,
    pub(crate) open_jitter_percent: u8,
    pub(crate) trials: u32,
    pub(crate) trial_successes: u32,
    pub(crate) dwell: Duration,
    pub(crate) ramp: Duration,
}

impl Settings {
    /// The defaults.
    pub const fn new() -> Settings {
        Settings {
            window_calls: 50,
            window_time: Duration::from_secs(30),
            min_calls: 10,
            failure_percent: 25,
            slow_percent: 40,
            slow_answer: Duration::from_secs(8),
            slow_first_token: Duration::from_secs(4),
            slow_thinking: Duration::from_secs(30),
            failures_in_a_row: 5,
            open_for: Duration::from_secs(30),
            open_max: Duration::from_secs(120),
            open_jitter_percent: 20,
            trials: 5,
            trial_successes: 3,
            dwell: Duration::from_secs(60),
            ramp: Duration::from_secs(10),
        }
    }

    /// How many calls are looked back on, at most 10,000. Default: 50.
    #[must_use]
    pub const fn window_calls(mut self, calls: usize) -> Self {
        self.window_calls = calls;
        self
    }

    /// How far back in time is looked. Default: 30 s. Should be longer than a call usually takes.
    #[must_use]
    pub const fn window_time(mut self, time: Duration) -> Self {
        self.window_time = time;
        self
    }

    /// Calls that must be in the window before a share of them counts. Default: 10.
    #[must_use]
    pub const fn min_calls(mut self, calls: usize) -> Self {
        self.min_calls = calls;
        self
    }

    /// The share of failed calls, in percent, at which the circuit opens. Default: 25.
    #[must_use]
    pub const fn failure_percent(mut self, percent: u8) -> Self {
        self.failure_percent = percent;
        self
    }

    /// The share of slow calls, in percent, at which the circuit opens; also from half-open, as soon
    /// as so many of its trials were slow. Default: 40.
    #[must_use]
    pub const fn slow_percent(mut self, percent: u8) -> Self {
        self.slow_percent = percent;
        self
    }

    /// An answer that is not streamed is slow when it takes longer. Default: 8 s.
    /// [`Duration::MAX`]: never.
    #[must_use]
    pub const fn slow_answer(mut self, time: Duration) -> Self {
        self.slow_answer = time;
        self
    }

    /// A streamed answer is slow when its first token takes longer. Default: 4 s.
    /// [`Duration::MAX`]: never.
    #[must_use]
    pub const fn slow_first_token(mut self, time: Duration) -> Self {
        self.slow_first_token = time;
        self
    }

    /// Takes the place of the two above where the request asks the model to think. Default: 30 s.
    /// [`Duration::MAX`]: never.
    #[must_use]
    pub const fn slow_thinking(mut self, time: Duration) -> Self {
        self.slow_thinking = time;
        self
    }

    /// Failures in a row at which the circuit opens, whatever the window holds. Default: 5.
    /// [`u32::MAX`]: never.
    #[must_use]
    pub const fn failures_in_a_row(mut self, failures: u32) -> Self {
        self.failures_in_a_row = failures;
        self
    }

    /// How long the circuit stays open. From the third failed half-open in a row on this doubles.
    /// Default: 30 s. A server's hint on when to come back is a floor that nothing shortens; that
    /// of a failure which has left the window, and was followed by a success, is none.
    #[must_use]
    pub const fn open_for(mut self, time: Duration) -> Self {
        self.open_for = time;
        self
    }

    /// The longest that the doubling leads to. Default: 120 s.
    #[must_use]
    pub const fn open_max(mut self, time: Duration) -> Self {
        self.open_max = time;
        self
    }

    /// By how much the open time is shortened at random, at most, in percent, so that processes do
    /// not come back together. Default: 20.
    #[must_use]
    pub const fn open_jitter_percent(mut self, percent: u8) -> Self {
        self.open_jitter_percent = percent;
        self
    }

    /// Trial calls of a half-open circuit that may be under way or have succeeded. Default: 5.
    #[must_use]
    pub const fn trials(mut self, calls: u32) -> Self {
        self.trials = calls;
        self
    }

    /// Trial calls that must succeed for the circuit to close. Default: 3.
    #[must_use]
    pub const fn trial_successes(mut self, calls: u32) -> Self {
        self.trial_successes = calls;
        self
    }

    /// The longest that a circuit stays half-open. Then a trial that is past its first token counts
    /// as a success: with one success the circuit closes, without one the next call is the trial.
    /// Default: 60 s.
    #[must_use]
    pub const fn dwell(mut self, time: Duration) -> Self {
        self.dwell = time;
        self
    }

    /// How long after closing the traffic grows from a tenth to all of it, for calls that have
    /// another target left. Default: 10 s. Zero: no ramp.
    #[must_use]
    pub const fn ramp(mut self, time: Duration) -> Self {
        self.ramp = time;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// When they cannot work; the error says which one and what to do.
    pub fn build(self) -> Result<Policy, InvalidSettings> {
        use InvalidSettings as Invalid;
        let percent = |name, value: u8| match value {
            1..=100 => Ok(()),
            _ => Err(Invalid::Percent { name, value }),
        };
        let positive = |name, time: Duration| {
            if time.is_zero() {
                Err(Invalid::Zero { name })
            } else {
                Ok(())
            }
        };
        if !(1..=MOST_CALLS).contains(&self.window_calls) {
            return Err(Invalid::WindowCalls(self.window_calls));
        }
        if !(1..=self.window_calls).contains(&self.min_calls) {
            return Err(Invalid::MinCalls {
                min_calls: self.min_calls,
                window_calls: self.window_calls,
            });
        }
        percent("failure_percent", self.failure_percent)?;
        percent("slow_percent", self.slow_percent)?;
        positive("window_time", self.window_time)?;
        positive("slow_answer", self.slow_answer)?;
        positive("slow_first_token", self.slow_first_token)?;
        positive("slow_thinking", self.slow_thinking)?;
        positive("open_for", self.open_for)?;
        positive("dwell", self.dwell)?;
        if self.failures_in_a_row == 0 {
            return Err(Invalid::Zero {
                name: "failures_in_a_row",
            });
        }
        if self.open_max < self.open_for {
            return Err(Invalid::OpenMax {
                open_for: self.open_for,
                open_max: self.open_max,
            });
        }
        if self.open_jitter_percent >= 100 {
            return Err(Invalid::Jitter(self.open_jitter_percent));
        }
        if !(1..=self.trials).contains(&self.trial_successes) {
            return Err(Invalid::Trials {
                trials: self.trials,
                trial_successes: self.trial_successes,
            });
        }
        Ok(Policy(Arc::new(self)))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new()
    }
}

/// Checked [`Settings`]. Cloning it counts a reference.
#[derive(Clone, Debug)]
pub struct Policy(Arc<Settings>);

impl Policy {
    pub(crate) fn get(&self) -> &Settings {
        &self.0
    }
}

impl Default for Policy {
    /// The default settings, which are sound.
    fn default() -> Self {
        Policy(Arc::new(Settings::new()))
    }
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidSettings {
    /// A window of no calls, or of more than are kept.
    WindowCalls(usize),
    /// A minimum that the window never reaches, or none.
    MinCalls {
        /// The calls that must be in the window.
        min_calls: usize,
        /// The calls that can be.
        window_calls: usize,
    },
    /// A share that is always or never reached.
    Percent {
        /// Which setting.
        name: &'static str,
        /// What it was set to.
        value: u8,
    },
    /// A setting that must not be zero.
    Zero {
        /// Which setting.
        name: &'static str,
    },
    /// The longest open time is shorter than the first one.
    OpenMax {
        /// The first open time.
        open_for: Duration,
        /// The longest.
        open_max: Duration,
    },
    /// A jitter that can leave no open time at all.
    Jitter(u8),
    /// No trial, or more successes asked for than there are trials.
    Trials {
        /// The trial calls.
        trials: u32,
        /// Those that must succeed.
        trial_successes: u32,
    },
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidSettings::WindowCalls(calls) => write!(
                f,
                "window_calls is {calls}; set it to a number from 1 to {MOST_CALLS}"
            ),
            InvalidSettings::MinCalls {
                min_calls,
                window_calls,
            } => write!(
                f,
                "min_calls is {min_calls}; set it to a number from 1 to window_calls, which is \
                 {window_calls}"
            ),
            InvalidSettings::Percent { name, value } => write!(
                f,
                "{name} is {value}; set it to a number from 1 to 100 (a percentage, not a fraction)"
            ),
            InvalidSettings::Zero { name } => write!(
                f,
                "{name} is zero; set it to a positive value, or to its MAX if it shall never apply"
            ),
            InvalidSettings::OpenMax { open_for, open_max } => write!(
                f,
                "open_max ({open_max:?}) is shorter than open_for ({open_for:?}); raise the one or \
                 lower the other"
            ),
            InvalidSettings::Jitter(percent) => write!(
                f,
                "open_jitter_percent is {percent}; set it to a number from 0 to 99, so that some \
                 open time is left"
            ),
            InvalidSettings::Trials {
                trials,
                trial_successes,
            } => write!(
                f,
                "trial_successes is {trial_successes} and trials is {trials}; set trials to at \
                 least 1 and trial_successes to a number from 1 to trials"
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
        Settings::new().build().unwrap();
        assert_eq!(
            format!("{:?}", Policy::default().get()),
            format!("{:?}", Settings::new())
        );
    }

    #[test]
    fn cb12_what_cannot_work_is_refused_and_named() {
        let new = Settings::new;
        for (settings, named) in [
            (new().window_calls(0), "window_calls is 0"),
            (new().window_calls(10_001), "window_calls is 10001"),
            (new().min_calls(0), "min_calls is 0"),
            (new().min_calls(51), "min_calls is 51"),
            (new().failure_percent(0), "failure_percent is 0"),
            (new().failure_percent(101), "failure_percent is 101"),
            (new().slow_percent(0), "slow_percent is 0"),
            (new().slow_percent(101), "slow_percent is 101"),
            (new().window_time(Duration::ZERO), "window_time is zero"),
            (new().slow_answer(Duration::ZERO), "slow_answer is zero"),
            (
                new().slow_first_token(Duration::ZERO),
                "slow_first_token is zero",
            ),
            (new().slow_thinking(Duration::ZERO), "slow_thinking is zero"),
            (new().open_for(Duration::ZERO), "open_for is zero"),
            (new().dwell(Duration::ZERO), "dwell is zero"),
            (new().failures_in_a_row(0), "failures_in_a_row is zero"),
            (new().open_max(Duration::from_secs(29)), "open_max (29s)"),
            (new().open_jitter_percent(100), "open_jitter_percent is 100"),
            (new().trials(0), "trials is 0"),
            (new().trial_successes(0), "trial_successes is 0"),
            (new().trials(2), "trials is 2"),
        ] {
            let error = settings.build().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
            assert!(error.contains("set ") || error.contains("raise"), "{error}");
        }
    }

    #[test]
    fn cb12_the_bounds_themselves_work() {
        let new = Settings::new;
        for settings in [
            new().window_calls(10_000),
            new().min_calls(1),
            new().min_calls(50),
            new().failure_percent(1),
            new().slow_percent(100),
            new().open_max(Duration::from_secs(30)),
            new().open_jitter_percent(0),
            new().open_jitter_percent(99),
            new().trials(1).trial_successes(1),
            new().trial_successes(5),
            new().failures_in_a_row(u32::MAX),
            new().slow_answer(Duration::MAX),
            new().ramp(Duration::ZERO),
        ] {
            settings.build().unwrap();
        }
    }
}
