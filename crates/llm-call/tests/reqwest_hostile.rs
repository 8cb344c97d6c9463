//! reqwest below a stack, with servers and callers that misbehave.
#![cfg(feature = "reqwest")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the helpers of a test fail the test, and serve in tasks"
)]

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use llm_call::{
    BoxError, Call, CallSettings, Ending, IdentifyLayer, Kind, PeekLayer,
    reqwest::{Over, Reqwest},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tower::{Layer, ServiceBuilder, ServiceExt};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens, and does with the first connection what it is told.
async fn server<F: Future<Output = T> + Send + 'static, T: Send + 'static>(
    with: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (String, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "http://{}/v1/chat/completions",
        listener.local_addr().unwrap()
    );
    let serving = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        with(socket).await
    });
    (url, serving)
}

/// Reads until `end` has come; what has come.
async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(end) {
        if socket.read_buf(&mut seen).await.unwrap() == 0 {
            break;
        }
    }
    String::from_utf8(seen).unwrap()
}

fn request(url: &str) -> http::Request<Full<Bytes>> {
    http::Request::post(url).body(Full::from("{}")).unwrap()
}

#[tokio::test]
async fn a_default_client_follows_no_redirect_with_the_key() {
    let (elsewhere, stolen) = server(async |mut socket| {
        let seen = read_until(&mut socket, "\r\n\r\n").await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        socket.write_all(answer.as_bytes()).await.unwrap();
        seen
    })
    .await;
    for status in ["302 Found", "307 Temporary Redirect"] {
        let answer =
            format!("HTTP/1.1 {status}\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n");
        let (url, _) = server(async move |mut socket| {
            read_until(&mut socket, "\r\n\r\n").await;
            socket.write_all(answer.as_bytes()).await.unwrap();
            socket
        })
        .await;
        let mut request = request(&url);
        request
            .headers_mut()
            .insert("x-api-key", "secret".parse().unwrap());
        let answer = Reqwest::default().oneshot(request).await.unwrap();
        assert!(answer.status().is_redirection(), "{}", answer.status());
    }
    assert!(!stolen.is_finished());
}

#[tokio::test]
async fn a_request_body_is_sent_as_it_comes() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (url, _serving) = server(async move |mut socket| {
        read_until(&mut socket, "one").await;
        tell.send(()).unwrap();
        read_until(&mut socket, "two").await;
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
        socket
    })
    .await;
    let (send, parts) = mpsc::unbounded_channel::<&'static str>();
    let parts = stream::unfold(parts, async |mut parts| Some((parts.recv().await?, parts)));
    let body = StreamBody::new(Box::pin(
        parts.map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from(part)))),
    ));
    send.send("one").unwrap();
    let request = http::Request::post(&url).body(body).unwrap();
    let asking = tokio::spawn(Reqwest::default().oneshot(request));
    timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    send.send("two").unwrap();
    drop(send);
    let answer = timeout(PATIENCE, asking).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
}

#[tokio::test]
async fn a_request_body_that_breaks_fails_the_request() {
    let (url, serving) = server(async |mut socket| read_until(&mut socket, "\0").await).await;
    let parts = [
        Ok(Frame::data(Bytes::from("half"))),
        Err("the caller is gone"),
    ];
    let body = StreamBody::new(stream::iter(parts));
    let request = http::Request::post(&url).body(body).unwrap();
    let error = timeout(PATIENCE, Reqwest::default().oneshot(request)).await;
    let error = error.unwrap().unwrap_err();
    assert_ne!(Kind::of(&error), Kind::ConnectFailed, "{error:?}");
    // Never a body that looks whole.
    let seen = timeout(PATIENCE, serving).await.unwrap().unwrap();
    assert!(!seen.contains("\r\n0\r\n\r\n"), "{seen:?}");

    // Through a stack it was the caller's fault.
    let body = StreamBody::new(stream::iter([
        Ok(Frame::data(Bytes::from("half"))),
        Err("the caller is gone"),
    ]));
    let stack = (IdentifyLayer::new(), PeekLayer::new()).layer(Reqwest::default());
    let request = http::Request::post(&url).body(body).unwrap();
    let error = stack.oneshot(request).await.unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::Cancelled);
}

#[tokio::test]
async fn trailers_come_through() {
    let (url, _serving) = server(async |mut socket| {
        read_until(&mut socket, "\r\n\r\n").await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ntrailer: x-sum\r\n\
             transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n";
        socket.write_all(answer.as_bytes()).await.unwrap();
        socket
    })
    .await;
    let stack = PeekLayer::new().layer(Reqwest::default());
    let mut request = request(&url);
    request
        .headers_mut()
        .insert("te", "trailers".parse().unwrap());
    let answer = stack.oneshot(request).await.unwrap();
    let collected = answer.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "6");
    assert_eq!(collected.to_bytes(), "abc");
}

#[tokio::test]
async fn an_answer_that_is_dropped_half_way_closes_its_connection() {
    let (url, serving) = server(async |mut socket| {
        read_until(&mut socket, "{}").await;
        let head = format!("{EVENTS}transfer-encoding: chunked\r\n\r\n");
        let chunk = format!("{:x}\r\n{TOKEN}\r\n", TOKEN.len());
        socket.write_all((head + &chunk).as_bytes()).await.unwrap();
        // Ends when the client closes.
        read_until(&mut socket, "\0").await;
    })
    .await;
    let call = Call::open(CallSettings::new());
    let request = http::Request::post(&url)
        .extension(call.clone())
        .body(reqwest::Body::from("{}"))
        .unwrap();
    let stack = Over::new(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(PeekLayer::new())
            .service(Reqwest::default()),
    );
    let request = reqwest::Request::try_from(request).unwrap();
    let mut answer = stack.execute(request).await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), TOKEN);
    assert!(call.ledger().ended.is_none());
    drop(answer);
    timeout(PATIENCE, serving).await.unwrap().unwrap();
    let ledger = call.ledger();
    assert_eq!(ledger.ended.unwrap().0, Ending::Dropped);
    assert_eq!(ledger.entries[0].kind, Some(Kind::Cancelled));
}

#[tokio::test]
async fn a_limit_of_reqwests_own_is_one_of_each_attempt_and_is_told_as_one() {
    // The head comes, and then nothing.
    for (head, kind) in [
        (String::new(), Kind::TimedOut(llm_call::Phase::Answer)),
        (
            format!("{EVENTS}content-length: 1000\r\n\r\n{TOKEN}"),
            Kind::Interrupted,
        ),
    ] {
        let (url, _serving) = server(async move |mut socket| {
            read_until(&mut socket, "{}").await;
            socket.write_all(head.as_bytes()).await.unwrap();
            read_until(&mut socket, "\0").await;
        })
        .await;
        let stack = Over::new(PeekLayer::new().layer(Reqwest::default()));
        let request = reqwest::Client::new().post(&url).body("{}");
        let request = request.timeout(Duration::from_millis(200)).build().unwrap();
        let answering = async {
            match stack.execute(request).await {
                Ok(answer) => Kind::of(&answer.text().await.unwrap_err()),
                Err(error) => Kind::of(&*error),
            }
        };
        assert_eq!(timeout(PATIENCE, answering).await.unwrap(), kind);
    }
}
