//! A server that forwards what came through Peek, over HTTP/1 and HTTP/2: a cut upstream must
//! reach its caller as a broken body, never as a clean end.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the helpers of a test fail the test, and serve in tasks"
)]

use std::{io, net::SocketAddr, pin::Pin};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::service::service_fn;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use llm_call::{Peek, PeekLayer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tower::{Layer, ServiceExt};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const WHOLE: &str =
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
const SSE: &str = "text/event-stream";
const JSON: &str = "application/json";

type Forwarding =
    Pin<Box<dyn Future<Output = io::Result<Response<UnsyncBoxBody<Bytes, io::Error>>>> + Send>>;
type Http = Client<HttpConnector, Full<Bytes>>;

/// A provider that answers each connection with these bytes and closes it.
async fn provider(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
            while !read.windows(4).any(|end| end == b"\r\n\r\n") {
                let n = connection.read(&mut buffer).await.unwrap();
                read.extend_from_slice(&buffer[..n]);
            }
            connection.write_all(answer.as_bytes()).await.unwrap();
            connection.shutdown().await.unwrap();
        }
    });
    address
}

/// A server of both versions that forwards to a provider.
async fn forwarder(to: SocketAddr) -> SocketAddr {
    let peek: Peek<Http> =
        PeekLayer::new().layer(Client::builder(TokioExecutor::new()).build_http());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            let peek = peek.clone();
            let forward = service_fn(move |request: Request<hyper::body::Incoming>| {
                let uri = format!("http://{to}{}", request.uri().path());
                let method = request.method().clone();
                let request = Request::builder().method(method).uri(uri);
                let forwarded = peek.clone().oneshot(request.body(Full::default()).unwrap());
                let answer: Forwarding = Box::pin(async move {
                    let mut response = forwarded.await.map_err(io::Error::other)?;
                    response.headers_mut().remove("transfer-encoding");
                    response.headers_mut().remove("connection");
                    *response.version_mut() = Version::default();
                    Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
                });
                answer
            });
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server
                    .serve_connection(TokioIo::new(connection), forward)
                    .await;
            });
        }
    });
    address
}

/// What a caller gets of an answer of this head and body: its bytes, or a broken body, or nothing.
async fn forwarded(answer: &str, http2: bool, method: &str) -> Result<Result<String, ()>, ()> {
    let address = forwarder(provider(answer.to_owned()).await).await;
    let client: Http = Client::builder(TokioExecutor::new())
        .http2_only(http2)
        .build_http();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{address}/v1/chat/completions"))
        .body(Full::default())
        .unwrap();
    let response = client.request(request).await.map_err(drop)?;
    let body = response.into_body().collect().await;
    let body = body.map(|body| String::from_utf8(body.to_bytes().to_vec()).unwrap());
    Ok(body.map_err(drop))
}

fn with_length(media: &str, length: usize, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn chunked(media: &str, chunks: &[&str], end: &str) -> String {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ntransfer-encoding: chunked\r\n\r\n");
    for chunk in chunks {
        answer += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
    }
    answer + end
}

#[tokio::test]
async fn a_cut_upstream_is_a_broken_body_and_a_whole_one_is_not() {
    let audio = "audio/mpeg";
    let broken = [
        // Cut by the connection.
        chunked(SSE, &[TOKEN, TOKEN], ""),
        chunked(SSE, &[TOKEN, "data: {\"cho"], ""),
        with_length(SSE, 10_000, TOKEN),
        format!("HTTP/1.1 200 OK\r\ncontent-type: {SSE}\r\n\r\n{TOKEN}"),
        // Every byte that was promised came, and the answer has no end.
        chunked(SSE, &[TOKEN, TOKEN], "0\r\n\r\n"),
        // Not looked at.
        chunked(audio, &["abc"], ""),
        with_length(audio, 10, "abc"),
    ];
    for answer in &broken {
        for http2 in [false, true] {
            let read = forwarded(answer, http2, "POST").await;
            assert_eq!(read, Ok(Err(())), "{answer} over HTTP/2: {http2}");
        }
    }
    // Known to be none before anything was handed on.
    for answer in [
        with_length(SSE, TOKEN.len(), TOKEN),
        with_length(JSON, 500, "{\"choices\":["),
    ] {
        for http2 in [false, true] {
            let read = forwarded(&answer, http2, "POST").await;
            assert_eq!(read, Err(()), "{answer} over HTTP/2: {http2}");
        }
    }
    let stream = [TOKEN, END].concat();
    for (answer, whole) in [
        (chunked(SSE, &[TOKEN, END], "0\r\n\r\n"), &*stream),
        (chunked(SSE, &[TOKEN, END], ""), &*stream),
        (with_length(SSE, stream.len(), &stream), &*stream),
        (with_length(SSE, stream.len() + 2, &stream), &*stream),
        (with_length(JSON, WHOLE.len(), WHOLE), WHOLE),
        // A last line end is missing.
        (with_length(JSON, WHOLE.len() + 1, WHOLE), WHOLE),
        (with_length(audio, 3, "abc"), "abc"),
        (with_length(audio, 0, ""), ""),
    ] {
        for http2 in [false, true] {
            let read = forwarded(&answer, http2, "POST").await;
            assert_eq!(
                read,
                Ok(Ok(whole.to_owned())),
                "{answer} over HTTP/2: {http2}"
            );
        }
    }
    let head = with_length(JSON, 500, "");
    assert_eq!(forwarded(&head, false, "HEAD").await, Ok(Ok(String::new())));
}
