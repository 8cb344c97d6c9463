//! Steps of an answer, and how they are performed on any protocol.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::time::sleep;

use super::seen::Entry;

#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The declared length; `None` is a chunked body.
    pub(super) length: Option<usize>,
}

/// One thing that the server does to a request.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Wait(Duration),
    Head(Head),
    Data {
        bytes: Bytes,
        tokens: u32,
    },
    /// A chunk that declares more than it has.
    HalfChunk(Bytes),
    /// The same bytes again and again until the client leaves.
    Repeat {
        bytes: Bytes,
        gap: Duration,
    },
    /// The body is complete.
    End,
    /// Nothing until the client leaves.
    Silence,
    BlackHole,
    Close,
    Reset,
}

/// What becomes of the connection (HTTP/2: of the stream).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Keep,
    Close,
    Reset,
    BlackHole,
}

/// A protocol's way to send an answer. An error means that the client has left.
pub(super) trait Wire {
    async fn head(&mut self, head: Head) -> io::Result<()>;
    async fn data(&mut self, bytes: Bytes) -> io::Result<()>;
    async fn half_chunk(&mut self, bytes: Bytes) -> io::Result<()>;
    async fn end(&mut self) -> io::Result<()>;
    /// Resolves when the client has left; may be dropped and called again.
    async fn gone(&mut self);
}

pub(super) async fn perform(wire: &mut impl Wire, steps: Vec<Step>, entry: &Entry) -> After {
    let mut open = Open { entry, gone: true };
    match attempt(wire, steps, entry).await {
        Ok(after) => {
            open.gone = false;
            after
        }
        Err(_) => After::Close,
    }
}

/// Writes down the end of a request, also where its task is dropped: then the client is gone, and
/// its connection with it.
struct Open<'a> {
    entry: &'a Entry,
    gone: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.entry.edit(|seen| seen.client_gone |= self.gone);
        self.entry.end();
    }
}

async fn attempt(wire: &mut impl Wire, steps: Vec<Step>, entry: &Entry) -> io::Result<After> {
    for step in steps {
        match step {
            Step::Wait(time) => wait(wire, time).await?,
            Step::Head(head) => {
                let status = head.status.as_u16();
                wire.head(head).await?;
                entry.edit(|seen| seen.status = Some(status));
            }
            Step::Data { bytes, tokens } => data(wire, bytes, tokens, entry).await?,
            Step::HalfChunk(bytes) => {
                let sent = bytes.len() as u64;
                wire.half_chunk(bytes).await?;
                entry.edit(|seen| seen.bytes_sent += sent);
                return Ok(After::Close);
            }
            Step::Repeat { bytes, gap } => loop {
                data(wire, bytes.clone(), 0, entry).await?;
                wait(wire, gap.max(Duration::from_millis(1))).await?;
            },
            Step::End => wire.end().await?,
            Step::Silence => {
                wire.gone().await;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Step::BlackHole => return Ok(After::BlackHole),
            Step::Close => return Ok(After::Close),
            Step::Reset => return Ok(After::Reset),
        }
    }
    Ok(After::Keep)
}

async fn data(wire: &mut impl Wire, bytes: Bytes, tokens: u32, entry: &Entry) -> io::Result<()> {
    let sent = bytes.len() as u64;
    wire.data(bytes).await?;
    entry.edit(|seen| {
        seen.bytes_sent += sent;
        seen.tokens_sent += u64::from(tokens);
    });
    Ok(())
}

async fn wait(wire: &mut impl Wire, time: Duration) -> io::Result<()> {
    if time.is_zero() {
        return Ok(());
    }
    tokio::select! {
        biased;
        () = sleep(time) => Ok(()),
        () = wire.gone() => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
