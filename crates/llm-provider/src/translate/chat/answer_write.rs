//! An answer for a caller of chat completions, streamed or whole.

mod wire;

use std::{borrow::Cow, mem};

use llm_call::Dialect;
use serde::Serialize;

use self::wire::{
    CallDelta, Choice, Chunk, Delta, Function, Message, Usage, Whole, WholeCall, WholeChoice,
};
use crate::translate::piece::{Counts, Finish, Garbled, Piece};

/// The most calls of tools in one answer.
const MOST_CALLS: usize = 1024;

/// Writes the events of a stream.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    head: Head,
    wants_usage: bool,
    started: bool,
    /// Of each call, whether it has arguments.
    calls: Vec<bool>,
    finished: bool,
    usage: Option<Counts>,
    over: bool,
}

impl StreamWriter {
    pub(crate) fn new(model: &str, created: u64, wants_usage: bool) -> StreamWriter {
        StreamWriter {
            head: Head::new(model, created),
            wants_usage,
            started: false,
            calls: Vec::new(),
            finished: false,
            usage: None,
            over: false,
        }
    }

    /// Writes what a piece is in this dialect.
    pub(crate) fn piece(&mut self, piece: Piece<'_>, out: &mut Vec<u8>) -> Result<(), Garbled> {
        if self.over {
            return Ok(());
        }
        match piece {
            Piece::Start { id, model } => {
                if self.started {
                    return Err(Garbled("the answer begins twice".into()));
                }
                self.head.learn(id, model);
                self.start(out)
            }
            Piece::Ping => {
                out.extend_from_slice(b": ping\n\n");
                Ok(())
            }
            Piece::Text(text) => self.text(&text, out, |text| Delta {
                content: Some(text),
                ..Delta::default()
            }),
            Piece::Reasoning(text) => self.text(&text, out, |text| Delta {
                reasoning_content: Some(text),
                ..Delta::default()
            }),
            Piece::Refusal(text) => self.text(&text, out, |text| Delta {
                refusal: Some(text),
                ..Delta::default()
            }),
            Piece::ToolCall { call, id, name } => {
                check_next(call, self.calls.len())?;
                self.calls.push(false);
                let id = self.head.call_id(call, id);
                let said = CallDelta {
                    index: call,
                    id: Some(&id),
                    r#type: Some("function"),
                    function: Function {
                        name: Some(&name),
                        arguments: "",
                    },
                };
                self.delta(&Delta::of_call(said), out)
            }
            Piece::Arguments { call, json } => {
                if json.is_empty() {
                    return Ok(());
                }
                let has_arguments = self.calls.get_mut(call).ok_or_else(unknown_call)?;
                *has_arguments = true;
                self.arguments(call, &json, out)
            }
            Piece::ToolEnd { call } => {
                let has_arguments = self.calls.get_mut(call).ok_or_else(unknown_call)?;
                if mem::replace(has_arguments, true) {
                    return Ok(());
                }
                self.arguments(call, "{}", out)
            }
            Piece::Finish(finish) => {
                for call in 0..self.calls.len() {
                    self.piece(Piece::ToolEnd { call }, out)?;
                }
                self.delta_and(&Delta::default(), Some(reason(&finish)), out)?;
                self.finished = true;
                Ok(())
            }
            Piece::Usage(counts) => {
                self.usage = Some(counts.or(self.usage.unwrap_or_default()));
                Ok(())
            }
            Piece::Failed { kind, message } => {
                self.over = true;
                out.extend(Dialect::OpenAiChat.error_event(kind, &message));
                Ok(())
            }
            Piece::End => {
                if !self.finished {
                    return Err(no_finish());
                }
                self.over = true;
                if let Some(counts) = self.usage.filter(|_| self.wants_usage) {
                    self.chunk(&[], Some(Some(Usage::of(counts))), out)?;
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
                Ok(())
            }
            // The caller's headers are gone.
            Piece::Lost(_) => Ok(()),
        }
    }

    fn start(&mut self, out: &mut Vec<u8>) -> Result<(), Garbled> {
        self.started = true;
        let delta = Delta {
            role: Some("assistant"),
            content: Some(""),
            ..Delta::default()
        };
        self.delta(&delta, out)
    }

    fn text<'a>(
        &mut self,
        text: &'a str,
        out: &mut Vec<u8>,
        delta: impl FnOnce(&'a str) -> Delta<'a>,
    ) -> Result<(), Garbled> {
        if text.is_empty() {
            return Ok(());
        }
        self.delta(&delta(text), out)
    }

    fn arguments(&mut self, call: usize, json: &str, out: &mut Vec<u8>) -> Result<(), Garbled> {
        let said = CallDelta {
            index: call,
            id: None,
            r#type: None,
            function: Function {
                name: None,
                arguments: json,
            },
        };
        self.delta(&Delta::of_call(said), out)
    }

    fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<u8>) -> Result<(), Garbled> {
        self.delta_and(delta, None, out)
    }

    fn delta_and(
        &mut self,
        delta: &Delta<'_>,
        finish_reason: Option<&'static str>,
        out: &mut Vec<u8>,
    ) -> Result<(), Garbled> {
        if self.finished {
            return Err(Garbled("the answer goes on after its finish".into()));
        }
        if !self.started {
            self.start(out)?;
        }
        let choice = Choice {
            index: 0,
            delta,
            logprobs: (),
            finish_reason,
        };
        self.chunk(&[choice], self.wants_usage.then_some(None), out)
    }

