//! What can be seen of a circuit: [`Snapshot`], [`Transition`] and their parts.

use std::{fmt, time::Duration};

use llm_call::Kind;
use tokio::time::Instant;

use crate::Key;

/// The state of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// Calls go through.
    Closed,
    /// Calls are refused.
    Open,
    /// A few calls go through, to see whether the target works again.
    HalfOpen,
}

impl fmt::Display for CircuitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CircuitState::Closed => "closed",
            CircuitState::Open => "open",
            CircuitState::HalfOpen => "half-open",
        })
    }
}

/// What an operator made of a circuit, until it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forced {
    /// No call goes through.
    Open,
    /// Every call goes through.
    Closed,
}

/// Calls of a circuit since it was made. At any time, those admitted are those that ended, each in
/// one of four ways, and those in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Let through.
    pub admitted: u64,
    /// Ended well.
    pub succeeded: u64,
    /// Ended by a failure of the target.
    pub failed: u64,
    /// Ended in a way that says nothing about the target.
    pub neutral: u64,
    /// Dropped by their caller before there was anything to say about the target.
    pub abandoned: u64,
    /// Not ended.
    pub in_flight: u64,
    /// Of those admitted: too slow, however they ended.
    pub slow: u64,
    /// Not let through.
    pub refused: u64,
}

/// A circuit at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Whose circuit it is.
    pub key: Key,
    /// Its state.
    pub state: CircuitState,
    /// What an operator made of it.
    pub forced: Option<Forced>,
    /// Time until an open circuit lets a trial through; zero where the next call is one. `None`
    /// where it is not open, or forced open.
    pub retry_in: Option<Duration>,
    /// The share of failed calls in the window, from 0 to 1; `None` below the minimum of calls.
    pub failure_rate: Option<f64>,
    /// The share of slow calls in the window, from 0 to 1; `None` below the minimum of calls.
    pub slow_rate: Option<f64>,
    /// Calls in the window of failures, each counted at its end.
    pub window_calls: usize,
    /// Failed ones among them.
    pub window_failures: usize,
    /// Calls in the window of slowness, each counted at its first token or its end.
    pub window_timed: usize,
    /// Slow ones among them.
    pub window_slow: usize,
    /// Failures since the last success.
    pub failures_in_a_row: u32,
    /// Times in a row that a trial failed.
    pub failed_half_opens: u32,
    /// Trials of a half-open circuit that are under way.
    pub trials: u32,
    /// What the last failure was, since the circuit was last closed.
    pub last_failure: Option<Kind>,
    /// Grows with each change; the outcome of a call from before a change is not counted after it.
    pub generation: u64,
    /// Calls since the circuit was made.
    pub totals: Totals,
}

/// Why a circuit changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Too many calls failed.
    Failures {
        /// Failed calls in the window.
        failed: usize,
        /// All calls in the window.
        calls: usize,
    },
    /// Too many calls were slow.
    Slow {
        /// Slow calls in the window.
        slow: usize,
        /// All calls in the window.
        calls: usize,
    },
    /// Too many calls failed one after another.
    FailuresInARow(u32),
    /// The open time is over.
    Due,
    /// A trial failed.
    TrialFailed(Kind),
    /// So many trials succeeded.
    TrialsSucceeded(u32),
    /// The circuit was half-open for as long as it may be. It closed if a trial had succeeded or
    /// was past its first token.
    Dwell,
    /// An operator forced it.
    Forced,
    /// An operator released it.
    Released,
    /// An operator reset it.
    Reset,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Failures { failed, calls } => write!(f, "{failed} of {calls} calls failed"),
            Reason::Slow { slow, calls } => write!(f, "{slow} of {calls} calls were slow"),
            Reason::FailuresInARow(failures) => write!(f, "{failures} calls failed in a row"),
            Reason::Due => f.write_str("the open time is over"),
            Reason::TrialFailed(kind) => write!(f, "a trial failed: {kind}"),
            Reason::TrialsSucceeded(trials) => write!(f, "{trials} trials succeeded"),
            Reason::Dwell => f.write_str("the half-open time is over"),
            Reason::Forced => f.write_str("forced by hand"),
            Reason::Released => f.write_str("released by hand"),
            Reason::Reset => f.write_str("reset by hand"),
        }
    }
}

/// A change of the state of a circuit. Its `Display` is a line for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// Counts from 1 over all circuits of the set, without gaps.
    pub number: u64,
    /// Whose circuit it is.
    pub key: Key,
    /// The state before.
    pub from: CircuitState,
    /// The state after, never the same.
    pub to: CircuitState,
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transition {
            number,
            key,
            from,
            to,
            reason,
            ..
        } = self;
        write!(f, "#{number} {key}: {from} -> {to}, {reason}")
    }
}
