//! Both edges, and Peek over the bodies of hyper and axum, on real connections.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the helpers of a test fail the test, and serve in tasks"
)]

use std::{convert::Infallible, net::SocketAddr};

use axum::{Router, routing::post};
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use llm_call::{
    Answer, BoxError, Ending, IdentifyLayer, Kind, PeekLayer, RespondLayer, ResponseExt, client,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const CHAT: &str = "/v1/chat/completions";

/// A provider that answers each connection with these bytes and closes it.
async fn provider(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            read_request(&mut connection).await;
            connection.write_all(answer.as_bytes()).await.unwrap();
            connection.shutdown().await.unwrap();
        }
    });
    address
}

/// Reads a request to its end; its body has a length.
async fn read_request(connection: &mut TcpStream) {
    let mut read = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let n = connection.read(&mut buffer).await.unwrap();
        read.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert_ne!(n, 0, "the request broke off");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            return;
        }
    }
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A provider whose stream is cut in the middle of an event.
async fn cutting_provider() -> SocketAddr {
    provider(STREAM_HEAD.to_owned() + &chunk(TOKEN) + &chunk("data: {\"choi")).await
}

async fn good_provider() -> SocketAddr {
    provider(STREAM_HEAD.to_owned() + &chunk(TOKEN) + &chunk(END) + "0\r\n\r\n").await
}

type Http = Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>;

fn http() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Serves a gateway to a provider: the layers under test over hyper's client, in axum.
async fn gateway(to: SocketAddr) -> SocketAddr {
    let stack = ServiceBuilder::new()
        .layer(RespondLayer::new())
        .layer(
            IdentifyLayer::new()
                .provider("upstream")
                .unwrap()
                .max_body(1024),
        )
        .layer(PeekLayer::new())
        .map_request(move |mut request: Request<Full<Bytes>>| {
            *request.uri_mut() = format!("http://{to}{}", request.uri().path())
                .parse()
                .unwrap();
            request
        })
        .service(http());
    serve(Router::new().fallback_service(stack)).await
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn ask(address: SocketAddr, body: impl Into<String>) -> reqwest::Response {
    reqwest::Client::new()
        .post(format!("http://{address}{CHAT}"))
        .body(body.into())
        .send()
        .await
        .unwrap()
}

const ASK: &str = r#"{"model":"m","stream":true}"#;

#[tokio::test]
async fn peek_works_over_hypers_body() {
    let mut stack = PeekLayer::new().layer(http());
    let mut ask = async |address: SocketAddr| {
        let request = Request::post(format!("http://{address}{CHAT}"))
            .body(Full::new(Bytes::from(ASK)))
            .unwrap();
        stack.ready().await.unwrap().call(request).await.unwrap()
    };
    let mut body = ask(good_provider().await).await.into_body();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        text.extend_from_slice(frame.unwrap().data_ref().unwrap());
    }
    assert_eq!(String::from_utf8(text).unwrap(), format!("{TOKEN}{END}"));
    assert_eq!(body.state().ending(), Some(Ending::Complete));

    let mut body = ask(cutting_provider().await).await.into_body();
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(_) => assert!(!body.is_end_stream()),
            Err(error) => break error,
        }
    };
    assert_eq!(Kind::of(&*error), Kind::Interrupted);
}

#[tokio::test]
async fn a_gateway_hands_a_stream_on() {
    let response = ask(gateway(good_provider().await).await, ASK).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-llm-provider"], "upstream");
    assert_eq!(response.headers()["x-llm-model"], "m");
    assert_eq!(response.headers()["x-llm-attempts"], "1");
    assert_eq!(response.text().await.unwrap(), format!("{TOKEN}{END}"));
}

#[tokio::test]
async fn an_interrupted_stream_reaches_the_client_as_an_error_event() {
    let response = ask(gateway(cutting_provider().await).await, ASK).await;
    assert_eq!(response.status(), 200);
    let text = response
        .text()
        .await
        .expect("the connection is not broken off");
    let event = text.strip_prefix(TOKEN).unwrap();
    let event: serde_json::Value =
        serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(event["error"]["code"], "interrupted");
    assert!(!text.contains("[DONE]"));
}

