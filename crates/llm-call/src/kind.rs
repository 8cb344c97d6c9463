//! The failure taxonomy: what happened ([`Kind`]), what follows from it ([`Verdict`]), and the
//! table between the two ([`Matrix`]).

use std::{fmt, time::Duration};

/// What happened to an attempt or a call: one value for every answer, transport error and stream
/// ending.
///
/// A kind says nothing about what to do; that is the [`Verdict`], found in the [`Matrix`].
///
/// # Example
///
/// ```
/// use llm_call::{Kind, Matrix, Phase, Retry};
///
/// let matrix = Matrix::default();
/// assert_eq!(matrix[Kind::QuotaExhausted].retry, Retry::Never);
/// assert!(matrix[Kind::TimedOut(Phase::FirstToken)].fail_over);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A usable answer, or the beginning of one.
    Success,
    /// Too many requests or tokens for now; waiting helps.
    RateLimited,
    /// Money or a long-term quota is spent; waiting does not help.
    QuotaExhausted,
    /// The provider has no capacity for anybody.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// No connection came about; nothing was sent, nothing can have been billed.
    ConnectFailed,
    /// The connection broke before an answer began; the request may have been processed.
    ConnectionLost,
    /// A time limit passed; the phase says which.
    TimedOut(Phase),
    /// The answer began and was cut before its end.
    Interrupted,
    /// An answer with nothing in it.
    Empty,
    /// Not an answer at all: HTML where JSON was due, truncated JSON, a model fault.
    Malformed,
    /// The request is wrong, and would be wrong anywhere.
    InvalidRequest,
    /// The prompt does not fit the model's window.
    ContextTooLong,
    /// A policy of the provider refused the prompt or the answer.
    ContentFiltered,
    /// The request is larger than this target takes, whenever it is sent.
    RequestTooLarge,
    /// The key is wrong.
    Authentication,
    /// The key is right and may not do this.
    Permission,
    /// The target does not have this model.
    UnknownModel,
    /// The target does not have this path.
    NotFound,
    /// The request conflicts with another one at the provider.
    Conflict,
    /// The caller left.
    Cancelled,
    /// A layer of ours did not let the request through.
    Refused(Refusal),
    /// Something failed, and nothing tells what.
    Unknown,
}

/// Which time limit passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// Connecting, as reported by the HTTP client.
    Connect,
    /// From sending to the first content token of a stream (connecting included).
    FirstToken,
    /// From sending to the end of an answer that is not streamed.
    Answer,
    /// Silence between two pieces of a stream, keep-alives included.
    Idle,
    /// Silence between two tokens of a stream, while keep-alives may still come.
    Stall,
    /// The whole of one stream.
    Stream,
    /// The reader of a stream stopped reading.
    Reader,
    /// One attempt's share of the deadline, while other targets were left.
    Share,
    /// The deadline of the whole call.
    Deadline,
    /// A time limit of the provider, or of a proxy before it (408, 504, 524).
    Upstream,
}

/// Why a layer of ours refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refusal {
    /// The circuit breaker of the target is open.
    CircuitOpen,
    /// The bulkhead is full, or its queue.
    BulkheadFull,
    /// A budget (retries, hedges, tokens) is spent.
    BudgetSpent,
    /// The call has used up its attempts.
    AttemptsSpent,
    /// No target is available: each was tried, or rests until its rate limit resets.
    NoTarget,
}

impl Kind {
    /// Every kind, in the order of the printed matrix.
    pub const ALL: [Kind; 36] = [
        Kind::Success,
        Kind::RateLimited,
        Kind::QuotaExhausted,
        Kind::Overloaded,
        Kind::ServerError,
        Kind::ConnectFailed,
        Kind::ConnectionLost,
        Kind::TimedOut(Phase::Connect),
        Kind::TimedOut(Phase::FirstToken),
        Kind::TimedOut(Phase::Answer),
        Kind::TimedOut(Phase::Idle),
        Kind::TimedOut(Phase::Stall),
        Kind::TimedOut(Phase::Stream),
        Kind::TimedOut(Phase::Reader),
        Kind::TimedOut(Phase::Share),
        Kind::TimedOut(Phase::Deadline),
        Kind::TimedOut(Phase::Upstream),
        Kind::Interrupted,
        Kind::Empty,
        Kind::Malformed,
        Kind::InvalidRequest,
        Kind::ContextTooLong,
        Kind::ContentFiltered,
        Kind::RequestTooLarge,
        Kind::Authentication,
        Kind::Permission,
        Kind::UnknownModel,
        Kind::NotFound,
        Kind::Conflict,
        Kind::Cancelled,
        Kind::Refused(Refusal::CircuitOpen),
        Kind::Refused(Refusal::BulkheadFull),
        Kind::Refused(Refusal::BudgetSpent),
        Kind::Refused(Refusal::AttemptsSpent),
        Kind::Refused(Refusal::NoTarget),
        Kind::Unknown,
    ];

