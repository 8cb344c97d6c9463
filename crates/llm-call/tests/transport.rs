//! The errors of real clients on real sockets, so that a change of their wording is noticed.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "the servers of a test are spawned, and its helpers fail it"
)]

use std::{
    error::Error as StdError,
    fmt,
    future::{pending, ready},
    io,
    net::SocketAddr,
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use llm_call::{Error, Kind, Phase, Refusal};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What a server does with a connection.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// Closes it when the request has come.
    Close,
    /// Resets it: the request is left unread.
    Reset,
    /// Begins a head and closes.
    Half,
    /// Speaks another protocol.
    Foreign,
    /// Says nothing.
    Silent,
}

impl Server {
    async fn start(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(self.serve(stream));
            }
        });
        address
    }

    async fn serve(self, mut stream: TcpStream) {
        if let Server::Reset = self {
            stream.readable().await.unwrap();
            return;
        }
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await.unwrap();
        match self {
            Server::Half => stream.write_all(b"HTTP/1.1 200 OK\r\ncont").await.unwrap(),
            Server::Foreign => stream
                .write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
                .await
                .unwrap(),
            Server::Silent => pending().await,
            Server::Close | Server::Reset => {}
        }
    }
}

/// An address that nobody listens at.
async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

type HyperError = hyper_util::client::legacy::Error;

async fn hyper_at(address: SocketAddr) -> HyperError {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let request = Request::get(format!("http://{address}/")).body(Empty::new());
    client.request(request.unwrap()).await.unwrap_err()
}

async fn reqwest_at(address: SocketAddr, client: reqwest::ClientBuilder) -> reqwest::Error {
    let client = client.no_proxy().build().unwrap();
    let sent = client.get(format!("http://{address}/")).send();
    sent.await.unwrap_err()
}

fn texts(error: &(dyn StdError + 'static)) -> String {
    let mut texts = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        texts = format!("{texts}: {error}");
        next = error.source();
    }
    texts
}

#[track_caller]
fn assert_kind(error: &(dyn StdError + 'static), kind: Kind) {
    assert_eq!(Kind::of(error), kind, "{}", texts(error));
}

#[tokio::test]
async fn a_refused_connection() {
    let address = nobody().await;
    assert_kind(&hyper_at(address).await, Kind::ConnectFailed);
    let error = reqwest_at(address, reqwest::Client::builder()).await;
    assert_kind(&error, Kind::ConnectFailed);
}

#[tokio::test]
async fn a_connection_that_breaks() {
    for server in [Server::Close, Server::Reset, Server::Half] {
        let address = server.start().await;
        assert_kind(&hyper_at(address).await, Kind::ConnectionLost);
        let error = reqwest_at(address, reqwest::Client::builder()).await;
        assert_kind(&error, Kind::ConnectionLost);
    }
}

#[tokio::test]
async fn another_protocol() {
    let address = Server::Foreign.start().await;
    assert_kind(&hyper_at(address).await, Kind::Malformed);
    let error = reqwest_at(address, reqwest::Client::builder()).await;
    assert_kind(&error, Kind::Malformed);
}

#[tokio::test]
async fn a_limit_of_the_client() {
    let address = Server::Silent.start().await;
    let client = reqwest::Client::builder().timeout(Duration::from_millis(50));
    let error = reqwest_at(address, client).await;
    assert_kind(&error, Kind::TimedOut(Phase::Answer));
    let client = reqwest::Client::builder().read_timeout(Duration::from_millis(50));
    let error = reqwest_at(address, client).await;
    assert_kind(&error, Kind::TimedOut(Phase::Answer));

    let elapsed = tokio::time::timeout(Duration::ZERO, pending::<()>()).await;
    assert_kind(&elapsed.unwrap_err(), Kind::TimedOut(Phase::Answer));
}

/// A resolver that fails, or that never answers.
#[derive(Clone, Copy)]
struct Resolver {
    answers: bool,
}

impl reqwest::dns::Resolve for Resolver {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        if self.answers {
            Box::pin(ready(Err(io::Error::other("no such host").into())))
        } else {
            Box::pin(pending())
        }
    }
}

