//! A real connection: what times out lets go of it at once.

use crate::support::{FINISH, PING, TOKEN, assert_timed_out, ms, read, s};
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use llm_call::{Call, CallSettings, Facts, Kind, Phase};
use llm_timeout::TimeoutLayer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tower::{ServiceBuilder, ServiceExt};

type Body = Empty<Bytes>;

fn client() -> Client<HttpConnector, Body> {
    Client::builder(TokioExecutor::new()).build_http()
}

fn layer() -> TimeoutLayer {
    TimeoutLayer::new()
        .first_token(ms(80))
        .idle(ms(60))
        .stall(ms(90))
}

/// A provider that says `parts`, each after a short while, and nothing more. Resolves when its peer
/// closes the connection.
async fn provider(listener: TcpListener, parts: &[&str]) -> Instant {
    let (mut stream, _) = listener.accept().await.unwrap();
    read_request(&mut stream).await;
    for part in parts {
        tokio::time::sleep(ms(10)).await;
        if stream.write_all(part.as_bytes()).await.is_err() {
            return Instant::now();
        }
    }
    // The end of the peer's side, or a reset.
    let _ = stream.read(&mut [0; 64]).await;
    Instant::now()
}

async fn read_request(stream: &mut TcpStream) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert!(stream.read_buf(&mut request).await.unwrap() > 0);
    }
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// What the caller sees of a provider that says `parts`.
async fn run(parts: &[&str]) -> (usize, Phase) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let call = Call::open(CallSettings::new());
    let mut facts = Facts::default();
    facts.streamed = Some(true);
    call.set_facts(facts);
    let request = http::Request::post(format!("http://{address}/v1/chat/completions"))
        .extension(call.clone())
        .body(Body::new())
        .unwrap();
    let service = ServiceBuilder::new()
        .layer(layer().alone())
        .service(client());
    let asking = async {
        let result = match service.clone().oneshot(request).await {
            Ok(response) => read(response.into_body()).await,
            Err(error) => (0, Some(error)),
        };
        (result, Instant::now())
    };
    let both = async { tokio::join!(asking, provider(listener, parts)) };
    let (((frames, error), fired), closed) = tokio::time::timeout(s(5), both)
        .await
        .expect("the connection is let go");
    // The client stays, and with it its pool: only the firing can have closed the connection.
    drop(service);
    assert!(closed.saturating_duration_since(fired) < ms(1000));
    let error = error.expect("the provider never ends");
    let Kind::TimedOut(phase) = Kind::of(&*error) else {
        panic!("{error:?}");
    };
    assert_timed_out(&error, phase);
    let kind = call.ledger().entries[0].kind;
    assert_eq!(kind, Some(Kind::TimedOut(phase)));
    (frames, phase)
}

#[tokio::test]
async fn t05_a_hang_before_the_headers_closes_the_connection() {
    assert_eq!(run(&[]).await, (0, Phase::FirstToken));
}

#[tokio::test]
async fn t05_a_hang_after_the_headers_closes_the_connection() {
    assert_eq!(run(&[HEAD, &chunk(PING)]).await, (0, Phase::FirstToken));
}

#[tokio::test]
async fn t05_a_hang_in_a_stream_closes_the_connection() {
    let token = chunk(TOKEN);
    assert_eq!(run(&[HEAD, &token, &token]).await, (2, Phase::Idle));
}

#[tokio::test]
async fn t03_pings_alone_do_not_hold_a_connection() {
    let (token, ping) = (chunk(TOKEN), chunk(PING));
    let mut parts = vec![HEAD, token.as_str()];
    parts.extend([ping.as_str(); 100]);
    assert_eq!(run(&parts).await.1, Phase::Stall);
}

#[tokio::test]
async fn an_answer_in_time_keeps_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        // One connection, for all requests.
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            read_request(&mut stream).await;
            let parts = [HEAD, &chunk(TOKEN), &chunk(FINISH), "0\r\n\r\n"];
            stream.write_all(parts.concat().as_bytes()).await.unwrap();
        }
    };
    let service = ServiceBuilder::new()
        .layer(layer().alone())
        .service(client());
    let ask = async {
        for _ in 0..3 {
            let request = http::Request::post(format!("http://{address}/v1/chat/completions"));
            let request = request.body(Body::new()).unwrap();
            let response = service.clone().oneshot(request).await.unwrap();
            assert!(read(response.into_body()).await.1.is_none());
        }
    };
    let both = async { tokio::join!(serve, ask) };
    tokio::time::timeout(s(5), both)
        .await
        .expect("one connection is enough");
}
