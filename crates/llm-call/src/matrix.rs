//! What follows from a [`Kind`] ([`Verdict`]), and the table between the two ([`Matrix`]).

use std::{fmt, time::Duration};

use crate::{Kind, Phase, Refusal};

/// Whether the same request is worth sending to the same target again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Retry {
    /// Sending it again gives the same result, or makes things worse.
    Never,
    /// One more attempt is sound; a second one would fail the same way.
    Once,
    /// As often as the attempts, the budget and the deadline allow.
    Yes,
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Retry::Never => "never",
            Retry::Once => "once",
            Retry::Yes => "yes",
        })
    }
}

/// What a circuit breaker counts for an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Health {
    /// The target works.
    Success,
    /// The target does not work.
    Failure,
    /// Says nothing about the target.
    Neutral,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Health::Success => "success",
            Health::Failure => "failure",
            Health::Neutral => "neutral",
        })
    }
}

/// What follows from a [`Kind`], for the layers that have to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Verdict {
    /// Send it to the same target again?
    pub retry: Retry,
    /// Send it to another target?
    pub fail_over: bool,
    /// Give a lesser answer (a smaller model, a cached or canned answer)?
    pub degrade: bool,
    /// What the circuit breaker of the target counts.
    pub breaker: Health,
    /// May a hedge be sent after this?
    pub hedge: bool,
}

impl Verdict {
    /// The same verdict with another [`retry`](Verdict::retry).
    #[must_use]
    pub const fn retry(self, retry: Retry) -> Verdict {
        Verdict { retry, ..self }
    }

    /// The same verdict with another [`fail_over`](Verdict::fail_over).
    #[must_use]
    pub const fn fail_over(self, fail_over: bool) -> Verdict {
        Verdict { fail_over, ..self }
    }

    /// The same verdict with another [`degrade`](Verdict::degrade).
    #[must_use]
    pub const fn degrade(self, degrade: bool) -> Verdict {
        Verdict { degrade, ..self }
    }

    /// The same verdict with another [`breaker`](Verdict::breaker).
    #[must_use]
    pub const fn breaker(self, breaker: Health) -> Verdict {
        Verdict { breaker, ..self }
    }

    /// The same verdict with another [`hedge`](Verdict::hedge).
    #[must_use]
    pub const fn hedge(self, hedge: bool) -> Verdict {
        Verdict { hedge, ..self }
    }

    /// The verdict once content was delivered to the caller: whatever happened, nothing is sent
    /// again in silence. The breaker still counts it.
    #[must_use]
    pub const fn committed(self) -> Verdict {
        Verdict {
            retry: Retry::Never,
            fail_over: false,
            hedge: false,
            ..self
        }
    }
}

/// What is known of an attempt once it is classified: its kind, the verdict, and the provider's
/// own word on when to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// What happened.
    pub kind: Kind,
    /// What follows.
    pub verdict: Verdict,
    /// The server's hint: how long to wait, counted from the moment the answer came. Never
    /// shortened; `None` when the server gave none.
    pub retry_after: Option<Duration>,
}

impl Outcome {
    /// The outcome of a kind by the default [`Matrix`], without a hint.
    pub fn of(kind: Kind) -> Outcome {
        DEFAULT.outcome(kind)
    }

    /// The same outcome with a hint.
    #[must_use]
    pub const fn retry_after(self, hint: Option<Duration>) -> Outcome {
        Outcome {
            retry_after: hint,
            ..self
        }
    }

    /// The same outcome, once content was delivered to the caller.
    #[must_use]
    pub const fn committed(self) -> Outcome {
        Outcome {
            verdict: self.verdict.committed(),
            ..self
        }
    }

    /// Whether this is [`Kind::Success`].
    pub const fn is_success(&self) -> bool {
        matches!(self.kind, Kind::Success)
    }
}

/// The table from [`Kind`] to [`Verdict`].
///
/// Its `Display` is the table that the documentation shows. Change single rows with
/// [`Matrix::set`] and hand the result to those who judge: the classifier of the
/// [`PeekLayer`](crate::PeekLayer) ([`Standard::with_matrix`](crate::Standard::with_matrix)) for
/// what the provider does, and the call ([`CallSettings::matrix`](crate::CallSettings::matrix)) for
/// time limits and refusals, which our own layers find.
///
/// # Example
///
/// ```
/// use llm_call::{Kind, Matrix};
///
/// // Let another provider judge what this one's content filter refused.
/// let filtered = Matrix::default()[Kind::ContentFiltered];
/// let matrix = Matrix::default().set(Kind::ContentFiltered, filtered.fail_over(true));
/// assert!(matrix[Kind::ContentFiltered].fail_over);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    rows: [Verdict; Kind::ALL.len()],
}

static DEFAULT: Matrix = Matrix::standard();

impl Matrix {
    const fn standard() -> Matrix {
        let mut rows = [row(Kind::Unknown); Kind::ALL.len()];
        let mut i = 0;
        while i < rows.len() {
            rows[i] = row(Kind::ALL[i]);
            i += 1;
        }
        Matrix { rows }
    }

