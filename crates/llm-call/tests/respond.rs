//! The edge where errors go out.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail the test")]

mod scripted;

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use llm_call::{
    Answer, BoxError, Ending, Error, Kind, PeekLayer, Phase, Refusal, RespondLayer, State,
};
use scripted::{Break, Data, Hang, JSON, SSE, Step, answer, answering, read};
use serde_json::{Value, json};
use tower::{Layer, Service, ServiceExt, service_fn};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const GEMINI: &str = "/v1beta/models/g:streamGenerateContent";
const OLLAMA: &str = "/api/chat";
const COHERE: &str = "/v2/chat";
const NDJSON: &str = "application/x-ndjson";

fn to(path: &str) -> Request<()> {
    Request::post(path).body(()).unwrap()
}

/// What a caller at `path` gets when the stack fails with `error`.
async fn failed(path: &str, error: impl Into<BoxError>) -> (u16, HeaderMap, Value) {
    failed_with(RespondLayer::new(), path, error).await
}

async fn failed_with(
    layer: RespondLayer,
    path: &str,
    error: impl Into<BoxError>,
) -> (u16, HeaderMap, Value) {
    let mut error = Some(error.into());
    let stack = service_fn(move |_: Request<()>| {
        let error = error.take().unwrap();
        async move { Err::<Response<BoxAnswer>, BoxError>(error) }
    });
    let response = layer.layer(stack).oneshot(to(path)).await.unwrap();
    let (parts, body) = response.into_parts();
    assert_eq!(parts.headers["content-type"], "application/json");
    let length = body.size_hint().exact();
    let body = body.collect().await.unwrap().to_bytes();
    assert_eq!(length, Some(body.len() as u64));
    (
        parts.status.as_u16(),
        parts.headers,
        serde_json::from_slice(&body).unwrap(),
    )
}

type BoxAnswer = Pin<Box<dyn Answer<Data = Bytes, Error = BoxError>>>;

/// What a caller at `path` gets of what the client below answers.
async fn responded(
    path: &str,
    status: u16,
    media: &'static str,
    steps: &'static [Step],
) -> Response<impl Body<Data = Bytes, Error = BoxError>> {
    RespondLayer::new()
        .layer(PeekLayer::new().layer(answering(status, media, steps)))
        .oneshot(to(path))
        .await
        .unwrap()
}

