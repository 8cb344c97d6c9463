//! HTTP/1.1 by hand: every byte, and every missing byte, is ours.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::shared::{Received, Shared};
use super::switch::Switch;
use super::wire::{After, Head, Wire, perform};

const MAX_HEAD: usize = 64 * 1024;
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Serves a connection until either side is done with it.
pub(super) async fn serve(io: Switch, connection: u64, shared: &Arc<Shared>) -> io::Result<()> {
    let mut wire = Http1 {
        io,
        unread: BytesMut::new(),
        chunked: false,
    };
    loop {
        let (received, keep_alive) = match wire.request(connection).await {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return wire.refuse(&error).await;
            }
            Err(error) => return Err(error),
        };
        let (steps, entry) = shared.handle(received);
        match perform(&mut wire, steps, &entry).await {
            After::Keep if keep_alive => {}
            After::Reset => return wire.io.reset_on_close(),
            After::BlackHole => wire.io.black_hole(),
            After::Keep | After::Close if !wire.io.is_dead() => return wire.io.shutdown().await,
            // A black hole says nothing, not even goodbye: the next read waits for the client to leave.
            After::Keep | After::Close => {}
        }
    }
}

struct Http1 {
    io: Switch,
    /// Bytes of the client that belong to its next request.
    unread: BytesMut,
    /// Whether the answer's body is chunked.
    chunked: bool,
}

impl Http1 {
    /// The next request, and whether the connection stays open after it.
    async fn request(&mut self, connection: u64) -> io::Result<Option<(Received, bool)>> {
        let (mut received, head_length, version) = loop {
            if let Some(head) = parse_head(&self.unread)? {
                break head;
            }
            if self.unread.len() > MAX_HEAD {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the request's head is too large",
                ));
            }
            if self.io.read_buf(&mut self.unread).await? == 0 {
                return Ok(None);
            }
        };
        received.connection = connection;
        self.unread.advance(head_length);
        let text = |name| {
            received
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let close = text("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let chunked =
            text("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        let length = text("content-length")
            .and_then(|value| value.parse().ok())
            .unwrap_or(0);
        received.body = if chunked {
            self.chunked_body().await?
        } else {
            self.exactly(length).await?
        };
        Ok(Some((received, version == 1 && !close)))
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Bytes> {
        if length > MAX_BODY {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the request's body is too large",
            ));
        }
        while self.unread.len() < length {
            if self.io.read_buf(&mut self.unread).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.unread.split_to(length).freeze())
    }

    async fn chunked_body(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let size = match httparse::parse_chunk_size(&self.unread) {
                Ok(httparse::Status::Complete((line, size))) => {
                    self.unread.advance(line);
                    usize::try_from(size).unwrap_or(usize::MAX)
                }
                Ok(httparse::Status::Partial) => {
                    if self.io.read_buf(&mut self.unread).await? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    continue;
                }
                Err(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a bad chunk size",
                    ));
                }
            };
            // The line end after the data; trailers are not expected from LLM clients.
            let chunk = self.exactly(size.saturating_add(2)).await?;
            if size == 0 {
                return Ok(body.freeze());
            }
            body.extend_from_slice(&chunk[..size]);
            if body.len() > MAX_BODY {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the request's body is too large",
                ));
            }
        }
    }
}

impl Http1 {
    /// Bytes that are no request get an answer all the same.
    async fn refuse(&mut self, error: &io::Error) -> io::Result<()> {
        let body = format!("this is not a request that the provider can read: {error}\n");
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.io.write_all((head + &body).as_bytes()).await?;
        self.io.shutdown().await
    }
}

impl Wire for Http1 {
    async fn head(&mut self, head: Head) -> io::Result<()> {
        self.chunked = head.length.is_none();
        let mut text = String::new();
        let _infallible = write!(text, "HTTP/1.1 {}\r\n", head.status);
        for (name, value) in &head.headers {
            if let Ok(value) = value.to_str() {
                let _infallible = write!(text, "{name}: {value}\r\n");
            }
        }
        let _infallible = match head.length {
            Some(length) => write!(text, "content-length: {length}\r\n\r\n"),
            None => write!(text, "transfer-encoding: chunked\r\n\r\n"),
        };
        self.io.write_all(text.as_bytes()).await
    }

    async fn data(&mut self, bytes: Bytes) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.chunked {
            return self.io.write_all(&bytes).await;
        }
        let mut chunk = BytesMut::from(format!("{:x}\r\n", bytes.len()).as_bytes());
        chunk.extend_from_slice(&bytes);
        chunk.extend_from_slice(b"\r\n");
        self.io.write_all(&chunk).await
    }

    async fn half_chunk(&mut self, bytes: Bytes) -> io::Result<()> {
        let mut chunk = BytesMut::from(format!("{:x}\r\n", bytes.len() * 2).as_bytes());
        chunk.extend_from_slice(&bytes);
        self.io.write_all(&chunk).await
    }

    async fn end(&mut self) -> io::Result<()> {
        if self.chunked {
            self.io.write_all(b"0\r\n\r\n").await
        } else {
            Ok(())
        }
    }

    async fn gone(&mut self) {
        loop {
            match self.io.read_buf(&mut self.unread).await {
                Ok(0) | Err(_) => return,
                // A client that sends on and on is not gone; it is only not read any further.
                Ok(_) if self.unread.len() > MAX_BODY => std::future::pending().await,
                Ok(_) => {}
            }
        }
    }
}

/// The request's head, its length and the minor version, once it is all there.
fn parse_head(bytes: &[u8]) -> io::Result<Option<(Received, usize, u8)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut head = httparse::Request::new(&mut headers);
    let invalid = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
    };
    let length = match head.parse(bytes).map_err(|error| invalid(&error))? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let mut map = HeaderMap::new();
    for header in head.headers.iter() {
        let name =
            HeaderName::from_bytes(header.name.as_bytes()).map_err(|error| invalid(&error))?;
        map.append(
            name,
            HeaderValue::from_bytes(header.value).map_err(|error| invalid(&error))?,
        );
    }
    let received = Received {
        connection: 0,
        http2: false,
        method: head.method.unwrap_or_default().to_owned(),
        path: head
            .path
            .unwrap_or_default()
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned(),
        headers: map,
        body: Bytes::new(),
    };
    Ok(Some((received, length, head.version.unwrap_or(1))))
}