    /// The place of this kind in [`Kind::ALL`].
    const fn index(self) -> usize {
        match self {
            Kind::Success => 0,
            Kind::RateLimited => 1,
            Kind::QuotaExhausted => 2,
            Kind::Overloaded => 3,
            Kind::ServerError => 4,
            Kind::ConnectFailed => 5,
            Kind::ConnectionLost => 6,
            Kind::TimedOut(phase) => 7 + phase as usize,
            Kind::Interrupted => 17,
            Kind::Empty => 18,
            Kind::Malformed => 19,
            Kind::InvalidRequest => 20,
            Kind::ContextTooLong => 21,
            Kind::ContentFiltered => 22,
            Kind::RequestTooLarge => 23,
            Kind::Authentication => 24,
            Kind::Permission => 25,
            Kind::UnknownModel => 26,
            Kind::NotFound => 27,
            Kind::Conflict => 28,
            Kind::Cancelled => 29,
            Kind::Refused(refusal) => 30 + refusal as usize,
            Kind::Unknown => 35,
        }
    }

    /// The name used in metrics, ledgers and the matrix: `rate_limited`, `timed_out_first_token`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Success => "success",
            Kind::RateLimited => "rate_limited",
            Kind::QuotaExhausted => "quota_exhausted",
            Kind::Overloaded => "overloaded",
            Kind::ServerError => "server_error",
            Kind::ConnectFailed => "connect_failed",
            Kind::ConnectionLost => "connection_lost",
            Kind::TimedOut(Phase::Connect) => "timed_out_connect",
            Kind::TimedOut(Phase::FirstToken) => "timed_out_first_token",
            Kind::TimedOut(Phase::Answer) => "timed_out_answer",
            Kind::TimedOut(Phase::Idle) => "timed_out_idle",
            Kind::TimedOut(Phase::Stall) => "timed_out_stall",
            Kind::TimedOut(Phase::Stream) => "timed_out_stream",
            Kind::TimedOut(Phase::Reader) => "timed_out_reader",
            Kind::TimedOut(Phase::Share) => "timed_out_share",
            Kind::TimedOut(Phase::Deadline) => "timed_out_deadline",
            Kind::TimedOut(Phase::Upstream) => "timed_out_upstream",
            Kind::Interrupted => "interrupted",
            Kind::Empty => "empty",
            Kind::Malformed => "malformed",
            Kind::InvalidRequest => "invalid_request",
            Kind::ContextTooLong => "context_too_long",
            Kind::ContentFiltered => "content_filtered",
            Kind::RequestTooLarge => "request_too_large",
            Kind::Authentication => "authentication",
            Kind::Permission => "permission",
            Kind::UnknownModel => "unknown_model",
            Kind::NotFound => "not_found",
            Kind::Conflict => "conflict",
            Kind::Cancelled => "cancelled",
            Kind::Refused(Refusal::CircuitOpen) => "refused_circuit_open",
            Kind::Refused(Refusal::BulkheadFull) => "refused_bulkhead_full",
            Kind::Refused(Refusal::BudgetSpent) => "refused_budget_spent",
            Kind::Refused(Refusal::AttemptsSpent) => "refused_attempts_spent",
            Kind::Refused(Refusal::NoTarget) => "refused_no_target",
            Kind::Unknown => "unknown",
        }
    }

    /// A sentence for a person, without a full stop.
    pub const fn describe(self) -> &'static str {
        match self {
            Kind::Success => "the call was answered",
            Kind::RateLimited => "the provider's rate limit is reached",
            Kind::QuotaExhausted => "the provider's quota or credit is spent",
            Kind::Overloaded => "the provider is overloaded",
            Kind::ServerError => "the provider failed",
            Kind::ConnectFailed => "no connection to the provider",
            Kind::ConnectionLost => "the connection broke before an answer began",
            Kind::TimedOut(Phase::Connect) => "connecting took too long",
            Kind::TimedOut(Phase::FirstToken) => "no token came in time",
            Kind::TimedOut(Phase::Answer) => "the answer was not complete in time",
            Kind::TimedOut(Phase::Idle) => "the stream fell silent",
            Kind::TimedOut(Phase::Stall) => "the stream sent keep-alives and no token",
            Kind::TimedOut(Phase::Stream) => "the stream took too long",
            Kind::TimedOut(Phase::Reader) => "the reader of the stream stopped reading",
            Kind::TimedOut(Phase::Share) => "the attempt used up its share of the deadline",
            Kind::TimedOut(Phase::Deadline) => "the deadline of the call passed",
            Kind::TimedOut(Phase::Upstream) => "the provider reported a timeout",
            Kind::Interrupted => "the answer was cut before its end",
            Kind::Empty => "the answer was empty",
            Kind::Malformed => "the answer could not be read",
            Kind::InvalidRequest => "the request is invalid",
            Kind::ContextTooLong => "the prompt does not fit the model's context window",
            Kind::ContentFiltered => "a content policy refused the request or its answer",
            Kind::RequestTooLarge => "the request is too large",
            Kind::Authentication => "the key was not accepted",
            Kind::Permission => "the key may not do this",
            Kind::UnknownModel => "the model is not known here",
            Kind::NotFound => "the path is not known here",
            Kind::Conflict => "the request conflicts with another one",
            Kind::Cancelled => "the call was cancelled",
            Kind::Refused(Refusal::CircuitOpen) => "the circuit breaker is open",
            Kind::Refused(Refusal::BulkheadFull) => "the bulkhead is full",
            Kind::Refused(Refusal::BudgetSpent) => "the budget is spent",
            Kind::Refused(Refusal::AttemptsSpent) => "the call has used up its attempts",
            Kind::Refused(Refusal::NoTarget) => "no target is available",
            Kind::Unknown => "the call failed for an unknown reason",
        }
    }

    /// Whether the provider never said a word: connecting failed or nothing came in time.
    ///
    /// A silent target is not worth a second try while another target is left.
    pub const fn is_silent(self) -> bool {
        matches!(
            self,
            Kind::TimedOut(Phase::Connect | Phase::FirstToken | Phase::Answer | Phase::Share)
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

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
/// [`Matrix::set`] and hand the result to the `PeekLayer`'s classifier.
///
/// # Example
///
/// ```
/// use llm_call::{Kind, Matrix, Verdict};
///
/// // Let another provider judge what this one's content filter refused.
/// let filtered = Matrix::default()[Kind::ContentFiltered];
/// let matrix = Matrix::default().set(
///     Kind::ContentFiltered,
///     Verdict { fail_over: true, ..filtered },
/// );
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
            Refusal::CircuitOpen | Refusal::BulkheadFull => v(Never, true, true, Neutral, false),
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
        for kind in Kind::ALL {
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
    fn each_kind_has_its_own_row_and_name() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), i, "{kind:?}");
        }
        let names: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|k| k.as_str()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn setting_a_row_changes_that_row_alone() {
        let quota = Kind::QuotaExhausted;
        let changed = Verdict {
            degrade: false,
            ..Matrix::default()[quota]
        };
        let matrix = Matrix::default().set(quota, changed);
        for kind in Kind::ALL {
            assert_eq!(matrix[kind] == Matrix::default()[kind], kind != quota);
        }
    }

    #[test]
    fn a_committed_verdict_sends_nothing_again_and_still_counts() {
        for kind in Kind::ALL {
            let verdict = Matrix::default()[kind].committed();
            assert_eq!(verdict.retry, Retry::Never);
            assert!(!verdict.fail_over && !verdict.hedge);
            assert_eq!(verdict.breaker, Matrix::default()[kind].breaker);
        }
    }
}