#[tokio::test]
async fn each_kind_has_its_status_in_each_dialect() {
    for (kind, status, openai, code, anthropic) in [
        (
            Kind::RateLimited,
            429,
            "requests",
            "rate_limit_exceeded",
            (429, "rate_limit_error"),
        ),
        (
            Kind::QuotaExhausted,
            429,
            "insufficient_quota",
            "insufficient_quota",
            (402, "billing_error"),
        ),
        (
            Kind::Overloaded,
            503,
            "server_error",
            "server_is_overloaded",
            (529, "overloaded_error"),
        ),
        (
            Kind::ServerError,
            500,
            "server_error",
            "server_error",
            (500, "api_error"),
        ),
        (
            Kind::ConnectFailed,
            502,
            "server_error",
            "connect_failed",
            (502, "api_error"),
        ),
        (
            Kind::ConnectionLost,
            502,
            "server_error",
            "connection_lost",
            (502, "api_error"),
        ),
        (
            Kind::Interrupted,
            502,
            "server_error",
            "interrupted",
            (502, "api_error"),
        ),
        (
            Kind::Empty,
            502,
            "server_error",
            "empty",
            (502, "api_error"),
        ),
        (
            Kind::Malformed,
            502,
            "server_error",
            "malformed",
            (502, "api_error"),
        ),
        (
            Kind::Unknown,
            502,
            "server_error",
            "unknown",
            (502, "api_error"),
        ),
        (
            Kind::TimedOut(Phase::FirstToken),
            504,
            "server_error",
            "timed_out_first_token",
            (504, "timeout_error"),
        ),
        (
            Kind::TimedOut(Phase::Deadline),
            504,
            "server_error",
            "timed_out_deadline",
            (504, "timeout_error"),
        ),
        (
            Kind::InvalidRequest,
            400,
            "invalid_request_error",
            "invalid_request_error",
            (400, "invalid_request_error"),
        ),
        (
            Kind::ContextTooLong,
            400,
            "invalid_request_error",
            "context_length_exceeded",
            (400, "invalid_request_error"),
        ),
        (
            Kind::ContentFiltered,
            400,
            "invalid_request_error",
            "content_filter",
            (400, "invalid_request_error"),
        ),
        (
            Kind::RequestTooLarge,
            413,
            "invalid_request_error",
            "request_too_large",
            (413, "request_too_large"),
        ),
        (
            Kind::Authentication,
            401,
            "invalid_request_error",
            "invalid_api_key",
            (401, "authentication_error"),
        ),
        (
            Kind::Permission,
            403,
            "invalid_request_error",
            "permission",
            (403, "permission_error"),
        ),
        (
            Kind::UnknownModel,
            404,
            "invalid_request_error",
            "model_not_found",
            (404, "not_found_error"),
        ),
        (
            Kind::NotFound,
            404,
            "invalid_request_error",
            "not_found",
            (404, "not_found_error"),
        ),
        (
            Kind::Conflict,
            409,
            "invalid_request_error",
            "conflict",
            (409, "invalid_request_error"),
        ),
        (
            Kind::Cancelled,
            499,
            "server_error",
            "cancelled",
            (499, "api_error"),
        ),
        (
            Kind::Refused(Refusal::CircuitOpen),
            503,
            "server_error",
            "refused_circuit_open",
            (503, "api_error"),
        ),
        (
            Kind::Refused(Refusal::NoTarget),
            503,
            "server_error",
            "refused_no_target",
            (503, "api_error"),
        ),
        (
            Kind::Refused(Refusal::AttemptsSpent),
            503,
            "server_error",
            "refused_attempts_spent",
            (503, "api_error"),
        ),
        (
            Kind::Refused(Refusal::BulkheadFull),
            503,
            "server_error",
            "refused_bulkhead_full",
            (503, "api_error"),
        ),
        (
            Kind::Refused(Refusal::TenantFull),
            429,
            "requests",
            "refused_tenant_full",
            (429, "rate_limit_error"),
        ),
        (
            Kind::Refused(Refusal::BudgetSpent),
            429,
            "requests",
            "refused_budget_spent",
            (429, "rate_limit_error"),
        ),
    ] {
        let (got, headers, body) = failed(CHAT, Error::new(kind)).await;
        assert_eq!(got, status, "{kind}");
        let error = &body["error"];
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!(openai), &json!(code)),
            "{kind}"
        );
        assert!(
            error["message"].as_str().unwrap().contains(kind.describe()),
            "{kind}"
        );
        let untried = matches!(
            kind,
            Kind::Refused(
                Refusal::NoTarget
                    | Refusal::BulkheadFull
                    | Refusal::TenantFull
                    | Refusal::BudgetSpent
            )
        );
        assert_eq!(headers.contains_key("x-should-retry"), !untried, "{kind}");
        let full = matches!(
            kind,
            Kind::Refused(Refusal::BulkheadFull | Refusal::TenantFull | Refusal::BudgetSpent)
        );
        assert_eq!(headers.contains_key("retry-after"), full, "{kind}");

        let (got, _, body) = failed(MESSAGES, Error::new(kind)).await;
        assert_eq!(got, anthropic.0, "{kind}");
        assert_eq!(body["type"], "error");
        assert_eq!(body["error"]["type"], anthropic.1, "{kind}");

        let (got, _, body) = failed(GEMINI, Error::new(kind)).await;
        assert_eq!(
            (got, &body["error"]["code"]),
            (status, &json!(status)),
            "{kind}"
        );
        assert!(body["error"]["status"].is_string());
    }
    let (_, _, body) = failed(OLLAMA, Error::new(Kind::Empty)).await;
    assert_eq!(body, json!({ "error": "the answer was empty" }));
    let (_, _, body) = failed(COHERE, Error::new(Kind::Empty)).await;
    assert_eq!(body, json!({ "message": "the answer was empty" }));
    let (_, _, body) = failed(MESSAGES, Error::new(Kind::ContextTooLong)).await;
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("prompt is too long"), "{message}");
}

#[tokio::test]
async fn a_hint_is_rounded_up_to_whole_seconds() {
    for (hint, seconds, millis) in [
        (Duration::from_millis(1), "1", "1"),
        (Duration::from_millis(2001), "3", "2001"),
        (Duration::from_secs(7), "7", "7000"),
        (Duration::from_nanos(1), "1", "1"),
    ] {
        let error = Error::new(Kind::RateLimited).with_retry_after(Some(hint));
        let (_, headers, _) = failed(CHAT, error).await;
        assert_eq!(headers["retry-after"], seconds);
        assert_eq!(headers["retry-after-ms"], millis);
    }
}

