//! A client over a bare socket: it sees what a framework would hide.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each test binary uses its own part of the client, and a helper may do what a test may"
)]

use std::io;
use std::time::Duration;

use llm_chaos::ChaosProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// How the server's side of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Fin,
    Rst,
    /// Still open after the time the client waited, or still sending after twice that time.
    Silence,
}

#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ending: Ending,
}

impl Raw {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn status(&self) -> u16 {
        self.text()
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let text = self.text();
        let head = text.split("\r\n\r\n").next()?;
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    }

    fn after_head(&self) -> &[u8] {
        let at = self
            .bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n");
        at.map_or(&[], |at| &self.bytes[at + 4..])
    }

    /// The body without chunk framing, and whether the framing was complete.
    pub(crate) fn body(&self) -> (Vec<u8>, bool) {
        if let Some(length) = self.header("content-length") {
            let body = self.after_head();
            return (
                body.to_vec(),
                body.len() == length.parse::<usize>().unwrap(),
            );
        }
        let (chunks, complete) = self.chunks();
        (chunks.concat(), complete)
    }

    /// The chunks of the body, and whether the last one came.
    pub(crate) fn chunks(&self) -> (Vec<Vec<u8>>, bool) {
        let mut rest = self.after_head();
        let mut chunks = Vec::new();
        loop {
            let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else {
                return (chunks, false);
            };
            let size =
                usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
            rest = &rest[line + 2..];
            if rest.len() < size + 2 {
                chunks.push(rest.to_vec());
                return (chunks, false);
            }
            chunks.push(rest[..size].to_vec());
            rest = &rest[size + 2..];
            if size == 0 {
                return (chunks, rest.is_empty());
            }
        }
    }

    pub(crate) fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body().0).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body().0).expect("the body is JSON")
    }
}

pub(crate) fn chat(model: &str, stream: bool) -> String {
    format!(
        r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#
    )
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: chaos\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends bytes and reads until the server ends, or is silent for `patience`.
pub(crate) async fn exchange(provider: &ChaosProvider, request: &str, patience: Duration) -> Raw {
    let mut stream = TcpStream::connect(provider.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    read_to_end(&mut stream, patience).await
}

pub(crate) async fn read_to_end(stream: &mut TcpStream, patience: Duration) -> Raw {
    let mut bytes = Vec::new();
    let until = Instant::now() + 2 * patience;
    let ending = loop {
        if Instant::now() > until {
            break Ending::Silence;
        }
        match timeout(patience, stream.read_buf(&mut bytes)).await {
            Err(_) => break Ending::Silence,
            Ok(Ok(0)) => break Ending::Fin,
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => break Ending::Rst,
            Ok(Err(error)) => panic!("{error}"),
        }
    };
    Raw { bytes, ending }
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// A chat request for `model`.
pub(crate) async fn ask(provider: &ChaosProvider, model: &str, stream: bool) -> Raw {
    exchange(
        provider,
        &post("/v1/chat/completions", &chat(model, stream)),
        PATIENCE,
    )
    .await
}

/// The same where silence is expected.
pub(crate) async fn ask_briefly(provider: &ChaosProvider, model: &str, stream: bool) -> Raw {
    exchange(
        provider,
        &post("/v1/chat/completions", &chat(model, stream)),
        SHORT,
    )
    .await
}

/// The content of all token events of a chat stream, in order.
pub(crate) fn content(body: &str) -> String {
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok())
        .filter_map(|event| {
            event["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
}

pub(crate) fn tokens(from: u32, to: u32) -> String {
    (from..=to)
        .map(|n| {
            if n == 1 {
                "token1".to_owned()
            } else {
                format!(" token{n}")
            }
        })
        .collect()
}
