//! What the headers of an answer say of its body.

use http::{HeaderMap, header};

/// What a `content-type` says. Servers lie; the first bytes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Events,
    Json,
    Lines,
    Markup,
    /// `text/plain`, or none given: anything may follow.
    Text,
    Other,
}

pub(crate) fn media(headers: &HeaderMap) -> Media {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Media::Text;
    };
    let essence = value.as_bytes().split(|b| *b == b';').next().unwrap_or(b"");
    let essence = essence.trim_ascii();
    let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
    let ends = |suffix: &str| {
        essence.len() >= suffix.len()
            && essence[essence.len() - suffix.len()..].eq_ignore_ascii_case(suffix.as_bytes())
    };
    if is("text/event-stream") {
        Media::Events
    } else if is("application/json") || ends("+json") || is("text/json") {
        Media::Json
    } else if is("application/x-ndjson")
        || is("application/ndjson")
        || is("application/jsonl")
        || is("application/x-jsonlines")
    {
        Media::Lines
    } else if is("text/html") || is("application/xhtml+xml") {
        Media::Markup
    } else if is("text/plain") || essence.is_empty() {
        Media::Text
    } else {
        Media::Other
    }
}

/// Whether the body cannot be read as it is.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .any(|value| {
            let value = value.as_bytes().trim_ascii();
            !value.is_empty() && !value.eq_ignore_ascii_case(b"identity")
        })
}
