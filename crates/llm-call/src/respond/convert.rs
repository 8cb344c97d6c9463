//! From what came of a call to the answer that its caller gets.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, TRAILER},
};
use serde_json::Value;

use super::{
    RespondBody, RespondLayer,
    body::{Ahead, data_of},
    form, message,
};
use crate::{
    Answer, BoxError, Dialect, Framing, Kind, Outcome, Refusal, ResponseExt, Scanner,
    remove_hop_by_hop,
};

/// The most that is read of an answer in which an error is looked for.
const MAX_READ: usize = 64 * 1024;

/// Asks clients that know it not to send the request again.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// How answers are written for one caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) dialect: Dialect,
    pub(super) settings: RespondLayer,
}

impl Caller {
    /// An answer came, good or bad.
    pub(super) fn answer<B: Answer>(
        self,
        response: Response<B>,
        cx: &mut Context<'_>,
    ) -> Response<RespondBody<B>> {
        let (status, outcome) = (response.status(), response.outcome());
        if status.is_success() && !outcome.is_success() {
            return self.in_band(response, outcome, cx);
        }
        let (mut parts, body) = response.into_parts();
        if !status.is_informational() {
            remove_hop_by_hop(&mut parts.headers);
        }
        let framing = if self.settings.error_events && status.is_success() {
            body.state().framing()
        } else {
            None
        };
        if framing.is_some() {
            parts.headers.remove(CONTENT_LENGTH);
        }
        if status.is_client_error() || status.is_server_error() {
            self.set_should_retry(&mut parts.headers, outcome.kind);
        }
        let body = RespondBody::passing(body, framing, self);
        Response::from_parts(parts, body)
    }

    /// No answer came.
    pub(super) fn error<B: Answer>(self, error: &BoxError) -> Response<RespondBody<B>> {
        let outcome = Outcome::of_error(&**error);
        let message = message::of_error(outcome, &**error, self.settings.details);
        self.failure(HeaderMap::new(), outcome, &message, None)
    }

