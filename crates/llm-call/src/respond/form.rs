//! How a failure is written down for a caller: status and JSON, by the dialect of its request.

use std::{borrow::Cow, time::Duration};

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::message::TOO_LONG;
use crate::{Dialect, Framing, Kind, Outcome, Refusal};

/// The dialect that a caller's errors are written in.
///
/// Where the path tells nothing, it is OpenAI's: most clients read it.
pub(super) fn dialect_of(path: &str, headers: &HeaderMap) -> Dialect {
    if let Some(dialect) = Dialect::of_path(path) {
        return dialect;
    }
    let last = path.rsplit_once('/').map_or(path, |(_, last)| last);
    if headers.contains_key("anthropic-version") || path.contains("/messages/") {
        Dialect::Anthropic
    } else if path.contains("/models/") && last.contains(':') {
        Dialect::Gemini
    } else if path.starts_with("/api/") {
        Dialect::Ollama
    } else if path.contains("/responses/") {
        Dialect::OpenAiResponses
    } else {
        Dialect::OpenAiChat
    }
}

/// One row of the table from kinds to answers.
struct Row {
    status: u16,
    /// OpenAI's `type` and `code`; no code where the kind's own name is it.
    openai: (&'static str, Option<&'static str>),
    /// Anthropic's `type`, and its status where that is another one.
    anthropic: (&'static str, Option<u16>),
    gemini: &'static str,
}

fn row(kind: Kind) -> Row {
    const INVALID: &str = "invalid_request_error";
    const SERVER: &str = "server_error";
    let row = |status, openai, anthropic, gemini| Row {
        status,
        openai,
        anthropic: (anthropic, None),
        gemini,
    };
    match kind {
        Kind::RateLimited => row(
            429,
            ("requests", Some("rate_limit_exceeded")),
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
        ),
        Kind::Refused(Refusal::TenantFull | Refusal::BudgetSpent) => row(
            429,
            ("requests", None),
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
        ),
        Kind::QuotaExhausted => Row {
            anthropic: ("billing_error", Some(402)),
            ..row(
                429,
                ("insufficient_quota", Some("insufficient_quota")),
                "",
                "RESOURCE_EXHAUSTED",
            )
        },
        Kind::Overloaded => Row {
            anthropic: ("overloaded_error", Some(529)),
            ..row(
                503,
                (SERVER, Some("server_is_overloaded")),
                "",
                "UNAVAILABLE",
            )
        },
        Kind::Refused(Refusal::Unable) => row(400, (INVALID, None), INVALID, "INVALID_ARGUMENT"),
        Kind::Refused(_) => row(503, (SERVER, None), "api_error", "UNAVAILABLE"),
        Kind::ServerError => row(500, (SERVER, Some(SERVER)), "api_error", "INTERNAL"),
        Kind::TimedOut(_) => row(504, (SERVER, None), "timeout_error", "DEADLINE_EXCEEDED"),
        Kind::Cancelled => row(499, (SERVER, None), "api_error", "CANCELLED"),
        Kind::InvalidRequest => row(400, (INVALID, Some(INVALID)), INVALID, "INVALID_ARGUMENT"),
        Kind::ContextTooLong => row(
            400,
            (INVALID, Some("context_length_exceeded")),
            INVALID,
            "INVALID_ARGUMENT",
        ),
        Kind::ContentFiltered => row(
            400,
            (INVALID, Some("content_filter")),
            INVALID,
            "INVALID_ARGUMENT",
        ),
        Kind::RequestTooLarge => row(
            413,
            (INVALID, None),
            "request_too_large",
            "INVALID_ARGUMENT",
        ),
        Kind::Authentication => row(
            401,
            (INVALID, Some("invalid_api_key")),
            "authentication_error",
            "UNAUTHENTICATED",
        ),
        Kind::Permission => row(
            403,
            (INVALID, None),
            "permission_error",
            "PERMISSION_DENIED",
        ),
        Kind::UnknownModel => row(
            404,
            (INVALID, Some("model_not_found")),
            "not_found_error",
            "NOT_FOUND",
        ),
        Kind::NotFound => row(404, (INVALID, None), "not_found_error", "NOT_FOUND"),
        Kind::Conflict => row(409, (INVALID, None), INVALID, "ABORTED"),
        _ => row(502, (SERVER, None), "api_error", "UNAVAILABLE"),
    }
}

impl Dialect {
    /// The status of an answer that failed for this reason, as clients of this dialect know it:
    /// overload is 529 for Anthropic's and 503 for OpenAI's.
    pub fn error_status(self, kind: Kind) -> StatusCode {
        status(kind, self)
    }

