//! [`CircuitOpen`]: why a call was refused.

use std::{fmt, time::Duration};

use llm_call::{BoxError, Call, Error, Kind, Outcome, Refusal};

use crate::{CircuitState, Key, core::Refused};

/// Why a call was refused: the source of the [`Error`] with the kind
/// [`Refusal::CircuitOpen`]. Find it with [`find_cause`](llm_call::find_cause).
///
/// # Example
///
/// ```
/// use llm_breaker::CircuitOpen;
/// use llm_call::{BoxError, find_cause};
///
/// fn explain(error: &BoxError) {
///     if let Some(open) = find_cause::<CircuitOpen>(&**error) {
///         eprintln!("{open}");
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CircuitOpen {
    /// Whose circuit it is.
    pub key: Key,
    /// Its state: a half-open circuit refuses what exceeds its trials, and one that was closed a
    /// moment ago a part of the calls that have another target left.
    pub state: CircuitState,
    /// What the last failure was, if there was one since it was last closed.
    pub last_failure: Option<Kind>,
}

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CircuitOpen { key, state, .. } = self;
        write!(f, "the circuit of {key} is {state}")?;
        match state {
            CircuitState::Open => {}
            CircuitState::HalfOpen => f.write_str(" and all of its trial calls are under way")?,
            CircuitState::Closed => {
                f.write_str(" again, and its traffic still grows while other targets are left")?;
            }
        }
        match self.last_failure {
            Some(kind) => write!(f, "; last failure: {}", kind.describe()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CircuitOpen {}

/// When to come back to a circuit whose trials are all under way.
const SOON: Duration = Duration::from_secs(1);

impl CircuitOpen {
    /// The error that a refused call gets.
    #[cold]
    pub(crate) fn refuse(self, refused: Refused, call: Option<&Call>) -> BoxError {
        let kind = Kind::Refused(Refusal::CircuitOpen);
        let outcome = call.map_or_else(|| Outcome::of(kind), |call| call.outcome(kind));
        let retry_after = match refused {
            Refused::Open(until) => until,
            Refused::Trials => Some(SOON),
            // At once, as the only target left.
            Refused::Ramp => Some(Duration::ZERO),
        };
        Error::from(outcome)
            .with_target(self.key.as_target().cloned())
            .with_retry_after(retry_after)
            .with_source(self)
            .into()
    }
}
