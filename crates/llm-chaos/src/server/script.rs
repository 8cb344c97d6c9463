//! Which fault a request gets: phases over time, by rate, by count, by model.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ask::Ask;
use super::pace::{self, Pace};
use super::phase::Phase;
use crate::Fault;
use crate::window::pick;

/// The behaviour of a provider over time.
///
/// The default script has no phases: a healthy provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// What the script rehearses, for people.
    pub about: String,
    /// Seed of every draw: the same seed and the same order of requests give the same faults.
    pub seed: u64,
    /// How long the incident is worth playing, with what comes before and after it.
    #[serde(with = "pace::maybe_duration", skip_serializing_if = "Option::is_none")]
    pub length: Option<Duration>,
    /// How fast healthy answers are; absent, the provider's own pace holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// The phases. Of those open at the same time each takes its `rate` of the requests, in order.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
}

impl Script {
    /// Reads a script and checks it.
    ///
    /// # Errors
    ///
    /// Says which line or phase is wrong and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        let script: Self = toml::from_str(text).map_err(|error| ScriptError(error.to_string()))?;
        script.check().map(|()| script)
    }

    /// Reads the same from JSON: `{"phase": [{"fault": "reset", "times": 1}]}`.
    ///
    /// # Errors
    ///
    /// As for [`from_toml`](Self::from_toml).
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let script: Self =
            serde_json::from_str(text).map_err(|error| ScriptError(error.to_string()))?;
        script.check().map(|()| script)
    }

    /// Adds a phase.
    #[must_use]
    pub fn with(mut self, phase: Phase) -> Self {
        self.phases.push(phase);
        self
    }

    /// The part that the provider called `name` plays.
    #[must_use]
    pub fn for_target(&self, name: &str) -> Self {
        let mut script = self.clone();
        script
            .phases
            .retain(|phase| phase.target.as_deref().is_none_or(|target| target == name));
        script
    }

    /// The names of all targets, in order of appearance.
    #[must_use]
    pub fn targets(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for name in self
            .phases
            .iter()
            .filter_map(|phase| phase.target.as_deref())
        {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The same incident `factor` times as fast: every time is divided by `factor`.
    ///
    /// First-token times are not made shorter than `first_token_floor` (unless they were already),
    /// since below some 200 ms they drown in the noise of the machine.
    #[must_use]
    pub fn scaled(&self, factor: f64, first_token_floor: Duration) -> Self {
        let faster = |time: Duration| {
            if factor > 0.0 {
                time.div_f64(factor)
            } else {
                time
            }
        };
        let floored = |time: Duration| faster(time).max(time.min(first_token_floor));
        let mut script = self.clone();
        script.length = script.length.map(faster);
        if let Some(pace) = &mut script.pace {
            pace.first_token = pace.first_token.map(floored);
            pace.token_gap = pace.token_gap.map(faster);
        }
        for phase in &mut script.phases {
            phase.from = faster(phase.from);
            phase.to = phase.to.map(faster);
            phase.every = phase.every.map(faster);
            phase.lasts = phase.lasts.map(faster);
            // Defaults are times of the real incident too.
            match phase.fault {
                Fault::SlowFirstToken if phase.factor.is_some() => {}
                Fault::SlowFirstToken => phase.delay = Some(floored(phase.delay())),
                Fault::Latency | Fault::Stall => phase.delay = Some(faster(phase.delay())),
                Fault::RateLimit => phase.retry_after = Some(faster(phase.retry_after())),
                Fault::SlowDrip | Fault::KeepAliveOnly => phase.gap = Some(faster(phase.gap())),
                _ => {}
            }
        }
        script
    }

    /// The phase that takes a request: `hits[i]` counts what phase `i` took before.
    pub(super) fn decide(
        &self,
        hits: &[u64],
        elapsed: Duration,
        draw: f64,
        ask: &Ask,
    ) -> Option<usize> {
        let windows: Vec<_> = self.phases.iter().map(Phase::window).collect();
        // Never-read is decided when the connection is accepted, by `decide_unread`.
        let wanted =
            self.phases
                .iter()
                .zip(&windows)
                .enumerate()
                .filter_map(|(i, (phase, window))| {
                    (phase.fault != Fault::NeverRead && phase.wants(ask)).then_some((i, window))
                });
        pick(wanted, hits, elapsed, draw)
    }

    /// The `never_read` phase that takes a connection just accepted.
    pub(super) fn decide_unread(
        &self,
        hits: &[u64],
        elapsed: Duration,
        draw: f64,
    ) -> Option<usize> {
        let windows: Vec<_> = self.phases.iter().map(Phase::window).collect();
        let unread = self.phases.iter().zip(&windows).enumerate();
        let unread = unread.filter_map(|(i, (phase, window))| {
            (phase.fault == Fault::NeverRead).then_some((i, window))
        });
        pick(unread, hits, elapsed, draw)
    }

    fn check(&self) -> Result<(), ScriptError> {
        self.phases.iter().try_for_each(Phase::check)
    }
}

/// A script that cannot be played, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(pub(super) String);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chaos script: {}", self.0.trim_end())
    }
}

impl std::error::Error for ScriptError {}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