#[tokio::test]
async fn a_host_that_is_not_found() {
    let resolver = tower::service_fn(|_: Name| {
        ready(Err::<std::vec::IntoIter<SocketAddr>, _>(io::Error::other(
            "no such host",
        )))
    });
    let connector = HttpConnector::new_with_resolver(resolver);
    let client = Client::builder(TokioExecutor::new()).build::<_, Empty<Bytes>>(connector);
    let request = Request::get("http://host.invalid/")
        .body(Empty::new())
        .unwrap();
    assert_kind(
        &client.request(request).await.unwrap_err(),
        Kind::ConnectFailed,
    );

    let client = reqwest::Client::builder().dns_resolver(Resolver { answers: true });
    let client = client.no_proxy().build().unwrap();
    let error = client.get("http://host.invalid/").send().await.unwrap_err();
    assert_kind(&error, Kind::ConnectFailed);
}

#[tokio::test]
async fn connecting_that_takes_too_long() {
    let client = reqwest::Client::builder()
        .connect_timeout(Duration::from_millis(50))
        .dns_resolver(Resolver { answers: false });
    let client = client.no_proxy().build().unwrap();
    let error = client.get("http://host.invalid/").send().await.unwrap_err();
    assert_kind(&error, Kind::TimedOut(Phase::Connect));
}

#[test]
fn io_errors_by_themselves() {
    use io::ErrorKind;
    for (error, kind) in [
        (ErrorKind::ConnectionRefused, Kind::ConnectFailed),
        (ErrorKind::HostUnreachable, Kind::ConnectFailed),
        (ErrorKind::NetworkUnreachable, Kind::ConnectFailed),
        (ErrorKind::ConnectionReset, Kind::ConnectionLost),
        (ErrorKind::ConnectionAborted, Kind::ConnectionLost),
        (ErrorKind::BrokenPipe, Kind::ConnectionLost),
        (ErrorKind::UnexpectedEof, Kind::ConnectionLost),
        (ErrorKind::TimedOut, Kind::TimedOut(Phase::Connect)),
        (ErrorKind::InvalidData, Kind::Unknown),
    ] {
        assert_kind(&io::Error::from(error), kind);
    }
}

/// An error with a text and something beneath.
#[derive(Debug)]
struct Layer<E>(&'static str, E);

impl<E> fmt::Display for Layer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<E: StdError + 'static> StdError for Layer<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.1)
    }
}

#[test]
fn a_failure_to_connect_counts_before_what_broke_it() {
    // A TLS handshake that the other side resets.
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    let connect = Layer("client error (Connect)", reset);
    assert_kind(
        &Layer("error sending request", connect),
        Kind::ConnectFailed,
    );

    let timed_out = io::Error::from(io::ErrorKind::TimedOut);
    let connect = Layer("client error (Connect)", timed_out);
    assert_kind(&connect, Kind::TimedOut(Phase::Connect));
}

#[test]
fn our_own_error_counts_before_all() {
    let ours = Error::new(Kind::Refused(Refusal::CircuitOpen));
    assert_kind(
        &Layer("client error (Connect)", ours),
        Kind::Refused(Refusal::CircuitOpen),
    );
}

#[tokio::test]
async fn an_io_error_does_not_hide_what_it_wraps() {
    let elapsed = tokio::time::timeout(Duration::ZERO, pending::<()>()).await;
    let wrapped = io::Error::other(elapsed.unwrap_err());
    assert_kind(&wrapped, Kind::TimedOut(Phase::Answer));

    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    assert_kind(&io::Error::other(reset), Kind::ConnectionLost);

    let ours = Error::new(Kind::Overloaded);
    assert_kind(&io::Error::other(ours), Kind::Overloaded);
}

/// A server that speaks HTTP/2 until it is connected, and then never says a word.
async fn falls_silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // An empty SETTINGS frame, and the acknowledgement of the client's.
        let settings = [[0, 0, 0, 4, 0, 0, 0, 0, 0], [0, 0, 0, 4, 1, 0, 0, 0, 0]];
        stream.write_all(settings.as_flattened()).await.unwrap();
        let mut sink = vec![0; 4096];
        while stream.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    });
    address
}

#[tokio::test]
async fn a_connection_that_answers_no_ping_is_lost() {
    let ping = Duration::from_millis(50);
    let address = falls_silent().await;
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_only(true)
        .http2_keep_alive_interval(ping)
        .http2_keep_alive_timeout(ping)
        .build_http::<Empty<Bytes>>();
    let uri = format!("http://{address}/").parse().unwrap();
    let error = client.get(uri).await.unwrap_err();
    assert_kind(&error, Kind::ConnectionLost);
}
