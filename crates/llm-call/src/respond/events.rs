//! Keeps the events of a stream whole, so that an error can be written after the last one.
//!
//! Only the line ends are looked at: what an event means is known below.

use bytes::{Bytes, BytesMut};
use memchr::{memchr2, memrchr};

use crate::Framing;

/// The most that is held of an unfinished event.
const MAX_TAIL: usize = 64 * 1024;

/// Splits a stream at the ends of its events.
#[derive(Debug)]
pub(super) struct Events {
    framing: Framing,
    /// The beginning of an event whose end has not come.
    tail: BytesMut,
    /// A part of an unfinished event was handed on, since it was too large to hold.
    broken: bool,
    lines: Lines,
}

impl Events {
    pub(super) fn new(framing: Framing) -> Events {
        Events {
            framing,
            tail: BytesMut::new(),
            broken: false,
            lines: Lines::default(),
        }
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    /// Takes a chunk and gives what can be handed on; nothing where no event ends in it.
    pub(super) fn push(&mut self, mut chunk: Bytes) -> Bytes {
        let end = match self.framing {
            Framing::Ndjson => memrchr(b'\n', &chunk).map(|at| at + 1),
            Framing::Sse => self.lines.last_end(&chunk),
        };
        if let Some(end) = end {
            self.broken = chunk.len() - end > MAX_TAIL;
            let mut whole = if self.broken {
                std::mem::take(&mut chunk)
            } else {
                chunk.split_to(end)
            };
            if !self.tail.is_empty() {
                self.tail.extend_from_slice(&whole);
                whole = self.tail.split().freeze();
            }
            self.tail.extend_from_slice(&chunk);
            return whole;
        }
        if self.broken {
            return chunk;
        }
        self.tail.extend_from_slice(&chunk);
        if self.tail.len() > MAX_TAIL {
            self.broken = true;
            return self.tail.split().freeze();
        }
        Bytes::new()
    }

    /// The stream ended well: what is left is handed on.
    pub(super) fn flush(&mut self) -> Bytes {
        self.tail.split().freeze()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_empty()
    }

    /// The stream broke: drops what is left. `false` if an event was handed on in part, so that
    /// nothing can follow it.
    pub(super) fn cut(&mut self) -> bool {
        self.tail.clear();
        !self.broken
    }
}

/// Finds the ends of server-sent events: blank lines, and comments between events.
#[derive(Debug, Default)]
struct Lines {
    /// The first byte of the unfinished line.
    first: Option<u8>,
    /// The unfinished event has a line that is no comment.
    open: bool,
    /// The last byte was CR: an LF belongs to it.
    after_cr: bool,
}

impl Lines {
    /// The end of the last event that ends in `chunk`.
    fn last_end(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut end = None;
        let mut at = 0;
        while at < chunk.len() {
            if std::mem::take(&mut self.after_cr) && chunk[at] == b'\n' {
                at += 1;
                if !self.open {
                    end = Some(at);
                }
                continue;
            }
            let Some(length) = memchr2(b'\n', b'\r', &chunk[at..]) else {
                self.first.get_or_insert(chunk[at]);
                break;
            };
            let first = self.first.take().or((length > 0).then(|| chunk[at]));
            self.after_cr = chunk[at + length] == b'\r';
            at += length + 1;
            match first {
                None => self.open = false,
                Some(b':') => {}
                Some(_) => self.open = true,
            }
            if !self.open {
                end = Some(at);
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` in two pieces cut at `cut`, and gives what was handed on and what was held.
    fn split(framing: Framing, text: &[u8], cut: usize) -> (Vec<u8>, Vec<u8>) {
        let mut events = Events::new(framing);
        let mut out = events.push(Bytes::copy_from_slice(&text[..cut])).to_vec();
        out.extend_from_slice(&events.push(Bytes::copy_from_slice(&text[cut..])));
        (out, events.flush().to_vec())
    }

    #[test]
    fn only_whole_events_are_handed_on_at_every_cut() {
        use Framing::{Ndjson, Sse};
        for (framing, whole, tail) in [
            (Sse, "data: 1\n\n", "data: 2"),
            (Sse, "data: 1\n\ndata: 2\n\n", "data: 3\n"),
            (Sse, "data: 1\r\n\r\n", "event: x\r\ndata: 2\r\n"),
            (Sse, "data: 1\r\r", "data: 2\r"),
            (Sse, "data: 1\n\r\n", "data"),
            (Sse, ": ping\n: ping\n", ": pi"),
            (Sse, "\n\n", "data: 1\n: ping\n"),
            (Sse, "", "data: 1\n: ping\n"),
            (Ndjson, "{}\n{\"a\":1}\n", "{\"b\""),
        ] {
            let text = format!("{whole}{tail}");
            for cut in 0..=text.len() {
                let (out, held) = split(framing, text.as_bytes(), cut);
                assert_eq!(String::from_utf8(out).unwrap(), whole, "{text:?} at {cut}");
                assert_eq!(String::from_utf8(held).unwrap(), tail, "{text:?} at {cut}");
            }
        }
    }

    #[test]
    fn an_event_too_large_to_hold_is_handed_on_and_cannot_be_cut() {
        let mut events = Events::new(Framing::Sse);
        let piece = Bytes::from(vec![b'x'; MAX_TAIL]);
        assert!(events.push(piece.clone()).is_empty());
        assert_eq!(events.push(piece.clone()).len(), 2 * MAX_TAIL);
        assert_eq!(events.push(piece.clone()).len(), MAX_TAIL);
        assert!(!events.cut());
        // Whole again after its end.
        assert_eq!(events.push(Bytes::from("\n\ndata: 1")).len(), 2);
        assert!(events.cut());
        // Also where an event ends in the same chunk.
        let chunk = [&b"data: 1\n\n"[..], &piece, &piece].concat();
        assert_eq!(events.push(chunk.clone().into()).len(), chunk.len());
        assert!(!events.cut());
    }
}
