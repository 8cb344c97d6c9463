//! [`Kind`]: the failure taxonomy. What follows from a kind stands in the [`Matrix`](crate::Matrix).

use std::fmt;

/// What happened to an attempt or a call: one value for every answer, transport error and stream
/// ending.
///
/// A kind says nothing about what to do; that is the [`Verdict`](crate::Verdict), found in
/// the [`Matrix`](crate::Matrix).
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
    /// The tenant has as many calls under way as it may have at once.
    TenantFull,
    /// A budget (retries, hedges, tokens) is spent.
    BudgetSpent,
    /// The call has used up its attempts.
    AttemptsSpent,
    /// No target is available: each was tried, or rests until its rate limit resets.
    NoTarget,
    /// The target cannot be asked this: it lacks an ability that the request needs, or its dialect
    /// has no words for something that must not be lost.
    Unable,
}

impl Kind {
    /// Every kind, in the order of the printed matrix.
    pub const ALL: &'static [Kind] = &[
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
        Kind::Refused(Refusal::TenantFull),
        Kind::Refused(Refusal::BudgetSpent),
        Kind::Refused(Refusal::AttemptsSpent),
        Kind::Refused(Refusal::NoTarget),
        Kind::Refused(Refusal::Unable),
        Kind::Unknown,
    ];

    /// The place of this kind in [`Kind::ALL`].
    pub(crate) const fn index(self) -> usize {
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
            Kind::Unknown => 37,
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
            Kind::Refused(Refusal::TenantFull) => "refused_tenant_full",
            Kind::Refused(Refusal::BudgetSpent) => "refused_budget_spent",
            Kind::Refused(Refusal::AttemptsSpent) => "refused_attempts_spent",
            Kind::Refused(Refusal::NoTarget) => "refused_no_target",
            Kind::Refused(Refusal::Unable) => "refused_unable",
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
            Kind::Refused(Refusal::TenantFull) => {
                "the tenant has as many calls under way as it may"
            }
            Kind::Refused(Refusal::BudgetSpent) => "the budget is spent",
            Kind::Refused(Refusal::AttemptsSpent) => "the call has used up its attempts",
            Kind::Refused(Refusal::NoTarget) => "no target is available",
            Kind::Refused(Refusal::Unable) => "the target cannot be asked this",
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
}