#[tokio::test]
async fn with_client_retries_the_client_decides() {
    const IN_BAND: &str = "{\"error\":{\"message\":\"we broke\",\"type\":\"server_error\"}}";
    let layer = RespondLayer::new().client_retries(true);
    let (_, headers, _) = failed_with(layer, CHAT, Error::new(Kind::ServerError)).await;
    assert!(!headers.contains_key("x-should-retry"));
    for (status, provider) in [
        (503, None),
        (503, Some("true")),
        (400, Some("false")),
        (200, None),
        (200, Some("true")),
    ] {
        let client = service_fn(async |_: Request<()>| {
            let mut response = answer(status, JSON, &[Data(IN_BAND)]);
            if let Some(word) = provider {
                let word = word.parse().unwrap();
                response.headers_mut().insert("x-should-retry", word);
            }
            Ok::<_, Infallible>(response)
        });
        let stack = layer.layer(PeekLayer::new().layer(client));
        let response = stack.oneshot(to(CHAT)).await.unwrap();
        assert!(!response.status().is_success());
        let word = response.headers().get("x-should-retry");
        assert_eq!(word.map(|word| word.to_str().unwrap()), provider);
    }
}

#[tokio::test]
async fn the_message_shows_no_internals() {
    let source = Error::new(Kind::ConnectFailed)
        .with_source("error sending request for url (https://h/p?key=SECRET)");
    let error = Error::new(Kind::Refused(Refusal::NoTarget)).with_source(source);
    let (_, _, body) = failed(CHAT, error).await;
    assert_eq!(body["error"]["message"], "no target is available");
    let error = Error::new(Kind::RateLimited).with_retry_after(Some(Duration::from_millis(2001)));
    let (_, _, body) = failed(MESSAGES, error).await;
    assert_eq!(
        body["error"]["message"],
        "the provider's rate limit is reached; come back in 3 s"
    );
    // An error that is none of ours.
    let (status, _, body) = failed(CHAT, "what?").await;
    assert_eq!((status, &body["error"]["code"]), (502, &json!("unknown")));
    assert_eq!(
        body["error"]["message"],
        "the call failed for an unknown reason"
    );
}

#[tokio::test]
async fn with_details_the_message_is_the_chain_of_sources() {
    let layer = RespondLayer::new().details(true);
    let source = Error::new(Kind::ConnectFailed)
        .with_source("error sending request for url (https://h/p?key=SECRET)");
    let error = Error::new(Kind::Refused(Refusal::NoTarget)).with_source(source);
    let (_, _, body) = failed_with(layer, CHAT, error).await;
    assert_eq!(
        body["error"]["message"],
        "no target is available: no connection to the provider: \
         error sending request for url (https://h/p)"
    );
    let (_, _, body) = failed_with(layer, CHAT, "what?").await;
    assert_eq!(body["error"]["message"], "what?");
}

#[tokio::test]
async fn an_error_event_shows_internals_only_with_details() {
    for details in [false, true] {
        let stack = RespondLayer::new()
            .details(details)
            .layer(PeekLayer::new().layer(answering(200, SSE, &[OPENAI_TOKEN, Break])));
        let (_, text, _) = read(stack.oneshot(to(CHAT)).await.unwrap()).await;
        assert!(text.contains("the answer was cut before its end"), "{text}");
        assert_eq!(text.contains("connection reset"), details, "{text}");
    }
}

#[tokio::test]
async fn answers_of_the_provider_pass_unchanged() {
    const BODY: &str = "{\"error\": {\"message\": \"no\", \"extra\": [1]}}";
    for status in [400, 401, 429, 500, 503, 302] {
        let response = responded(CHAT, status, JSON, &[Data(BODY)]).await;
        let retry = response.headers().get("x-should-retry").cloned();
        assert_eq!(retry.is_some(), status >= 400);
        let (got, text, error) = read(response).await;
        assert_eq!((got, &*text), (status, BODY));
        assert!(error.is_none());
    }
    const GOOD: &str =
        "{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
    let response = responded(CHAT, 200, JSON, &[Data(GOOD)]).await;
    assert!(!response.headers().contains_key("x-should-retry"));
    assert_eq!(response.body().size_hint().exact(), Some(GOOD.len() as u64));
    assert_eq!(read(response).await.1, GOOD);
}

