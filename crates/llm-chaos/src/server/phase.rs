//! A phase of a script: one fault, when it strikes and whom.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ask::Ask;
use super::pace::{self, Count};
use super::script::ScriptError;
use crate::Fault;
use crate::window::Window;

/// One fault, when it strikes and whom, and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The fault.
    pub fault: Fault,
    /// The provider that behaves so; absent: each one that plays the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Start, since the script's start; default 0.
    #[serde(default, alias = "at", with = "pace::duration")]
    pub from: Duration,
    /// End (itself not included); absent: never.
    #[serde(
        default,
        alias = "until",
        with = "pace::maybe_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub to: Option<Duration>,
    /// Again and again: open for `lasts` at the start of each `every` between `from` and `to`.
    #[serde(
        default,
        with = "pace::maybe_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub every: Option<Duration>,
    /// See `every`; one needs the other.
    #[serde(
        default,
        with = "pace::maybe_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub lasts: Option<Duration>,
    /// Share of the requests, 0 to 1; default 1.
    #[serde(default = "all")]
    pub rate: f64,
    /// So many requests that the phase takes are answered well before the first is not; default 0.
    #[serde(default)]
    pub skip: u64,
    /// Only the first so many requests that the phase takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Only requests for this model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Only streamed (true) or only plain (false) requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// How long the fault waits, where it waits.
    #[serde(
        default,
        with = "pace::maybe_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub delay: Option<Duration>,
    /// `slow_first_token` only: this many times the usual wait, instead of `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// Tokens before the fault, default 40; always fewer than the answer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_tokens: Option<Count>,
    /// `rate_limit` only: the hint, default 1 s; 0 s leaves it out.
    #[serde(
        default,
        with = "pace::maybe_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry_after: Option<Duration>,
    /// Size of the pieces of `slow_drip` (default 4) and `split_events` (default 7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// Time between the pieces of `slow_drip` (default 20 ms) or the pings of `keep_alive_only` (1 s).
    #[serde(
        default,
        with = "pace::maybe_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub gap: Option<Duration>,
}

fn all() -> f64 {
    1.0
}

impl Phase {
    /// A fault for every request, at any time.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            target: None,
            from: Duration::ZERO,
            to: None,
            every: None,
            lasts: None,
            rate: 1.0,
            skip: 0,
            times: None,
            model: None,
            stream: None,
            delay: None,
            factor: None,
            after_tokens: None,
            retry_after: None,
            bytes: None,
            gap: None,
        }
    }

    /// The phase that a model name asks for: `fault-cut`, `fault-cut?after_tokens=5&times=1`.
    ///
    /// `None` if the name does not start with `fault-`.
    pub(super) fn of_model(model: &str) -> Option<Result<Self, ScriptError>> {
        let wanted = model.strip_prefix("fault-")?;
        let (name, parameters) = wanted.split_once('?').unwrap_or((wanted, ""));
        let mut table = toml::Table::new();
        table.insert("fault".to_owned(), name.into());
        for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A number where it reads as one, otherwise a text: the two kinds a phase has.
            let value = (value.parse::<i64>().map(toml::Value::from))
                .or_else(|_| value.parse::<f64>().map(toml::Value::from))
                .unwrap_or_else(|_| value.into());
            table.insert(key.to_owned(), value);
        }
        let phase = Self::deserialize(table).map_err(|error| ScriptError(error.to_string()));
        Some(phase.and_then(|phase| phase.check().map(|()| phase)))
    }

    pub(super) fn delay(&self) -> Duration {
        let seconds = match self.fault {
            Fault::SlowFirstToken => 20,
            Fault::Stall => 30,
            _ => 10,
        };
        self.delay.unwrap_or(Duration::from_secs(seconds))
    }

    pub(super) fn retry_after(&self) -> Duration {
        self.retry_after.unwrap_or(Duration::from_secs(1))
    }

    pub(super) fn gap(&self) -> Duration {
        let millis = if self.fault == Fault::SlowDrip {
            20
        } else {
            1000
        };
        self.gap.unwrap_or(Duration::from_millis(millis))
    }

    pub(super) fn piece(&self) -> usize {
        self.bytes
            .unwrap_or(if self.fault == Fault::SlowDrip { 4 } else { 7 })
    }

    pub(super) fn window(&self) -> Window {
        let cycle = self.every.zip(self.lasts);
        Window {
            from: self.from,
            to: self.to,
            cycle,
            rate: self.rate,
            skip: self.skip,
            times: self.times,
        }
    }

    pub(super) fn wants(&self, ask: &Ask) -> bool {
        self.model.as_ref().is_none_or(|model| *model == ask.model)
            && self.stream.is_none_or(|stream| stream == ask.stream)
    }

    pub(super) fn check(&self) -> Result<(), ScriptError> {
        let refuse = |what: String| Err(ScriptError(format!("phase `{}`: {what}", self.fault)));
        if !(0.0..=1.0).contains(&self.rate) {
            return refuse(format!("rate is {}; it must be between 0 and 1", self.rate));
        }
        if let Some(to) = self.to.filter(|to| *to <= self.from) {
            return refuse(format!(
                "it ends at {to:?}, before it starts at {:?}",
                self.from
            ));
        }
        match (self.every, self.lasts) {
            (None, None) => {}
            (Some(every), Some(lasts)) if lasts < every && !lasts.is_zero() => {}
            (Some(_), Some(_)) => {
                return refuse("lasts must be above 0 and below every".to_owned());
            }
            _ => return refuse("every and lasts need each other".to_owned()),
        }
        if self.bytes == Some(0) {
            return refuse("bytes is 0; a piece has at least one byte".to_owned());
        }
        if self
            .factor
            .is_some_and(|factor| !(factor.is_finite() && factor >= 0.0))
        {
            return refuse("factor must be a number that is not negative".to_owned());
        }
        if self.fault == Fault::NeverRead && (self.model.is_some() || self.stream.is_some()) {
            return refuse(
                "it is decided before a byte is read; take out model and stream".to_owned(),
            );
        }
        let takes = |fault_takes: bool, set: bool, name: &str| {
            if set && !fault_takes {
                refuse(format!("it has no parameter `{name}`"))
            } else {
                Ok(())
            }
        };
        use Fault::{
            ContentFilterFinish, Cut, CutReset, ErrorEventMid, ErrorThenDone, Garbled, HalfChunk,
            KeepAliveOnly, Latency, MalformedEvent, RateLimit, SilentEnd, SlowDrip, SlowFirstToken,
            SplitEvents, Stall,
        };
        let after_tokens = matches!(
            self.fault,
            Cut | CutReset
                | HalfChunk
                | SilentEnd
                | Stall
                | MalformedEvent
                | Garbled
                | ErrorEventMid
                | ErrorThenDone
                | ContentFilterFinish
        );
        takes(
            matches!(self.fault, Latency | SlowFirstToken | Stall),
            self.delay.is_some(),
            "delay",
        )?;
        takes(
            self.fault == SlowFirstToken,
            self.factor.is_some(),
            "factor",
        )?;
        takes(after_tokens, self.after_tokens.is_some(), "after_tokens")?;
        takes(
            self.fault == RateLimit,
            self.retry_after.is_some(),
            "retry_after",
        )?;
        takes(
            matches!(self.fault, SlowDrip | SplitEvents),
            self.bytes.is_some(),
            "bytes",
        )?;
        takes(
            matches!(self.fault, SlowDrip | KeepAliveOnly),
            self.gap.is_some(),
            "gap",
        )
    }
}
