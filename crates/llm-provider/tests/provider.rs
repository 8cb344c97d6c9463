//! What a provider gets to see, and what nobody does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use llm_call::{Attempt, BoxError, Dialect, Kind, PeekLayer};
use llm_chaos::testing::{BodyStep, Respond, Strict, drop_fuzz, service};
use llm_provider::{InvalidProvider, Provider, ProviderLayer};
use tower::{ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};

const BODY: &str = "{\"model\":\"asked\",\"messages\":[],\"unknown\":{\"x\": 1}}";

fn request(target: Option<&str>) -> Request<Full<Bytes>> {
    let mut request = Request::post("/v1/chat/completions?trace=1")
        .header("authorization", "Bearer callers")
        .header("x-api-key", "callers-too")
        .header("host", "gateway")
        .header("connection", "x-drop-me, keep-alive")
        .header("x-drop-me", "1")
        .header("keep-alive", "timeout=5")
        .header("accept-encoding", "gzip, br")
        .header("x-keep-me", "1")
        .header("cookie", "callers=3")
        .header("expect", "100-continue")
        .header("content-length", BODY.len())
        .body(Full::from(BODY))
        .unwrap();
    if let Some(target) = target {
        let target = Some(target.parse().unwrap());
        let attempt = Attempt::new(1).with_target(target);
        request.extensions_mut().insert(attempt);
    }
    request
}

/// Sends through the layer; what came out at the bottom.
async fn sent(
    layer: ProviderLayer,
    request: Request<Full<Bytes>>,
) -> Result<(http::request::Parts, String), BoxError> {
    let seen = Arc::new(Mutex::new(None));
    let keep = seen.clone();
    let bottom = service_fn(move |request: Request<Full<Bytes>>| {
        *keep.lock().unwrap() = Some(request);
        async { Ok::<_, BoxError>(Response::new(Full::<Bytes>::default())) }
    });
    let service = ServiceBuilder::new()
        .layer(layer)
        .layer(PeekLayer::new())
        .service(bottom);
    let answered = service.oneshot(request).await;
    let seen = seen.lock().unwrap().take();
    let Some(seen) = seen else {
        return Err(answered.map(drop).unwrap_err());
    };
    let (parts, body) = seen.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Ok((parts, String::from_utf8(body.to_vec()).unwrap()))
}

fn two() -> ProviderLayer {
    let a = Provider::new("http://a.test/v1")
        .unwrap()
        .bearer("key-of-a")
        .unwrap();
    let b = Provider::new("https://b.test:8443/openai")
        .unwrap()
        .key_header("api-key", "key-of-b")
        .unwrap()
        .query("api-version=1")
        .unwrap()
        .header("x-keep-me", "2")
        .unwrap()
        .dialect(Dialect::OpenAiChat)
        .decompressed_below();
    ProviderLayer::new().provider("a", a).provider("b", b)
}

#[tokio::test]
async fn a_target_becomes_a_url_a_key_and_a_model() {
    let (parts, body) = sent(two(), request(Some("a:other"))).await.unwrap();
    assert_eq!(parts.uri, "http://a.test/v1/chat/completions?trace=1");
    assert_eq!(parts.headers["authorization"], "Bearer key-of-a");
    assert_eq!(parts.headers["accept-encoding"], "identity");
    assert_eq!(parts.headers["x-keep-me"], "1");
    for gone in [
        "x-api-key",
        "cookie",
        "expect",
        "host",
        "connection",
        "x-drop-me",
        "keep-alive",
    ] {
        assert!(!parts.headers.contains_key(gone), "{gone}");
    }
    // The client writes that of the body.
    assert!(!parts.headers.contains_key("content-length"));
    assert_eq!(body, BODY.replace("asked", "other"));
    let attempt = parts.extensions.get::<Attempt>().unwrap();
    assert_eq!(attempt.dialect, Some(Dialect::OpenAiChat));

    let (parts, body) = sent(two(), request(Some("b"))).await.unwrap();
    assert_eq!(
        parts.uri,
        "https://b.test:8443/openai/chat/completions?api-version=1&trace=1"
    );
    assert_eq!(parts.headers["api-key"], "key-of-b");
    assert!(!parts.headers.contains_key("authorization"));
    assert!(!parts.headers.contains_key("accept-encoding"));
    assert_eq!(parts.headers["x-keep-me"], "2");
    // No model of its own: the caller's stays, to the byte.
    assert_eq!(body, BODY);
    assert!(!parts.headers.contains_key("content-length"));
}

#[tokio::test]
async fn a_gemini_model_is_named_in_the_path_and_not_in_the_body_too() {
    let body = r#"{"contents":[]}"#;
    let mut request = request(Some("a:other"));
    *request.uri_mut() = "/v1beta/models/asked:streamGenerateContent?alt=sse&key=callers"
        .parse()
        .unwrap();
    *request.body_mut() = Full::from(body);
    let (parts, sent) = sent(two(), request).await.unwrap();
    assert_eq!(
        parts.uri,
        "http://a.test/v1/models/other:streamGenerateContent?alt=sse"
    );
    assert_eq!(sent, body);
}