#[tokio::test]
async fn what_belongs_to_one_connection_is_not_handed_on() {
    let client = service_fn(async |_: Request<()>| {
        let mut response = answer(200, JSON, &[Data("{\"data\":[]}")]);
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("connection", "x-other,,"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("proxy-connection", "close"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-kept", "1"),
        ] {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        Ok::<_, Infallible>(response)
    });
    let stack = RespondLayer::new().layer(PeekLayer::new().layer(client));
    let response = stack.oneshot(to("/x")).await.unwrap();
    let mut names: Vec<_> = response
        .headers()
        .keys()
        .map(http::HeaderName::as_str)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "x-kept"]);
}

#[tokio::test]
async fn a_failure_in_a_200_gets_its_status_and_keeps_the_providers_error() {
    const ERROR: &str = r#"{"message":"we broke","type":"server_error","code":"e1"}"#;
    for (path, media, steps) in [
        (
            CHAT,
            SSE,
            &[
                Data(
                    "data: {\"error\":{\"message\":\"we broke\",\"type\":\"server_error\",\"code\":\"e1\"}}\n\n",
                ),
                Hang,
            ][..],
        ),
        (
            CHAT,
            JSON,
            &[Data(
                "{\"error\":{\"message\":\"we broke\",\"type\":\"server_error\",\"code\":\"e1\"}}",
            )],
        ),
        (
            CHAT,
            SSE,
            &[
                Data(
                    ": ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n",
                ),
                Data(
                    "data: {\"error\":{\"message\":\"we broke\",\"type\":\"server_error\",\"code\":\"e1\"}}\n\ndata: [DONE]\n\n",
                ),
            ],
        ),
    ] {
        let response = responded(path, 200, media, steps).await;
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert!(!response.headers().contains_key("content-length"));
        let (status, text, error) = read(response).await;
        assert_eq!(status, 500);
        assert!(error.is_none());
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            body,
            json!({ "error": serde_json::from_str::<Value>(ERROR).unwrap() })
        );
    }
    let steps = &[Data(
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"we broke\"}}\n\n",
    )];
    let (status, text, _) = read(responded(MESSAGES, 200, SSE, steps).await).await;
    assert_eq!(status, 500);
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        body,
        json!({ "type": "error", "error": { "type": "api_error", "message": "we broke" } })
    );
    // A finish that is a failure says nothing more.
    let steps = &[Data(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"insufficient_system_resource\"}]}\n\n",
    )];
    let (status, text, _) = read(responded(CHAT, 200, SSE, steps).await).await;
    assert_eq!(status, 503);
    assert!(text.contains("the provider is overloaded"), "{text}");
}

#[tokio::test]
async fn a_refusal_in_the_form_of_an_answer_stays_one() {
    const WHOLE: &str =
        "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"content_filter\"}]}";
    let response = responded(CHAT, 200, JSON, &[Data(WHOLE)]).await;
    assert_eq!(
        response.body().size_hint().exact(),
        Some(WHOLE.len() as u64)
    );
    assert_eq!(read(response).await.1, WHOLE);

    const STREAM: &[Step] = &[
        Data("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n"),
        Data(
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\n",
        ),
        Data("data: [DONE]\n\n"),
    ];
    let (status, text, error) = read(responded(CHAT, 200, SSE, STREAM).await).await;
    assert_eq!(status, 200);
    assert!(
        text.ends_with("data: [DONE]\n\n") && text.contains("assistant"),
        "{text}"
    );
    assert!(error.is_none());
}

/// A body that fails where the one below it ends, as often as it is asked.
struct Breaks<B>(B);

impl<B: Answer + Unpin> Body for Breaks<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0)
            .poll_frame(cx)
            .map(|frame| frame.or_else(|| Some(Err("broken".into()))))
    }
}

impl<B: Answer + Unpin> Answer for Breaks<B> {
    fn state(&self) -> &State {
        self.0.state()
    }

    fn cut(mut self: Pin<&mut Self>, ending: Ending) {
        Pin::new(&mut self.0).cut(ending);
    }
}

