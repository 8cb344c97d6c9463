//! What is held back of an answer before it is committed: one pure table.

use http::{HeaderMap, Method, StatusCode};
use memchr::memchr;

use crate::{
    Framing,
    media::{Media, is_encoded, media},
};

/// What Peek does with one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Not to be looked at: there is no body, or it is no HTTP answer any more.
    Untouched,
    /// A body that cannot be read (audio, bytes, an unknown encoding): committed at the headers.
    Opaque,
    /// A stream: held until its first token.
    Events(Framing),
    /// One JSON text: held whole.
    Whole,
    /// An error status: read for a while, classified and passed on.
    Failure,
    /// HTML or text where JSON was due.
    Page,
    /// The first bytes decide; none have come yet.
    Sniff,
}

/// The head of an answer, as far as the plan depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    /// Whether the path is one that answers in a known dialect, so that JSON or a stream is due.
    pub(crate) dialect_known: bool,
}

/// The table. `first` is what has come of the body so far; where it does not tell yet the answer is
/// [`Plan::Sniff`].
pub(crate) fn plan(head: Head<'_>, first: &[u8]) -> Plan {
    let status = head.status;
    if status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT)
        || status == StatusCode::NOT_MODIFIED
        || *head.method == Method::HEAD
        || (*head.method == Method::CONNECT && status.is_success())
    {
        return Plan::Untouched;
    }
    if !status.is_success() {
        return Plan::Failure;
    }
    if is_encoded(head.headers) {
        return Plan::Opaque;
    }
    match media(head.headers) {
        Media::Events | Media::Json => match sniff(first) {
            Sniffed::Nothing => Plan::Sniff,
            Sniffed::Events => Plan::Events(Framing::Sse),
            Sniffed::Lines => Plan::Events(Framing::Ndjson),
            Sniffed::Json => Plan::Whole,
            // Broken JSON is held and found out at its end; a broken stream has no end.
            Sniffed::Markup | Sniffed::Text if matches!(media(head.headers), Media::Json) => {
                Plan::Whole
            }
            Sniffed::Markup => Plan::Page,
            Sniffed::Text => Plan::Events(Framing::Sse),
        },
        Media::Lines => Plan::Events(Framing::Ndjson),
        Media::Markup => Plan::Page,
        Media::Text => match sniff(first) {
            Sniffed::Nothing => Plan::Sniff,
            Sniffed::Events => Plan::Events(Framing::Sse),
            Sniffed::Lines => Plan::Events(Framing::Ndjson),
            Sniffed::Json => Plan::Whole,
            Sniffed::Markup => Plan::Page,
            Sniffed::Text if head.dialect_known => Plan::Page,
            Sniffed::Text => Plan::Opaque,
        },
        Media::Other => Plan::Opaque,
    }
}

enum Sniffed {
    Nothing,
    Events,
    Lines,
    Json,
    Markup,
    Text,
}

