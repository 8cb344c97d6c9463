//! A caller of one dialect and a target of another, through the layer and `PeekLayer`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use llm_call::{
    Answer, Attempt, BoxError, Call, CallSettings, Dialect, Ending, IdentifyLayer, Kind, PeekLayer,
    Refusal, RespondLayer, ResponseExt,
};
use llm_provider::{Catalog, Model, Provider, ProviderLayer};
use serde_json::{Value, json};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const CHAT: &str = r#"{"model":"x","messages":[{"role":"user","content":"Hi"}],"stream":STREAM}"#;
const MESSAGES: &str =
    r#"{"model":"x","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"stream":STREAM}"#;

/// What a target answers.
#[derive(Clone)]
struct Says {
    status: u16,
    media: &'static str,
    /// Frames of the body; `Err` breaks it off.
    frames: Vec<Result<Bytes, &'static str>>,
    /// And then nothing, for ever.
    hangs: bool,
}

impl Says {
    fn json(status: u16, body: &str) -> Says {
        Says {
            status,
            media: "application/json",
            frames: vec![Ok(Bytes::from(body.to_owned()))],
            hangs: false,
        }
    }

    /// Events in frames of so many bytes.
    fn events(text: &str, size: usize) -> Says {
        let bytes = Bytes::from(text.to_owned());
        let frames = (0..bytes.len()).step_by(size);
        Says {
            status: 200,
            media: "text/event-stream",
            frames: frames
                .map(|at| Ok(bytes.slice(at..bytes.len().min(at + size))))
                .collect(),
            hangs: false,
        }
    }

    fn broken(mut self) -> Says {
        self.frames.push(Err("reset"));
        self
    }
}

/// A target, and what it was asked.
fn target(
    says: Says,
) -> (
    impl Service<
        Request<Full<Bytes>>,
        Response = Response<impl http_body::Body<Data = Bytes, Error = BoxError>>,
        Error = BoxError,
        Future = impl Send,
    > + Clone,
    Arc<Mutex<Option<Request<Value>>>>,
) {
    let seen = Arc::new(Mutex::new(None));
    let keep = seen.clone();
    let service = service_fn(move |request: Request<Full<Bytes>>| {
        let (keep, says) = (keep.clone(), says.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let asked = Request::from_parts(parts, serde_json::from_slice(&body)?);
            *keep.lock().unwrap() = Some(asked);
            let frames = says.frames.into_iter().map(|frame| {
                frame
                    .map(Frame::data)
                    .map_err(|text| BoxError::from(std::io::Error::other(text)))
            });
            let rest = futures_util::stream::pending().take(usize::from(says.hangs));
            let body = StreamBody::new(futures_util::stream::iter(frames).chain(rest));
            let response = Response::builder()
                .status(says.status)
                .header("content-type", says.media)
                .header("request-id", "r-7")
                .header("retry-after", "3");
            Ok(response.body(body)?)
        }
    });
    (service, seen)
}

fn providers(dialect: Dialect) -> ProviderLayer {
    let base = match dialect {
        Dialect::Gemini => "https://g.test/v1beta",
        Dialect::Anthropic => "https://a.test",
        _ => "https://o.test/v1",
    };
    let provider = Provider::new(base).unwrap().no_auth().dialect(dialect);
    ProviderLayer::new().provider("t", provider)
}