#[tokio::test]
async fn reading_ahead_ends_at_the_first_error() {
    const WHOLE: &str =
        "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"content_filter\"}]}";
    let below = PeekLayer::new()
        .layer(answering(200, JSON, &[Data(WHOLE)]))
        .map_response(|response: Response<_>| response.map(Breaks));
    let response = RespondLayer::new().layer(below).oneshot(to(CHAT)).await;
    let response = response.unwrap();
    assert!(!response.body().is_end_stream());
    let (status, text, error) = read(response).await;
    assert_eq!((status, &*text), (200, WHOLE));
    assert_eq!(error.unwrap().to_string(), "broken");
}

const OPENAI_TOKEN: Step =
    Data("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n");

#[tokio::test]
async fn an_interrupted_stream_ends_in_an_error_event() {
    const ANTHROPIC_TOKEN: Step = Data(
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
    );
    const RESPONSES_TOKEN: Step = Data(
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"delta\":\"hi\"}\n\n",
    );
    const GEMINI_TOKEN: Step =
        Data("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]}}]}\n\n");
    const OLLAMA_TOKEN: Step = Data("{\"message\":{\"content\":\"hi\"},\"done\":false}\n");
    const COHERE_TOKEN: Step = Data(
        "event: content-delta\ndata: {\"type\":\"content-delta\",\"delta\":{\"message\":{\"content\":{\"text\":\"hi\"}}}}\n\n",
    );
    for (path, media, token, steps, start, place) in [
        (
            CHAT,
            SSE,
            OPENAI_TOKEN,
            &[OPENAI_TOKEN, Data("data: {\"cho"), Break][..],
            "data: ",
            "/error/code",
        ),
        (
            CHAT,
            SSE,
            OPENAI_TOKEN,
            &[OPENAI_TOKEN, Data("data: {\"cho")],
            "data: ",
            "/error/code",
        ),
        (
            MESSAGES,
            SSE,
            ANTHROPIC_TOKEN,
            &[ANTHROPIC_TOKEN, Data("event: cont"), Break],
            "event: error\ndata: ",
            "/error/type",
        ),
        (
            RESPONSES,
            SSE,
            RESPONSES_TOKEN,
            &[RESPONSES_TOKEN, Break],
            "event: error\ndata: ",
            "/code",
        ),
        (
            GEMINI,
            SSE,
            GEMINI_TOKEN,
            &[GEMINI_TOKEN, Break],
            "data: ",
            "/error/status",
        ),
        (
            OLLAMA,
            NDJSON,
            OLLAMA_TOKEN,
            &[OLLAMA_TOKEN, Data("{\"mess"), Break],
            "",
            "/error",
        ),
        (
            COHERE,
            SSE,
            COHERE_TOKEN,
            &[COHERE_TOKEN, Break],
            "event: message-end\ndata: ",
            "/delta/error",
        ),
    ] {
        let response = responded(path, 200, media, steps).await;
        let (status, text, error) = read(response).await;
        assert_eq!(status, 200);
        assert!(error.is_none(), "{path}");
        let Data(token) = token else { unreachable!() };
        let last = text.strip_prefix(token).unwrap();
        let last = last
            .strip_prefix(start)
            .unwrap_or_else(|| panic!("{path}: {last}"));
        let event: Value = serde_json::from_str(last).unwrap();
        let found = event.pointer(place).and_then(Value::as_str).unwrap();
        let expected = match path {
            MESSAGES => "api_error",
            GEMINI => "UNAVAILABLE",
            OLLAMA | COHERE => "the answer was cut before its end",
            _ => "interrupted",
        };
        assert!(found.starts_with(expected), "{path}: {found}");
        if path == RESPONSES {
            assert_eq!(event["sequence_number"], 5);
        }
    }
}

#[tokio::test]
async fn a_mislabelled_stream_ends_in_an_error_event_too() {
    const SSE_CUT: &[Step] = &[OPENAI_TOKEN, Data("data: {\"cho"), Break];
    const LINES_CUT: &[Step] = &[
        Data("{\"message\":{\"content\":\"hi\"},\"done\":false}\n"),
        Data("{\"mess"),
        Break,
    ];
    for (path, media, steps, start) in [
        (CHAT, JSON, SSE_CUT, "data: {\"error\":"),
        (CHAT, "text/plain", SSE_CUT, "data: {\"error\":"),
        (MESSAGES, JSON, SSE_CUT, "event: error\ndata: "),
        (OLLAMA, JSON, LINES_CUT, "{\"error\":"),
        (CHAT, SSE, LINES_CUT, "{\"error\":"),
    ] {
        let (status, text, error) = read(responded(path, 200, media, steps).await).await;
        assert_eq!(status, 200);
        assert!(error.is_none(), "{path} {media}");
        let Data(first) = steps[0] else {
            unreachable!()
        };
        let last = text.strip_prefix(first).unwrap();
        assert!(last.starts_with(start), "{path} {media}: {last}");
    }
}

