//! The response body of the layer.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use super::rule::Injection;
use crate::BoxError;

pin_project! {
    /// A body with at most one fault.
    #[derive(Debug)]
    pub struct FaultBody<B> {
        // None for an answer of the layer itself.
        #[pin]
        inner: Option<B>,
        injection: Option<Injection>,
        // Boxed, since few bodies ever pause.
        pause: Option<Pin<Box<Sleep>>>,
        // Bytes of a frame that are still to be given.
        held: Bytes,
        frames: u64,
        bytes: u64,
        ended: bool,
    }
}

pub(super) fn connection_reset() -> BoxError {
    Box::new(io::Error::new(
        io::ErrorKind::ConnectionReset,
        "connection reset by the fault layer",
    ))
}

impl<B> FaultBody<B> {
    pub(super) fn new(inner: B, injection: Option<Injection>) -> Self {
        Self {
            inner: Some(inner),
            injection,
            pause: None,
            held: Bytes::new(),
            frames: 0,
            bytes: 0,
            ended: false,
        }
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        let ended = bytes.is_empty();
        Self {
            inner: None,
            injection: None,
            pause: None,
            held: bytes,
            frames: 0,
            bytes: 0,
            ended,
        }
    }
}

impl<B> Body for FaultBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        if *this.ended {
            return Poll::Ready(None);
        }
        loop {
            if let Some(pause) = this.pause {
                ready!(pause.as_mut().poll(cx));
                *this.pause = None;
            }
            if !this.held.is_empty() {
                let piece = match this.injection {
                    Some(Injection::Split(size) | Injection::Drip { bytes: size, .. }) => {
                        this.held.split_to(size.get().min(this.held.len()))
                    }
                    _ => std::mem::take(this.held),
                };
                if let Some(Injection::Drip { gap, .. }) = this.injection {
                    *this.pause = Some(Box::pin(sleep(*gap)));
                }
                *this.ended = this.inner.is_none() && this.held.is_empty();
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            // What strikes between two frames.
            match this.injection {
                Some(Injection::CutAfterFrames(n)) if this.frames == n => {
                    *this.ended = true;
                    return Poll::Ready(Some(Err(connection_reset())));
                }
                Some(Injection::CutAfterBytes(n)) if this.bytes == n => {
                    *this.ended = true;
                    return Poll::Ready(Some(Err(connection_reset())));
                }
                Some(Injection::EndAfterFrames(n)) if this.frames == n => {
                    *this.ended = true;
                    return Poll::Ready(None);
                }
                Some(Injection::EndAfterBytes(n)) if this.bytes == n => {
                    *this.ended = true;
                    return Poll::Ready(None);
                }
                Some(Injection::Stall {
                    after_frames,
                    pause,
                }) if this.frames == after_frames => {
                    *this.pause = Some(Box::pin(sleep(*pause)));
                    *this.injection = None;
                    continue;
                }
                _ => {}
            }
            let Some(inner) = this.inner.as_mut().as_pin_mut() else {
                *this.ended = true;
                return Poll::Ready(None);
            };
            let frame = match ready!(inner.poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    *this.ended = true;
                    return Poll::Ready(None);
                }
            };
            let mut data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            match this.injection {
                Some(Injection::CutAfterBytes(n) | Injection::EndAfterBytes(n)) => {
                    let left = usize::try_from(*n - *this.bytes).unwrap_or(usize::MAX);
                    data.truncate(left);
                }
                Some(Injection::GarbleAfterFrames(n)) if *this.frames >= *n => data = garble(&data),
                Some(Injection::Split(_) | Injection::Drip { .. }) if !data.is_empty() => {
                    *this.held = data;
                    continue;
                }
                _ => {}
            }
            *this.frames += 1;
            *this.bytes += data.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn is_end_stream(&self) -> bool {
        // A body that is to be cut is not at its end when the one inside it is.
        let through = self.injection.is_none() && self.held.is_empty() && self.pause.is_none();
        self.ended || (through && self.inner.as_ref().is_some_and(Body::is_end_stream))
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.inner, &self.injection) {
            (None, _) => SizeHint::with_exact(self.held.len() as u64),
            (Some(inner), None) => inner.size_hint(),
            (Some(_), Some(_)) => SizeHint::default(),
        }
    }
}

fn garble(data: &[u8]) -> Bytes {
    let mut bytes = BytesMut::from(data);
    let middle = bytes.len() / 2;
    for (byte, bad) in bytes[middle..].iter_mut().zip([0xC3, 0x28]) {
        *byte = bad;
    }
    bytes.freeze()
}
