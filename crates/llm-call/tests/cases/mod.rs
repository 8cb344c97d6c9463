//! The cases of `data/catalog.json`, and what the catalogue expects of each.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses its own part, and the helpers of a test fail the test"
)]

use std::{fmt::Write as _, time::SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use llm_call::{Dialect, Framing, Health, Kind, Outcome, Phase, Retry};
use serde_json::Value;

/// Cases in which our kind or verdict differs from the catalogue, and why.
pub const DEVIATIONS: &[(&str, &str)] = &[
    (
        "bedrock.stream.",
        "the binary event stream of Bedrock is not scanned",
    ),
    (
        "bedrock.invoke_stream.",
        "the binary event stream of Bedrock is not scanned",
    ),
];

/// Cases that the catalogue calls `server_error` where we are more precise: what came is no
/// answer at all, or a fault of the model.
pub const MALFORMED: &[&str] = &[
    "openai.chat.200.html",
    "openai.chat.200.truncated_json",
    "gemini.200.malformed_fc",
    "gemini.200.unexpected_tool_call",
    "gemini.200.too_many_tool_calls",
    "gemini.200.malformed_response",
];

pub struct Case {
    pub id: String,
    pub api: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub streaming: bool,
    pub committed: bool,
    pub now: SystemTime,
    pub json: Value,
}

impl Case {
    pub fn all() -> Vec<Case> {
        let text = include_str!("../data/catalog.json");
        let cases: Vec<Value> = serde_json::from_str(text).unwrap();
        cases.into_iter().map(Case::new).collect()
    }

    fn new(json: Value) -> Case {
        let text = |key: &str| json[key].as_str().unwrap().to_owned();
        let headers = json["headers"].as_object().unwrap().iter();
        let clock = json["clock"].as_str().unwrap_or("2026-11-30T17:00:00Z");
        Case {
            id: text("id"),
            api: text("request_api"),
            status: StatusCode::from_u16(json["status"].as_u64().unwrap() as u16).unwrap(),
            headers: headers
                .map(|(name, value)| {
                    (
                        name.parse::<HeaderName>().unwrap(),
                        HeaderValue::from_str(value.as_str().unwrap()).unwrap(),
                    )
                })
                .collect(),
            body: match json["body_encoding"].as_str().unwrap() {
                "base64" => base64(&text("body")),
                _ => text("body").into_bytes(),
            },
            streaming: json["streaming"].as_bool().unwrap(),
            committed: json["committed"].as_bool().unwrap(),
            now: clock
                .parse::<jiff::Timestamp>()
                .unwrap()
                .try_into()
                .unwrap(),
            json,
        }
    }

    pub fn is(&self, key: &str) -> bool {
        self.json[key].as_bool().unwrap()
    }

    pub fn is_scanned(&self) -> bool {
        self.streaming && self.status.is_success() && self.deviation().is_none()
    }

    pub fn deviation(&self) -> Option<&'static str> {
        DEVIATIONS
            .iter()
            .find(|(start, _)| self.id.starts_with(start))
            .map(|(_, reason)| *reason)
    }

    pub fn dialect(&self) -> Option<Dialect> {
        match self.api.as_str() {
            "openai.responses" => Some(Dialect::OpenAiResponses),
            "anthropic.messages" => Some(Dialect::Anthropic),
            "cohere.v2_chat" => Some(Dialect::Cohere),
            "ollama.chat" => Some(Dialect::Ollama),
            api if api.starts_with("gemini.") => Some(Dialect::Gemini),
            api if api.ends_with("chat_completions") => Some(Dialect::OpenAiChat),
            _ => None,
        }
    }

    pub fn framing(&self) -> Framing {
        if self.headers["content-type"].as_bytes() == b"application/x-ndjson" {
            Framing::Ndjson
        } else {
            Framing::Sse
        }
    }

    pub fn kind(&self) -> Kind {
        if MALFORMED.contains(&self.id.as_str()) {
            return Kind::Malformed;
        }
        match self.json["expected_class"].as_str().unwrap() {
            "ok" => Kind::Success,
            "rate_limited" => Kind::RateLimited,
            "quota_exhausted" => Kind::QuotaExhausted,
            "overloaded" => Kind::Overloaded,
            "server_error" => Kind::ServerError,
            "timeout" => Kind::TimedOut(Phase::Upstream),
            "empty_response" => Kind::Empty,
            "stream_interrupted" => Kind::Interrupted,
            "bad_request" => Kind::InvalidRequest,
            "context_length_exceeded" => Kind::ContextTooLong,
            "content_filtered" => Kind::ContentFiltered,
            "auth" => Kind::Authentication,
            "permission" => Kind::Permission,
            "not_found" => Kind::NotFound,
            "model_not_found" => Kind::UnknownModel,
            "request_too_large" => Kind::RequestTooLarge,
            "conflict" => Kind::Conflict,
            "cancelled" => Kind::Cancelled,
            other => panic!("unknown class {other}"),
        }
    }
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = DIGITS.iter().position(|digit| *digit == byte).unwrap();
        held = held << 6 | digit as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}

/// Where an outcome differs from what the catalogue expects.
pub fn differences(case: &Case, outcome: Outcome) -> String {
    let outcome = if case.committed {
        outcome.committed()
    } else {
        outcome
    };
    let verdict = outcome.verdict;
    let mut found = String::new();
    let mut check = |what: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
        let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
        if ours != theirs {
            write!(found, " {what}: {ours}, not {theirs};").unwrap();
        }
    };
    check("kind", &outcome.kind, &case.kind());
    check(
        "retry",
        &(verdict.retry != Retry::Never),
        &case.is("retryable"),
    );
    check("fail over", &verdict.fail_over, &case.is("failover"));
    check(
        "breaker",
        &(verdict.breaker == Health::Failure),
        &case.is("counts_against_breaker"),
    );
    check(
        "hint",
        &outcome.retry_after.map(|hint| hint.as_millis() as u64),
        &case.json["retry_after_ms"].as_u64(),
    );
    found
}
