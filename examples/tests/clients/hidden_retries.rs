//! What HTTP clients and SDKs send again on their own, counted at the server: the figures of
//! `docs/clients.md`, with and without the setting that stops it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_openai::{
    config::OpenAIConfig,
    middleware::ReqwestService,
    types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs},
};
use axum::{Router, response::Redirect, routing::post};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy, rt::TokioExecutor};
use llm_call::reqwest::Reqwest;
use llm_chaos::{ChaosProvider, Fault, Phase, Script};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tower::ServiceExt;

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"Hi."}]}"#;

async fn failing(fault: Fault) -> ChaosProvider {
    let script = Script::default().with(Phase::new(fault));
    ChaosProvider::builder()
        .script(script)
        .start()
        .await
        .unwrap()
}

// async-openai

/// Requests that one failing call of async-openai makes.
async fn sent_by(
    make: impl FnOnce(async_openai::Client<OpenAIConfig>) -> async_openai::Client<OpenAIConfig>,
) -> usize {
    let provider = failing(Fault::Error503).await;
    let config = OpenAIConfig::new()
        .with_api_base(provider.base_url())
        .with_api_key("k");
    let openai = make(async_openai::Client::with_config(config));
    let question = CreateChatCompletionRequestArgs::default()
        .model("m")
        .messages([ChatCompletionRequestUserMessage::from("Hi.").into()])
        .build();
    openai.chat().create(question.unwrap()).await.unwrap_err();
    provider.log().len()
}

#[tokio::test]
async fn async_openai_sends_four_times_also_over_a_client_of_ones_own() {
    assert_eq!(sent_by(|openai| openai).await, 4);
    assert_eq!(
        sent_by(|openai| openai.with_http_client(reqwest::Client::new())).await,
        4
    );
}

#[tokio::test]
async fn async_openai_sends_once_over_a_service_of_ones_own() {
    let once = ReqwestService::new(reqwest::Client::new());
    assert_eq!(sent_by(|openai| openai.with_http_service(once)).await, 1);
}

// reqwest

/// An HTTP/2 server that refuses every stream and counts them.
struct Refusing {
    url: String,
    streams: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Refusing {
    async fn start() -> Refusing {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/v1/chat/completions",
            listener.local_addr().unwrap()
        );
        let streams = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&streams);
        #[expect(clippy::disallowed_methods, reason = "a server runs beside its test")]
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let count = Arc::clone(&count);
                connections.spawn(async move {
                    let mut connection = h2::server::handshake(socket).await.unwrap();
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        count.fetch_add(1, Ordering::Relaxed);
                        respond.send_reset(h2::Reason::REFUSED_STREAM);
                    }
                });
            }
        });
        Refusing {
            url,
            streams,
            serving,
        }
    }

    fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn http2() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .http2_prior_knowledge()
}

#[tokio::test]
async fn reqwest_sends_a_refused_stream_three_times() {
    let server = Refusing::start().await;
    let http = http2().build().unwrap();
    http.post(&server.url).body(BODY).send().await.unwrap_err();
    assert_eq!(server.streams(), 3);
}

#[tokio::test]
async fn reqwest_without_retries_sends_a_refused_stream_once() {
    let server = Refusing::start().await;
    let http = http2().retry(reqwest::retry::never()).build().unwrap();
    http.post(&server.url).body(BODY).send().await.unwrap_err();
    assert_eq!(server.streams(), 1);
}

/// reqwest cannot copy the body that a stack hands down, so here it repeats nothing that has one.
#[tokio::test]
async fn below_a_stack_reqwest_sends_a_refused_stream_once() {
    let server = Refusing::start().await;
    let http = Reqwest::new(http2().build().unwrap());
    let request = Request::post(&server.url)
        .body(Full::<Bytes>::from(BODY))
        .unwrap();
    http.oneshot(request).await.unwrap_err();
    assert_eq!(server.streams(), 1);
}

/// What the target of a redirect got: the methods of its requests.
async fn redirected(
    redirect: fn(&str) -> Redirect,
    builder: reqwest::ClientBuilder,
) -> Vec<String> {
    let provider = ChaosProvider::start().await.unwrap();
    let to = format!("{}/chat/completions", provider.base_url());
    let app = Router::new().route("/", post(async move || redirect(&to)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "a server runs beside its test")]
    let serving = tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    let http = builder.no_proxy().build().unwrap();
    http.post(url).body(BODY).send().await.unwrap();
    serving.abort();
    provider.log().into_iter().map(|seen| seen.method).collect()
}

#[tokio::test]
async fn reqwest_follows_redirects_and_makes_a_get_of_a_303() {
    let default = reqwest::Client::builder;
    assert_eq!(redirected(Redirect::temporary, default()).await, ["POST"]);
    assert_eq!(redirected(Redirect::to, default()).await, ["GET"]);
}

#[tokio::test]
async fn reqwest_without_redirects_goes_nowhere_else() {
    let builder = || reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let nowhere: [&str; 0] = [];
    assert_eq!(redirected(Redirect::temporary, builder()).await, nowhere);
    assert_eq!(redirected(Redirect::to, builder()).await, nowhere);
}

// hyper-util

/// `retry_canceled_requests` is about what a dying connection never took. What the server has seen
/// is not sent again, with it or without.
#[tokio::test]
async fn hyper_util_sends_what_the_server_has_seen_once() {
    for retry in [true, false] {
        let reset = Phase {
            skip: 1,
            ..Phase::new(Fault::Reset)
        };
        let provider = ChaosProvider::builder().script(Script::default().with(reset));
        let provider = provider.start().await.unwrap();
        let http = legacy::Client::builder(TokioExecutor::new())
            .retry_canceled_requests(retry)
            .build_http::<Full<Bytes>>();
        let request = || {
            Request::post(format!("{}/chat/completions", provider.base_url()))
                .body(Full::from(BODY))
                .unwrap()
        };
        let first = http.request(request()).await.unwrap();
        first.into_body().collect().await.unwrap();
        // Until the connection is back in the pool.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        http.request(request()).await.unwrap_err();
        let log = provider.log();
        assert_eq!(log.len(), 2, "retry: {retry}");
        assert_eq!(
            log[0].connection, log[1].connection,
            "the connection was not reused"
        );
    }
}
