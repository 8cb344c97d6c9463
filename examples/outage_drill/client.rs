//! The HTTP client below both arms. It counts what it sends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tower::Service;

type HyperClient = Client<HttpConnector, Full<Bytes>>;

/// A pooled client. Over TLS, wrap the connector with hyper-rustls.
fn hyper_client(connect: Duration) -> HyperClient {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(connect));
    // Requests are small writes: none may wait for the acknowledgement of the one before.
    connector.set_nodelay(true);
    // A connection that died without a word is noticed while it waits in the pool.
    connector.set_keepalive(Some(Duration::from_secs(30)));
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        // By default hyper-util itself sends again what a dying pooled connection did not take: an
        // attempt that nothing counts or caps. Here a reset is a failure as any other, and the
        // layers above decide who sends again.
        .retry_canceled_requests(false)
        .build(connector)
}

/// The client and a count of the requests that went through it: what the provider bills.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    inner: HyperClient,
    sent: Arc<AtomicU64>,
}

impl HttpClient {
    pub(crate) fn new(connect: Duration) -> HttpClient {
        HttpClient {
            inner: hyper_client(connect),
            sent: Arc::default(),
        }
    }

    /// Requests sent, by all clones together.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Service<Request<Full<Bytes>>> for HttpClient {
    type Response = <HyperClient as Service<Request<Full<Bytes>>>>::Response;
    type Error = <HyperClient as Service<Request<Full<Bytes>>>>::Error;
    type Future = <HyperClient as Service<Request<Full<Bytes>>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.inner.call(request)
    }
}
