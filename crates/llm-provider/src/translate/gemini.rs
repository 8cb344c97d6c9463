//! Gemini's `generateContent`: a target's dialect.

mod answer_read;
mod ask_write;
#[cfg(test)]
mod tests;

pub(crate) use answer_read::Reader;
pub(crate) use ask_write::write_ask;

/// The path of a request; the model is put in where the target's URL is made.
pub(crate) fn path(streamed: bool) -> &'static str {
    if streamed {
        "/v1beta/models/-:streamGenerateContent?alt=sse"
    } else {
        "/v1beta/models/-:generateContent"
    }
}