#[tokio::test]
async fn the_callers_key_goes_through_or_not_at_all() {
    let provider = || Provider::new("http://a.test").unwrap();
    let pass = ProviderLayer::new().provider("a", provider());
    let (parts, _) = sent(pass, request(Some("a"))).await.unwrap();
    assert_eq!(parts.uri, "http://a.test/v1/chat/completions?trace=1");
    assert_eq!(parts.headers["authorization"], "Bearer callers");
    assert_eq!(parts.headers["x-api-key"], "callers-too");
    assert_eq!(parts.headers["cookie"], "callers=3");

    let none = ProviderLayer::new().provider("a", provider().no_auth());
    let (parts, _) = sent(none, request(None)).await.unwrap();
    assert!(!parts.headers.contains_key("authorization"));
    assert!(!parts.headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn an_unknown_provider_is_an_error_that_says_what_to_do() {
    for target in [Some("c:m"), None] {
        let error = sent(two(), request(target)).await.map(drop).unwrap_err();
        assert_eq!(Kind::of(&*error), Kind::NotFound);
        let source = error.source().unwrap().to_string();
        let advice = match target {
            Some(_) => "ProviderLayer::provider",
            None => "IdentifyLayer::provider",
        };
        assert!(source.contains(advice), "{source}");
        assert!(!source.contains("key-of"), "{source}");
    }
}

#[test]
fn secrets_never_show() {
    let c = Provider::new("http://c.test")
        .unwrap()
        .header("x-secret", "key-of-c")
        .unwrap();
    let layer = two().provider("c", c);
    let service = ServiceBuilder::new().layer(layer.clone()).service(());
    let shown = format!("{layer:?} {service:?}");
    assert!(!shown.contains("key-of"), "{shown}");
    assert!(shown.contains("http://a.test/v1"), "{shown}");
    let provider = Provider::new("http://a.test").unwrap();
    let Err(error) = provider.bearer("key\nof") else {
        panic!("a key with a line break was taken")
    };
    assert!(!format!("{error} {error:?}").contains("key\n"), "{error:?}");
}

#[test]
fn a_base_url_that_cannot_work_is_refused() {
    for url in [
        "",
        "api.openai.com/v1",
        "/v1",
        "ftp://a.test",
        "http://",
        "http://u:p@a.test",
        "http://a.test/v1?x=1",
        "http://a.test/v1#x",
        "http://a test",
        "http://a.test:99999/v1",
        "http://a.test/v1/chat/completions",
    ] {
        let error = Provider::new(url).map(drop).unwrap_err();
        assert!(matches!(error, InvalidProvider::Url(_)), "{url}");
        assert!(error.to_string().contains("https://api.openai.com/v1"));
    }
    let provider = || Provider::new("http://a.test").unwrap();
    assert_eq!(
        provider().bearer("").unwrap_err(),
        InvalidProvider::EmptyKey
    );
    assert!(provider().key_header("api-key", "").is_err());
    assert!(provider().header("host", "x").is_err());
    assert!(provider().header("a b", "x").is_err());
    assert!(provider().key_header("a b", "x").is_err());
    assert!(provider().query("a b").is_err());
    assert!(provider().query("a#b").is_err());
}

#[tokio::test(start_paused = true)]
async fn c03_the_contract_holds_and_a_drop_leaves_nothing() {
    let inner = service([Respond::ok([BodyStep::data("{}")])
        .header("content-type", "application/json")
        .after(std::time::Duration::from_secs(1))]);
    let gauges = inner.gauges();
    let stack = ServiceBuilder::new()
        .layer(two())
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(PeekLayer::new())
        .service(Strict::new(inner));
    drop_fuzz(
        || stack.clone().oneshot(request(Some("a"))),
        |polls| assert_eq!(gauges.live(), 0, "after {polls} polls"),
    )
    .await;
}

#[tokio::test]
async fn f09_what_is_sent_follows_from_the_request_and_its_target_alone() {
    let layer = two();
    let mut first = Vec::new();
    for round in 0..3 {
        for target in ["a:m", "b:m", "b:other:streaming"] {
            let (parts, body) = sent(layer.clone(), request(Some(target))).await.unwrap();
            let seen = (parts.method, parts.uri, parts.headers, body);
            if round == 0 {
                first.push((target, seen));
            } else {
                assert!(first.contains(&(target, seen)), "{target}");
            }
        }
    }
}

#[tokio::test]
async fn whether_a_drop_stops_the_bill_is_told_with_a_target_and_without() {
    for target in [Some("a:m"), None] {
        for stops in [true, false] {
            let a = Provider::new("http://a.test/v1").unwrap();
            let only = ProviderLayer::new().provider("a", a.drop_stops_bill(stops));
            let (parts, _) = sent(only, request(target)).await.unwrap();
            let attempt = parts.extensions.get::<Attempt>();
            assert_eq!(
                attempt.is_some_and(|attempt| attempt.drop_stops_bill),
                stops
            );
        }
    }
}