/// What a body looks like by its first bytes.
fn sniff(first: &[u8]) -> Sniffed {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let body = match first.strip_prefix(MARK) {
        Some(body) => body,
        // The beginning of a byte order mark, cut by a frame's edge.
        None if MARK.starts_with(first) => return Sniffed::Nothing,
        None => first,
    };
    let body = body.trim_ascii_start();
    match body.first() {
        None => Sniffed::Nothing,
        Some(b'{') => {
            // A whole JSON object on the first line and something after it: one object a line.
            let lines = memchr(b'\n', body).is_some_and(|end| {
                serde_json::from_slice::<serde::de::IgnoredAny>(&body[..end]).is_ok()
                    && (body[end..].trim_ascii_start().first() == Some(&b'{')
                        || memchr::memmem::find(&body[..end], b"\"done\":false").is_some())
            });
            if lines { Sniffed::Lines } else { Sniffed::Json }
        }
        Some(b'[') => Sniffed::Json,
        Some(b'<') => Sniffed::Markup,
        Some(_) => {
            const FIELDS: [&[u8]; 6] = [b"data:", b"event:", b":", b"id:", b"retry:", b"error:"];
            if FIELDS.iter().any(|field| body.starts_with(field)) {
                Sniffed::Events
            } else if FIELDS.iter().any(|field| field.starts_with(body)) {
                // The beginning of a field name, cut by a frame's edge.
                Sniffed::Nothing
            } else {
                Sniffed::Text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    fn headers(content_type: &str, encoding: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        }
        if !encoding.is_empty() {
            headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
        }
        headers
    }

    fn planned(
        method: &Method,
        status: u16,
        content_type: &str,
        encoding: &str,
        dialect_known: bool,
        first: &str,
    ) -> Plan {
        let headers = headers(content_type, encoding);
        let head = Head {
            method,
            status: StatusCode::from_u16(status).unwrap(),
            headers: &headers,
            dialect_known,
        };
        plan(head, first.as_bytes())
    }

    #[test]
    fn the_table_row_by_row() {
        use Framing::{Ndjson, Sse};
        use Plan::{Events, Failure, Opaque, Page, Sniff, Untouched, Whole};
        const SSE: &str = "text/event-stream; charset=utf-8";
        const JSON: &str = "application/json";
        let get = &Method::GET;
        let post = &Method::POST;
        let head = &Method::HEAD;
        let connect = &Method::CONNECT;
        for (method, status, media, encoding, known, first, expected) in [
            // Nothing to look at.
            (head, 200, JSON, "", true, "", Untouched),
            (head, 503, JSON, "", true, "", Untouched),
            (connect, 200, "", "", false, "", Untouched),
            (get, 101, "", "", false, "", Untouched),
            (post, 204, "", "", true, "", Untouched),
            (post, 205, "", "", true, "", Untouched),
            (get, 304, JSON, "", true, "", Untouched),
            // Error answers, whatever they carry.
            (post, 400, JSON, "", true, "", Failure),
            (post, 503, "text/html", "", true, "<html>", Failure),
            (post, 529, "", "gzip", true, "", Failure),
            (post, 302, "", "", true, "", Failure),
            (connect, 502, "", "", false, "", Failure),
            // Streams.
            (post, 200, SSE, "", true, "", Sniff),
            (post, 200, SSE, "", true, "\n", Sniff),
            (post, 200, SSE, "", true, "da", Sniff),
            (post, 200, SSE, "", true, "data: {", Events(Sse)),
            (post, 200, SSE, "", true, ": ping\n", Events(Sse)),
            (post, 200, SSE, "", true, "\u{feff}event: x\n", Events(Sse)),
            (post, 200, SSE, "identity", true, "data: {", Events(Sse)),
            (post, 200, SSE, "", true, "unknown: x\n", Events(Sse)),
            (post, 200, SSE, "", true, "<html>", Page),
            (
                post,
                200,
                "application/x-ndjson",
                "",
                true,
                "",
                Events(Ndjson),
            ),
            // JSON, with blank lines before it, or cut.
            (post, 200, JSON, "", true, "", Sniff),
            (post, 200, JSON, "", true, "\n\n", Sniff),
            (post, 200, JSON, "", true, "\n\n{\"id\"", Whole),
            (post, 200, JSON, "", true, "[{", Whole),
            (post, 200, JSON, "", true, "\"x", Whole),
            (post, 200, "application/problem+json", "", true, "{", Whole),
            // Mislabelled.
            (post, 200, SSE, "", true, "{\"error\":", Whole),
            (post, 200, JSON, "", true, "data: {", Events(Sse)),
            (post, 200, JSON, "", true, "event: x", Events(Sse)),
            (
                post,
                200,
                JSON,
                "",
                true,
                "{\"a\":1,\"done\":false}\n",
                Events(Ndjson),
            ),
            (
                post,
                200,
                JSON,
                "",
                true,
                "{\"a\":1}\n{\"a\"",
                Events(Ndjson),
            ),
            (post, 200, JSON, "", true, "{\n\"a\":1}\n", Whole),
            (post, 200, "text/plain", "", true, "data: {", Events(Sse)),
            (post, 200, "", "", true, "{\"id\"", Whole),
            (post, 200, "", "", true, "", Sniff),
            // No answer.
            (post, 200, "text/html; charset=UTF-8", "", true, "", Page),
            (post, 200, "text/html", "", false, "", Page),
            (post, 200, "text/plain", "", true, "hello", Page),
            (post, 200, "text/plain", "", true, "<html>", Page),
            // Cannot be read.
            (post, 200, "text/plain", "", false, "hello", Opaque),
            (post, 200, "audio/mpeg", "", false, "", Opaque),
            (post, 200, "application/octet-stream", "", true, "", Opaque),
            (
                post,
                200,
                "application/vnd.amazon.eventstream",
                "",
                true,
                "",
                Opaque,
            ),
            (post, 200, SSE, "gzip", true, "", Opaque),
            (post, 200, JSON, "br", true, "", Opaque),
        ] {
            assert_eq!(
                planned(method, status, media, encoding, known, first),
                expected,
                "{method} {status} {media:?} {encoding:?} known={known} {first:?}"
            );
        }
    }
}
