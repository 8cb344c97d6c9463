//! A socket that can turn into a black hole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Passes bytes both ways until it is thrown; from then on it takes every byte and gives none.
#[derive(Debug)]
pub(super) struct Switch {
    stream: TcpStream,
    dead: Arc<AtomicBool>,
}

impl Switch {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            dead: Arc::default(),
        }
    }

    /// The switch itself: true is a black hole.
    pub(super) fn lever(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.dead)
    }

    pub(super) fn black_hole(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    /// Whether the client opens with HTTP/2's preface; nothing is consumed.
    pub(super) async fn speaks_http2(&self) -> io::Result<bool> {
        let mut start = [0; 3];
        loop {
            let seen = self.stream.peek(&mut start).await?;
            if seen == 3 || !b"PRI".starts_with(&start[..seen]) || seen == 0 {
                return Ok(&start == b"PRI");
            }
            // `peek` is ready at once while a first byte lies there.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Makes the coming close an RST.
    pub(super) fn reset_on_close(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO))
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}

impl AsyncRead for Switch {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            let end = buf.filled().len() == before;
            if end || !self.is_dead() {
                return Poll::Ready(Ok(()));
            }
            buf.set_filled(before);
        }
    }
}

impl AsyncWrite for Switch {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_dead() {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_dead() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
