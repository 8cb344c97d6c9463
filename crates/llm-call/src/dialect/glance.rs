//! A glance at an event of a committed answer: whether it is plainly one more token.
//!
//! The keys are looked for with their quotes. Inside a JSON string a quote is escaped, so that a
//! key with both its quotes and its colon can only be a key. An event in any other than the
//! common shape gets no answer here, and is read.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{Dialect, Sight};
use crate::Event;

struct Keys {
    content: Finder<'static>,
    delta: Finder<'static>,
    delta_text: Finder<'static>,
    error: Finder<'static>,
    finish_reason: Finder<'static>,
    index: Finder<'static>,
    text: Finder<'static>,
    usage: Finder<'static>,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys {
    content: Finder::new("\"content\":\""),
    delta: Finder::new("\"delta\":{"),
    delta_text: Finder::new("\"delta\":\""),
    error: Finder::new("\"error\""),
    finish_reason: Finder::new("\"finish_reason\":"),
    index: Finder::new("\"index\":"),
    text: Finder::new("\"text\":\""),
    usage: Finder::new("\"usage\":"),
});

/// What the event held, if a glance tells.
#[inline]
pub(super) fn glance(dialect: Dialect, event: &Event<'_>) -> Option<Sight> {
    const TOKEN: Sight = Sight {
        token: true,
        error: false,
        end: false,
    };
    if event.error {
        return None;
    }
    let data = event.data;
    let token = match dialect {
        Dialect::OpenAiChat => event.name.is_empty() && chat(data),
        Dialect::OpenAiResponses => match response(event) {
            Some(token) => token,
            None => return Some(Sight::default()),
        },
        Dialect::Anthropic => event.name == b"content_block_delta" && block(data),
        Dialect::Cohere => event.name == b"content-delta" && starts(data, &KEYS.text),
        Dialect::Ollama => {
            event.name.is_empty()
                && data.ends_with(b"\"done\":false}")
                && starts(data, &KEYS.content)
                && KEYS.error.find(data).is_none()
        }
        // Few events with many tokens each, and each carries the usage so far: all are read.
        Dialect::Gemini => false,
    };
    token.then_some(TOKEN)
}

/// A chunk with content of the first choice, and nothing else of note.
fn chat(data: &[u8]) -> bool {
    let keys = &*KEYS;
    let Some(rest) = after(data, &keys.delta) else {
        return false;
    };
    let rest = skip(rest, b"\"role\":\"assistant\",");
    let token = match rest.strip_prefix(b"\"content\":\"") {
        Some(text) => begins_text(text),
        None => thought_or_tool(skip(rest, b"\"content\":null,")),
    };
    token
        && null_or_absent(data, &keys.finish_reason)
        && null_or_absent(data, &keys.usage)
        && keys.error.find(data).is_none()
        && keys.index.find_iter(data).all(|at| {
            let number = &data[at + keys.index.needle().len()..];
            matches!(number, [b'0', b',' | b'}', ..])
        })
}

/// Whether a delta without text begins with reasoning or with a call of a tool.
fn thought_or_tool(rest: &[u8]) -> bool {
    match rest.strip_prefix(b"\"reasoning_content\":\"") {
        Some(text) => begins_text(text),
        None => rest.starts_with(b"\"tool_calls\":[{"),
    }
}

/// Whether an event of a response is a token; `None` if it is neither that nor of any note.
fn response(event: &Event<'_>) -> Option<bool> {
    if !event.name.starts_with(b"response.") {
        return Some(false);
    }
    if event.name.ends_with(b".delta") {
        return Some(starts(event.data, &KEYS.delta_text));
    }
    // They repeat what the deltas said.
    let repeats = (event.name.ends_with(b".done") && event.name != b"response.done")
        || event.name.ends_with(b".added");
    (!repeats).then_some(false)
}

/// A piece of a content block that has something in it.
fn block(data: &[u8]) -> bool {
    let Some(rest) = after(data, &KEYS.delta) else {
        return false;
    };
    [
        &b"\"type\":\"text_delta\",\"text\":\""[..],
        b"\"type\":\"input_json_delta\",\"partial_json\":\"",
        b"\"type\":\"thinking_delta\",\"thinking\":\"",
    ]
    .iter()
    .any(|start| rest.strip_prefix(*start).is_some_and(begins_text))
}

fn after<'a>(data: &'a [u8], key: &Finder<'_>) -> Option<&'a [u8]> {
    let at = key.find(data)?;
    Some(&data[at + key.needle().len()..])
}

fn skip<'a>(data: &'a [u8], start: &[u8]) -> &'a [u8] {
    data.strip_prefix(start).unwrap_or(data)
}

/// Whether a string that was just opened has something in it.
fn begins_text(rest: &[u8]) -> bool {
    rest.first().is_some_and(|byte| *byte != b'"')
}

fn starts(data: &[u8], key: &Finder<'_>) -> bool {
    after(data, key).is_some_and(begins_text)
}

fn null_or_absent(data: &[u8], key: &Finder<'_>) -> bool {
    after(data, key).is_none_or(|value| value.trim_ascii_start().starts_with(b"null"))
}
