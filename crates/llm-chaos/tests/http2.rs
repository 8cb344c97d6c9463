//! HTTP/2 with prior knowledge: healthy streams, resets, and the black hole.
#![cfg(feature = "server")]
#![cfg_attr(
    feature = "server",
    expect(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "a helper of a test may do what a test may"
    )
)]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{SHORT, chat, content, tokens};
use h2::client::{self, SendRequest};
use h2::{Reason, RecvStream};
use http::Request;
use llm_chaos::{ChaosProvider, Fault};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

async fn connect(provider: &ChaosProvider) -> (SendRequest<Bytes>, JoinHandle<()>) {
    let stream = TcpStream::connect(provider.addr()).await.unwrap();
    let (send, connection) = client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(async move {
        // It ends with an error when the test is over.
        let _ended = connection.await;
    });
    (send, driver)
}

async fn ask(
    send: &SendRequest<Bytes>,
    model: &str,
) -> Result<http::Response<RecvStream>, h2::Error> {
    let mut send = send.clone().ready().await?;
    let request = Request::post("http://chaos/v1/chat/completions")
        .body(())
        .unwrap();
    let (response, mut body) = send.send_request(request, false)?;
    body.send_data(chat(model, true).into(), true)?;
    response.await
}

/// The body, and the reason for which it was reset.
async fn read(mut body: RecvStream) -> (String, Option<Reason>) {
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        match data {
            Ok(data) => {
                body.flow_control().release_capacity(data.len()).unwrap();
                text.extend_from_slice(&data);
            }
            Err(error) => return (String::from_utf8(text).unwrap(), error.reason()),
        }
    }
    (String::from_utf8(text).unwrap(), None)
}

#[tokio::test]
async fn streams_of_one_connection_are_healthy_or_reset_each_on_its_own() {
    let provider = ChaosProvider::start().await.unwrap();
    let (send, _driver) = connect(&provider).await;
    let healthy = ask(&send, "m").await.unwrap();
    assert_eq!(healthy.headers()["x-chaos-provider"], "chaos");
    let (text, reset) = read(healthy.into_body()).await;
    assert_eq!((content(&text), reset), (tokens(1, 60), None));

    let (text, reset) = read(ask(&send, "fault-cut").await.unwrap().into_body()).await;
    assert_eq!(
        (content(&text), reset),
        (tokens(1, 40), Some(Reason::CANCEL))
    );
    let error = ask(&send, "fault-reset").await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    assert_eq!(ask(&send, "fault-error_503").await.unwrap().status(), 503);

    let log = provider.log();
    assert!(log.iter().all(|seen| seen.http2 && seen.connection == 1));
    assert_eq!(log[1].tokens_sent, 40);
}

#[tokio::test]
async fn a_black_holed_connection_stays_dead_and_a_new_one_is_healthy() {
    let provider = ChaosProvider::start().await.unwrap();
    let (send, driver) = connect(&provider).await;
    assert_eq!(ask(&send, "m").await.unwrap().status(), 200);
    assert!(
        timeout(SHORT, ask(&send, "fault-black_hole"))
            .await
            .is_err()
    );
    assert_eq!(provider.log()[1].fault, Some(Fault::BlackHole));

    // Nothing tells the client: the connection takes requests and none of them arrives.
    assert!(timeout(SHORT, ask(&send, "m")).await.is_err());
    assert!(!driver.is_finished());
    assert_eq!(provider.log().len(), 2);

    let (new, _driver) = connect(&provider).await;
    assert_eq!(ask(&new, "m").await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_stream_goes_dark_in_its_middle() {
    let provider = ChaosProvider::start().await.unwrap();
    let (send, _driver) = connect(&provider).await;
    let response = ask(&send, "fault-stall?after_tokens=5&delay=300ms")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    provider.black_hole();
    assert!(
        timeout(2 * SHORT, read(response.into_body()))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_client_that_resets_its_stream_is_seen() {
    let provider = ChaosProvider::start().await.unwrap();
    let (send, _driver) = connect(&provider).await;
    drop(
        ask(&send, "fault-stall?after_tokens=5&delay=1h")
            .await
            .unwrap(),
    );
    timeout(Duration::from_secs(5), async {
        while !provider.log()[0].client_gone {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_connection_that_the_client_closes_ends_the_record_of_its_stream() {
    let provider = ChaosProvider::start().await.unwrap();
    let (send, driver) = connect(&provider).await;
    let answer = ask(&send, "fault-stall?after_tokens=3").await.unwrap();
    assert!(provider.log()[0].ended_ms.is_none());
    driver.abort();
    drop((answer, send));
    let ended = async {
        while provider.log()[0].ended_ms.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), ended).await.unwrap();
    assert!(provider.log()[0].client_gone);
}