    /// The same table with one row replaced.
    #[must_use]
    pub const fn set(mut self, kind: Kind, verdict: Verdict) -> Matrix {
        self.rows[kind.index()] = verdict;
        self
    }

    /// The outcome of a kind by this table, without a hint.
    pub const fn outcome(&self, kind: Kind) -> Outcome {
        Outcome {
            kind,
            verdict: self.rows[kind.index()],
            retry_after: None,
        }
    }
}

/// The default row of a kind. Retry and failover follow what the official SDKs do where they are
/// right, and what their bug trackers teach where they are not.
const fn row(kind: Kind) -> Verdict {
    use Health::{Failure, Neutral, Success};
    use Retry::{Never, Once, Yes};
    const fn v(
        retry: Retry,
        fail_over: bool,
        degrade: bool,
        breaker: Health,
        hedge: bool,
    ) -> Verdict {
        Verdict {
            retry,
            fail_over,
            degrade,
            breaker,
            hedge,
        }
    }
    match kind {
        Kind::Success => v(Never, false, false, Success, true),
        Kind::RateLimited => v(Yes, true, true, Neutral, false),
        Kind::QuotaExhausted => v(Never, true, true, Neutral, false),
        Kind::Overloaded => v(Yes, true, true, Failure, false),
        Kind::ServerError | Kind::Empty | Kind::Malformed | Kind::Unknown => {
            v(Once, true, true, Failure, true)
        }
        Kind::ConnectFailed | Kind::ConnectionLost | Kind::Interrupted => {
            v(Yes, true, true, Failure, true)
        }
        Kind::TimedOut(phase) => match phase {
            // The time of the whole call is up: nothing may be sent any more.
            Phase::Deadline => v(Never, false, true, Neutral, false),
            // Our own caller is slow; the target is not to blame.
            Phase::Reader => v(Never, false, false, Neutral, false),
            // The attempt had its share. What is left belongs to the other targets.
            Phase::Share => v(Never, true, true, Failure, false),
            _ => v(Yes, true, true, Failure, true),
        },
        Kind::InvalidRequest | Kind::ContentFiltered => v(Never, false, false, Neutral, false),
        // Only a target with a larger window can help.
        Kind::ContextTooLong => v(Never, true, true, Neutral, false),
        Kind::RequestTooLarge
        | Kind::Authentication
        | Kind::Permission
        | Kind::UnknownModel
        | Kind::NotFound => v(Never, true, true, Neutral, false),
        Kind::Conflict => v(Yes, false, false, Neutral, false),
        Kind::Cancelled => v(Never, false, false, Neutral, false),
        Kind::Refused(refusal) => match refusal {
            Refusal::CircuitOpen
            | Refusal::BulkheadFull
            | Refusal::TenantFull
            | Refusal::Unable => v(Never, true, true, Neutral, false),
            _ => v(Never, false, true, Neutral, false),
        },
    }
}

impl Default for Matrix {
    fn default() -> Self {
        DEFAULT
    }
}

impl std::ops::Index<Kind> for Matrix {
    type Output = Verdict;

    fn index(&self, kind: Kind) -> &Verdict {
        &self.rows[kind.index()]
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |b: bool| if b { "yes" } else { "no" };
        writeln!(
            f,
            "| {:<24} | {:<10} | {:<9} | {:<7} | {:<7} | {:<5} |",
            "kind", "retry here", "fail over", "degrade", "breaker", "hedge"
        )?;
        writeln!(
            f,
            "|{:-<26}|{:-<12}|{:-<11}|{:-<9}|{:-<9}|{:-<7}|",
            "", "", "", "", "", ""
        )?;
        for &kind in Kind::ALL {
            let v = self[kind];
            writeln!(
                f,
                "| {kind:<24} | {:<10} | {:<9} | {:<7} | {:<7} | {:<5} |",
                v.retry,
                yes(v.fail_over),
                yes(v.degrade),
                v.breaker,
                yes(v.hedge)
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(Kind::ALL.iter().map(|kind| (kind, self[*kind])))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_row_changes_that_row_alone() {
        let quota = Kind::QuotaExhausted;
        let changed = Verdict {
            degrade: false,
            ..Matrix::default()[quota]
        };
        let matrix = Matrix::default().set(quota, changed);
        for &kind in Kind::ALL {
            assert_eq!(matrix[kind] == Matrix::default()[kind], kind != quota);
        }
    }

    #[test]
    fn a_committed_verdict_sends_nothing_again_and_still_counts() {
        for &kind in Kind::ALL {
            let verdict = Matrix::default()[kind].committed();
            assert_eq!(verdict.retry, Retry::Never);
            assert!(!verdict.fail_over && !verdict.hedge);
            assert_eq!(verdict.breaker, Matrix::default()[kind].breaker);
        }
    }
}