#[tokio::test]
async fn a_known_length_does_not_cut_the_error_event_off() {
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{TOKEN}",
        TOKEN.len()
    );
    let response = ask(gateway(provider(answer).await).await, ASK).await;
    let text = response.text().await.unwrap();
    assert!(text.contains("\"code\":\"interrupted\""), "{text}");
}

#[tokio::test]
async fn failures_reach_the_client_as_answers() {
    // Nothing listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = listener.local_addr().unwrap();
    drop(listener);
    let response = ask(gateway(nowhere).await, ASK).await;
    assert_eq!(response.status(), 502);
    assert_eq!(response.headers()["x-should-retry"], "false");
    let body: serde_json::Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    assert_eq!(body["error"]["message"], "no connection to the provider");

    // A request that is too large, of a known and of an unknown length.
    let address = gateway(nowhere).await;
    let response = ask(address, "x".repeat(1025)).await;
    assert_eq!(response.status(), 413);
    let chunks = stream::iter(vec![Ok::<_, Infallible>("x".repeat(600)); 2]);
    let response = reqwest::Client::new()
        .post(format!("http://{address}/v1/messages"))
        .body(reqwest::Body::wrap_stream(chunks))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 413);
    let body: serde_json::Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    assert_eq!(body["error"]["type"], "request_too_large");

    // An error answer passes, and an error event gets its status.
    let body = "{\"error\":{\"message\":\"no\"}}";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nx-own: 1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let response = ask(gateway(provider(answer).await).await, ASK).await;
    assert_eq!(response.status(), 400);
    assert_eq!(response.headers()["x-own"], "1");
    assert_eq!(response.text().await.unwrap(), body);
    let event = "data: {\"error\":{\"message\":\"we broke\",\"type\":\"server_error\"}}\n\n";
    let answer = STREAM_HEAD.to_owned() + &chunk(event) + "0\r\n\r\n";
    let response = ask(gateway(provider(answer).await).await, ASK).await;
    assert_eq!(response.status(), 500);
    assert!(response.text().await.unwrap().contains("we broke"));
}

/// A route of axum's that streams.
async fn streaming(
    events: &'static [Result<&'static str, &'static str>],
) -> Response<axum::body::Body> {
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(axum::body::Body::new(StreamBody::new(stream::iter(
            events.iter().map(|event| match event {
                Ok(text) => Ok(http_body::Frame::data(Bytes::from(*text))),
                Err(error) => Err(BoxError::from(*error)),
            }),
        ))))
        .unwrap()
}

#[tokio::test]
async fn the_layers_stand_in_an_axum_router() {
    let router = Router::new()
        .route(
            CHAT,
            post(|| streaming(&[Ok(TOKEN), Ok("data: {"), Err("gone")])),
        )
        .route("/v1/messages", post(|| streaming(&[Err("gone")])))
        .route("/good", post(|| streaming(&[Ok(TOKEN), Ok(END)])))
        .layer(
            ServiceBuilder::new()
                .layer(RespondLayer::new())
                .layer(PeekLayer::new()),
        );
    let address = serve(router).await;
    let ask = async |path: &str| {
        let response = reqwest::Client::new()
            .post(format!("http://{address}{path}"))
            .send()
            .await
            .unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (status, text) = ask(CHAT).await;
    assert_eq!(status, 200);
    assert!(
        text.starts_with(&format!("{TOKEN}data: {{\"error\"")),
        "{text}"
    );
    let (status, text) = ask("/v1/messages").await;
    assert_eq!(status, 502);
    assert!(
        text.starts_with("{\"error\":") && text.contains("\"type\":\"error\""),
        "{text}"
    );
    assert_eq!(ask("/good").await, (200, format!("{TOKEN}{END}")));
    assert_eq!(ask("/nowhere").await.0, 404);
}

#[tokio::test]
async fn a_client_is_sent_between_tasks() {
    let address = good_provider().await;
    let llm = client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(PeekLayer::new())
            .service(http().map_err(BoxError::from)),
    );
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let llm = llm.clone();
            tokio::spawn(async move {
                let request = Request::post(format!("http://{address}{CHAT}"))
                    .body(Full::new(Bytes::from(ASK)))
                    .unwrap();
                let response = llm.oneshot(request).await.unwrap();
                assert!(response.outcome().is_success());
                response.into_body().collect().await.unwrap().to_bytes()
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), format!("{TOKEN}{END}"));
    }
}
