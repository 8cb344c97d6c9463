//! HTTP/2 with prior knowledge, over a socket that can turn into a black hole.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::task::JoinSet;

use super::shared::{Received, Shared};
use super::switch::Switch;
use super::wire::{After, Head, Wire, perform};

/// Serves a connection and all its streams.
pub(super) async fn serve(
    io: Switch,
    connection: u64,
    shared: &Arc<Shared>,
) -> Result<(), h2::Error> {
    let lever = io.lever();
    let mut requests = h2::server::handshake(io).await?;
    // Dropped with the connection, and with it every stream.
    let mut streams = JoinSet::new();
    while let Some(accepted) = requests.accept().await {
        let (request, respond) = accepted?;
        let (shared, lever) = (Arc::clone(shared), Arc::clone(&lever));
        streams.spawn(serve_stream(request, respond, connection, shared, lever));
        while streams.try_join_next().is_some() {}
    }
    Ok(())
}

async fn serve_stream(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    connection: u64,
    shared: Arc<Shared>,
    lever: Arc<AtomicBool>,
) {
    let (parts, body) = request.into_parts();
    // A client that takes its request back is not a request.
    let Ok(body) = read(body).await else { return };
    let received = Received {
        connection,
        http2: true,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body,
    };
    let (steps, entry) = shared.handle(received);
    let mut wire = Http2 {
        respond,
        stream: None,
    };
    match perform(&mut wire, steps, &entry).await {
        After::Keep => {}
        After::Close => wire.reset(Reason::CANCEL),
        After::Reset => wire.reset(Reason::INTERNAL_ERROR),
        After::BlackHole => {
            lever.store(true, Ordering::Relaxed);
            // Dropping the stream would send RST_STREAM, which the hole would swallow; hold on anyway.
            wire.gone().await;
        }
    }
}

async fn read(mut body: RecvStream) -> Result<Bytes, h2::Error> {
    let mut bytes = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

struct Http2 {
    respond: SendResponse<Bytes>,
    stream: Option<SendStream<Bytes>>,
}

impl Http2 {
    fn reset(&mut self, reason: Reason) {
        match &mut self.stream {
            Some(stream) => stream.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    fn stream(&mut self) -> io::Result<&mut SendStream<Bytes>> {
        self.stream
            .as_mut()
            .ok_or_else(|| io::Error::other("the body comes before the head"))
    }
}

impl Wire for Http2 {
    async fn head(&mut self, head: Head) -> io::Result<()> {
        let mut response = Response::new(());
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        if let Some(length) = head.length {
            response
                .headers_mut()
                .insert(http::header::CONTENT_LENGTH, length.into());
        }
        self.stream = Some(
            self.respond
                .send_response(response, false)
                .map_err(io::Error::other)?,
        );
        Ok(())
    }

    async fn data(&mut self, mut bytes: Bytes) -> io::Result<()> {
        let stream = self.stream()?;
        while !bytes.is_empty() {
            stream.reserve_capacity(bytes.len());
            let Some(room) = poll_fn(|cx| stream.poll_capacity(cx)).await else {
                return Err(io::ErrorKind::ConnectionAborted.into());
            };
            let room = room.map_err(io::Error::other)?.min(bytes.len());
            stream
                .send_data(bytes.split_to(room), false)
                .map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// HTTP/2 has no chunks: half of the data, then the stream is reset.
    async fn half_chunk(&mut self, bytes: Bytes) -> io::Result<()> {
        self.data(bytes).await
    }

    async fn end(&mut self) -> io::Result<()> {
        self.stream()?
            .send_data(Bytes::new(), true)
            .map_err(io::Error::other)
    }

    async fn gone(&mut self) {
        // Either answer, a reset or a broken connection, means the same here.
        let _left = poll_fn(|cx| match &mut self.stream {
            Some(stream) => stream.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        })
        .await;
    }
}
