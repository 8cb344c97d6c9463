//! Whole error answers, word for word as the providers send them.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::Fault;

/// Which provider's API a request speaks; it decides the shape of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's `/chat/completions`.
    Chat,
    /// OpenAI's `/responses`.
    Responses,
    /// Anthropic's `/messages`.
    Messages,
}

impl Api {
    /// The API by the end of the path, if it is one of the three.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        [
            ("/chat/completions", Api::Chat),
            ("/responses", Api::Responses),
            ("/messages", Api::Messages),
        ]
        .into_iter()
        .find_map(|(end, api)| path.ends_with(end).then_some(api))
    }
}

/// A complete HTTP answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers, without a length.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

impl Reply {
    /// The answer that `fault` is, or `None` if the fault is not a whole answer.
    ///
    /// `retry_after` is the hint of [`Fault::RateLimit`]: zero leaves it out.
    #[must_use]
    pub fn of_fault(fault: Fault, api: Api, model: &str, retry_after: Duration) -> Option<Self> {
        let model = json_safe(model);
        let (status, openai, anthropic) = match fault {
            Fault::RateLimit => return Some(rate_limit(api, &model, retry_after)),
            Fault::Error502 => {
                let html = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n\
                            <center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>cloudflare</center>\r\n\
                            </body>\r\n</html>\r\n";
                return Some(Self::new(502, "text/html", html.to_owned()));
            }
            Fault::Html200 => {
                let html = "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body></body></html>";
                return Some(Self::new(200, "text/html; charset=UTF-8", html.to_owned()));
            }
            Fault::Empty200 => return Some(Self::new(200, "application/json", String::new())),
            Fault::InsufficientQuota if api == Api::Messages => {
                let message = "Your credit balance is too low to access the Anthropic API. \
                               Please go to Plans & Billing to upgrade or purchase credits.";
                return Some(Self::new(
                    400,
                    JSON,
                    anthropic_error("invalid_request_error", message),
                ));
            }
            _ => error_words(fault, &model)?,
        };
        let body = match api {
            Api::Messages => anthropic_error(anthropic.0, &anthropic.1),
            Api::Chat | Api::Responses => openai_error(&openai),
        };
        Some(Self::new(status, JSON, body))
    }

    /// OpenAI's (or Anthropic's) 400 for a request that is wrong in the way `message` says.
    #[must_use]
    pub fn bad_request(api: Api, message: &str) -> Self {
        let message = json_safe(message);
        let body = match api {
            Api::Messages => anthropic_error("invalid_request_error", &message),
            Api::Chat | Api::Responses => openai_error(&OpenAi {
                message,
                kind: "invalid_request_error",
                param: None,
                code: None,
            }),
        };
        Self::new(400, JSON, body)
    }

    pub(crate) fn new(status: u16, content_type: &'static str, body: String) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self {
            status,
            headers,
            body,
        }
    }
}

pub(crate) const JSON: &str = "application/json";

/// The error object of an event in the middle of a stream.
#[cfg(feature = "server")]
pub(crate) fn stream_error(api: Api) -> String {
    match api {
        Api::Chat => openai_error(&OpenAi {
            message: "The server had an error while processing your request. Sorry about that!".to_owned(),
            kind: "server_error",
            param: None,
            code: None,
        }),
        Api::Responses => r#"{"type":"error","code":"server_error","message":"An error occurred.","param":null,"sequence_number":0}"#.to_owned(),
        Api::Messages => r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#.to_owned(),
    }
}

