//! The service on a port, before a provider on another.

use std::{ffi::OsString, net::SocketAddr};

use llm_chaos::{ChaosProvider, Count, Fault, Phase, Script};
use reqwest::{RequestBuilder, StatusCode};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{settings::Settings, stack};

const BODY: &str = r#"{"model":"asked", "messages":[{"role":"user","content":"Count."}], "stream":true, "a_field_nobody_knows":{"x": 1.50}}"#;

/// A running service, stopped when dropped.
struct Service {
    addr: SocketAddr,
    serving: JoinHandle<()>,
}

impl Service {
    async fn start(targets: &[String]) -> Service {
        let args = targets.iter().flat_map(|target| ["--target", target]);
        let settings = Settings::from_args(args.map(OsString::from))
            .unwrap()
            .unwrap();
        let app = stack::router(&settings).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a server runs beside its test")]
        let serving = tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Service { addr, serving }
    }

    fn post(&self, path: &str) -> RequestBuilder {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client
            .post(format!("http://{}{path}", self.addr))
            .header("authorization", "Bearer sk-the-callers-own")
            .header("content-type", "application/json")
            .body(BODY)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn provider(name: &str, fault: Option<Phase>) -> ChaosProvider {
    let script = fault.into_iter().fold(Script::default(), Script::with);
    let provider = ChaosProvider::builder().name(name).keep_bodies(true);
    provider.script(script).start().await.unwrap()
}

#[tokio::test]
async fn a_stream_comes_whole_and_the_provider_sees_the_callers_bytes_and_key() {
    let a = provider("a", None).await;
    let service = Service::start(&[format!("a={}", a.base_url())]).await;
    let answer = service.post("/v1/chat/completions").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(
        answer.headers()["content-type"],
        "text/event-stream; charset=utf-8"
    );
    assert_eq!(answer.headers()["x-llm-provider"], "a");
    let text = answer.text().await.unwrap();
    assert!(text.trim_end().ends_with("data: [DONE]"), "{text}");
    let seen = &a.log()[0];
    assert_eq!(seen.body.as_deref(), Some(BODY));
    let key = seen.authorization.as_deref();
    assert_eq!(key, Some("Bearer sk-the-callers-own"));
}

#[tokio::test]
async fn tokens_come_while_the_provider_still_writes() {
    let stall = Phase {
        after_tokens: Some(Count::Constant(3)),
        ..Phase::new(Fault::Stall)
    };
    let a = provider("a", Some(stall)).await;
    let service = Service::start(&[format!("a={}", a.base_url())]).await;
    let mut answer = service.post("/v1/chat/completions").send().await.unwrap();
    let mut text = String::new();
    while !text.contains("token3") {
        let chunk = answer.chunk().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert_eq!(a.log()[0].ended_ms, None);
}

#[tokio::test]
async fn a_503_fails_over_to_the_next_target_and_its_model() {
    let a = provider("a", Some(Phase::new(Fault::Error503))).await;
    let b = provider("b", None).await;
    let targets = [
        format!("a={}", a.base_url()),
        format!("b={},model=other", b.base_url()),
    ];
    let service = Service::start(&targets).await;
    let answer = service.post("/v1/chat/completions").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["x-llm-provider"], "b");
    assert_eq!(answer.headers()["x-llm-attempts"], "4");
    assert!(answer.text().await.unwrap().contains("[DONE]"));
    assert_eq!((a.log().len(), b.log().len()), (3, 1));
    let expected = BODY.replace("asked", "other");
    assert_eq!(b.log()[0].body.as_ref(), Some(&expected));
}

#[tokio::test]
async fn an_error_names_the_targets_that_failed() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("a-that-is-down=http://{}/v1", closed.local_addr().unwrap());
    drop(closed);
    let service = Service::start(&[target]).await;
    let answer = service.post("/v1/chat/completions").send().await.unwrap();
    assert!(answer.status().is_server_error(), "{}", answer.status());
    let text = answer.text().await.unwrap();
    assert!(text.contains("a-that-is-down"), "{text}");
}

#[tokio::test]
async fn an_unknown_path_says_which_there_are() {
    let a = provider("a", None).await;
    let service = Service::start(&[format!("a={}", a.base_url())]).await;
    let answer = service.post("/chat/completions").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    assert_eq!(answer.headers()["content-type"], "application/json");
    let error: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    for word in [
        "POST /chat/completions",
        "/v1/chat/completions",
        "/v1/models",
    ] {
        assert!(message.contains(word), "{message}");
    }
    assert!(a.log().is_empty());
}

/// The service before two providers, of which the first plays `phase`.
async fn two(phase: Phase) -> (Service, ChaosProvider, ChaosProvider) {
    let (a, b) = (provider("a", Some(phase)).await, provider("b", None).await);
    let targets = [("a", &a), ("b", &b)].map(|(name, p)| format!("{name}={}", p.base_url()));
    (Service::start(&targets).await, a, b)
}

/// Who answered a request that was answered in full.
async fn answered(service: &Service) -> String {
    let answer = service.post("/v1/chat/completions").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let who = answer.headers()["x-llm-provider"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(answer.text().await.unwrap().contains("[DONE]"));
    who
}

#[tokio::test]
async fn reset_once_and_500_once_are_retried_on_the_same_target() {
    for fault in [Fault::Reset, Fault::Error500, Fault::Error503] {
        let once = Phase {
            times: Some(1),
            ..Phase::new(fault)
        };
        let (service, a, b) = two(once).await;
        assert_eq!(answered(&service).await, "a", "{fault:?}");
        assert_eq!((a.log().len(), b.log().len()), (2, 0), "{fault:?}");
    }
}

#[tokio::test]
async fn a_500_for_ever_is_retried_once_and_a_503_twice_before_the_call_goes_elsewhere() {
    for (fault, calls) in [(Fault::Error500, 2), (Fault::Error503, 3)] {
        let (service, a, b) = two(Phase::new(fault)).await;
        assert_eq!(answered(&service).await, "b", "{fault:?}");
        assert_eq!((a.log().len(), b.log().len()), (calls, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn what_cannot_get_better_is_called_once() {
    for fault in [Fault::NoResponse, Fault::ContextLength] {
        let (service, a, b) = two(Phase::new(fault)).await;
        assert_eq!(answered(&service).await, "b", "{fault:?}");
        assert_eq!((a.log().len(), b.log().len()), (1, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn a_dead_target_is_left_alone_and_every_request_is_answered() {
    let (service, a, b) = two(Phase::new(Fault::Error503)).await;
    for _ in 0..20 {
        assert_eq!(answered(&service).await, "b");
    }
    // Five failures in a row open its circuit: three calls of the first request, two of the next.
    assert_eq!((a.log().len(), b.log().len()), (5, 20));
}
