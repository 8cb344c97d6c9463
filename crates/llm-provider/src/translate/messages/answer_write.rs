//! Writes an answer as a whole.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    super::piece::{Counts, Finish, Garbled, Piece},
    wire::{Stop, Usage},
};

/// Gathers the pieces of a whole answer.
#[derive(Debug, Default)]
pub(crate) struct WholeWriter {
    model: String,
    created: u64,
    id: String,
    blocks: Vec<Block>,
    /// Where the block of a call stands.
    calls: HashMap<usize, usize>,
    refused: bool,
    finish: Option<Finish>,
    usage: Counts,
    ended: bool,
    /// Why there is no answer.
    failed: Option<Garbled>,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking(String),
    Tool {
        id: String,
        name: String,
        input: String,
    },
}

#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Written<'a>>,
    #[serde(flatten)]
    stop: Stop<'a>,
    usage: Usage,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Written<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'static str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
}

impl WholeWriter {
    /// `wants_usage` is of no account: an answer of this dialect always tells it.
    pub(crate) fn new(model: &str, created: u64, _wants_usage: bool) -> WholeWriter {
        WholeWriter {
            model: model.to_owned(),
            created,
            ..WholeWriter::default()
        }
    }

    pub(crate) fn piece(&mut self, piece: Piece<'_>) {
        if self.ended {
            return;
        }
        match piece {
            Piece::Start { id, model } => {
                self.id = id.into_owned();
                if !model.is_empty() {
                    self.model = model.into_owned();
                }
            }
            Piece::Text(text) => self.say(&text),
            Piece::Refusal(text) => {
                self.refused = true;
                self.say(&text);
            }
            Piece::Reasoning(text) => match self.blocks.last_mut() {
                Some(Block::Thinking(last)) => last.push_str(&text),
                _ if text.is_empty() => {}
                _ => self.blocks.push(Block::Thinking(text.into_owned())),
            },
            Piece::ToolCall { call, id, name } => {
                let id = match &*id {
                    "" => format!("toolu_{:x}_{}", self.created, self.calls.len()),
                    id => id.to_owned(),
                };
                self.calls.insert(call, self.blocks.len());
                self.blocks.push(Block::Tool {
                    id,
                    name: name.into_owned(),
                    input: String::new(),
                });
            }
            Piece::Arguments { call, json } => {
                let block = self.calls.get(&call).and_then(|i| self.blocks.get_mut(*i));
                match block {
                    Some(Block::Tool { input, .. }) => input.push_str(&json),
                    _ => self.fail(Garbled("arguments of a call that is not open".into())),
                }
            }
            Piece::Finish(finish) => self.finish = Some(finish),
            Piece::Usage(counts) => self.usage = counts.or(self.usage),
            Piece::Failed { message, .. } => self.fail(Garbled(message.into_owned().into())),
            Piece::End => self.ended = true,
            Piece::Ping | Piece::ToolEnd { .. } | Piece::Lost(_) => {}
        }
    }

    fn say(&mut self, text: &str) {
        match self.blocks.last_mut() {
            Some(Block::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.blocks.push(Block::Text(text.to_owned())),
        }
    }

    fn fail(&mut self, reason: Garbled) {
        self.ended = true;
        self.failed = Some(reason);
    }

    /// The JSON of the answer. One that says that it failed is none.
    pub(crate) fn finish(self) -> Result<Vec<u8>, Garbled> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let Some(finish) = self.finish.as_ref().filter(|_| self.ended) else {
            return Err(Garbled("the answer ends without a reason".into()));
        };
        let made = format!("msg_{:x}_0", self.created);
        let mut content = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            content.push(match block {
                Block::Text(text) => Written::Text { text },
                Block::Thinking(thinking) => Written::Thinking {
                    thinking,
                    signature: "",
                },
                Block::Tool { id, name, input } => Written::ToolUse {
                    id,
                    name,
                    input: object(input)?,
                },
            });
        }
        let message = Message {
            id: if self.id.is_empty() { &made } else { &self.id },
            r#type: "message",
            role: "assistant",
            model: &self.model,
            content,
            stop: Stop::of(finish, !self.calls.is_empty(), self.refused),
            usage: Usage::of(self.usage),
        };
        serde_json::to_vec(&message).map_err(|error| Garbled(error.to_string().into()))
    }
}

/// Arguments are an object here, not a text.
fn object(arguments: &str) -> Result<&RawValue, Garbled> {
    let arguments = match arguments.trim() {
        "" => "{}",
        arguments => arguments,
    };
    serde_json::from_str(arguments)
        .ok()
        .filter(|_| arguments.starts_with('{'))
        .ok_or(Garbled(
            "arguments of a tool that are no JSON object".into(),
        ))
}