fn request(caller: Dialect, streamed: bool) -> Request<Full<Bytes>> {
    let (path, body) = match caller {
        // As the SDK writes its newest features.
        Dialect::Anthropic => ("/v1/messages?beta=true", MESSAGES),
        _ => ("/v1/chat/completions", CHAT),
    };
    let body = body.replace("STREAM", &streamed.to_string());
    let mut request = Request::post(path)
        .header("anthropic-beta", "x")
        .header("openai-organization", "o")
        .body(Full::from(body))
        .unwrap();
    let attempt = Attempt::new(1).with_target(Some("t:m".parse().unwrap()));
    request.extensions_mut().insert(attempt);
    request
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
    asked: Option<Request<Value>>,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

/// Through the edges too: what a caller gets.
async fn got(to: Dialect, request: Request<Full<Bytes>>, says: Says) -> Got {
    let (service, asked) = target(says);
    let stack = ServiceBuilder::new()
        .layer(RespondLayer::new())
        .layer(IdentifyLayer::new())
        .layer(providers(to))
        .layer(PeekLayer::new())
        .service(service);
    let (parts, body) = stack.oneshot(request).await.unwrap().into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    Got {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(text.to_vec()).unwrap(),
        asked: asked.lock().unwrap().take(),
    }
}

const OF_ANTHROPIC: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":2,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"lo 🦀\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":4}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const OF_OPENAI: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\ndata: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}]}\n\ndata: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo 🦀\"},\"finish_reason\":null}]}\n\ndata: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-x\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":4,\"total_tokens\":11,\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\ndata: [DONE]\n\n";

const OF_GEMINI: &str = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}],\"role\":\"model\"}}],\"modelVersion\":\"gemini-x\",\"responseId\":\"g1\"}\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo 🦀\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":7,\"cachedContentTokenCount\":2,\"candidatesTokenCount\":4}}\n\n";

fn stream_of(target: Dialect) -> &'static str {
    match target {
        Dialect::Anthropic => OF_ANTHROPIC,
        Dialect::Gemini => OF_GEMINI,
        _ => OF_OPENAI,
    }
}

const PAIRS: [(Dialect, Dialect); 4] = [
    (Dialect::OpenAiChat, Dialect::Anthropic),
    (Dialect::OpenAiChat, Dialect::Gemini),
    (Dialect::Anthropic, Dialect::OpenAiChat),
    (Dialect::Anthropic, Dialect::Gemini),
];

/// The text of a caller's stream, and whether it has ended.
fn read(caller: Dialect, stream: &str) -> (String, bool) {
    let mut text = String::new();
    let mut ended = false;
    for line in stream.lines() {
        let Some(data) = line.strip_prefix("data: ") else {
            continue;
        };
        assert!(!ended, "{stream}");
        if data == "[DONE]" {
            ended = true;
            continue;
        }
        let data: Value = serde_json::from_str(data).unwrap();
        let place = match caller {
            Dialect::Anthropic => "/delta/text",
            _ => "/choices/0/delta/content",
        };
        text += data.pointer(place).and_then(Value::as_str).unwrap_or("");
        ended = data["type"] == "message_stop";
    }
    (text, ended)
}

#[tokio::test]
async fn a_stream_is_the_same_however_its_frames_are_cut() {
    for (caller, to) in PAIRS {
        let mut first: Option<String> = None;
        for size in [1, 7, 64, 100_000] {
            let says = Says::events(stream_of(to), size);
            let got = got(to, request(caller, true), says).await;
            assert_eq!(got.status, 200);
            let (text, ended) = read(caller, &got.text);
            assert_eq!((&*text, ended), ("Hello 🦀", true), "{caller} {to} {size}");
            // Anthropic's streams of another issuer's answers begin without a time.
            let created = |text: &str| match text.split_once("\"created\":") {
                Some((before, after)) => {
                    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
                    format!("{before}{after}")
                }
                None => text.to_owned(),
            };
            let stream: String = got.text.lines().map(created).collect();
            assert_eq!(*first.get_or_insert(stream.clone()), stream);
        }
    }
}

#[tokio::test]
async fn a_request_goes_where_its_target_listens() {
    for (caller, to) in PAIRS {
        let says = Says::events(stream_of(to), 1_000);
        let got = got(to, request(caller, true), says).await;
        let asked = got.asked.unwrap();
        let (uri, model) = match to {
            Dialect::Anthropic => ("https://a.test/v1/messages", json!("m")),
            Dialect::Gemini => (
                "https://g.test/v1beta/models/m:streamGenerateContent?alt=sse",
                Value::Null,
            ),
            _ => ("https://o.test/v1/chat/completions", json!("m")),
        };
        assert_eq!(asked.uri(), uri);
        assert_eq!(asked.body()["model"], model);
        let headers = asked.headers();
        assert!(!headers.contains_key("openai-organization"));
        assert!(!headers.contains_key("anthropic-beta"));
        let version = headers
            .get("anthropic-version")
            .map(|v| v.to_str().unwrap());
        assert_eq!(version, (to == Dialect::Anthropic).then_some("2023-06-01"));
        let id = match caller {
            Dialect::Anthropic => "request-id",
            _ => "x-request-id",
        };
        assert_eq!(got.headers[id], "r-7");
    }
}