    /// A 200 that is a failure.
    fn in_band<B: Answer>(
        self,
        response: Response<B>,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Response<RespondBody<B>> {
        let (mut parts, body) = response.into_parts();
        remove_hop_by_hop(&mut parts.headers);
        let mut body = Box::pin(body);
        let ahead = read_ahead(body.as_mut(), cx);
        let theirs = provider_error(&joined(&ahead));
        if theirs.is_none() && outcome.kind == Kind::ContentFiltered {
            // A refusal in the form of an answer, which every client reads as one.
            return Response::from_parts(parts, RespondBody::unchanged(body, ahead));
        }
        let message = message::of_outcome(outcome);
        self.failure(parts.headers, outcome, &message, theirs)
    }

    fn failure<B: Answer>(
        self,
        mut headers: HeaderMap,
        outcome: Outcome,
        message: &str,
        theirs: Option<Value>,
    ) -> Response<RespondBody<B>> {
        let text = form::json(outcome.kind, message, theirs, self.dialect);
        headers.remove(CONTENT_LENGTH);
        headers.remove(CONTENT_ENCODING);
        headers.remove(TRAILER);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(hint) = form::hint(outcome) {
            let millis = form::millis(hint);
            headers.insert(RETRY_AFTER, HeaderValue::from(millis.div_ceil(1000)));
            headers.insert("retry-after-ms", HeaderValue::from(millis));
        }
        self.set_should_retry(&mut headers, outcome.kind);
        let mut response = Response::new(RespondBody::json(text));
        *response.status_mut() = form::status(outcome.kind, self.dialect);
        *response.headers_mut() = headers;
        response
    }

    /// Every target was tried as often as was sound: the caller's client would only repeat it. Not
    /// so where nothing was sent.
    fn set_should_retry(self, headers: &mut HeaderMap, kind: Kind) {
        let unsent = matches!(
            kind,
            Kind::Refused(
                Refusal::BulkheadFull
                    | Refusal::TenantFull
                    | Refusal::BudgetSpent
                    | Refusal::NoTarget
            )
        );
        if !self.settings.client_retries && !unsent {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
    }
}

/// What is there of a body that was held back, its error included. Waits for nothing.
fn read_ahead<B: Answer>(mut body: Pin<&mut B>, cx: &mut Context<'_>) -> Ahead {
    let (mut ahead, mut read) = (Ahead::new(), 0);
    while read < MAX_READ
        && let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(cx)
    {
        read += data_of(&frame).map_or(0, Bytes::len);
        let broke = frame.is_err();
        ahead.push_back(frame);
        if broke {
            break;
        }
    }
    ahead
}

fn joined(frames: &Ahead) -> Vec<u8> {
    let data = frames.iter().filter_map(data_of);
    data.flatten().copied().take(MAX_READ).collect()
}

/// The provider's own error: in a JSON text, or in the first event or line that has one.
fn provider_error(text: &[u8]) -> Option<Value> {
    if let Ok(whole) = serde_json::from_slice(text) {
        return error_in(whole);
    }
    let framing = match text.trim_ascii_start().first() {
        Some(b'{') => Framing::Ndjson,
        _ => Framing::Sse,
    };
    let mut found = None;
    // What comes after an event too large to read is not looked at.
    let _ = Scanner::new(framing).feed(text, |event| {
        if found.is_none() {
            found = serde_json::from_slice(event.data).ok().and_then(error_in);
        }
    });
    found
}

/// What a provider says about its failure, in its own words: the message in a JSON text, or in the
/// first event that has one, in whichever dialect.
///
/// ```
/// let body = br#"{"type":"error","error":{"type":"api_error","message":"oops"}}"#;
/// assert_eq!(llm_call::error_message(body).as_deref(), Some("oops"));
/// assert_eq!(llm_call::error_message(b"<html>"), None);
/// ```
pub fn error_message(body: &[u8]) -> Option<String> {
    match provider_error(body)? {
        Value::String(text) => Some(text),
        error => error["message"].as_str().map(str::to_owned),
    }
}

/// The error object, or the text, in any of the places where providers put it.
fn error_in(mut json: Value) -> Option<Value> {
    if let Value::Array(items) = json {
        return items.into_iter().next().and_then(error_in);
    }
    for place in ["/error", "/response/error", "/x_groq/error", "/delta/error"] {
        match json.pointer_mut(place).map(Value::take) {
            Some(error @ Value::Object(_)) => return Some(error),
            Some(Value::String(text)) if !text.is_empty() => return Some(Value::String(text)),
            _ => {}
        }
    }
    // The whole text is the error.
    let is_flat = json["type"] == "error" || json["object"] == "error";
    (is_flat && json["message"].is_string()).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_providers_error_is_found_where_it_stands() {
        for (text, message) in [
            (r#"{"error":{"message":"m"}}"#, Some("m")),
            (r#"[{"error":{"message":"m","code":400}}]"#, Some("m")),
            (
                "data: {\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"m\"}}\n\n",
                Some("m"),
            ),
            (
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"m\"}}\n\n",
                Some("m"),
            ),
            (
                "event: error\ndata: {\"type\":\"error\",\"code\":\"c\",\"message\":\"m\"}\n\n",
                Some("m"),
            ),
            (
                "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"m\"}}}\n\n",
                Some("m"),
            ),
            ("{\"done\":false}\n{\"error\":\"m\"}\n", Some("m")),
            (r#"{"object":"error","message":"m","code":500}"#, Some("m")),
            (r#"{"error":null,"choices":[]}"#, None),
            (
                "data: {\"choices\":[{\"finish_reason\":\"content_filter\"}]}\n\n",
                None,
            ),
            ("{\"error\":{\"mess", None),
        ] {
            let found = provider_error(text.as_bytes());
            let found = found.as_ref().map(|error| match error {
                Value::String(text) => text.as_str(),
                error => error["message"].as_str().unwrap(),
            });
            assert_eq!(found, message, "{text}");
        }
    }
}
