//! Two chaos providers, the stack before them, and a caller that believes nothing.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy, rt::TokioExecutor};
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool, Settings};
use llm_call::{
    BoxError, Call, CallSettings, IdentifyLayer, PeekLayer, RespondLayer, client, reqwest::Reqwest,
};
use llm_chaos::{ChaosProvider, Script};
use llm_failover::{FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use serde_json::{Value, json};
use tower::{Layer, ServiceBuilder, ServiceExt};

/// The tokens of a whole answer.
pub(crate) const TOKENS: usize = 60;

/// The HTTP client at the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// hyper-util, HTTP/1.1.
    Hyper,
    /// hyper-util, HTTP/2 with prior knowledge.
    Hyper2,
    /// reqwest, HTTP/1.1.
    Reqwest,
    /// reqwest, HTTP/2 with prior knowledge.
    Reqwest2,
}

impl Client {
    pub(crate) const ALL: [Client; 4] = [
        Client::Hyper,
        Client::Hyper2,
        Client::Reqwest,
        Client::Reqwest2,
    ];
}

/// A primary and a secondary.
pub(crate) struct Pair {
    pub(crate) primary: ChaosProvider,
    pub(crate) secondary: ChaosProvider,
}

impl Pair {
    pub(crate) async fn start(primary: &Script, secondary: &Script) -> Pair {
        let start = |name: &str, script: &Script| {
            let provider = ChaosProvider::builder().name(name).script(script.clone());
            provider.start()
        };
        Pair {
            primary: start("primary", primary).await.unwrap(),
            secondary: start("secondary", secondary).await.unwrap(),
        }
    }
}

/// What the caller has in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The whole answer, from this provider.
    Whole(String),
    /// As [`Got::Whole`], with an event that cannot be read among the others, as the provider sent
    /// it.
    Marred(String),
    /// An answer that says that it stops early, as a content filter does.
    Stopped,
    /// An error that says so, after this many tokens.
    Failed(String, usize),
    /// Neither: what no caller should ever get.
    Worse(String),
}

/// A stack with the call that went through it.
pub(crate) struct Asked {
    pub(crate) got: Got,
    pub(crate) call: Call,
    pub(crate) breakers: Breakers,
    pub(crate) bulkheads: [Bulkhead; 2],
    /// Kept, since a client that is dropped closes all of its connections.
    pub(crate) _stack: llm_call::Client,
}

/// Sends one request through a new stack and reads the answer to its end.
pub(crate) async fn ask(pair: &Pair, client: Client, path: &str, streamed: bool) -> Asked {
    match client {
        Client::Hyper | Client::Hyper2 => {
            let http = legacy::Client::builder(TokioExecutor::new())
                .http2_only(client == Client::Hyper2)
                .retry_canceled_requests(false)
                .build_http::<Full<Bytes>>();
            ask_by(pair, http, path, streamed).await
        }
        Client::Reqwest | Client::Reqwest2 => {
            let builder = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .no_proxy();
            let builder = if client == Client::Reqwest2 {
                builder.http2_prior_knowledge()
            } else {
                builder
            };
            ask_by(pair, Reqwest::new(builder.build().unwrap()), path, streamed).await
        }
    }
}

async fn ask_by<S, B>(pair: &Pair, http: S, path: &str, streamed: bool) -> Asked
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>>,
    S: Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let ms = Duration::from_millis;
    let provider =
        |provider: &ChaosProvider| Provider::new(&format!("http://{}", provider.addr())).unwrap();
    let breakers = Breakers::new();
    // One permit each: whatever holds one too long makes the call wait for ever.
    let one = || Pool::new(1);
    let bulkheads = [Settings::new(one()), Settings::each(one())].map(|set| set.build().unwrap());
    let stack = ServiceBuilder::new()
        .layer(IdentifyLayer::new())
        .layer(DeadlineLayer::new(ms(4000)))
        .layer(BulkheadLayer::new(bulkheads[0].clone()))
        .layer(HedgeLayer::new(Hedges::new()))
        .layer(FailoverLayer::new(
            Targets::ordered(["primary", "secondary"]).unwrap(),
        ))
        .layer(RetryLayer::new(RetryBudget::new()).least_attempt(ms(200)))
        .layer(BreakerLayer::new(breakers.clone()))
        .layer(BulkheadLayer::new(bulkheads[1].clone()).by_target())
        .layer(
            TimeoutLayer::new()
                .first_token(ms(1000))
                .answer(ms(1500))
                .idle(ms(1000))
                .stall(ms(1500))
                .stream(ms(4000)),
        )
        .layer(
            ProviderLayer::new()
                .provider("primary", provider(&pair.primary))
                .provider("secondary", provider(&pair.secondary)),
        )
        .layer(PeekLayer::new().error_wait(ms(500)))
        .service(http);
    let call = Call::open(CallSettings::new());
    let body = json!({
        "model": "chaos-1",
        "stream": streamed,
        "max_tokens": 100,
        "input": "Is anybody there?",
        "messages": [{ "role": "user", "content": "Is anybody there?" }],
    });
    let request = Request::post(path)
        .extension(call.clone())
        .header("content-type", "application/json")
        .body(Full::from(body.to_string()))
        .unwrap();
    let stack = client(stack);
    let service = RespondLayer::new().layer(stack.clone());
    let answer = service.oneshot(request).await;
    let answer = answer.unwrap_or_else(|never| match never {});
    Asked {
        got: read(answer, streamed).await,
        call,
        breakers,
        bulkheads,
        _stack: stack,
    }
}