#[tokio::test]
async fn whole_answers_are_translated_whole() {
    for (caller, to) in PAIRS {
        let body = match to {
            Dialect::Anthropic => {
                r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":4}}"#
            }
            Dialect::Gemini => {
                r#"{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"cachedContentTokenCount":2,"candidatesTokenCount":4},"modelVersion":"gemini-x"}"#
            }
            _ => {
                r#"{"id":"c1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":2}}}"#
            }
        };
        let got = got(to, request(caller, false), Says::json(200, body)).await;
        assert_eq!(got.status, 200);
        assert_eq!(got.headers["content-type"], "application/json");
        let answer = got.json();
        if caller == Dialect::Anthropic {
            assert_eq!(answer["content"], json!([{"type":"text","text":"Hello"}]));
            assert_eq!(answer["stop_reason"], "end_turn");
            assert_eq!(answer["usage"]["input_tokens"], 5);
            assert_eq!(answer["usage"]["cache_read_input_tokens"], 2);
        } else {
            let choice = &answer["choices"][0];
            assert_eq!(choice["message"]["content"], "Hello");
            assert_eq!(choice["finish_reason"], "stop");
            assert_eq!(answer["usage"]["prompt_tokens"], 7);
            assert_eq!(answer["usage"]["total_tokens"], 11);
        }
        let model = answer["model"].as_str().unwrap();
        assert!(model.ends_with("-x"), "{model}");
    }
}

#[tokio::test]
async fn a_failure_is_one_in_the_caller_s_dialect() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Too busy."}}"#;
    let caller = Dialect::OpenAiChat;
    let says = Says::json(529, overloaded);
    let got_ = got(Dialect::Anthropic, request(caller, true), says).await;
    assert_eq!(got_.status, 503);
    assert_eq!(got_.headers["retry-after"], "3");
    let error = &got_.json()["error"];
    assert_eq!(error["code"], "server_is_overloaded");
    assert_eq!(error["message"], "Too busy.");

    let too_long = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    let caller = Dialect::Anthropic;
    let says = Says::json(400, too_long);
    let got_ = got(Dialect::OpenAiChat, request(caller, false), says).await;
    assert_eq!(got_.status, 400);
    let error = &got_.json()["error"];
    assert_eq!(error["type"], "invalid_request_error");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("prompt is too long: This model"),
        "{message}"
    );
}

#[tokio::test]
async fn a_stream_that_fails_or_breaks_never_ends_well() {
    for (caller, to) in PAIRS {
        let whole = stream_of(to);
        let middle = whole.find("lo 🦀").unwrap();
        let cut = whole[..middle].rfind("\n\n").unwrap() + 2;
        let error = match to {
            Dialect::Anthropic => {
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Too busy.\"}}\n\n"
            }
            Dialect::Gemini => {
                "data: {\"error\":{\"code\":503,\"message\":\"Too busy.\",\"status\":\"UNAVAILABLE\"}}\n\n"
            }
            _ => {
                "data: {\"error\":{\"message\":\"Too busy.\",\"type\":\"server_error\",\"code\":\"server_is_overloaded\"}}\n\ndata: [DONE]\n\n"
            }
        };
        let failing = format!("{}{error}", &whole[..cut]);
        let silent = whole[..cut].to_owned();
        for (says, named) in [
            (Says::events(&failing, 50), "Too busy."),
            (Says::events(&silent, 50), ""),
            (Says::events(&silent, 50).broken(), ""),
            (Says::events(&format!("{silent}data: {{oops\n\n"), 50), ""),
        ] {
            let got = got(to, request(caller, true), says).await;
            let (text, ended) = read(caller, &got.text);
            assert_eq!((&*text, ended), ("Hel", false), "{}", got.text);
            let last = got.text.lines().rfind(|line| line.starts_with("data: "));
            let last: Value = serde_json::from_str(&last.unwrap()[6..]).unwrap();
            let message = last["error"]["message"].as_str().unwrap();
            assert!(message.contains(named), "{last}");
            assert!(!got.text.contains("[DONE]"), "{}", got.text);
        }
    }
}

