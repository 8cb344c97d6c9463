//! Turns, as the target wants them: first the user, then one after the other, results of tools first.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::{
    ask::{Media, Part, Role, Turn, Unable},
    lost::Lost,
};

#[derive(Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

/// What is said where somebody has to say something: a conversation begins with the user.
const NOTHING: &str = ".";

/// What is said after an assistant's turn that stands last. It cannot be left there: a model of this
/// dialect goes on in the middle of it, or refuses to.
const GO_ON: &str = "Continue.";

pub(super) fn messages<'a>(turns: &'a [Turn], lost: &mut Lost) -> Result<Vec<Message<'a>>, Unable> {
    let mut messages: Vec<Message<'a>> = Vec::new();
    for turn in turns {
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => {
                lost.add("messages.system");
                "user"
            }
        };
        let mut content = Vec::new();
        for part in &turn.parts {
            content.extend(block(part)?);
        }
        if content.is_empty() {
            continue;
        }
        if messages.is_empty() && role != "user" {
            messages.push(said(NOTHING));
        }
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.append(&mut content),
            _ => messages.push(Message { role, content }),
        }
    }
    match messages.last() {
        None => messages.push(said(NOTHING)),
        Some(last) if last.role == "assistant" => {
            lost.add("messages.prefill");
            messages.push(said(GO_ON));
        }
        Some(_) => {}
    }
    for message in &mut messages {
        if message.role == "user" {
            let is_result = |block: &Block<'_>| matches!(block, Block::ToolResult { .. });
            message.content.sort_by_key(|block| !is_result(block));
        }
    }
    Ok(messages)
}

/// Whether the conversation stands between calls of tools and the model's next word.
pub(super) fn ends_with_results(messages: &[Message<'_>]) -> bool {
    let first = messages.last().and_then(|last| last.content.first());
    matches!(first, Some(Block::ToolResult { .. }))
}

fn said(text: &'static str) -> Message<'static> {
    Message {
        role: "user",
        content: vec![Block::Text { text }],
    }
}

/// `None` for a text of nothing but spaces, which this dialect refuses.
fn block(part: &Part) -> Result<Option<Block<'_>>, Unable> {
    Ok(Some(match part {
        Part::ToolCall {
            id,
            name,
            arguments,
        } => Block::ToolUse {
            id: fit_id(id),
            name,
            input: arguments,
        },
        Part::ToolResult {
            id,
            parts,
            is_error,
        } => {
            let mut content = Vec::new();
            for part in parts {
                content.extend(plain(part)?);
            }
            Block::ToolResult {
                tool_use_id: fit_id(id),
                content,
                is_error: *is_error,
            }
        }
        part => return plain(part),
    }))
}

/// Text, image or file.
fn plain(part: &Part) -> Result<Option<Block<'_>>, Unable> {
    Ok(match part {
        Part::Text(text) if text.trim().is_empty() => None,
        Part::Text(text) => Some(Block::Text { text }),
        Part::Image(media) => Some(Block::Image {
            source: source(media, image_type).ok_or(Unable(
                "an image that is no JPEG, PNG, GIF or WebP; Anthropic takes no other",
            ))?,
        }),
        Part::File { name, media } => Some(Block::Document {
            source: source(media, document_type)
                .ok_or(Unable("a file that is no PDF; Anthropic takes no other"))?,
            title: name.as_deref(),
        }),
        // No result of a tool holds such a thing.
        Part::ToolCall { .. } | Part::ToolResult { .. } => None,
    })
}

fn source(media: &Media, known: fn(&str) -> Option<&'static str>) -> Option<Source<'_>> {
    Some(match media {
        Media::Data { media_type, base64 } => Source::Base64 {
            media_type: known(media_type)?,
            data: base64,
        },
        Media::Url(url) => Source::Url { url },
    })
}

fn image_type(media_type: &str) -> Option<&'static str> {
    Some(match media_type.to_ascii_lowercase().as_str() {
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/png" => "image/png",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        _ => return None,
    })
}

fn document_type(media_type: &str) -> Option<&'static str> {
    media_type
        .eq_ignore_ascii_case("application/pdf")
        .then_some("application/pdf")
}

/// The id of a call. This dialect takes letters, digits, `_` and `-`; anything else is written as
/// its number, the same way for the call and for its result.
fn fit_id(id: &str) -> Cow<'_, str> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.is_empty() {
        return Cow::Borrowed("_");
    }
    if id.chars().all(is_fit) {
        return Cow::Borrowed(id);
    }
    let mut fit = String::with_capacity(id.len() + 8);
    for c in id.chars() {
        if is_fit(c) {
            fit.push(c);
        } else {
            fit.push_str(&format!("_{:x}_", u32::from(c)));
        }
    }
    Cow::Owned(fit)
}