struct OpenAi {
    message: String,
    kind: &'static str,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

fn openai_error(error: &OpenAi) -> String {
    let or_null =
        |value: Option<&str>| value.map_or("null".to_owned(), |value| format!("\"{value}\""));
    let (param, code) = (or_null(error.param), or_null(error.code));
    format!(
        r#"{{"error":{{"message":"{}","type":"{}","param":{param},"code":{code}}}}}"#,
        error.message, error.kind
    )
}

fn anthropic_error(kind: &str, message: &str) -> String {
    format!(
        r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_011C"}}"#
    )
}

/// Status, OpenAI's words, Anthropic's words.
fn error_words(fault: Fault, model: &str) -> Option<(u16, OpenAi, (&'static str, String))> {
    const BAD: &str = "invalid_request_error";
    let openai = |message: &str, kind, param, code| OpenAi {
        message: message.to_owned(),
        kind,
        param,
        code,
    };
    let anthropic = |kind: &'static str, message: &str| (kind, message.to_owned());
    Some(match fault {
        Fault::InsufficientQuota => (
            429,
            openai(
                "You exceeded your current quota, please check your plan and billing details.",
                "insufficient_quota",
                None,
                Some("insufficient_quota"),
            ),
            // Anthropic's own words have another status and are made by the caller.
            anthropic(
                "billing_error",
                "There is an issue with your billing or payment information.",
            ),
        ),
        Fault::ContextLength => (
            400,
            openai(
                "This model's maximum context length is 128000 tokens. However, your messages resulted in \
                 204308 tokens. Please reduce the length of the messages.",
                BAD,
                Some("messages"),
                Some("context_length_exceeded"),
            ),
            anthropic(BAD, "prompt is too long: 213462 tokens > 200000 maximum"),
        ),
        Fault::ContentFilter => (
            400,
            openai(
                "Your request was rejected as a result of our safety system.",
                BAD,
                None,
                Some("content_policy_violation"),
            ),
            anthropic(BAD, "Output blocked by content filtering policy"),
        ),
        Fault::RefusePrefill => {
            let message = "This model does not support assistant message prefill. \
                           The conversation must end with a user message.";
            (
                400,
                openai(message, BAD, Some("messages"), None),
                anthropic(BAD, message),
            )
        }
        Fault::Error400 => (
            400,
            openai(
                "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 200 instead.",
                BAD,
                Some("temperature"),
                Some("decimal_above_max_value"),
            ),
            anthropic(BAD, "temperature: range: 0..1"),
        ),
        Fault::Error401 => (
            401,
            openai(
                "Incorrect API key provided.",
                BAD,
                None,
                Some("invalid_api_key"),
            ),
            anthropic("authentication_error", "invalid x-api-key"),
        ),
        Fault::Error403 => (
            403,
            openai(
                "Country, region, or territory not supported",
                "request_forbidden",
                None,
                Some("unsupported_country_region_territory"),
            ),
            anthropic(
                "permission_error",
                "Your API key does not have permission to use the specified resource.",
            ),
        ),
        Fault::Error404 => (
            404,
            openai(
                &format!("The model `{model}` does not exist or you do not have access to it."),
                BAD,
                None,
                Some("model_not_found"),
            ),
            anthropic("not_found_error", &format!("model: {model}")),
        ),
        Fault::Error408 => (
            408,
            openai("Request timed out.", "timeout_error", None, None),
            anthropic("timeout_error", "Request timeout."),
        ),
        Fault::Error409 => (
            409,
            openai(
                "The resource is locked.",
                "conflict_error",
                None,
                Some("conflict"),
            ),
            anthropic(
                "conflict_error",
                "The request conflicts with the current state of a resource.",
            ),
        ),
        Fault::Error413 => (
            413,
            openai(
                "Request body too large.",
                BAD,
                None,
                Some("request_too_large"),
            ),
            anthropic("request_too_large", "Request exceeds the maximum size"),
        ),
        Fault::Error500 | Fault::EndlessError => (
            500,
            openai(
                "The server had an error while processing your request. Sorry about that!",
                "server_error",
                None,
                None,
            ),
            anthropic("api_error", "Internal server error"),
        ),
        Fault::Error200 => (
            200,
            openai(
                "The server had an error while processing your request.",
                "server_error",
                None,
                None,
            ),
            anthropic("api_error", "Internal server error"),
        ),
        Fault::Error503 => (
            503,
            openai(
                "Our servers are currently overloaded. Please try again later.",
                "service_unavailable_error",
                None,
                Some("server_is_overloaded"),
            ),
            anthropic("api_error", "Service unavailable"),
        ),
        Fault::Error504 => (
            504,
            openai(
                "The request timed out while processing.",
                "timeout_error",
                None,
                None,
            ),
            anthropic("timeout_error", "The request timed out while processing."),
        ),
        Fault::Error529 => (
            529,
            openai(
                "The engine is currently overloaded, please try again later",
                "server_error",
                None,
                None,
            ),
            anthropic("overloaded_error", "Overloaded"),
        ),
        _ => return None,
    })
}

fn rate_limit(api: Api, model: &str, retry_after: Duration) -> Reply {
    let seconds = retry_after.as_secs_f64();
    let body = match api {
        Api::Messages => anthropic_error(
            "rate_limit_error",
            "This request would exceed the rate limit for your organization of 30,000 input tokens per minute.",
        ),
        Api::Chat | Api::Responses => {
            let hint = if retry_after.is_zero() {
                String::new()
            } else {
                format!(" Please try again in {seconds}s.")
            };
            openai_error(&OpenAi {
                message: format!(
                    "Rate limit reached for {model} in organization org-x on requests per min (RPM): \
                     Limit 500, Used 500, Requested 1.{hint}"
                ),
                kind: "requests",
                param: None,
                code: Some("rate_limit_exceeded"),
            })
        }
    };
    let mut reply = Reply::new(429, JSON, body);
    if !retry_after.is_zero() {
        // `retry-after` counts whole seconds; only OpenAI has a finer header beside it.
        reply.headers.insert(
            header::RETRY_AFTER,
            HeaderValue::from(seconds.ceil() as u64),
        );
        if api != Api::Messages {
            let millis = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
            reply
                .headers
                .insert("retry-after-ms", HeaderValue::from(millis));
        }
    }
    reply
}

/// Names come from callers; what would need an escape in JSON is left out.
fn json_safe(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() && *c != '"' && *c != '\\')
        .collect()
}