#[tokio::test]
async fn what_is_lost_is_said_and_what_is_required_is_not_lost() {
    let caller = Dialect::OpenAiChat;
    let body = r#"{"model":"x","messages":[{"role":"user","content":"Hi"}],"seed":7,"frob":1}"#;
    let ask = || {
        let mut ask = request(caller, false);
        *ask.body_mut() = Full::from(body);
        ask
    };
    let answer = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":4}}"#;
    let says = Says::json(200, answer);
    let call = Call::open(CallSettings::new());
    let mut first = ask();
    first.extensions_mut().insert(call.clone());
    let got_ = got(Dialect::Anthropic, first, says.clone()).await;
    assert_eq!(got_.status, 200);
    let lost = got_.headers["x-llm-lost"].to_str().unwrap().to_owned();
    let mut names: Vec<&str> = lost.split(", ").collect();
    names.sort_unstable();
    assert_eq!(names, ["frob", "seed"]);
    assert_eq!(call.ledger().entries[0].lost.as_deref(), Some(&*lost));

    let mut second = ask();
    let call = Call::open(CallSettings::new().require(["seed"]));
    second.extensions_mut().insert(call);
    let got_ = got(Dialect::Anthropic, second, says).await;
    assert_eq!(got_.status, 400);
    assert!(got_.asked.is_none());
    let message = got_.json()["error"]["message"].to_string();
    assert!(message.contains("seed is required"), "{message}");
}

#[tokio::test]
async fn bad_requests_are_refused_by_name_before_anything_is_sent() {
    for (caller, body, named) in [
        (
            Dialect::OpenAiChat,
            "{\"messages\":7}",
            "messages: expected a list",
        ),
        (
            Dialect::OpenAiChat,
            "{\"messages\":[",
            "the body: it is no JSON",
        ),
        (Dialect::Anthropic, "[]", "the body: expected an object"),
    ] {
        let mut ask = request(caller, false);
        *ask.body_mut() = Full::from(body);
        let says = Says::json(200, "{}");
        let got = got(Dialect::Gemini, ask, says).await;
        assert_eq!(got.status, 400, "{body}");
        assert!(got.asked.is_none());
        assert!(got.text.contains(named), "{} has no {named}", got.text);
    }
}

#[tokio::test]
async fn what_a_target_has_no_words_for_goes_elsewhere() {
    let (service, asked) = target(Says::json(200, "{}"));
    for (path, body) in [
        ("/v1/responses", "{}"),
        ("/v1/embeddings", "{}"),
        (
            "/v1/chat/completions",
            r#"{"n":2,"messages":[{"role":"user","content":"Hi"}]}"#,
        ),
    ] {
        let mut ask = request(Dialect::OpenAiChat, false);
        *ask.uri_mut() = path.parse().unwrap();
        *ask.body_mut() = Full::from(body);
        let stack = ServiceBuilder::new()
            .layer(providers(Dialect::Anthropic))
            .layer(PeekLayer::new())
            .service(service.clone());
        let error = stack.oneshot(ask).await.map(drop).unwrap_err();
        assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::Unable), "{path}");
        assert!(llm_call::Outcome::of_error(&*error).verdict.fail_over);
    }
    assert!(asked.lock().unwrap().is_none());
}

