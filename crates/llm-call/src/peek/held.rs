use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http_body::Frame;

/// What a held frame costs beside its bytes, so that many tiny frames reach the bound too.
const FRAME_COST: usize = 64;

/// Frames that were read and not yet handed on. The first one needs no allocation: most answers
/// are decided by it.
#[derive(Debug, Default)]
pub(super) struct Held {
    first: Option<Frame<Bytes>>,
    rest: VecDeque<Frame<Bytes>>,
    data: usize,
}

impl Held {
    pub(super) fn push(&mut self, frame: Frame<Bytes>) {
        self.data += frame.data_ref().map_or(0, Bytes::len);
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(frame);
        } else {
            self.rest.push_back(frame);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Frame<Bytes>> {
        let frame = self.first.take().or_else(|| self.rest.pop_front())?;
        self.data -= frame.data_ref().map_or(0, Bytes::len);
        Some(frame)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Held::default();
    }

    /// Bytes of data.
    pub(super) fn len(&self) -> usize {
        self.data
    }

    /// What holding costs.
    pub(super) fn cost(&self) -> usize {
        self.data + FRAME_COST * self.rest.len()
    }

    /// All data in one piece; joins the frames where there are several.
    pub(super) fn data(&mut self) -> Bytes {
        if let (Some(first), true) = (&self.first, self.rest.is_empty()) {
            return first.data_ref().cloned().unwrap_or_default();
        }
        let mut joined = BytesMut::with_capacity(self.data);
        let mut trailers = None;
        while let Some(frame) = self.pop() {
            match frame.into_data() {
                Ok(data) => joined.extend_from_slice(&data),
                Err(frame) => trailers = Some(frame),
            }
        }
        let joined = joined.freeze();
        if !joined.is_empty() {
            self.push(Frame::data(joined.clone()));
        }
        if let Some(trailers) = trailers {
            self.push(trailers);
        }
        joined
    }
}