    /// The JSON of an answer that failed for this reason.
    ///
    /// ```
    /// use llm_call::{Dialect, Kind};
    ///
    /// let body = Dialect::Anthropic.error_body(Kind::Overloaded, "try later");
    /// let error = r#"{"error":{"message":"try later","type":"overloaded_error"},"type":"error"}"#;
    /// assert_eq!(String::from_utf8_lossy(&body), error);
    /// ```
    pub fn error_body(self, kind: Kind, message: &str) -> Vec<u8> {
        json(kind, &worded(kind, message, self), None, self)
    }

    /// The last event of a stream of server-sent events that failed for this reason.
    pub fn error_event(self, kind: Kind, message: &str) -> Vec<u8> {
        event(kind, &worded(kind, message, self), self, Framing::Sse, &[])
    }
}

/// Clients of Anthropic's API know a prompt that is too long by these words.
fn worded(kind: Kind, message: &str, dialect: Dialect) -> Cow<'_, str> {
    if dialect == Dialect::Anthropic && kind == Kind::ContextTooLong && !message.contains(TOO_LONG)
    {
        Cow::Owned(format!("{TOO_LONG}: {message}"))
    } else {
        Cow::Borrowed(message)
    }
}

/// The status of a failing answer.
pub(super) fn status(kind: Kind, dialect: Dialect) -> StatusCode {
    let row = row(kind);
    let code = match (dialect, row.anthropic.1) {
        (Dialect::Anthropic, Some(code)) => code,
        _ => row.status,
    };
    StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY)
}

/// When to come back. What is full now will have room again soon.
pub(super) fn hint(outcome: Outcome) -> Option<Duration> {
    outcome.retry_after.or(match outcome.kind {
        Kind::Refused(Refusal::BulkheadFull | Refusal::TenantFull | Refusal::BudgetSpent) => {
            Some(Duration::from_secs(1))
        }
        _ => None,
    })
}

/// Whole milliseconds, rounded up.
pub(super) fn millis(hint: Duration) -> u64 {
    u64::try_from(hint.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The object that says what failed, without what is around it.
fn error_object(kind: Kind, message: &str, dialect: Dialect) -> Value {
    let row = row(kind);
    match dialect {
        Dialect::Anthropic => json!({ "type": row.anthropic.0, "message": message }),
        Dialect::Gemini => json!({
            "code": row.status, "message": message, "status": row.gemini,
        }),
        _ => json!({
            "message": message,
            "type": row.openai.0,
            "param": null,
            "code": row.openai.1.unwrap_or(kind.as_str()),
        }),
    }
}

/// A whole JSON answer around an error. `theirs` is the provider's own error, as it stood in its
/// answer.
pub(super) fn json(kind: Kind, message: &str, theirs: Option<Value>, dialect: Dialect) -> Vec<u8> {
    let error = match theirs {
        Some(object @ Value::Object(_)) => object,
        Some(Value::String(text)) => error_object(kind, &text, dialect),
        _ => error_object(kind, message, dialect),
    };
    let text = |error: &Value| match error.get("message") {
        Some(message) => message.clone(),
        None => Value::from(message),
    };
    let json = match dialect {
        Dialect::Anthropic => json!({ "type": "error", "error": error }),
        Dialect::Ollama => json!({ "error": text(&error) }),
        Dialect::Cohere => json!({ "message": text(&error) }),
        _ => json!({ "error": error }),
    };
    json.to_string().into_bytes()
}

/// The last event of a stream that failed. `after` is the last event before it.
pub(super) fn event(
    kind: Kind,
    message: &str,
    dialect: Dialect,
    framing: Framing,
    after: &[u8],
) -> Vec<u8> {
    let error = error_object(kind, message, dialect);
    if framing == Framing::Ndjson {
        let error = match dialect {
            Dialect::Ollama => Value::from(message),
            _ => error,
        };
        return format!("{}\n", json!({ "error": error })).into_bytes();
    }
    let (name, data) = match dialect {
        Dialect::Anthropic => ("error", json!({ "type": "error", "error": error })),
        Dialect::OpenAiResponses => (
            "error",
            json!({
                "type": "error",
                "code": error["code"],
                "message": message,
                "param": null,
                "sequence_number": sequence_number(after).map_or(0, |n| n + 1),
            }),
        ),
        Dialect::Cohere => (
            "message-end",
            json!({
                "type": "message-end",
                "delta": { "finish_reason": "ERROR", "error": message },
            }),
        ),
        _ => ("", json!({ "error": error })),
    };
    if name.is_empty() {
        format!("data: {data}\n\n").into_bytes()
    } else {
        format!("event: {name}\ndata: {data}\n\n").into_bytes()
    }
}

/// The number of the last event of a response.
fn sequence_number(events: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"sequence_number\":";
    let at = memchr::memmem::rfind(events, KEY)? + KEY.len();
    let rest = events[at..].trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}
