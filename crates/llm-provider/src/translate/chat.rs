//! OpenAI's chat completions, and the servers that copy them.

mod answer_read;
mod answer_write;
mod ask_read;
mod ask_write;

pub(crate) use answer_read::Reader;
pub(crate) use answer_write::{StreamWriter, WholeWriter};
pub(crate) use ask_read::read_ask;
pub(crate) use ask_write::write_ask;

#[cfg(test)]
mod tests;