#[tokio::test]
async fn the_same_dialect_passes_untouched() {
    for (caller, stream) in [
        (Dialect::OpenAiChat, OF_OPENAI),
        (Dialect::Anthropic, OF_ANTHROPIC),
    ] {
        let says = Says::events(stream, 33);
        let got = got(caller, request(caller, true), says).await;
        assert_eq!(got.text, stream);
        assert!(!got.headers.contains_key("x-llm-lost"));
    }
}

#[tokio::test]
async fn a_translated_failure_is_all_here_and_can_be_kept() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Too busy."}}"#;
    let (service, _) = target(Says::json(529, overloaded));
    let stack = ServiceBuilder::new()
        .layer(providers(Dialect::Anthropic))
        .layer(PeekLayer::new())
        .service(service);
    let answer = stack
        .oneshot(request(Dialect::OpenAiChat, true))
        .await
        .unwrap();
    assert_eq!(answer.outcome().kind, Kind::Overloaded);
    assert!(matches!(
        answer.body().state().ending(),
        Some(Ending::Failed(_))
    ));
    let kept = llm_call::detach(answer.map(Box::pin)).unwrap();
    let text = kept.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("Too busy."));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_never_ends_is_not_waited_for() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Too busy."}}"#;
    let mut says = Says::json(529, error);
    says.hangs = true;
    let asked = request(Dialect::OpenAiChat, true);
    let got = got(Dialect::Anthropic, asked, says).await;
    assert_eq!(got.status, 503);
    assert_eq!(got.json()["error"]["message"], "Too busy.");
}

#[tokio::test]
async fn what_a_model_refuses_is_taken_out_and_said_and_not_where_it_is_required() {
    let answer = r#"{"id":"c1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}"#;
    let catalog = || {
        let provider = Provider::new("https://o.test/v1").unwrap().no_auth();
        Catalog::new()
            .provider("t", provider.dialect(Dialect::OpenAiChat))
            .model("x", Model::new("t", "m").refuses(["temperature", "top_p"]))
            .unwrap()
    };
    for (caller, path) in [
        (Dialect::OpenAiChat, "/v1/chat/completions"),
        (Dialect::Anthropic, "/v1/messages"),
    ] {
        for required in [false, true] {
            let mut ask = request(caller, false);
            assert_eq!(ask.uri().path(), path);
            let body = r#"{"model":"x","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"temperature":0.5}"#;
            *ask.body_mut() = Full::from(body);
            let fields = if required { &["temperature"][..] } else { &[] };
            let call = Call::open(CallSettings::new().require(fields.iter().copied()));
            ask.extensions_mut().insert(call.clone());
            let (service, asked) = target(Says::json(200, answer));
            let stack = ServiceBuilder::new()
                .layer(catalog().layer())
                .layer(PeekLayer::new())
                .service(service);
            let answered = stack.oneshot(ask).await;
            let asked = asked.lock().unwrap().take();
            if required {
                let error = answered.map(drop).unwrap_err();
                assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::Unable));
                assert!(
                    error.to_string().contains("temperature is required"),
                    "{error}"
                );
                assert!(asked.is_none());
            } else {
                let answer = answered.unwrap();
                assert_eq!(answer.headers()["x-llm-lost"], "temperature");
                assert_eq!(
                    call.ledger().entries[0].lost.as_deref(),
                    Some("temperature")
                );
                assert_eq!(asked.unwrap().body().get("temperature"), None);
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_read_may_be_judged_by_a_target_of_its_own_dialect() {
    let mut ask = request(Dialect::OpenAiChat, false);
    let body = r#"{"messages":[{"role":"new","content":"Hi"}]}"#;
    *ask.body_mut() = Full::from(body);
    let (service, _) = target(Says::json(200, "{}"));
    let stack = ServiceBuilder::new()
        .layer(providers(Dialect::Anthropic))
        .layer(PeekLayer::new())
        .service(service);
    let error = stack.oneshot(ask).await.map(drop).unwrap_err();
    let outcome = llm_call::Outcome::of_error(&*error);
    assert_eq!(outcome.kind, Kind::InvalidRequest);
    assert!(outcome.verdict.fail_over);
}
