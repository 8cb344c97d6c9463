//! Callers that want to reach something else than what their provider's URL stands for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use llm_call::{Attempt, BoxError, Kind, PeekLayer, Target};
use llm_provider::{Provider, ProviderLayer};
use tower::{ServiceBuilder, ServiceExt, service_fn};

/// What came out at the bottom of a layer with one provider.
async fn sent(base: &str, request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>, BoxError> {
    let seen = Arc::new(Mutex::new(None));
    let keep = seen.clone();
    let bottom = service_fn(move |request: Request<Full<Bytes>>| {
        *keep.lock().unwrap() = Some(request);
        async { Ok::<_, BoxError>(Response::new(Full::<Bytes>::default())) }
    });
    let provider = Provider::new(base).unwrap().bearer("key").unwrap();
    let layer = ProviderLayer::new().provider("a", provider);
    let service = ServiceBuilder::new()
        .layer(layer)
        .layer(PeekLayer::new())
        .service(bottom);
    let answered = service.oneshot(request).await;
    let seen = seen.lock().unwrap().take();
    seen.ok_or_else(|| answered.map(drop).unwrap_err())
}

fn to(target: Option<Target>, method: Method, uri: &str, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = uri.parse().unwrap();
    let attempt = Attempt::new(1).with_target(target);
    request.extensions_mut().insert(attempt);
    request
}

#[tokio::test]
async fn no_path_leaves_what_the_base_url_stands_for() {
    for base in ["http://h/deployments/small", "http://h"] {
        for path in [
            "/v1/../large/chat/completions",
            "/v1/..",
            "/..",
            "/v1/chat/%2e%2E/%2e./x",
            "/v1/.%2e/x?y=1",
            "/v1/..\\large",
            "/v1\\..\\large",
            "http://other/v1/../x",
        ] {
            let request = to(None, Method::POST, path, Bytes::new());
            let error = sent(base, request).await.unwrap_err();
            assert_eq!(Kind::of(&*error), Kind::InvalidRequest, "{path}");
        }
        // These stay where they are.
        for path in [
            "/v1/a..b/...",
            "/v1/.well-known/x",
            "/v1/models/..:x",
            "/v1//x",
            "/v1/%2E",
        ] {
            let request = to(None, Method::GET, path, Bytes::new());
            let uri = sent(base, request).await.unwrap().uri().to_string();
            assert!(uri.starts_with(base), "{uri}");
        }
    }
}

#[tokio::test]
async fn a_request_that_has_no_path_goes_nowhere() {
    for (method, uri) in [
        (Method::OPTIONS, "*"),
        (Method::CONNECT, "other:443"),
        (Method::CONNECT, "other"),
    ] {
        for base in ["http://h/v1", "http://h"] {
            let request = to(None, method.clone(), uri, Bytes::new());
            let error = sent(base, request).await.unwrap_err();
            assert_eq!(Kind::of(&*error), Kind::InvalidRequest, "{method} {uri}");
        }
    }
    // A URL without one has the path `/`.
    let request = to(None, Method::GET, "http://other?x=1", Bytes::new());
    let uri = sent("http://h/v1", request).await.unwrap().uri().clone();
    assert_eq!(uri, "http://h/v1/?x=1");
}

#[tokio::test]
async fn no_model_breaks_out_of_where_it_stands() {
    for model in [
        "..",
        "../..",
        "a/../../b",
        "..%2f",
        "?x=1",
        "#x",
        "a\tb",
        "b:generateContent?key=1",
        "\"},{\"x\":\"",
        "//evil.test/x",
    ] {
        let Ok(target) = Target::new("a", Some(model), None) else {
            assert_eq!(model, "//evil.test/x");
            continue;
        };
        let path = "/v1beta/models/asked:generateContent?alt=sse";
        let request = to(Some(target.clone()), Method::POST, path, Bytes::from("{}"));
        let uri = sent("http://h/base", request).await.unwrap().uri().clone();
        let segments: Vec<_> = uri.path().split('/').collect();
        assert_eq!(&segments[..3], ["", "base", "models"], "{uri}");
        assert_eq!((segments.len(), uri.query()), (4, Some("alt=sse")), "{uri}");
        assert!(segments[3].ends_with(":generateContent"), "{uri}");

        let body = Bytes::from(r#"{"model":"asked","x":1}"#);
        let request = to(Some(target), Method::POST, "/v1/messages", body);
        let body = sent("http://h", request).await.unwrap().into_body();
        let body = body.collect().await.unwrap().to_bytes();
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(read, serde_json::json!({ "model": model, "x": 1 }));
    }
    for smuggled in ["a\r\nx-evil: 1", "a\nb", "a\0"] {
        assert!(Target::new("a", Some(smuggled), None).is_err());
        assert!(Target::new(smuggled, None, None).is_err());
    }
}

#[tokio::test]
async fn what_is_too_long_for_a_url_is_an_error() {
    let huge = "m".repeat(1 << 17);
    let target = Target::new("a", Some(&huge), None).unwrap();
    let path = "/v1beta/models/asked:generateContent";
    let request = to(Some(target), Method::POST, path, Bytes::new());
    let error = sent("http://h/base", request).await.unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::InvalidRequest);

    let long = "x".repeat(65_020);
    let path: Uri = format!("/{long}?{}", &long[..500]).parse().unwrap();
    let request = to(None, Method::GET, &path.to_string(), Bytes::new());
    let error = sent("http://h/a-base-that-is-too-much", request).await;
    assert_eq!(Kind::of(&*error.unwrap_err()), Kind::InvalidRequest);
}

#[tokio::test]
async fn thirty_megabytes_are_rewritten_in_one_pass() {
    let prompt = "x".repeat(30 << 20);
    let body = Bytes::from(format!(r#"{{"prompt":"{prompt}","model":"asked"}}"#));
    let target = Target::new("a", Some("other"), None).unwrap();
    let request = to(Some(target), Method::POST, "/v1/messages", body.clone());
    let rewritten = sent("http://h", request).await.unwrap().into_body();
    let rewritten = rewritten.collect().await.unwrap().to_bytes();
    assert_eq!(rewritten.len(), body.len());
    assert!(rewritten.ends_with(br#"","model":"other"}"#));
}

#[tokio::test]
async fn a_length_that_is_not_that_of_the_body_goes_no_further() {
    let body = Bytes::from_static(b"{}GET /evil HTTP/1.1\r\n\r\n");
    for length in [2, 500] {
        let mut request = to(None, Method::POST, "/v1/messages", body.clone());
        let headers = request.headers_mut();
        headers.insert("content-length", length.into());
        headers.insert("transfer-encoding", "chunked".parse().unwrap());
        let sent = sent("http://h", request).await.unwrap();
        assert!(!sent.headers().contains_key("content-length"));
        assert!(!sent.headers().contains_key("transfer-encoding"));
        let sent = sent.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(sent, body);
    }
}