async fn read<B>(answer: Response<B>, streamed: bool) -> Got
where
    B: http_body::Body<Data = Bytes, Error = BoxError>,
{
    let (parts, body) = answer.into_parts();
    let mut body = Box::pin(body);
    let mut bytes = Vec::new();
    let mut broken = None;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(error) => broken = Some(llm_call::Kind::of(&*error).to_string()),
        }
    }
    drop(body);
    let text = String::from_utf8_lossy(&bytes);
    if !parts.status.is_success() {
        let error: Option<Value> = serde_json::from_str(&text).ok();
        let says_so = error.is_some_and(|error| !error["error"].is_null());
        return if says_so || parts.headers.get("x-chaos-provider").is_some() {
            Got::Failed(parts.status.as_u16().to_string(), 0)
        } else {
            Got::Worse(format!("{} without a word: {text:.200}", parts.status))
        };
    }
    let mut seen = Seen::default();
    if streamed && text.contains("data: ") {
        text.lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]")
            .for_each(|data| seen.event(data));
    } else {
        seen.event(&text);
    }
    let words: Vec<_> = seen.content.split_whitespace().collect();
    let in_order = (1..)
        .zip(&words)
        .all(|(n, word)| **word == format!("token{n}"));
    if let Some(error) = seen.error.or(broken) {
        // What came before the error is still a beginning of the answer.
        return if in_order {
            Got::Failed(error, words.len())
        } else {
            Got::Worse(format!("{error} after {words:?}"))
        };
    }
    let server = parts.headers.get("x-chaos-provider");
    match seen.finish.as_deref() {
        Some("content_filter" | "refusal") if in_order => Got::Stopped,
        Some("stop" | "end_turn" | "completed") if in_order && words.len() == TOKENS => {
            let server = server.map_or("", |name| name.to_str().unwrap()).to_owned();
            match seen.malformed {
                None => Got::Whole(server),
                Some(_) => Got::Marred(server),
            }
        }
        finish => Got::Worse(format!(
            "{} tokens, in order: {in_order}, finish: {finish:?}, malformed: {:?}, {:?}",
            words.len(),
            seen.malformed,
            text.chars().take(300).collect::<String>()
        )),
    }
}

/// What an answer says, in any of the three dialects, whole or in events.
#[derive(Default)]
struct Seen {
    content: String,
    finish: Option<String>,
    error: Option<String>,
    malformed: Option<String>,
}

impl Seen {
    fn event(&mut self, data: &str) {
        let Ok(json) = serde_json::from_str::<Value>(data) else {
            self.malformed
                .get_or_insert(data.chars().take(80).collect());
            return;
        };
        for error in [&json["error"], &json["response"]["error"]] {
            if !error.is_null() {
                self.error = Some(format!("error event {}", error["type"]));
            }
        }
        if json["type"] == "error" {
            self.error.get_or_insert("error event".to_owned());
        }
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        // Chat completions.
        let choice = &json["choices"][0];
        self.content += &text(&choice["delta"]["content"]);
        self.content += &text(&choice["message"]["content"]);
        let mut finishes = vec![&choice["finish_reason"]];
        // Messages.
        self.content += &text(&json["delta"]["text"]);
        if json["type"] == "message" {
            self.content += &text(&json["content"][0]["text"]);
            finishes.push(&json["stop_reason"]);
        }
        finishes.push(&json["delta"]["stop_reason"]);
        // Responses.
        if json["type"] == "response.output_text.delta" {
            self.content += &text(&json["delta"]);
        }
        if json["object"] == "response" {
            self.content += &text(&json["output"][0]["content"][0]["text"]);
            finishes.push(&json["incomplete_details"]["reason"]);
            finishes.push(&json["status"]);
        }
        let ended = json["type"].as_str().is_some_and(|name| {
            matches!(
                name,
                "response.completed" | "response.incomplete" | "response.failed"
            )
        });
        if ended {
            finishes.push(&json["response"]["incomplete_details"]["reason"]);
            finishes.push(&json["response"]["status"]);
        }
        let finish = finishes.into_iter().find_map(Value::as_str);
        if let (Some(finish), None) = (finish, &self.finish) {
            self.finish = Some(finish.to_owned());
        }
    }
}