    fn chunk(
        &self,
        choices: &[Choice<'_>],
        usage: Option<Option<Usage>>,
        out: &mut Vec<u8>,
    ) -> Result<(), Garbled> {
        out.extend_from_slice(b"data: ");
        let chunk = Chunk {
            id: &self.head.id,
            object: "chat.completion.chunk",
            created: self.head.created,
            model: &self.head.model,
            choices,
            usage,
        };
        write_json(&chunk, out)?;
        out.extend_from_slice(b"\n\n");
        Ok(())
    }
}

/// Writes a whole answer.
#[derive(Debug, Default)]
pub(crate) struct WholeWriter {
    head: Head,
    content: String,
    reasoning: String,
    refusal: String,
    calls: Vec<Call>,
    finish: Option<Finish>,
    usage: Option<Counts>,
    ended: bool,
    garbled: Option<Garbled>,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl WholeWriter {
    pub(crate) fn new(model: &str, created: u64, _wants_usage: bool) -> WholeWriter {
        WholeWriter {
            head: Head::new(model, created),
            ..WholeWriter::default()
        }
    }

    /// Takes the next piece.
    pub(crate) fn piece(&mut self, piece: Piece<'_>) {
        if self.ended || self.garbled.is_some() {
            return;
        }
        if let Err(garbled) = self.take(piece) {
            self.garbled = Some(garbled);
        }
    }

    fn take(&mut self, piece: Piece<'_>) -> Result<(), Garbled> {
        match piece {
            Piece::Start { id, model } => self.head.learn(id, model),
            Piece::Text(text) => self.content.push_str(&text),
            Piece::Reasoning(text) => self.reasoning.push_str(&text),
            Piece::Refusal(text) => self.refusal.push_str(&text),
            Piece::ToolCall { call, id, name } => {
                check_next(call, self.calls.len())?;
                self.calls.push(Call {
                    id: self.head.call_id(call, id).into_owned(),
                    name: name.into_owned(),
                    arguments: String::new(),
                });
            }
            Piece::Arguments { call, json } => {
                let call = self.calls.get_mut(call).ok_or_else(unknown_call)?;
                call.arguments.push_str(&json);
            }
            Piece::Finish(finish) => self.finish = Some(finish),
            Piece::Usage(counts) => {
                self.usage = Some(counts.or(self.usage.unwrap_or_default()));
            }
            Piece::Failed { message, .. } => {
                let garbled = Garbled(message.into_owned().into());
                self.garbled.get_or_insert(garbled);
            }
            Piece::End => self.ended = true,
            Piece::Ping | Piece::ToolEnd { .. } | Piece::Lost(_) => {}
        }
        Ok(())
    }

    /// The JSON of the answer. One that says that it failed is none.
    pub(crate) fn finish(self) -> Result<Vec<u8>, Garbled> {
        let mut out = Vec::new();
        if let Some(garbled) = self.garbled {
            return Err(garbled);
        }
        let finish = self.finish.as_ref().ok_or_else(no_finish)?;
        if !self.ended {
            return Err(Garbled("the answer has no end".into()));
        }
        let said = |text: &'_ String| !text.is_empty();
        let is_mute = self.calls.is_empty() && self.refusal.is_empty();
        let tool_calls = self.calls.iter().map(|call| WholeCall {
            id: &call.id,
            r#type: "function",
            function: Function {
                name: Some(&call.name),
                arguments: match call.arguments.as_str() {
                    "" => "{}",
                    arguments => arguments,
                },
            },
        });
        let message = Message {
            role: "assistant",
            content: (said(&self.content) || is_mute).then_some(&self.content),
            refusal: said(&self.refusal).then_some(&self.refusal),
            reasoning_content: said(&self.reasoning).then_some(&self.reasoning),
            tool_calls: tool_calls.collect(),
        };
        let whole = Whole {
            id: &self.head.id,
            object: "chat.completion",
            created: self.head.created,
            model: &self.head.model,
            choices: [WholeChoice {
                index: 0,
                message,
                logprobs: (),
                finish_reason: reason(finish),
            }],
            usage: self.usage.map(Usage::of),
        };
        write_json(&whole, &mut out)?;
        Ok(out)
    }
}

/// What every chunk repeats.
#[derive(Debug, Default)]
struct Head {
    id: String,
    model: String,
    created: u64,
}

impl Head {
    fn new(model: &str, created: u64) -> Head {
        Head {
            id: format!("chatcmpl-{created}"),
            model: model.to_owned(),
            created,
        }
    }

    fn learn(&mut self, id: Cow<'_, str>, model: Cow<'_, str>) {
        if !id.is_empty() {
            self.id = id.into_owned();
        }
        if !model.is_empty() {
            self.model = model.into_owned();
        }
    }

    fn call_id<'a>(&self, call: usize, id: Cow<'a, str>) -> Cow<'a, str> {
        if id.is_empty() {
            format!("call_{}_{call}", self.created).into()
        } else {
            id
        }
    }
}

fn check_next(call: usize, calls: usize) -> Result<(), Garbled> {
    if call != calls {
        return Err(Garbled("a tool call is out of order".into()));
    }
    if call == MOST_CALLS {
        return Err(Garbled("the answer has too many tool calls".into()));
    }
    Ok(())
}

fn unknown_call() -> Garbled {
    Garbled("arguments of a tool call that did not begin".into())
}

fn no_finish() -> Garbled {
    Garbled("the answer ends without a finish".into())
}

fn reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::StopSequence(_) | Finish::Pause => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::Filtered => "content_filter",
    }
}

fn write_json(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), Garbled> {
    serde_json::to_writer(out, value)
        .map_err(|_| Garbled("an answer cannot be written as JSON".into()))
}
