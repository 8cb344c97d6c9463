use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

/// What a held frame costs beside its bytes, so that many tiny frames reach the bound too.
const FRAME_COST: usize = 64;

/// Frames that were read and not yet handed on.
///
/// The first two need no allocation, since most answers are decided by them: a stream begins with
/// a role and a token.
#[derive(Debug, Default)]
pub(super) struct Held {
    first: Option<Bytes>,
    second: Option<Bytes>,
    rest: VecDeque<Bytes>,
    trailers: Option<Box<HeaderMap>>,
    data: usize,
}

impl Held {
    pub(super) fn push(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) => self.push_data(data),
            Err(frame) => self.trailers = frame.into_trailers().ok().map(Box::new),
        }
    }

    fn push_data(&mut self, data: Bytes) {
        self.data += data.len();
        if !self.rest.is_empty() || self.second.is_some() {
            self.rest.push_back(data);
        } else if self.first.is_some() {
            self.second = Some(data);
        } else {
            self.first = Some(data);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Frame<Bytes>> {
        match self.pop_data() {
            Some(data) => Some(Frame::data(data)),
            None => Some(Frame::trailers(*self.trailers.take()?)),
        }
    }

    fn pop_data(&mut self) -> Option<Bytes> {
        let first = self.first.take().or_else(|| self.second.take());
        let data = first.or_else(|| self.rest.pop_front())?;
        self.data -= data.len();
        Some(data)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
            && self.second.is_none()
            && self.rest.is_empty()
            && self.trailers.is_none()
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
        if self.second.is_none() && self.rest.is_empty() {
            return self.first.clone().unwrap_or_default();
        }
        let mut joined = BytesMut::with_capacity(self.data);
        while let Some(data) = self.pop_data() {
            joined.extend_from_slice(&data);
        }
        let joined = joined.freeze();
        self.push_data(joined.clone());
        joined
    }
}
