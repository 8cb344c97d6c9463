//! The HTTP client: plain or TLS by the target's URL, HTTP/1.1 or HTTP/2 as the two ends agree.
//! Certificates are checked against Mozilla's roots.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

/// A client that notices dead connections and has no retries of its own.
pub(crate) fn client() -> Client<HttpsConnector<HttpConnector>, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .http2_keep_alive_interval(Duration::from_secs(10))
        .http2_keep_alive_timeout(Duration::from_secs(5))
        // Behind an open circuit a dead connection is idle: it is to be gone before the first trial.
        .http2_keep_alive_while_idle(true)
        // The retry and failover layers decide what is sent again.
        .retry_canceled_requests(false)
        .build(connector())
}

fn connector() -> HttpsConnector<HttpConnector> {
    let mut tcp = HttpConnector::new();
    // The TLS connector above it takes https.
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // For TCP alone; a TLS handshake that hangs counts as waiting for the first token.
    tcp.set_connect_timeout(Some(Duration::from_secs(2)));
    tcp.set_keepalive(Some(Duration::from_secs(10)));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(Duration::from_secs(15)));
    HttpsConnectorBuilder::new()
        .with_webpki_roots()
        .https_or_http()
        .enable_all_versions()
        .wrap_connector(tcp)
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt, net::TcpListener};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn an_https_target_is_offered_tls_with_http_1_and_2() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("https://{}/v1", listener.local_addr().unwrap());
        let server = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut record = vec![0; 5];
            socket.read_exact(&mut record).await.unwrap();
            let length = u16::from_be_bytes([record[3], record[4]]);
            record.resize(5 + usize::from(length), 0);
            socket.read_exact(&mut record[5..]).await.unwrap();
            record
        };
        let hello = tokio::select! {
            hello = server => hello,
            connected = connector().oneshot(uri.parse().unwrap()) => {
                panic!("done before the server answered: {:?}", connected.map(drop))
            }
        };
        // A handshake record with a ClientHello in it.
        assert_eq!((hello[0], hello[5]), (22, 1));
        let offer = b"\x02h2\x08http/1.1";
        assert!(hello.windows(offer.len()).any(|bytes| bytes == offer));
    }

    #[tokio::test]
    async fn an_http_target_is_connected_without_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/v1", listener.local_addr().unwrap());
        assert!(connector().oneshot(uri.parse().unwrap()).await.is_ok());
    }
}