#[tokio::test]
async fn the_error_event_is_announced_by_the_body() {
    let response = responded(CHAT, 200, SSE, &[OPENAI_TOKEN, Break]).await;
    let mut body = pin!(response.into_body());
    // No length that an event more would break, and no end before the event.
    assert_eq!(body.size_hint().exact(), None);
    let token = body.frame().await.unwrap().unwrap();
    assert!(token.into_data().unwrap().ends_with(b"\n\n"));
    assert!(!body.is_end_stream());
    let event = body.frame().await.unwrap().unwrap();
    assert!(event.into_data().unwrap().starts_with(b"data: {\"error\""));
    assert!(body.is_end_stream());
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_stream_that_ends_well_is_handed_on_byte_by_byte() {
    let response = responded(
        CHAT,
        200,
        SSE,
        &[
            OPENAI_TOKEN,
            Data(": pi"),
            Data("ng\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish"),
            Data("_reason\":\"stop\"}]}\r\n\r\ndata: [DO"),
            Data("NE]"),
        ],
    )
    .await;
    let (_, text, error) = read(response).await;
    assert!(error.is_none());
    let Data(token) = OPENAI_TOKEN else {
        unreachable!()
    };
    assert_eq!(
        text,
        format!(
            "{token}: ping\n\ndata: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\r\n\r\ndata: [DONE]"
        )
    );
}

#[tokio::test]
async fn without_error_events_the_body_fails() {
    let stack = RespondLayer::new()
        .error_events(false)
        .layer(PeekLayer::new().layer(answering(200, SSE, &[OPENAI_TOKEN, Break])));
    let (_, text, error) = read(stack.oneshot(to(CHAT)).await.unwrap()).await;
    let Data(token) = OPENAI_TOKEN else {
        unreachable!()
    };
    assert_eq!(text, token);
    assert_eq!(Kind::of(&*error.unwrap()), Kind::Interrupted);
}

#[tokio::test]
async fn other_media_fail_as_they_are() {
    let response = responded("/v1/audio/speech", 200, "audio/mpeg", &[Data("ID3"), Break]).await;
    let (status, text, error) = read(response).await;
    assert_eq!((status, &*text), (200, "ID3"));
    assert!(error.is_some());
}

#[tokio::test]
async fn an_event_too_large_to_hold_ends_in_an_error() {
    static LARGE: std::sync::LazyLock<&'static str> = std::sync::LazyLock::new(|| {
        Box::leak(format!("data: {{\"x\":\"{}", "x".repeat(70_000)).into_boxed_str())
    });
    let client = service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(answer(200, SSE, &[OPENAI_TOKEN, Data(&LARGE), Break]))
    });
    let stack = RespondLayer::new().layer(PeekLayer::new().layer(client));
    let (_, text, error) = read(stack.oneshot(to(CHAT)).await.unwrap()).await;
    assert!(text.len() > 70_000);
    assert!(error.is_some());
}

#[tokio::test]
async fn a_service_that_is_not_ready_answers_with_its_error() {
    struct Once(bool);
    impl Service<Request<()>> for Once {
        type Response = Response<BoxAnswer>;
        type Error = BoxError;
        type Future = std::future::Ready<Result<Response<BoxAnswer>, BoxError>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            if std::mem::replace(&mut self.0, true) {
                Poll::Ready(Ok(()))
            } else {
                Poll::Ready(Err(Error::new(Kind::Refused(Refusal::BulkheadFull)).into()))
            }
        }
        fn call(&mut self, _: Request<()>) -> Self::Future {
            std::future::ready(Err(Error::new(Kind::Empty).into()))
        }
    }
    let mut stack = RespondLayer::new().layer(Once(false));
    for status in [503, 502] {
        let response = stack.ready().await.unwrap().call(to(CHAT)).await.unwrap();
        assert_eq!(response.status(), status);
    }
}
