//! reqwest below a stack, and at both its ends.
#![cfg(feature = "reqwest")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the helpers of a test fail the test, and serve in tasks"
)]

use axum::{Router, body::Body, extract::Request, routing::post};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use llm_call::{
    BoxError, Call, CallSettings, Ending, IdentifyLayer, Kind, PeekLayer,
    reqwest::{Over, Reqwest},
};
use tokio::net::TcpListener;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A provider with a good stream, a cut one, and one that sends the request back as JSON.
async fn provider() -> String {
    let events = |events: Vec<Result<&'static str, &'static str>>| {
        http::Response::builder()
            .header("content-type", "text/event-stream")
            .body(Body::from_stream(stream::iter(events).then(
                async |event| {
                    // Pending in between, so that the server writes what it has.
                    tokio::task::yield_now().await;
                    event
                },
            )))
            .unwrap()
    };
    let router = Router::new()
        .route(
            "/good/completions",
            post(async move || events(vec![Ok(TOKEN), Ok(END)])),
        )
        .route(
            "/cut/completions",
            post(async move || events(vec![Ok(TOKEN), Err("gone")])),
        )
        .route(
            "/echo",
            post(async |request: Request| {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let length = parts.headers["content-length"].to_str().unwrap().to_owned();
                let own = parts.headers["x-own"].to_str().unwrap().to_owned();
                let echo = serde_json::json!({
                    "body": str::from_utf8(&body).unwrap(), "length": length, "own": own,
                });
                http::Response::builder()
                    .header("content-type", "application/json")
                    .body(Body::from(echo.to_string()))
                    .unwrap()
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

#[tokio::test]
async fn peek_works_over_reqwests_body() {
    let host = provider().await;
    let stack = PeekLayer::new().layer(Reqwest::default());
    let ask = async |path: &str| {
        let request = http::Request::post(format!("{host}{path}"))
            .body(Full::new(Bytes::from("{}")))
            .unwrap();
        let response = stack.clone().oneshot(request).await.unwrap();
        response.into_body().collect().await
    };
    let body = ask("/good/completions").await.unwrap().to_bytes();
    assert_eq!(body, format!("{TOKEN}{END}"));
    let error = ask("/cut/completions").await.unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::Interrupted);
}

#[tokio::test]
async fn a_request_without_a_host_is_an_error() {
    let request = http::Request::post("/x")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let error = Reqwest::default().oneshot(request).await.unwrap_err();
    assert!(error.is_builder(), "{error:?}");
}

fn stack() -> Over<
    impl Service<
        http::Request<reqwest::Body>,
        Response = http::Response<
            impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
        >,
        Error = BoxError,
        Future = impl Future + Send,
    > + Clone,
> {
    Over::new(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(PeekLayer::new())
            .service(Reqwest::default()),
    )
}

#[tokio::test]
async fn reqwests_own_types_stand_at_both_ends() {
    let host = provider().await;
    let http = reqwest::Client::new();
    let request = http
        .post(format!("{host}/echo?q=1"))
        .header("x-own", "kept")
        .body(r#"{"model":"m"}"#)
        .build()
        .unwrap();
    let response = stack().execute(request).await.unwrap();
    assert_eq!(response.url().as_str(), format!("{host}/echo?q=1"));
    assert_eq!(response.headers()["x-llm-model"], "m");
    let echo: serde_json::Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(
        echo,
        serde_json::json!({ "body": r#"{"model":"m"}"#, "length": "13", "own": "kept" })
    );
}

#[tokio::test]
async fn a_cut_stream_is_an_error_of_the_response() {
    let host = provider().await;
    let call = Call::open(CallSettings::new());
    let mut request = http::Request::post(format!("{host}/cut/completions"))
        .body(reqwest::Body::from("{}"))
        .unwrap();
    request.extensions_mut().insert(call.clone());
    // A call of the caller's own travels in the extensions of reqwest's request.
    let request = reqwest::Request::try_from(request).unwrap();
    let mut response = stack().execute(request).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), TOKEN);
    let error = response.chunk().await.unwrap_err();
    assert_eq!(Kind::of(&error), Kind::Interrupted);
    let (ending, _) = call.ledger().ended.unwrap();
    assert!(matches!(ending, Ending::Failed(_)), "{ending:?}");
}

#[test]
fn the_futures_can_be_sent() {
    fn is_send<T: Send>(_: T) {}
    let request = reqwest::Client::new().post("http://h/").build().unwrap();
    let stack = stack();
    is_send(stack.clone().call(request));
}
