//! What can be done to the bytes of steps without changing their order.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::wire::Step;

/// Two bytes in the middle become a broken UTF-8 sequence.
pub(super) fn garble(text: &[u8]) -> Bytes {
    let mut bytes = text.to_vec();
    let middle = bytes.len() / 2;
    for (byte, bad) in bytes[middle..].iter_mut().zip([0xC3, 0x28]) {
        *byte = bad;
    }
    bytes.into()
}

/// The same bytes in pieces of `size`, which hang over into the next event.
pub(super) fn resplit(steps: Vec<Step>, size: usize) -> Vec<Step> {
    let mut out = Vec::new();
    let (mut held, mut held_tokens) = (BytesMut::new(), 0);
    for step in steps {
        match step {
            Step::Data { bytes, tokens } => {
                held.extend_from_slice(&bytes);
                while held.len() >= size {
                    let piece = held.split_to(size).freeze();
                    out.push(Step::Data {
                        bytes: piece,
                        tokens: std::mem::take(&mut held_tokens),
                    });
                }
                held_tokens += tokens;
            }
            Step::Wait(_) | Step::Head(_) => out.push(step),
            last => {
                let bytes = held.split().freeze();
                out.push(Step::Data {
                    bytes,
                    tokens: std::mem::take(&mut held_tokens),
                });
                out.push(last);
            }
        }
    }
    out
}

/// Every piece of `size` bytes on its own, `gap` apart.
pub(super) fn drip(steps: Vec<Step>, size: usize, gap: Duration) -> Vec<Step> {
    let mut out = Vec::new();
    for step in steps {
        let Step::Data { mut bytes, tokens } = step else {
            out.push(step);
            continue;
        };
        while bytes.len() > size {
            out.extend([
                Step::Data {
                    bytes: bytes.split_to(size),
                    tokens: 0,
                },
                Step::Wait(gap),
            ]);
        }
        out.extend([Step::Data { bytes, tokens }, Step::Wait(gap)]);
    }
    out
}
