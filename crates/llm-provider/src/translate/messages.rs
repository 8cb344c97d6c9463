//! Anthropic messages: as a caller's dialect and as a target's.

mod answer_read;
mod answer_shapes;
mod answer_write;
mod ask_read;
mod ask_write;
mod blocks;
mod blocks_write;
mod events_write;
mod stream_write;
mod text;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use answer_read::Reader;
pub(crate) use answer_write::WholeWriter;
pub(crate) use ask_read::read_ask;
pub(crate) use ask_write::write_ask;
pub(crate) use stream_write::StreamWriter;
