//! Buffers a request body, up to a limit.

use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use http_body_util::LengthLimitError;

use crate::{BoxError, Error, Kind, find_cause};

/// What has come of a body. One that comes in one piece is not copied.
#[derive(Debug, Default)]
pub(super) struct Collected {
    first: Bytes,
    more: BytesMut,
}

impl Collected {
    /// Reads `body` to its end. Trailers of a request are not kept.
    pub(super) fn poll<B>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Result<Bytes, Error>>
    where
        B: Body,
        B::Error: Into<BoxError>,
    {
        if body.size_hint().lower().saturating_add(self.len() as u64) > limit as u64 {
            return Poll::Ready(Err(too_large(limit)));
        }
        while let Some(frame) = ready!(body.as_mut().poll_frame(cx)) {
            let Ok(mut data) = frame.map_err(unreadable)?.into_data() else {
                continue;
            };
            if data.remaining() > limit - self.len() {
                return Poll::Ready(Err(too_large(limit)));
            }
            let data = data.copy_to_bytes(data.remaining());
            if self.len() == 0 {
                self.first = data;
            } else if !data.is_empty() {
                if self.more.is_empty() {
                    self.more = BytesMut::from(std::mem::take(&mut self.first));
                }
                self.more.extend_from_slice(&data);
            }
        }
        Poll::Ready(Ok(if self.more.is_empty() {
            std::mem::take(&mut self.first)
        } else {
            self.more.split().freeze()
        }))
    }

    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }
}

/// The limit was passed.
#[derive(Debug)]
struct BodyTooLarge {
    limit: usize,
}

impl fmt::Display for BodyTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its body is larger than {} bytes; raise the limit with IdentifyLayer::max_body",
            self.limit
        )
    }
}

impl StdError for BodyTooLarge {}

fn too_large(limit: usize) -> Error {
    Error::new(Kind::RequestTooLarge).with_source(BodyTooLarge { limit })
}

/// The caller's body failed: a limit of another layer, or a caller that left half-way.
fn unreadable(error: impl Into<BoxError>) -> Error {
    let error = error.into();
    let kind = match find_cause::<LengthLimitError>(&*error) {
        Some(_) => Kind::RequestTooLarge,
        None => Kind::Cancelled,
    };
    Error::new(kind).with_source(error)
}
