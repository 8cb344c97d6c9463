//! From one dialect into another: pure functions, by way of a request and an answer in no dialect.

mod answering;
pub(crate) mod ask;
mod asking;
mod chat;
pub(crate) mod fields;
mod gemini;
pub(crate) mod lost;
mod messages;
pub(crate) mod piece;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use answering::Answering;
pub(crate) use ask::{Manner, Untranslatable};
pub(crate) use asking::{Asked, ask, translates};
pub(crate) use lost::Lost;
pub(crate) use stream::Stream;
